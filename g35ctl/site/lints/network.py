"""Lints of the network: addresses, rails, MTU, the traffic contract, and how hosts connect."""

from __future__ import annotations

from g35ctl.site.lints.context import Context, same_twice
from g35ctl.site.problems import Problem

# RoCE picks the largest path MTU that fits: 4096 bytes of payload need this much of the netdev.
RDMA_MTU = 4200
# ETS gives each of the six other classes at least one percent.
ROCE_BANDWIDTH = 94
# The kernel's nvme-rdma takes at most this many entries per queue and clamps without an error.
RDMA_QUEUE_SIZE = 128


def traffic_contract(context: Context) -> list[Problem]:
    """ToS follows from DSCP; data and CNP never share a priority or a code point."""
    if not context.site.hosts:
        return []
    host, traffic = context.site.hosts[0], context.site.fabric.traffic
    path = ("g35_fabric", "traffic")
    found = []
    if traffic.tos is not None and traffic.tos != traffic.type_of_service:
        found.append(
            context.at(
                host,
                (*path, "tos"),
                f"ToS {traffic.tos} does not match DSCP {traffic.dscp}: it must be {traffic.type_of_service}"
                " (DSCP<<2|2)",
                f"remove it, or write {traffic.type_of_service}",
                hosts=(),
            )
        )
    if traffic.priority == traffic.cnp_priority:
        found.append(
            context.at(
                host,
                (*path, "cnp_priority"),
                f"data and congestion notification packets share priority {traffic.priority}:"
                " notifications would be paused together with the data they are to slow down",
                "give cnp_priority another priority, such as 6",
                hosts=(),
            )
        )
    if traffic.bandwidth_percent > ROCE_BANDWIDTH:
        found.append(
            context.at(
                host,
                (*path, "bandwidth_percent"),
                f"{traffic.bandwidth_percent} % for RoCE leaves less than 1 % for each of the six other classes",
                f"use {ROCE_BANDWIDTH} or less",
                hosts=(),
            )
        )
    if traffic.dscp == traffic.cnp_dscp:
        found.append(
            context.at(
                host,
                (*path, "cnp_dscp"),
                f"data and congestion notification packets share DSCP {traffic.dscp}, which maps to one priority",
                "give cnp_dscp another code point, such as 48",
                hosts=(),
            )
        )
    return found


def mtu(context: Context) -> list[Problem]:
    """RDMA below 4200 bytes falls back to a smaller path MTU without a word."""
    fabric = context.site.fabric
    if fabric.transport != "rdma" or fabric.mtu >= RDMA_MTU or not context.site.hosts:
        return []
    return [
        context.at(
            context.site.hosts[0],
            ("g35_fabric", "mtu"),
            f"MTU {fabric.mtu} is below {RDMA_MTU}: the RoCE path MTU would silently drop below 4096",
            "use 9000 on hosts and at least 9216 on switches",
            hosts=(),
        )
    ]


def rails(context: Context) -> list[Problem]:
    """Names and subnets of rails are distinct, and there are two for availability."""
    if not context.site.hosts:
        return []
    host, known = context.site.hosts[0], context.site.fabric.rails
    found = []
    for number, rail in enumerate(known):
        for earlier in known[:number]:
            if rail.name == earlier.name:
                what = f"rail {rail.name!r} is defined twice"
                found.append(context.at(host, ("g35_fabric", "rails", number, "name"), what, hosts=()))
            if rail.subnet.version == earlier.subnet.version and rail.subnet.overlaps(earlier.subnet):
                what = f"subnet {rail.subnet} of rail {rail.name!r} overlaps {earlier.subnet} of rail {earlier.name!r}"
                hint = "each rail is a network of its own: paths would all leave through one port"
                found.append(context.at(host, ("g35_fabric", "rails", number, "subnet"), what, hint, hosts=()))
    if len(known) == 1:
        what = "one rail only: losing it loses every path"
        found.append(context.at(host, ("g35_fabric", "rails"), what, severity="warning", hosts=()))
    return found


def data_ports(context: Context) -> list[Problem]:
    """Every host on the data path has one port on each rail, with an address of that rail, on a device of its own."""
    found: list[Problem] = []
    subnets = {rail.name: rail.subnet for rail in context.site.fabric.rails}
    for host in context.site.hosts:
        devices: dict[str, str] = {}
        for number, port in enumerate(host.ports):
            path = ("g35_ports", number)
            if subnets and port.rail not in subnets:
                what = f"rail {port.rail!r} is not in g35_fabric.rails"
                found.append(context.at(host, (*path, "rail"), what, f"rails: {', '.join(subnets)}"))
            elif subnets and port.address not in subnets[port.rail]:
                what = f"{port.address} is outside {subnets[port.rail]}, the subnet of rail {port.rail!r}"
                found.append(context.at(host, (*path, "address"), what))
            earlier = same_twice(devices, port.netdev, f"g35_ports[{number}]")
            if earlier:
                what = f"{port.netdev} is used twice, first in {earlier}"
                found.append(context.at(host, (*path, "netdev"), what))
    for host in context.data_hosts:
        if context.is_partial(host, "g35_ports"):
            continue
        if not host.ports:
            what = "g35_ports is not set: the host has no data port"
            hint = "g35_ports: [{netdev: enp65s0f0np0, rail: a, address: 192.0.2.21}, ...]"
            found.append(context.at_host(host, what, hint))
            continue
        on = {port.rail for port in host.ports}
        for rail in sorted(context.rails - on):
            what = f"no port on rail {rail!r}: paths over that rail would be missing"
            found.append(context.at(host, ("g35_ports",), what))
    return found


def portals(context: Context) -> list[Problem]:
    """Portals are on known rails, inside their subnets, and on the ports of the box that serves them."""
    found: list[Problem] = []
    subnets = {rail.name: rail.subnet for rail in context.site.fabric.rails}
    for host, number, portal in context.portals():
        path = ("g35_ebof", "portals", number)
        if subnets and portal.rail not in subnets:
            what = f"rail {portal.rail!r} is not in g35_fabric.rails"
            found.append(context.at(host, (*path, "rail"), what, f"rails: {', '.join(subnets)}"))
        elif subnets and portal.address not in subnets[portal.rail]:
            what = f"{portal.address} is outside {subnets[portal.rail]}, the subnet of rail {portal.rail!r}"
            found.append(context.at(host, (*path, "address"), what))
        serving = host.box is not None and host.box.driver == "nvmet" and host.ports
        if serving and not context.is_partial(host, "g35_ports"):
            on = {port.address: port.rail for port in host.ports}
            if on.get(portal.address) != portal.rail:
                what = f"no port of the box has {portal.address} on rail {portal.rail!r}: nvmet cannot listen there"
                found.append(context.at(host, (*path, "address"), what, "add it to the box's g35_ports"))
    for host in context.boxes:
        if host.box is None or context.is_partial(host, "g35_ebof"):
            continue
        for rail in sorted(context.rails - {portal.rail for portal in host.box.portals}):
            what = f"no portal on rail {rail!r}: its namespaces have fewer paths than the fabric has rails"
            found.append(context.at(host, ("g35_ebof", "portals"), what, severity="warning"))
    return found


def duplicate_addresses(context: Context) -> list[Problem]:
    """An address belongs to one port of one host, and a portal (address and service port) to one box."""
    found: list[Problem] = []
    ports: dict[object, str] = {}
    owners: dict[object, str] = {}
    for host in context.site.hosts:
        for number, port in enumerate(host.ports):
            earlier = same_twice(ports, port.address, f"{host.name} ({port.netdev})")
            if earlier:
                what = f"address {port.address} is already used by {earlier}"
                found.append(context.at(host, ("g35_ports", number, "address"), what))
            owners.setdefault(port.address, host.name)
    listening: dict[object, str] = {}
    for host, number, portal in context.portals():
        path = ("g35_ebof", "portals", number, "address")
        earlier = same_twice(listening, (portal.address, portal.port), host.name)
        if earlier:
            what = f"portal {portal.address} port {portal.port} is already a portal of {earlier}"
            found.append(context.at(host, path, what))
        elif owners.get(portal.address, host.name) != host.name:
            what = f"portal address {portal.address} is the address of a port of {owners[portal.address]}"
            found.append(context.at(host, path, what))
    return found


def host_identity(context: Context) -> list[Problem]:
    """A host UUID is the host's NQN and its entry in every allowed-hosts list: two hosts never share one."""
    found = []
    seen: dict[object, str] = {}
    for host in context.site.hosts:
        if host.nvme.host_uuid is None:
            continue
        earlier = same_twice(seen, host.nvme.host_uuid, host.name)
        if earlier:
            what = f"host_uuid {host.nvme.host_uuid} is already that of {earlier}: both could mount one namespace"
            hint = "remove host_uuid (it is derived from the site and the host name) or give each host its own"
            found.append(context.at(host, ("g35_nvme", "host_uuid"), what, hint))
    return found


def connecting(context: Context) -> list[Problem]:
    """Time-outs and queue sizes the kernel would take without doing what they say."""
    found = []
    for host in context.owners:
        nvme = host.nvme
        if 0 <= nvme.controller_loss_timeout < nvme.reconnect_delay:
            what = (
                f"controller_loss_timeout {nvme.controller_loss_timeout} s is shorter than reconnect_delay"
                f" {nvme.reconnect_delay} s: a lost controller would be removed before one reconnect"
            )
            hint = "use 600, or -1 to keep trying for ever"
            found.append(context.at(host, ("g35_nvme", "controller_loss_timeout"), what, hint))
        if context.site.fabric.transport == "rdma" and nvme.queue_size > RDMA_QUEUE_SIZE:
            what = f"queue_size {nvme.queue_size} is clamped to {RDMA_QUEUE_SIZE} by nvme-rdma"
            found.append(context.at(host, ("g35_nvme", "queue_size"), what, severity="warning"))
    return found


LINTS = (
    traffic_contract,
    mtu,
    rails,
    data_ports,
    portals,
    duplicate_addresses,
    host_identity,
    connecting,
)
