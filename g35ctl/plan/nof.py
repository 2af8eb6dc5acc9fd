"""The experimental profile: raw namespaces that Mooncake opens itself. No host connects, mounts or owns one."""

from __future__ import annotations

from ansible.module_utils.g35.plans import NofNamespace, NofPlan

from g35ctl.plan.context import Context
from g35ctl.site.model import SiteHost

#: NoF allocators are told whole MiB
_MIB = 2**20

EXPERIMENTAL = (
    "profile nof-experimental: Mooncake calls its raw pool experimental. A namespace has one path and keeps no host"
    " out; registrations are lost with the master and made again; a client whose connection failed has to be restarted;"
    " engines use it only where their connector asks for it. Nothing that cannot be computed again belongs there"
)


def plan_nof(context: Context, host: SiteHost) -> NofPlan | None:
    """The raw namespaces of the site, for masters and everybody who must not have one mounted; else None."""
    if not context.raw or context.master is None:
        return None
    if host.name != context.master.host and host not in context.site.group("cache_owners"):
        return None
    return NofPlan(
        site=context.site.identity.name,
        transport=context.protocol.upper(),
        master_rpc=context.master.rpc,
        master_admin=context.master.admin,
        namespaces=namespaces(context),
        registers=host.name == context.master.host,
    )


def namespaces(context: Context) -> tuple[NofNamespace, ...]:
    """Every namespace of every box, through its portal on the first rail."""
    found = []
    for member in context.boxes.values():
        box = member.box
        if box is None or box.head_of is not None:
            continue
        known = [item for item in box.portals if item.rail in context.rail_order]
        if not known:
            continue
        portal = min(known, key=lambda item: (context.rail_order[item.rail], str(item.address)))
        found += [
            NofNamespace(item.nqn, item.nsid, str(portal.address), portal.port, item.size // _MIB * _MIB)
            for item in box.namespaces
        ]
    return tuple(sorted(found, key=lambda item: (item.nqn, item.nsid)))
