"""Lints of engines and routers: what the tools would refuse after minutes of loading, or take for something else.

Facts: vLLM 0.32.0, SGLang 0.5.23, LMCache 0.5.6, sglang-router 0.3.2, vllm-router 0.1.17. What fits is judged in
inference_fit.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from g35ctl.site.engines import Engine, engines_of
from g35ctl.site.inference_model import EngineInstall
from g35ctl.site.lints.cache import CLIENT_PORTS, ENGINE_PORTS
from g35ctl.site.lints.context import Context
from g35ctl.site.model import SiteHost
from g35ctl.site.positions import Step
from g35ctl.site.problems import Problem

#: arguments that g35ctl computes, by engine; giving one again would take the last word from it
OWNED = {
    "vllm": frozenset(
        [
            "model",
            "served-model-name",
            "host",
            "port",
            "tensor-parallel-size",
            "pipeline-parallel-size",
            "data-parallel-size",
            "block-size",
            "kv-cache-dtype",
            "enable-prefix-caching",
            "no-enable-prefix-caching",
            "prefix-caching-hash-algo",
            "revision",
            "dtype",
            "enable-prompt-tokens-details",
            "max-model-len",
            "max-num-seqs",
            "gpu-memory-utilization",
            "kv-transfer-config",
            "data-parallel-rpc-port",
            "enable-expert-parallel",
            "kv-offloading-size",
            "kv-offloading-backend",
        ]
    ),
    "sglang": frozenset(
        [
            "model",
            "model-path",
            "served-model-name",
            "host",
            "port",
            "tp",
            "tp-size",
            "tensor-parallel-size",
            "pp-size",
            "pipeline-parallel-size",
            "dp-size",
            "data-parallel-size",
            "attention-data-parallel-size",
            "attn-dp-size",
            "enable-dp-attention",
            "ep-size",
            "revision",
            "dtype",
            "kv-cache-dtype",
            "page-size",
            "mem-fraction-static",
            "schedule-policy",
            "enable-metrics",
            "enable-cache-report",
            "device",
            "context-length",
            "max-running-requests",
            "disaggregation-mode",
            "disaggregation-transfer-backend",
            "disaggregation-bootstrap-port",
            "disaggregation-ib-device",
            "enable-lmcache",
            "lmcache-config-file",
            "enable-hierarchical-cache",
            "enable-hicache",
            "hicache-size",
            "hicache-ratio",
            "hicache-storage-backend",
            "hicache-storage-backend-extra-config",
            "hicache-host-memory-mode",
            "hicache-write-policy",
            "hicache-mem-layout",
            "hicache-io-backend",
            "hicache-storage-prefetch-policy",
            "enable-unified-cache-external-linker",
            "unified-cache-external-linker-backend",
            "unified-cache-external-linker-config",
        ]
    ),
}
_SECRET_ARGUMENTS = re.compile(r"^--([a-z-]*api-key|hf-token|[a-z-]*password|[a-z-]*secret)\b")
_SECRET_VARIABLES = re.compile(r"(TOKEN|SECRET|PASSWORD|API_KEY)")
_OWNED_VARIABLES = re.compile(
    r"^(MOONCAKE_|MC_|SGLANG_HICACHE_MOONCAKE|VLLM_MOONCAKE_BOOTSTRAP|VLLM_HOST_IP|PYTHONHASHSEED)"
)


def engines_in(context: Context) -> Iterator[Engine]:
    """Engines whose variable is whole: what is missing in a broken one was reported already."""
    for host in context.site.group("gpu_hosts"):
        if not context.is_partial(host, "g35_inference"):
            yield from engines_of(host)


def place(engine: Engine, key: str, *more: Step) -> tuple[Step, ...]:
    """Where a setting of an engine is written: in its instance where that states it, else for the whole host."""
    if getattr(engine.instance, key, None) not in (None, ()) and engine.settings.instances:
        return ("g35_inference", "instances", engine.place, key, *more)
    return ("g35_inference", key, *more)


def own(engine: Engine, key: str = "name") -> tuple[Step, ...]:
    """Where an instance is written; the variable itself where the host has none."""
    return (
        ("g35_inference", "instances", engine.place, key) if engine.settings.instances else ("g35_inference", "engine")
    )


def models(context: Context) -> list[Problem]:
    """Every engine has a model whose figures are whole, an address, and a revision where it can move."""
    found = []
    for engine in engines_in(context):
        model = engine.model
        if model is None:
            what = "an engine needs a model"
            hint = "model: {path: /srv/models/NAME, name: NAME}"
            found.append(context.at(engine.host, own(engine), what, hint))
            continue
        if model.attention == "gqa" and model.layers and not (model.kv_heads and model.head_dim):
            what = "layers without kv_heads and head_dim say nothing of the size of the KV cache"
            hint = "take all three from the model's config.json, or attention: mla"
            found.append(context.at(engine.host, place(engine, "model", "layers"), what, hint))
        if not model.path.startswith("/") and not model.revision:
            what = f"{model.path} comes from a hub without a revision: it can change under the same keys of the pool"
            hint = "revision: the commit that is meant"
            at = place(engine, "model", "path")
            found.append(context.at(engine.host, at, what, hint, severity="warning"))
        if engine.settings.listen is None and not engine.host.ports:
            what = "no address to listen on: the host has no data port"
            found.append(context.at(engine.host, ("g35_inference", "listen"), what, "listen: ADDRESS"))
    return found


def parallelism(context: Context) -> list[Problem]:
    """Accelerators, heads and ranks fit each other."""
    found: list[Problem] = []
    for engine in engines_in(context):
        spread, model = engine.parallelism, engine.model
        at = place(engine, "parallelism")
        if engine.instance.devices and len(engine.instance.devices) != engine.ranks:
            what = (
                f"{len(engine.instance.devices)} devices for {engine.ranks} ranks"
                f" (tensor {spread.tensor} x pipeline {spread.pipeline} x data {spread.data})"
            )
            found.append(context.at(engine.host, own(engine, "devices"), what))
        if spread.data_attention and spread.data == 1:
            found.append(context.at(engine.host, (*at, "data_attention"), "data_attention needs data above 1"))
        if model is not None and model.attention == "gqa" and model.kv_heads:
            one, other = max(model.kv_heads, spread.tensor), min(model.kv_heads, spread.tensor)
            if one % other:
                what = f"{model.kv_heads} key/value heads cannot be split over tensor {spread.tensor}"
                found.append(context.at(engine.host, (*at, "tensor"), what))
        if engine.engine == "sglang" and spread.pipeline > 1 and engine.uses_pool:
            what = "SGLang's pipeline stages do not always agree on what they prefetch from the pool"
            found.append(context.at(engine.host, (*at, "pipeline"), what, "pipeline: 1", severity="warning"))
    return found


def devices(context: Context) -> list[Problem]:
    """No accelerator is given to two engines, and no name to two instances."""
    found: list[Problem] = []
    for host in context.site.group("gpu_hosts"):
        taken: dict[int, str] = {}
        names: set[str] = set()
        for engine in engines_of(host) if not context.is_partial(host, "g35_inference") else ():
            if engine.name in names:
                found.append(context.at(host, own(engine), f"two instances are called {engine.name}"))
            names.add(engine.name)
            for index in engine.devices:
                if index in taken:
                    what = f"accelerator {index} belongs to {taken[index]} already"
                    found.append(context.at(host, own(engine, "devices"), what))
                taken.setdefault(index, engine.name)
    return found


def installs(context: Context) -> list[Problem]:
    """Programs can be had the way the site says, and one release of each on a host."""
    found: list[Problem] = []
    for host in context.site.group("gpu_hosts"):
        versions: dict[str, str] = {}
        for engine in engines_of(host):
            at = place(engine, "install")
            found += _install(context, host, engine.install, at)
            if not engine.version:
                what = f"no release is known for {engine.distribution}"
                found.append(context.at(host, at, what, "install.version: the release that is meant"))
            other = versions.setdefault(engine.distribution, engine.version)
            if other != engine.version and engine.install.mode == "pip" and engine.install.environment is None:
                what = (
                    f"{engine.distribution} {engine.version} and {other} on one host: its environments share one link"
                )
                found.append(context.at(host, (*at, "version"), what, "one release, or environments of your own"))
    for host in context.site.group("routers"):
        if host.inference is not None:
            found += _install(context, host, host.inference.router.install, ("g35_inference", "router", "install"))
    return found


def _install(context: Context, host: SiteHost, install: EngineInstall, at: tuple[Step, ...]) -> Iterator[Problem]:
    if install.mode == "container" and not install.image:
        yield context.at(host, (*at, "mode"), "mode container needs an image", "image: REGISTRY/NAME:TAG")
    if install.mode == "container" and install.image and not re.search(r"(:[^/]+|@sha256:[0-9a-f]+)$", install.image):
        what = "an image without tag or digest is another one tomorrow"
        yield context.at(host, (*at, "image"), what, "NAME:TAG or NAME@sha256:...", severity="warning")
    if install.environment is not None and install.mode == "container":
        yield context.at(host, (*at, "environment"), "an image brings its own environment", "remove one of the two")


def choices(context: Context) -> list[Problem]:
    """Settings belong to the engine that has them, and do not contradict each other."""
    found: list[Problem] = []
    for engine in engines_in(context):
        for path, what, hint in _contradictions(engine):
            found.append(context.at(engine.host, path, what, hint))
    return found


def _contradictions(engine: Engine) -> Iterator[tuple[tuple[Step, ...], str, str]]:
    tiers, pool, model = engine.tiers, engine.pool, engine.model
    mla = model is not None and model.attention == "mla"
    if engine.engine == "sglang" and engine.device == "cpu":
        yield place(engine, "device"), "SGLang has no release for CPUs", "device: cuda, or engine: vllm"
    if engine.device == "cpu" and engine.cpu.kv_space % 2**30:
        yield place(engine, "cpu", "kv_space"), "vLLM takes whole GiB here and cuts the rest off", "such as 4GiB"
    if engine.engine == "vllm" and pool.linker:
        yield place(engine, "pool", "linker"), "the linker is SGLang's; vLLM has no host memory between", ""
    if pool.linker and tiers.host_cache:
        what = "with the linker SGLang has no host memory between: host_cache would be refused at start"
        yield place(engine, "tiers", "host_cache"), what, "remove one of the two"
    if engine.engine == "vllm" and tiers.host_cache and not engine.lmcache.enabled:
        what = (
            "vLLM asks one cache after the other and takes the first that has anything: a short match in host memory"
            " would hide a long one in the pool"
        )
        yield place(engine, "tiers", "host_cache"), what, "give the memory to the stores (segment_size), or use lmcache"
    if tiers.local_flash and not (engine.lmcache.enabled and tiers.local_flash_path):
        what = "local flash (G3) is LMCache's tier, in a directory of its own"
        yield place(engine, "tiers", "local_flash"), what, "lmcache: {enabled: true} and tiers.local_flash_path"
    if engine.lmcache.enabled:
        if engine.device != "cuda":
            yield place(engine, "lmcache", "enabled"), "LMCache's wheel is for CUDA only", ""
        if pool.linker:
            yield place(engine, "lmcache", "enabled"), "LMCache and the linker exclude each other", ""
        if engine.lmcache.chunk_size % engine.page_size:
            what = f"chunk_size {engine.lmcache.chunk_size} is no multiple of pages of {engine.page_size} tokens"
            yield place(engine, "lmcache", "chunk_size"), what, ""
    if engine.settings.layout == "page_head" and mla:
        yield ("g35_inference", "layout"), "layout page_head splits heads, which a latent (mla) does not have", ""
    step = 32 if engine.device == "cpu" else 16
    if engine.engine == "vllm" and engine.page_size % step:
        what = f"vLLM takes blocks of multiples of {step} tokens here"
        yield place(engine, "page_size"), what, f"{max(engine.page_size // step, 1) * step}"


def extras(context: Context) -> list[Problem]:
    """Further arguments and variables do not overrule what is computed, and carry no secret."""
    found: list[Problem] = []
    for engine in engines_in(context):
        for number, argument in enumerate(engine.arguments):
            name = argument.partition("=")[0]
            at = place(engine, "arguments", number)
            if name.removeprefix("--") in OWNED[engine.engine]:
                found.append(context.at(engine.host, at, f"{name} is computed from the other settings", "remove it"))
            if _SECRET_ARGUMENTS.match(argument):
                what = f"{name} would show a secret to everybody on the host"
                found.append(context.at(engine.host, at, what, "put a gateway that asks for keys before the router"))
        for number, variable in enumerate(engine.environment):
            name = variable.partition("=")[0]
            at = place(engine, "environment", number)
            if _OWNED_VARIABLES.match(name):
                found.append(context.at(engine.host, at, f"{name} is computed from the other settings", "remove it"))
            elif _SECRET_VARIABLES.search(name):
                what = f"{name} would put a secret into a unit"
                found.append(context.at(engine.host, at, what, "model.hub_token_file names a file on the host"))
    return found


def ports(context: Context) -> list[Problem]:
    """Every port of a host is taken once, and by none of those that Mooncake picks from."""
    found: list[Problem] = []
    router_count = max(len(_groups(context)), 1)
    hosts = {host.name: host for host in context.site.group("gpu_hosts") + context.site.group("routers")}
    for host in hosts.values():
        if context.is_partial(host, "g35_inference"):
            continue
        taken: list[tuple[str, range]] = list(_mooncake_ports(context, host))
        for path, name, used in _wanted(context, host, router_count):
            for other, reserved in taken:
                if used.start < reserved.stop and reserved.start < used.stop:
                    what = f"{name} and {other} both need port {max(used.start, reserved.start)}"
                    found.append(context.at(host, path, what, "move one of them"))
            if used.stop - 1 > 65535:
                found.append(context.at(host, path, f"{name} would pass 65535"))
            taken.append((name, used))
    return found


def _wanted(context: Context, host: SiteHost, routers: int) -> Iterator[tuple[tuple[Step, ...], str, range]]:
    for engine in engines_of(host):
        yield own(engine, "port"), f"port {engine.port} of {engine.name}", range(engine.port, engine.port + 1)
        if engine.role == "prefill":
            # vLLM counts up from it, one for each data-parallel rank.
            last = engine.bootstrap_port + (engine.parallelism.data - 1) * engine.parallelism.tensor
            used = range(engine.bootstrap_port, last + 1)
            yield own(engine, "bootstrap_port"), f"bootstrap_port {engine.bootstrap_port} of {engine.name}", used
    if "routers" in host.groups and host.inference is not None:
        router = host.inference.router
        for key in ("port", "metrics_port"):
            first = getattr(router, key)
            yield ("g35_inference", "router", key), f"the routers' {key} {first}", range(first, first + routers)


def _mooncake_ports(context: Context, host: SiteHost) -> Iterator[tuple[str, range]]:
    yield "Mooncake's transfer engine", ENGINE_PORTS
    yield "Mooncake's client names", CLIENT_PORTS
    if host.name in {item.name for item in context.masters}:
        for name in ("rpc_port", "metrics_port"):
            port = getattr(host.mooncake.master, name)
            yield f"the master's {name}", range(port, port + 1)
    if host.name in context.owner_names:
        stores = 2 * max(len(host.storage.owns), -(-sum(1 for _ in context.namespaces()) // len(context.owners)), 1)
        for name in ("rpc_port", "http_port"):
            port = getattr(host.mooncake.store, name)
            yield f"the stores' {name}", range(port, port + stores // 2)


def _groups(context: Context) -> frozenset[tuple[str, str]]:
    return frozenset((item.engine, item.model.name) for item in engines_in(context) if item.model is not None)


LINTS = (models, parallelism, devices, installs, choices, extras, ports)
