"""Steps that could interrupt something live, named before anything is touched.

Which of them really interrupt is only known on the hosts: the modules look for live controllers and mounted
namespaces, and without consent refuse those that would. ``recorded`` keeps the list to what a deploy would do: a
stage that was last applied from this very plan interrupts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible.module_utils.g35.plans import CachePlan, FabricPlan, StoragePlan
from ansible.module_utils.g35.plans_inference import InferencePlan

from g35ctl.plan.model import DisruptiveStep, HostPlan

Recorded = Mapping[str, Mapping[str, bool]]
"""Host to stage to whether it was last applied from the present plan; stages never applied are absent."""


def disruptive_steps(hosts: Sequence[HostPlan], recorded: Recorded | None = None) -> tuple[DisruptiveStep, ...]:
    """All such steps of a plan, in host order. Without ``recorded`` nothing is taken to hold."""
    recorded = recorded or {}
    owners_of = _connected_owners(hosts)
    return tuple(step for host in hosts for step in _of_host(host, recorded.get(host.name, {}), owners_of))


def _of_host(host: HostPlan, recorded: Mapping[str, bool], owners_of: Mapping[str, int]) -> Iterator[DisruptiveStep]:
    # What differs from what was once applied; on a first deploy there is nothing to restart or to withdraw.
    changed = {stage for stage, same in recorded.items() if not same}
    carries_data = host.connect is not None or host.target is not None
    fabric_stage = "target" if host.target is not None else "fabric"
    if host.fabric is not None and carries_data and not recorded.get(fabric_stage, False):
        yield DisruptiveStep(host.name, fabric_stage, _fabric(host.fabric), _fabric_loss(host))
    if host.target is not None and "target" in changed:
        owners = max((owners_of.get(portal.address, 0) for portal in host.target.portals), default=0)
        yield DisruptiveStep(
            host.name,
            "target",
            "portals and namespaces where they differ from the box's configuration",
            f"paths of {owners} owners to what changes",
        )
    if host.storage is not None and host.storage.destroy:
        yield from _destroys(host.name, host.storage)
    if host.inference is not None and "inference" in changed:
        yield DisruptiveStep(host.name, "inference", f"restart of {_engines(host.inference)}", _ENGINE_LOSS)
    if host.cache is not None and "cache" in changed:
        yield DisruptiveStep(host.name, "cache", f"restart of {_services(host.cache)}", _cache_loss(host.cache))


def _fabric(plan: FabricPlan) -> str:
    ports = ", ".join(port.netdev for port in plan.ports)
    return f"MTU, PFC and traffic classes of {ports} where they differ"


def _fabric_loss(host: HostPlan) -> str:
    if host.connect is not None:
        return f"{len(host.connect.paths)} NVMe paths while the link comes back, if they are live"
    return "every path to the box while the link comes back, if any is live"


def _destroys(host: str, plan: StoragePlan) -> Iterator[DisruptiveStep]:
    for mount in plan.mounts:
        if mount.uuid in plan.destroy:
            what = f"striped set {mount.stripe} over {mount.uuid}" if mount.stripe else f"file system on {mount.uuid}"
            yield DisruptiveStep(host, "storage", f"new {what} ({mount.nqn})", "whatever it holds is destroyed")


def _services(plan: CachePlan) -> str:
    parts = []
    if plan.master is not None:
        parts.append("the master")
    if plan.store is not None:
        parts.append(f"{len(plan.store.instances)} stores")
    return " and ".join(parts)


_ENGINE_LOSS = "requests in flight, and what engines hold in accelerator and host memory; what reached the pool stays"


def _engines(plan: InferencePlan) -> str:
    parts = [f"{len(plan.engines)} engines"] if plan.engines else []
    parts += [f"{len(plan.routers)} routers"] if plan.routers else []
    return " and ".join(parts) + ", where they differ"


def _cache_loss(plan: CachePlan) -> str:
    if plan.master is not None:
        return "the whole pool until the stores have joined again; values that are in memory only"
    return "this host's share of the pool until its stores have joined again; values that are in memory only"


def _connected_owners(hosts: Sequence[HostPlan]) -> Mapping[str, int]:
    """Portal address to the number of hosts that connect to it."""
    found: dict[str, int] = {}
    for host in hosts:
        if host.connect is not None:
            for address in {path.address for path in host.connect.paths}:
                found[address] = found.get(address, 0) + 1
    return found
