"""The traffic contract, applied to a host's data ports."""

from __future__ import annotations

from ansible.module_utils.g35.plans import FabricPlan, FabricPort, FabricTuning

from g35ctl.plan.context import Context
from g35ctl.site.model import SiteHost


def plan_fabric(context: Context, host: SiteHost) -> FabricPlan | None:
    """RoCE settings of ``host``, or None when it has no data port that g35ctl configures (a static box's are its
    vendor's) or the site has neither a box nor RDMA."""
    ports = context.ports(host)
    if not context.boxes and context.protocol == "tcp":
        return None  # nothing on this network has to be lossless: it is left as it is
    if not ports or (host.box is not None and host.box.driver != "nvmet"):
        return None
    fabric = context.site.fabric
    traffic = fabric.traffic
    return FabricPlan(
        site=context.site.identity.name,
        transport=fabric.transport,
        ports=tuple(
            FabricPort(port.netdev, port.rail, str(port.address), context.prefix_lengths[port.rail], fabric.mtu)
            for port in ports
        ),
        dscp=traffic.dscp,
        priority=traffic.priority,
        cnp_dscp=traffic.cnp_dscp,
        cnp_priority=traffic.cnp_priority,
        tos=traffic.type_of_service,
        bandwidth_percent=traffic.bandwidth_percent,
        lossless=fabric.lossless,
        tuning=FabricTuning(
            ring_size=str(fabric.tuning.ring_size),
            adaptive_interrupts=_switch(fabric.tuning.adaptive_interrupts),
            lldpad=fabric.tuning.lldpad,
        ),
    )


def _switch(value: bool | str) -> str:
    """YAML reads on and off as truth values."""
    return value if isinstance(value, str) else "on" if value else "off"
