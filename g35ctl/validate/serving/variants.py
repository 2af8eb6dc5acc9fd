"""The three cache paths as variants of the site. Pure: the same site gives the same variants.

* ``g35``: the site as it is.
* ``memory``: the stores' memory holds every context, and nothing needs to go to flash.
* ``local``: the stores' memory as it is and no flash: what nodes have without the shared tier.

Only the settings of the stores differ, so that engines run on and the switch costs a restart of master and stores.
"""

from __future__ import annotations

from dataclasses import dataclass

from g35ctl.plan.model import Plan
from g35ctl.site.engines import engines
from g35ctl.site.model import Site
from g35ctl.site.serving_model import ServingBench
from g35ctl.site.sizes import format_size
from g35ctl.validate.serving_result import CachePath, PathSetting, Workload

_MIB = 2**20
HEADROOM = 1.25
"""Memory of path memory over what the contexts take: eviction must never begin."""


@dataclass(frozen=True)
class Variant:
    """One cache path: the site that it is, and what to say of it."""

    path: CachePath
    site: Site
    setting: PathSetting


@dataclass(frozen=True)
class Sizes:
    """What decides how much fits: bytes of KV cache of each token (0: not known), stores of the site, and the share
    of their memory that is used before eviction begins."""

    token_bytes: int
    stores: int
    watermark: float


def sizes_of(site: Site, plan: Plan) -> Sizes:
    """The sizes of a planned site."""
    found = engines(site)
    stores = sum(
        len(host.cache.store.instances)
        for host in plan.hosts
        if host.cache is not None and host.cache.store is not None
    )
    masters = site.group("mooncake_masters")
    watermark = masters[0].mooncake.master.eviction_high_watermark if masters else 1.0
    return Sizes(max((item.token_bytes for item in found), default=0), stores, watermark)


def context_bytes(workload: Workload, sizes: Sizes) -> int:
    """KV cache of one user's last prompt, bytes; 0 when it is not known."""
    return workload.prompt_tokens(workload.rounds - 1) * sizes.token_bytes


def memory_needed(workload: Workload, sizes: Sizes) -> int:
    """Memory of each store, in whole MiB, with which all contexts of the most users fit without eviction; 0 when not
    known."""
    if not sizes.stores:
        return 0
    all_contexts = max(workload.users) * context_bytes(workload, sizes)
    return -(-int(all_contexts * HEADROOM / sizes.watermark / sizes.stores) // _MIB) * _MIB


def variants(site: Site, plan: Plan, workload: Workload) -> tuple[Variant, ...]:
    """The wanted paths. Raises ValueError, in words, when the memory of path memory is neither stated nor known."""
    bench, sizes = site.validation.serving, sizes_of(site, plan)
    return tuple(_variant(path, site, plan, workload, bench, sizes) for path in workload.paths)


def _variant(path: CachePath, site: Site, plan: Plan, workload: Workload, bench: ServingBench, sizes: Sizes) -> Variant:
    if path is CachePath.G35:
        return Variant(path, site, _setting(path, site, plan, workload, sizes, "the site as it is"))
    if path is CachePath.LOCAL:
        varied = _with_stores(site, bench.local_memory, offload=False)
        memory = format_size(_per_store(varied))
        return Variant(path, varied, _setting(path, varied, plan, workload, sizes, f"no flash, {memory} in each store"))
    needed = bench.memory_memory or memory_needed(workload, sizes)
    if not needed:
        raise ValueError(
            "path memory needs g35_validate.serving.memory_memory, or a model whose layers, kv_heads and head_dim"
            " g35_inference states"
        )
    varied = _with_stores(site, needed, offload=False)
    how = f"no flash, {format_size(needed)} in each store"
    return Variant(path, varied, _setting(path, varied, plan, workload, sizes, how))


def _with_stores(site: Site, segment: int | None, *, offload: bool) -> Site:
    hosts = []
    for host in site.hosts:
        changes: dict[str, object] = {"offload": offload} | ({"segment_size": segment} if segment else {})
        store = host.mooncake.store.model_copy(update=changes)
        hosts.append(host.model_copy(update={"mooncake": host.mooncake.model_copy(update={"store": store})}))
    # Not a copy: a site remembers its groups, and those hold the hosts as they were.
    return Site(**{name: getattr(site, name) for name in type(site).model_fields} | {"hosts": tuple(hosts)})


def _per_store(site: Site) -> int:
    owners = site.group("cache_owners")
    return owners[0].mooncake.store.segment_size if owners else 0


def _setting(path: CachePath, site: Site, plan: Plan, workload: Workload, sizes: Sizes, how: str) -> PathSetting:
    memory = flash = 0
    for owner in site.group("cache_owners"):
        cache = plan.host(owner.name).cache
        for store in cache.store.instances if cache is not None and cache.store is not None else ():
            memory += owner.mooncake.store.segment_size
            flash += store.capacity if owner.mooncake.store.offload else 0
    context = context_bytes(workload, sizes)
    contexts = (memory * sizes.watermark + flash) / context if context else None
    return PathSetting(path, memory, flash, contexts, how)
