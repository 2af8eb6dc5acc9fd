"""What a box that nobody logs in to is to export, and who asks it."""

from __future__ import annotations

from ansible.module_utils.g35.plans import BoxPlan, RedfishAccess, RedfishInterface, SpdkAccess, TargetNamespace

from g35ctl.plan.context import Context
from g35ctl.plan.identity import MODEL, nguid, serial
from g35ctl.plan.target import allowed_hosts, portals
from g35ctl.site.model import Box, SiteHost

REMOTE_DRIVERS = ("spdk", "redfish", "discovery")
"""Drivers whose boxes are asked through their own interface. A ``static`` box is not asked at all."""


def plan_box(context: Context, host: SiteHost) -> BoxPlan | None:
    """The plan of a box with one of ``REMOTE_DRIVERS``; None for every other host.

    Where the site does not say how to reach the box there is no plan (the site's checks name it). The password of its
    management is no part of it.
    """
    box = host.box
    if box is None or box.driver not in REMOTE_DRIVERS or "ebof" not in host.groups:
        return None
    if getattr(box, box.driver, box) is None:
        return None
    mine = [item for item in context.ownership if item.box == host.name]
    owners = {context.owner_nqns[item.box, item.nqn]: item.owner for item in mine}
    return BoxPlan(
        site=context.site.identity.name,
        box=host.name,
        driver=box.driver,
        portals=portals(context, box),
        namespaces=_namespaces(context, host, box),
        owners=dict(sorted(owners.items())),
        run_on=_asker(context, host, box),
        spdk=_spdk(box),
        redfish=_redfish(context, box),
    )


def _namespaces(context: Context, host: SiteHost, box: Box) -> tuple[TargetNamespace, ...]:
    return tuple(
        TargetNamespace(
            nqn=item.nqn,
            nsid=item.nsid,
            uuid=str(item.uuid),
            nguid=nguid(item.uuid),
            device=item.bdev or "",
            serial=item.serial or serial(item.uuid),
            model=MODEL,
            allowed_hosts=allowed_hosts(context, host.name, item.nqn),
        )
        for item in sorted(box.namespaces, key=lambda item: (item.nqn, item.nsid))
    )


def _asker(context: Context, host: SiteHost, box: Box) -> str:
    """Discovery needs a place on the storage network: the first owner of something in the box, else any that reaches
    it. The other drivers speak from the controller."""
    if box.driver != "discovery":
        return ""
    rails = {portal.rail for portal in box.portals}
    first = [item.name for item in context.owners if any(own.box == host.name for own in context.owned[item.name])]
    reaching = [item.name for item in context.site.group("cache_owners") if rails & {port.rail for port in item.ports}]
    return next(iter([*first, *reaching]), "")


def _spdk(box: Box) -> SpdkAccess | None:
    if box.driver != "spdk" or box.spdk is None:
        return None
    return SpdkAccess(**box.spdk.model_dump())


def _redfish(context: Context, box: Box) -> RedfishAccess | None:
    service = box.redfish
    if box.driver != "redfish" or service is None:
        return None
    subnets = {rail.name: rail.subnet for rail in context.site.fabric.rails}
    rail_of = {portal.address: portal.rail for portal in box.portals}
    interfaces = tuple(
        RedfishInterface(
            port.interface, str(port.address), str(subnets[rail_of[port.address]].netmask), context.site.fabric.mtu
        )
        for port in service.ports
        if rail_of.get(port.address) in subnets
    )
    ca_file = context.paths.resolve(service.ca_file) if service.ca_file else ""
    return RedfishAccess(service.addresses, service.username, ca_file, interfaces, service.settle_seconds)
