"""The tiers of every host that runs engines: where KV may live, how much of it, and whether it fits.

G1 is accelerator memory, G2 host memory, G3 the node's own flash, G3.5 the pool on the boxes, G4 shared storage. Sizes
are computed from what the site states; they are predictions until preflight and the engines themselves have looked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible.module_utils.g35.plans import StorePlan

from g35ctl.plan.context import Context
from g35ctl.plan.model import HostPlan, TierUse
from g35ctl.site.engines import Engine, engines_of


def tiers(context: Context, hosts: Sequence[HostPlan]) -> tuple[TierUse, ...]:
    """Tiers of each host with engines, from the fastest to the largest."""
    pool = sum(
        item.capacity
        for host in hosts
        if host.cache is not None and host.cache.store is not None
        for item in host.cache.store.instances
    )
    found: list[TierUse] = []
    for host in hosts:
        if host.inference is None or not host.inference.engines:
            continue
        engines = engines_of(context.hosts[host.name])
        store = host.cache.store if host.cache is not None else None
        found += (line for engine in engines for line in _accelerators(host.name, engine))
        found += _host_memory(host.name, engines, store)
        found += (line for engine in engines for line in _local(host.name, engine))
        found += _pool(host.name, engines, store, pool)
        found += _shared(host.name, engines)
    return tuple(found)


def _accelerators(host: str, engine: Engine) -> Iterator[TierUse]:
    left, ranks = engine.kv_bytes_per_rank, engine.ranks
    medium = "host memory (cpu)" if engine.device == "cpu" else f"{ranks} accelerators"
    holds = f"KV that {engine.name} computes with"
    if not left:
        yield TierUse(host, "G1", engine.name, medium, 0, 0, holds, True, "gpu_memory or weights not stated")
        return
    if left < 0:
        yield TierUse(host, "G1", engine.name, medium, 0, 0, holds, False, "weights leave no memory for KV")
        return
    # Ranks of one replica hold parts of the same tokens (grouped attention), or all of them hold all (a latent).
    tokens = left // engine.token_bytes * engine.parallelism.data if engine.token_bytes else 0
    longest = engine.model.max_length if engine.model is not None else 0
    fits = not tokens or tokens // engine.parallelism.data >= longest
    note = "" if fits else f"less than one context of {longest} tokens"
    yield TierUse(host, "G1", engine.name, medium, left * ranks, tokens, holds, fits, note)


def _host_memory(host: str, engines: Sequence[Engine], store: StorePlan | None) -> Iterator[TierUse]:
    stated = max((engine.tiers.host_memory for engine in engines), default=0)
    landing = sum(item.segment_size + item.local_buffer_size for item in store.instances) if store is not None else 0
    taken = sum(engine.host_bytes for engine in engines) + landing
    fits = not stated or taken <= stated * 0.95
    for engine in engines:
        if engine.tiers.host_cache:
            mode = engine.pool.host_mode if engine.engine == "sglang" and not engine.lmcache.enabled else "cache"
            staging = mode == "buffer_only" and engine.uses_pool
            holds = "staging between accelerator and pool" if staging else "KV that left the accelerators"
            tokens = 0 if staging else _tokens(engine, engine.tiers.host_cache)
            yield TierUse(host, "G2", engine.name, "host memory", engine.tiers.host_cache, tokens, holds, fits)
        buffers = engine.host_bytes - engine.tiers.host_cache
        if buffers and engine.device != "cpu":
            yield TierUse(host, "G2", engine.name, "host memory", buffers, 0, "registered transfer buffers", fits)
    if store is not None:
        segments = sum(item.segment_size for item in store.instances)
        holds = "landing zone of the pool, shared by all hosts"
        yield TierUse(host, "G2", "stores", "host memory", segments, 0, holds, fits)
        buffers = sum(item.local_buffer_size for item in store.instances)
        yield TierUse(host, "G2", "stores", "host memory", buffers, 0, "staging of flash reads and writes", fits)
    note = (
        f"{'of' if fits else 'more than 95 % of'} {stated // 2**30} GiB that the host has" if stated else "not stated"
    )
    yield TierUse(host, "G2", "all", "host memory", taken, 0, "everything together", fits, note)


def _local(host: str, engine: Engine) -> Iterator[TierUse]:
    size = engine.tiers.local_flash
    if size:
        holds = "KV that left host memory; lost to others with the node"
        yield TierUse(host, "G3", engine.name, "local flash", size, _tokens(engine, size), holds)


def _pool(host: str, engines: Sequence[Engine], store: StorePlan | None, pool: int) -> Iterator[TierUse]:
    users = [engine for engine in engines if engine.uses_pool]
    if not users:
        return
    own = sum(item.capacity for item in store.instances) if store is not None else 0
    size = max((engine.object_bytes for engine in users), default=0)
    tokens = max((_tokens(engine, pool) for engine in users), default=0)
    note = f"{own // 2**30} GiB of it served by this host"
    note += f"; objects of up to {size / 2**20:.3g} MiB" if size else ""
    holds = "KV of every engine with the same keys, on every host"
    yield TierUse(
        host, "G3.5", ", ".join(item.name for item in users), "NVMe-oF flash", pool, tokens, holds, pool > 0, note
    )


def _shared(host: str, engines: Sequence[Engine]) -> Iterator[TierUse]:
    size = max((engine.tiers.shared for engine in engines), default=0)
    if size:
        yield TierUse(host, "G4", "all", "shared storage", size, 0, "stated; g35ctl does not configure it")


def _tokens(engine: Engine, size: int) -> int:
    """Tokens that so many bytes hold: what one token takes on all ranks that keep a part of their own."""
    ranks = engine.parallelism.pipeline
    if engine.model is not None and engine.model.attention == "gqa":
        ranks *= min(engine.parallelism.tensor, engine.model.kv_heads or engine.parallelism.tensor)
    whole = engine.token_bytes * ranks
    return size // whole if whole else 0
