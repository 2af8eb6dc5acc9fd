"""Functional checks of the KV pool: the master serves, every store's segment is there over RDMA, capacity is whole."""

from __future__ import annotations

from collections.abc import Iterator

from ansible.module_utils.g35.plans import StoreInstance

from g35ctl.observe.model import Pool, Segment, Store
from g35ctl.plan.model import HostPlan
from g35ctl.site.sizes import format_size
from g35ctl.validate.judging import Judging, listed
from g35ctl.verdict import Verdict


def judge(judging: Judging) -> Iterator[Verdict]:
    """Master, stores, segments, capacity."""
    pool = judging.pool()
    hosts = [host for host in judging.plan.hosts if host.cache is not None]
    masters = [host for host in hosts if host.cache is not None and host.cache.master is not None]
    for host in masters:
        yield _master(judging, host)
    segments = {item.name: item for item in pool.segments} if pool else {}
    stores = [(host, store) for host in hosts for store in _instances(host)]
    for host, store in stores:
        yield _health(judging, host.name, store)
        yield _segment(judging, host.name, store, segments.get(segment_name(store)), pool)
    if stores:
        yield _capacity(judging, sum(store.capacity for _, store in stores), pool)


def segment_name(store: StoreInstance) -> str:
    """The name under which the master lists a store's segment."""
    address = f"[{store.address}]" if ":" in store.address else store.address
    return f"{address}:{store.rpc_port}"


def _instances(host: HostPlan) -> tuple[StoreInstance, ...]:
    return () if host.cache is None or host.cache.store is None else host.cache.store.instances


def _master(judging: Judging, host: HostPlan) -> Verdict:
    wanted = "leader, ready"
    missing = judging.missing("cache", host.name)
    if missing:
        return judging.skip("master.serving", missing, wanted, host=host.name)
    found = judging.readings.caches[host.name].pool
    told = "no answer on its admin port"
    if found is not None:
        told = f"{found.role or 'no role'}, {'ready' if found.ready else 'not ready'}"
    remedy = "on the host: journalctl -u g35-mooncake-master -n 50"
    return judging.verdict("master.serving", told == wanted, told, wanted, host=host.name, remedy=remedy)


def _health(judging: Judging, host: str, store: StoreInstance) -> Verdict:
    wanted = "healthy"
    missing = judging.missing("cache", host)
    if missing:
        return judging.skip("store.health", missing, wanted, host=host, subject=store.name)
    stores: dict[str, Store] = {item.name: item for item in judging.readings.caches[host].stores}
    found = stores.get(store.name)
    told = "the store was not read"
    if found is not None:
        told = ("healthy" if found.healthy else "unhealthy") if found.answers else "no answer on its health port"
        # A store stays "healthy" while every write to its flash fails.
        told += "".join(f"; log: {line}" for line in found.errors)
    remedy = f"on the host: journalctl -u {store.unit} -n 50, and df of its directory"
    return judging.verdict("store.health", told == wanted, told, wanted, host=host, subject=store.name, remedy=remedy)


def _segment(judging: Judging, host: str, store: StoreInstance, found: Segment | None, pool: Pool | None) -> Verdict:
    wanted = f"{store.protocol}, {format_size(store.segment_size)}"
    name = segment_name(store)
    if pool is None:
        told = "the master's segments were not read"
        holds = False
    elif found is None:
        told = f"the master does not list it (it lists {listed(item.name for item in pool.segments)})"
        holds = False
    else:
        told = f"{found.protocol or 'no protocol'}, {format_size(found.size)}"
        # Rounded to its allocator's unit, a segment may be smaller than asked for, by less than a hundredth.
        holds = found.protocol == store.protocol and store.segment_size * 0.99 <= found.size <= store.segment_size
    remedy = f"on the host: journalctl -u {store.unit} -n 50; a store that fell back to TCP found no RDMA device"
    return judging.verdict("segment.protocol", holds, told, wanted, host=host, subject=name, remedy=remedy)


def _capacity(judging: Judging, planned: int, pool: Pool | None) -> Verdict:
    wanted = f"{planned} bytes ({format_size(planned)})"
    told = "the master's metrics were not read"
    have = pool.file_capacity if pool is not None else None
    if have is not None:
        told = f"{have} bytes ({format_size(have)})"
    remedy = "compare segment.protocol above: a store is missing, or runs with another quota; "
    remedy += "run: g35ctl deploy --only cache"
    return judging.verdict("pool.capacity", have == planned, told, wanted, remedy=remedy)
