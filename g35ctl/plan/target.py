"""What a box exports: its portals, and each namespace to its owner alone."""

from __future__ import annotations

from dataclasses import replace

from ansible.module_utils.g35.plans import AnaState, ControllerIds, HostKey, Portal, TargetNamespace, TargetPlan, TlsKey

from g35ctl.plan.context import Context
from g35ctl.plan.identity import MODEL, nguid, port_id, serial
from g35ctl.site.model import Box, SiteHost


def plan_target(context: Context, host: SiteHost) -> TargetPlan | None:
    """The nvmet configuration of ``host``, or None when it is not a box that g35ctl configures.

    A namespace without an owner is exported to nobody; one without a device cannot be exported and is left out (the
    site's checks name it).
    """
    box = host.box
    if box is None or box.driver != "nvmet" or "ebof" not in host.groups:
        return None
    namespaces = tuple(
        TargetNamespace(
            nqn=item.nqn,
            nsid=item.nsid,
            uuid=str(item.uuid),
            nguid=nguid(item.uuid),
            device=item.device,
            serial=item.serial or serial(item.uuid),
            model=MODEL,
            allowed_hosts=allowed_hosts(context, host.name, item.nqn),
            ana_group=item.ana_group,
            buffered_io=item.buffered_io,
        )
        for item in sorted(box.namespaces, key=lambda item: (item.nqn, item.nsid))
        if item.device is not None
    )
    ids = box.controller_ids
    return TargetPlan(
        context.site.identity.name,
        tuple(replace(portal, tls=context.tls) for portal in portals(context, box)),
        namespaces,
        _keys(context, context.primary(host.name)),
        _tls_keys(context, context.primary(host.name)),
        None if ids is None else ControllerIds(ids.lowest, ids.highest),
        box.firmware,
        striped=any(item.stripe for item in context.ownership if item.box == context.primary(host.name)),
        max_queue_size=box.max_queue_size,
    )


def _keys(context: Context, box: str) -> tuple[HostKey, ...]:
    """The keys of the hosts that own something of a box."""
    keys = (context.authentication(host) for host in _owners(context, box))
    return tuple(key for key in keys if key is not None)


def _tls_keys(context: Context, box: str) -> tuple[TlsKey, ...]:
    keys = (context.tls_key(host) for host in _owners(context, box))
    return tuple(key for key in keys if key is not None)


def _owners(context: Context, box: str) -> tuple[SiteHost, ...]:
    names = {item.owner for item in context.ownership if item.box == box and item.uuid not in context.custody.fenced}
    return tuple(host for host in context.owners if host.name in names)


def allowed_hosts(context: Context, box: str, nqn: str) -> tuple[str, ...]:
    """Host NQNs that a subsystem of a box admits: its owner's, or none, as while it is on its way to another."""
    if context.raw:
        return ("*",)  # Mooncake introduces itself with a name that it draws anew for each process
    if (box, nqn) in context.fenced:
        return ()
    owner = context.owner_nqns.get((box, nqn))
    return (owner,) if owner is not None else ()


def portals(context: Context, box: Box) -> tuple[Portal, ...]:
    """Portals of a box in rail order, each with the number of its nvmet port."""
    taken: set[int] = set()
    found = []
    order = context.rail_order
    for item in sorted(box.portals, key=lambda item: (order.get(item.rail, len(order)), str(item.address), item.port)):
        number = port_id(item, taken)
        taken.add(number)
        family = f"ipv{item.address.version}"
        ana = tuple(AnaState(told.group, told.state) for told in item.ana)
        found.append(Portal(str(item.address), item.rail, context.protocol, item.port, family, number, ana))
    return tuple(found)
