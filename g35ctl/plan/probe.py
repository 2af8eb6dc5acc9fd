"""The functional validation of a host: which owners it writes values to, and what the whole tier must report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible.module_utils.g35.plans import CachePlan, ProbePlan, StoreInstance

from g35ctl.plan.cache import segment
from g35ctl.plan.context import Context
from g35ctl.site.model import SiteHost

NEIGHBOURS = 8
"""A host writes to every owner of a small site, and in a larger one to this many that follow it: the work of a
validation then grows with the number of hosts, not with its square, and every owner is still written to by others."""


@dataclass(frozen=True)
class Tier:
    """The stores of all owners: what a probe has to know about the others. Built once per plan."""

    owners: tuple[str, ...]
    stores: Mapping[str, tuple[StoreInstance, ...]]
    total_capacity: int

    @staticmethod
    def of(stores: Mapping[str, tuple[StoreInstance, ...]]) -> Tier:
        """Collect ``stores`` (owner to its instances, in inventory order)."""
        total = sum(item.capacity for items in stores.values() for item in items)
        return Tier(tuple(stores), stores, total)


def plan_probe(context: Context, host: SiteHost, cache: CachePlan | None, tier: Tier) -> ProbePlan | None:
    """The probe of ``host``, or None where Mooncake's environment is not installed or there is no master."""
    port = context.first_port(host)
    if cache is None or context.master is None or port is None or context.raw:
        return None
    if cache.master is None and cache.store is None:
        return None  # a mere member of etcd, or a host that only has something to let go
    chosen = _chosen(tier.owners, host.name)
    validation = context.site.validation
    return ProbePlan(
        site=context.site.identity.name,
        python=f"{host.mooncake.prefix}/current/bin/python",
        local_address=str(port.address),
        protocol=context.protocol,
        devices=context.devices(host),
        master_rpc=context.master.rpc,
        master_admin=context.master.admin,
        segments={owner: tuple(segment(item) for item in tier.stores[owner]) for owner in chosen},
        total_capacity=tier.total_capacity,
        value_size=validation.value_size,
        segment_size=max((item.segment_size for owner in chosen for item in tier.stores[owner]), default=0),
        keys=validation.keys,
        user=host.mooncake.user,
        bucket_size=max((context.hosts[owner].mooncake.store.bucket_size for owner in chosen), default=0),
        tos=context.site.fabric.traffic.type_of_service,
        cluster_id=context.master.cluster_id,
    )


def _chosen(owners: Sequence[str], host: str) -> tuple[str, ...]:
    if len(owners) <= NEIGHBOURS:
        return tuple(owners)
    start = owners.index(host) + 1 if host in owners else 0
    return tuple(owners[(start + step) % len(owners)] for step in range(NEIGHBOURS))
