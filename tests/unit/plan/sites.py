"""Sites for the planner's tests, made the way the loader makes them: validated models."""

from __future__ import annotations

import uuid
from typing import Any

from g35ctl.site.model import Box, Fabric, HostPort, Mooncake, Nvme, Site, SiteHost, SiteIdentity, Storage

RAILS = ({"name": "a", "subnet": "192.0.2.0/24"}, {"name": "b", "subnet": "198.51.100.0/24"})
WIDE_RAILS = ({"name": "a", "subnet": "10.0.0.0/16"}, {"name": "b", "subnet": "10.1.0.0/16"})
GIB = 2**30


def namespace_uuid(box: int, ssd: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"box{box}/ssd{ssd}")


def box_host(number: int, ssds: int, *, wide: bool = False, **changes: Any) -> SiteHost:
    prefixes = (f"10.0.250.{number}", f"10.1.250.{number}") if wide else (f"192.0.2.1{number}", f"198.51.100.1{number}")
    box = {
        "driver": "nvmet",
        "rated_gbps": 360.0,
        "portals": [{"address": prefixes[0], "rail": "a"}, {"address": prefixes[1], "rail": "b"}],
        "namespaces": [
            {
                "nqn": f"nqn.2026-01.io.g35ctl:test:ebof{number}:ssd{ssd}",
                "uuid": namespace_uuid(number, ssd),
                "size": GIB if not wide else 7_680_000_000_000,
                "device": f"/dev/disk/by-id/nvme-ebof{number}-ssd{ssd}",
            }
            for ssd in range(1, ssds + 1)
        ],
    } | changes
    ports = () if wide else (
        HostPort(netdev="eth1", rail="a", address=prefixes[0]),
        HostPort(netdev="eth2", rail="b", address=prefixes[1]),
    )  # fmt: skip
    return SiteHost(name=f"ebof{number}", groups=("ebof",), ports=ports, box=Box.model_validate(box))


def gpu_host(number: int, *, wide: bool = False, groups: tuple[str, ...] = ("gpu_hosts",), **changes: Any) -> SiteHost:
    tail = f"{number // 200}.{number % 200 + 1}" if wide else ""
    addresses = (f"10.0.{tail}", f"10.1.{tail}") if wide else (f"192.0.2.2{number}", f"198.51.100.2{number}")
    values: dict[str, Any] = {
        "name": f"gpu{number}",
        "groups": groups,
        "ports": (
            HostPort(netdev="eth1", rail="a", address=addresses[0]),
            HostPort(netdev="eth2", rail="b", address=addresses[1]),
        ),
        "mooncake": Mooncake.model_validate(
            {"store": {"segment_size": "64MiB", "local_buffer_size": "32MiB", "bucket_size": "8MiB"}}
        ),
    } | changes
    return SiteHost(**values)


def lab_site(*hosts: SiteHost, transport: str = "rdma", **changes: Any) -> Site:
    """The lab's shape: one box of four SSDs, two GPU hosts, the master on the first."""
    if not hosts:
        hosts = (box_host(1, 4), gpu_host(1, groups=("gpu_hosts", "mooncake_masters")), gpu_host(2))
    fabric = Fabric.model_validate({"transport": transport, "rails": RAILS, "mtu": 4200} | changes)
    return Site(identity=SiteIdentity(name="test"), fabric=fabric, hosts=hosts, inventory="inventories/test")


def large_site(hosts: int, boxes: int, ssds: int) -> Site:
    """A fleet on two /16 rails."""
    members = [box_host(number, ssds, wide=True) for number in range(1, boxes + 1)]
    members += [
        gpu_host(number, wide=True, groups=("gpu_hosts", "mooncake_masters") if number == 1 else ("gpu_hosts",))
        for number in range(1, hosts + 1)
    ]
    fabric = Fabric.model_validate({"rails": WIDE_RAILS})
    return Site(identity=SiteIdentity(name="fleet"), fabric=fabric, hosts=tuple(members), inventory="inventories/test")


__all__ = ["GIB", "WIDE_RAILS", "Nvme", "Storage", "box_host", "gpu_host", "lab_site", "large_site", "namespace_uuid"]
