"""Lints of what engines need together: memory that is there, a pool, partners of the same shape, a router that fits.

Facts: vLLM 0.32.0, SGLang 0.5.23. An object of 16 MiB or more makes Mooncake end when it is read from flash; SGLang
takes --hicache-size 0 for "twice the accelerator's pool"; a vLLM that cannot hold one longest request does not start.
"""

from __future__ import annotations

from collections.abc import Iterator

from g35ctl.site.engines import Engine, engines_of
from g35ctl.site.lints.cache import lease_seconds
from g35ctl.site.lints.context import Context
from g35ctl.site.lints.inference import engines_in, own, place
from g35ctl.site.positions import Step
from g35ctl.site.problems import Problem
from g35ctl.site.sizes import format_size

LARGEST_OBJECT = 15 * 2**20
GB = 10**9


def memory(context: Context) -> list[Problem]:
    """Weights and one longest context fit the accelerators, and objects and buffers fit each other."""
    found: list[Problem] = []
    for engine in engines_in(context):
        model, left, token = engine.model, engine.kv_bytes_per_rank, engine.token_bytes
        if model is None:
            continue
        if left < 0:
            what = (
                f"{format_size(engine.weights_per_rank)} of weights on each accelerator leave no memory for KV"
                f" ({format_size(engine.tiers.gpu_memory)} x {engine.tiers.gpu_fraction:g})"
            )
            found.append(context.at(engine.host, place(engine, "tiers", "gpu_memory"), what, "more tensor ranks"))
        elif left and token and model.max_length and left // token < model.max_length:
            what = (
                f"a context of {model.max_length} tokens takes {format_size(model.max_length * token)} on each"
                f" accelerator, and {format_size(left)} are left for KV"
            )
            hint = f"max_length: {left // token // 1024 * 1024}, or more tensor ranks"
            at = place(engine, "model", "max_length")
            if engine.engine == "vllm":
                found.append(context.at(engine.host, at, what, hint))
            else:
                found.append(context.at(engine.host, at, what, hint, severity="warning"))
        if engine.uses_pool and engine.object_bytes > LARGEST_OBJECT:
            what = (
                f"a page of {engine.page_size} tokens is an object of {format_size(engine.object_bytes)};"
                " Mooncake ends when it reads objects of 16 MiB from flash"
            )
            pages = LARGEST_OBJECT // max(engine.object_bytes // engine.page_size, 1)
            hint = f"page_size: {max(pages // 16 * 16, 1)}, or more tensor ranks"
            found.append(context.at(engine.host, place(engine, "page_size"), what, hint))
        by_rank = engine.engine == "vllm" or engine.lmcache.enabled
        if engine.uses_pool and by_rank and engine.pool.local_buffer_size < 2 * engine.object_bytes:
            what = f"local_buffer_size {format_size(engine.pool.local_buffer_size)} does not hold two objects"
            found.append(context.at(engine.host, place(engine, "pool", "local_buffer_size"), what))
    return found


def host_pools(context: Context) -> list[Problem]:
    """SGLang's host memory is stated, since it would take more than the host has by itself."""
    found = []
    for engine in engines_in(context):
        if engine.engine != "sglang" or engine.pool.linker or engine.lmcache.enabled or not engine.uses_pool:
            continue
        share = engine.tiers.host_cache // engine.ranks
        if share >= GB:
            continue
        at = place(engine, "tiers", "host_cache")
        if engine.tiers.host_cache:
            what = f"{format_size(share)} for each of {engine.ranks} ranks: SGLang counts whole gigabytes and takes 0"
            what += " for a multiple of the accelerator's memory"
        else:
            what = "without a size, SGLang takes a multiple of the accelerators' memory from the host"
        found.append(context.at(engine.host, at, what, f"host_cache: {max(engine.ranks * 8, 8)}GB or more"))
    return found


def host_memory(context: Context) -> list[Problem]:
    """Everything that takes memory of a host fits it, where the site says how much there is."""
    found = []
    for host in context.site.group("gpu_hosts"):
        engines = engines_of(host) if not context.is_partial(host, "g35_inference") else ()
        have = max((item.tiers.host_memory for item in engines), default=0)
        if not have:
            continue
        stores = _stores(context, host.name) * (
            host.mooncake.store.segment_size + host.mooncake.store.local_buffer_size
        )
        taken = sum(item.host_bytes for item in engines)
        if taken + stores > have * 0.95:
            what = (
                f"engines take {format_size(taken)} and stores {format_size(stores)} of {format_size(have)} of memory"
            )
            hint = "lower host_cache, pool.local_buffer_size or the stores' segment_size"
            found.append(context.at(host, place(engines[0], "tiers", "host_memory"), what, hint))
    return found


def _stores(context: Context, host: str) -> int:
    """How many stores a host will run: its share of all namespaces."""
    if host not in context.owner_names:
        return 0
    return -(-sum(1 for _ in context.namespaces()) // len(context.owners))


def pools(context: Context) -> list[Problem]:
    """Engines that use the pool find one, and its leases outlast their loads."""
    found: list[Problem] = []
    for engine in engines_in(context):
        if not engine.uses_pool:
            continue
        if not context.masters:
            what = "the engine uses the KV pool, and no host is in group mooncake_masters"
            found.append(context.at(engine.host, own(engine), what, "pool: {enabled: false} runs it without"))
            continue
        model, master = engine.model, context.masters[0].mooncake.master
        load = 1 + 0.25 * (model.max_length / 1024) if model is not None else 0.0
        if model is not None and lease_seconds(master.lease) < load:
            what = (
                f"a context of {model.max_length} tokens may take {load:.0f} s to load, and the master's lease"
                f" {master.lease} ends before"
            )
            at = place(engine, "model", "max_length")
            hint = f"g35_mooncake.master.lease: {int(load) + 10}s"
            found.append(context.at(engine.host, at, what, hint, severity="warning"))
    return found


def separation(context: Context) -> list[Problem]:
    """Prefill has decode, both are of one shape, and nothing else serves under the same name."""
    found: list[Problem] = []
    for members in _served(context).values():
        roles = {item.role for item in members}
        if roles == {"unified"}:
            continue
        first = members[0]
        assert first.model is not None
        for one, other in (("prefill", "decode"), ("decode", "prefill")):
            if one in roles and other not in roles:
                engine = next(item for item in members if item.role == one)
                what = f"{one} without {other} for {first.model.name}: no request can be served"
                found.append(context.at(engine.host, own(engine, "role"), what))
        if "unified" in roles:
            engine = next(item for item in members if item.role == "unified")
            what = f"{first.model.name} is served by separated and unified engines: a router takes either"
            found.append(context.at(engine.host, own(engine, "role"), what, "another model.name for one of them"))
        shapes = {(item.parallelism.tensor, item.parallelism.pipeline) for item in members}
        if len(shapes) > 1:
            engine = next(item for item in members if item.parallelism != first.parallelism)
            what = "prefill and decode of different tensor or pipeline sizes do not share keys of the pool"
            found.append(context.at(engine.host, place(engine, "parallelism"), what, severity="warning"))
        if first.engine == "sglang" and context.site.fabric.transport == "tcp" and any(m.uses_pool for m in members):
            what = "SGLang's prefill ends with a segmentation fault when it uses the pool over TCP"
            hint = "g35_fabric.transport: rdma, or pool: {enabled: false}"
            found.append(context.at(first.host, own(first, "role"), what, hint))
    return found


def sharing(context: Context) -> list[Problem]:
    """Engines behind one router that do not share keys: allowed, and rarely meant."""
    found = []
    for members in _served(context).values():
        first = members[0]
        for engine in members[1:]:
            differing = _differing(first, engine)
            if engine.uses_pool and first.uses_pool and differing:
                what = f"serves the same name as {first.host.name}'s {first.name}, and does not share its keys"
                what += f" in the pool: {', '.join(differing)} differ"
                found.append(context.at(engine.host, own(engine), what, severity="warning"))
                break
    return found


def _differing(one: Engine, other: Engine) -> list[str]:
    pairs: tuple[tuple[str, object, object], ...] = (
        ("model.path", one.model and one.model.path, other.model and other.model.path),
        ("model.revision", one.model and one.model.revision, other.model and other.model.revision),
        ("kv_dtype", one.settings.kv_dtype, other.settings.kv_dtype),
        ("page_size", one.page_size, other.page_size),
        ("layout", one.settings.layout, other.settings.layout),
    )
    return [name for name, left, right in pairs if left != right]


def routers(context: Context) -> list[Problem]:
    """Routers can do what their engines need, and balance before everybody waits for one engine."""
    found: list[Problem] = []
    separated = {key[0] for key, members in _served(context).items() if {item.role for item in members} != {"unified"}}
    for host in context.site.group("routers"):
        if host.inference is None or context.is_partial(host, "g35_inference"):
            continue
        router = host.inference.router
        path: tuple[Step, ...] = ("g35_inference", "router")
        for engine, kind in (("vllm", "vllm-router"), ("sglang", "sglang-router")):
            if engine in separated and router.kind not in ("auto", kind):
                what = f"{router.kind} does not connect prefill and decode of {engine}"
                found.append(context.at(host, (*path, "kind"), what, f"kind: auto or {kind}"))
        if router.balance_threshold is not None and router.balance_threshold >= router.expected_users:
            what = (
                f"balance_threshold {router.balance_threshold} is never reached by {router.expected_users} users: all"
                " that share a prefix wait for one engine"
            )
            at = (*path, "balance_threshold")
            found.append(context.at(host, at, what, "leave it out: it is computed", severity="warning"))
    if context.site.group("routers") and not _served(context):
        host = context.site.group("routers")[0]
        what = "a router without engines: no host of gpu_hosts has g35_inference.engine"
        found.append(context.at_host(host, what, "set g35_inference, or take the host out of group routers"))
    return found


def _served(context: Context) -> dict[tuple[str, str], list[Engine]]:
    groups: dict[tuple[str, str], list[Engine]] = {}
    for engine in _with_models(context):
        assert engine.model is not None
        groups.setdefault((engine.engine, engine.model.name), []).append(engine)
    return groups


def _with_models(context: Context) -> Iterator[Engine]:
    return (engine for engine in engines_in(context) if engine.model is not None)


LINTS = (memory, host_pools, host_memory, pools, separation, sharing, routers)
