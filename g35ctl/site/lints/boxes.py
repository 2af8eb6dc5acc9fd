"""Lints of boxes: each says what its driver needs, and nothing that its driver does not look at."""

from __future__ import annotations

from g35ctl.site.lints.context import Context
from g35ctl.site.model import Box, BoxControllerIds, SiteHost
from g35ctl.site.problems import Problem, did_you_mean

_ACCESS = ("spdk", "redfish")


def access(context: Context) -> list[Problem]:
    """The mapping of a box's own driver is there, and no other one."""
    found = []
    hints = {
        "spdk": "spdk: {socket: /run/g35/ebof1.sock}",
        "redfish": "redfish: {addresses: [10.0.0.11, 10.0.0.12], username: g35, password: !vault ...}",
    }
    for host, box in _boxes(context):
        for name in _ACCESS:
            given = getattr(box, name) is not None
            if box.driver == name and not given:
                what = f"driver {name} needs {name}: how the box is reached"
                found.append(context.at(host, ("g35_ebof", "driver"), what, hints[name]))
            elif given and box.driver != name:
                what = f"{name} has no effect with driver {box.driver}"
                found.append(context.at(host, ("g35_ebof", name), what, severity="warning"))
    return found


def spdk(context: Context) -> list[Problem]:
    """Each namespace names its bdev, once; the range of controller identifiers is one."""
    found = []
    for host, box in _boxes(context):
        seen: dict[str, int] = {}
        for number, namespace in enumerate(box.namespaces):
            path = ("g35_ebof", "namespaces", number)
            if box.driver != "spdk":
                if namespace.bdev is not None:
                    what = f"bdev has no effect with driver {box.driver}"
                    found.append(context.at(host, (*path, "bdev"), what, severity="warning"))
            elif namespace.bdev is None:
                found.append(context.at(host, path, "driver spdk needs the bdev of each namespace", "bdev: Nvme0n1"))
            elif seen.setdefault(namespace.bdev, number) != number:
                what = f"{namespace.bdev} is already that of namespaces[{seen[namespace.bdev]}]"
                found.append(context.at(host, (*path, "bdev"), what))
        if box.spdk is not None and box.spdk.min_cntlid > box.spdk.max_cntlid:
            what = f"min_cntlid {box.spdk.min_cntlid} is above max_cntlid {box.spdk.max_cntlid}"
            found.append(context.at(host, ("g35_ebof", "spdk", "min_cntlid"), what))
    return found


def redfish(context: Context) -> list[Problem]:
    """There is a password, both heads have their own address, and ports are addressed as the portals say."""
    found = []
    rails = {rail.name for rail in context.site.fabric.rails}
    for host, box in _boxes(context):
        service = box.redfish
        if box.driver != "redfish" or service is None:
            continue
        path = ("g35_ebof", "redfish")
        if not service.password.get_secret_value():
            what = "the management needs a password"
            found.append(context.at(host, path, what, "password: a vaulted value (ansible-vault encrypt_string)"))
        if len(set(service.addresses)) < len(service.addresses):
            found.append(context.at(host, (*path, "addresses"), "both heads have the same address"))
        portals = {portal.address: portal.rail for portal in box.portals}
        for number, port in enumerate(service.ports):
            if portals.get(port.address) not in rails:
                what = f"{port.address} is no portal of the box on a rail of the site"
                found.append(context.at(host, (*path, "ports", number, "address"), what, "add it to portals"))
    return found


def heads(context: Context) -> list[Problem]:
    """Heads of one box serve the same namespaces alike, from controller identifiers that cannot collide."""
    found = []
    boxes = {host.name: box for host, box in _boxes(context)}
    for host, box in _boxes(context):
        ids = box.controller_ids
        if ids is not None and ids.lowest >= ids.highest:
            what = f"lowest {ids.lowest} is not below highest {ids.highest}"
            found.append(context.at(host, ("g35_ebof", "controller_ids"), what))
        if box.head_of is None:
            continue
        path = ("g35_ebof", "head_of")
        first = boxes.get(box.head_of)
        if first is None or box.head_of == host.name:
            what = f"{box.head_of!r} is no other box of the site"
            found.append(context.at(host, path, what, did_you_mean(box.head_of, sorted(set(boxes) - {host.name}))))
        elif first.head_of is not None:
            what = f"{box.head_of} is itself a head of {first.head_of}"
            found.append(context.at(host, path, what, f"head_of: {first.head_of}"))
        elif (box.driver, first.driver) != ("nvmet", "nvmet"):
            found.append(context.at(host, path, "only boxes with driver nvmet are heads of each other"))
        else:
            found += _twins(context, host, box, first)
    groups: dict[str, list[tuple[SiteHost, Box]]] = {}
    for host, box in _boxes(context):
        groups.setdefault(box.head_of or host.name, []).append((host, box))
    for members in groups.values():
        found += _ranges(context, members) if len(members) > 1 else []
    return found


def _twins(context: Context, host: SiteHost, box: Box, first: Box) -> list[Problem]:
    def served(item: Box) -> dict[tuple[str, int], object]:
        return {(n.nqn, n.nsid): (n.uuid, n.serial, n.size, n.ana_group) for n in item.namespaces}

    mine, theirs = served(box), served(first)
    wrong = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    found = []
    if wrong:
        told = ", ".join(f"{nqn} nsid {nsid}" for nqn, nsid in wrong)
        what = f"not served as {box.head_of} does: {told}"
        hint = "heads serve the same namespaces with equal uuid, serial, size and ana_group; only device may differ"
        found.append(context.at(host, ("g35_ebof", "namespaces"), what, hint))
    pinned = [n.nqn for n in box.namespaces if n.owner is not None]
    if pinned:
        what = f"owner has no effect on a further head ({pinned[0]})"
        found.append(context.at(host, ("g35_ebof", "namespaces"), what, f"pin it on {box.head_of}", severity="warning"))
    if (box.firmware, box.max_queue_size) != (first.firmware, first.max_queue_size):
        what = f"firmware and max_queue_size differ from {box.head_of}"
        found.append(context.at(host, ("g35_ebof",), what, "heads of one subsystem look alike"))
    return found


def _ranges(context: Context, members: list[tuple[SiteHost, Box]]) -> list[Problem]:
    found: list[Problem] = []
    seen: list[tuple[str, BoxControllerIds]] = []
    for host, box in members:
        path = ("g35_ebof", "controller_ids")
        ids = box.controller_ids
        if ids is None:
            what = "heads of one box need controller_ids: a host refuses two controllers with one identifier"
            hint = "controller_ids: {lowest: 1, highest: 32767}, and {lowest: 32768, highest: 65519} on the other"
            found.append(context.at(host, ("g35_ebof",), what, hint))
            continue
        for name, other in seen:
            if ids.lowest <= other.highest and other.lowest <= ids.highest:
                what = f"{ids.lowest} to {ids.highest} overlaps {other.lowest} to {other.highest} of {name}"
                found.append(context.at(host, path, what))
        seen.append((host.name, ids))
    return found


def only_nvmet(context: Context) -> list[Problem]:
    """Settings of the kernel's target say nothing to other drivers."""
    found = []
    for host, box in _boxes(context):
        if box.driver == "nvmet":
            continue
        for name in ("controller_ids", "firmware", "max_queue_size"):
            if getattr(box, name):
                what = f"{name} has no effect with driver {box.driver}"
                found.append(context.at(host, ("g35_ebof", name), what, severity="warning"))
        for number, portal in enumerate(box.portals):
            if portal.ana:
                what = f"ana has no effect with driver {box.driver}"
                found.append(context.at(host, ("g35_ebof", "portals", number, "ana"), what, severity="warning"))
    return found


def _boxes(context: Context) -> list[tuple[SiteHost, Box]]:
    return [
        (host, host.box) for host in context.boxes if host.box is not None and not context.is_partial(host, "g35_ebof")
    ]


LINTS = (access, heads, only_nvmet, spdk, redfish)
