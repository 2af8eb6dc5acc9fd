"""Lints of boxes: each says what its driver needs, and nothing that its driver does not look at."""

from __future__ import annotations

from g35ctl.site.lints.context import Context
from g35ctl.site.model import Box, SiteHost
from g35ctl.site.problems import Problem

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


def _boxes(context: Context) -> list[tuple[SiteHost, Box]]:
    return [
        (host, host.box) for host in context.boxes if host.box is not None and not context.is_partial(host, "g35_ebof")
    ]


LINTS = (access, spdk, redfish)
