"""The paths of an owner: every port of it to every portal on the same rail, for each subsystem it owns."""

from __future__ import annotations

from collections.abc import Iterator

from ansible.module_utils.g35.plans import ConnectPath, ConnectPlan

from g35ctl.plan.context import Context
from g35ctl.plan.identity import host_nqn, host_uuid
from g35ctl.site.model import SiteHost


def plan_connect(context: Context, host: SiteHost) -> ConnectPlan | None:
    """The controllers ``host`` must hold, or None when it owns nothing."""
    if host.name not in context.owned:
        return None
    nvme = host.nvme
    rdma = context.protocol == "rdma"
    return ConnectPlan(
        site=context.site.identity.name,
        host_uuid=str(host_uuid(context.site, host)),
        host_nqn=host_nqn(context.site, host),
        paths=tuple(_paths(context, host)),
        managed_nqns=context.managed_nqns,
        io_queues=nvme.io_queues,
        queue_size=nvme.queue_size,
        keep_alive=nvme.keep_alive,
        reconnect_delay=nvme.reconnect_delay,
        controller_loss_timeout=nvme.controller_loss_timeout,
        tos=context.site.fabric.traffic.type_of_service if rdma else 0,
        io_policy=nvme.io_policy,
    )


def _paths(context: Context, host: SiteHost) -> Iterator[ConnectPath]:
    ports = context.ports(host)
    seen: set[tuple[str, str]] = set()
    for item in context.owned[host.name]:
        box = context.boxes[item.box].box
        if box is None or (item.box, item.nqn) in seen:  # a subsystem with several namespaces is connected once
            continue
        seen.add((item.box, item.nqn))
        for port in ports:
            for portal in sorted(box.portals, key=lambda portal: (str(portal.address), portal.port)):
                if portal.rail == port.rail:
                    yield ConnectPath(
                        item.nqn, context.protocol, str(portal.address), portal.port, str(port.address), port.netdev,
                        port.rail,
                    )  # fmt: skip
