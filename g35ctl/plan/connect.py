"""The paths of an owner: every port of it to every portal on the same rail, for each subsystem it owns."""

from __future__ import annotations

from collections.abc import Iterator

from ansible.module_utils.g35.plans import ConnectPath, ConnectPlan

from g35ctl.plan.context import Context
from g35ctl.plan.identity import host_nqn, host_uuid
from g35ctl.plan.model import HostQueues
from g35ctl.site.model import Nvme, SiteHost


def plan_connect(context: Context, host: SiteHost) -> ConnectPlan | None:
    """The controllers ``host`` must hold, or None when it owns nothing."""
    if host.name not in context.owned and host.name not in context.custody.letting_go:
        return None
    nvme = host.nvme
    paths = tuple(_paths(context, host))
    rdma = context.protocol == "rdma"
    return ConnectPlan(
        site=context.site.identity.name,
        host_uuid=str(host_uuid(context.site, host)),
        host_nqn=host_nqn(context.site, host),
        paths=paths,
        managed_nqns=context.managed_nqns,
        io_queues=io_queues(nvme, len(paths)),
        queue_size=nvme.queue_size,
        keep_alive=nvme.keep_alive,
        reconnect_delay=nvme.reconnect_delay,
        controller_loss_timeout=nvme.controller_loss_timeout,
        tos=context.site.fabric.traffic.type_of_service if rdma else 0,
        io_policy=nvme.io_policy,
        authentication=context.authentication(host),
        tls=context.tls_key(host),
    )


def io_queues(nvme: Nvme, paths: int) -> int:
    """I/O queues per controller: as asked, or as many as the budget leaves each path beside its admin queue.

    Every queue is a queue pair with its own pool of memory regions. A host with many CPUs, a box with many SSDs and
    several paths to each would otherwise ask a NIC for thousands, and the last controllers fail to connect.
    """
    return max(1, min(nvme.io_queues, nvme.queue_pair_budget // max(1, paths) - 1))


def queues_of(host: str, plan: ConnectPlan) -> HostQueues:
    """What a host's paths take. The admin queue of each holds 32 entries."""
    paths = len(plan.paths)
    regions = paths * (plan.io_queues * plan.queue_size + 32)
    return HostQueues(host, paths, plan.io_queues, paths * (plan.io_queues + 1), regions)


def _paths(context: Context, host: SiteHost) -> Iterator[ConnectPath]:
    ports = context.ports(host)
    seen: set[tuple[str, str]] = set()
    for item in context.owned.get(host.name, ()):
        if (item.box, item.nqn) in seen:  # a subsystem with several namespaces is connected once
            continue
        seen.add((item.box, item.nqn))
        boxes = [context.boxes[head].box for head in context.heads(item.box)]
        portals = [portal for box in boxes if box is not None for portal in box.portals]
        for port in ports:
            for portal in sorted(portals, key=lambda portal: (str(portal.address), portal.port)):
                if portal.rail == port.rail:
                    yield ConnectPath(
                        item.nqn, context.protocol, str(portal.address), portal.port, str(port.address), port.netdev,
                        port.rail,
                    )  # fmt: skip
