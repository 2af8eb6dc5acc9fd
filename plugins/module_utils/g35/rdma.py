"""RDMA devices of a host: which belongs to which network device, their path MTU, and rdma_cm's defaults.

Names of RDMA devices differ between drivers and distributions and may be changed by udev, so they are always found
from the network device, never assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from .host import Host

CONFIGFS = "/sys/kernel/config/rdma_cm"
ROCE_MODE = "RoCE v2"
#: largest path MTU of InfiniBand and RoCE, and the smallest network MTU that carries it with its headers, bytes
PATH_MTU_MAX = 4096
NETDEV_MTU_FOR_PATH_MTU_MAX = 4200


def device_of(host: Host, netdev: str) -> Optional[str]:
    """The RDMA device of a network device, or None. Understands real NICs and soft-RoCE."""
    own = host.list("/sys/class/net/%s/device/infiniband" % netdev)
    if len(own) == 1:
        return own[0]
    for device in host.list("/sys/class/infiniband"):
        base = "/sys/class/infiniband/%s" % device
        if host.read_value(base + "/parent") == netdev:
            return device
        # Every GID of port 1 belongs to a network device; the first one is the port's own.
        if host.read_value(base + "/ports/1/gid_attrs/ndevs/0") == netdev:
            return device
    return None


def active_mtu(host: Host, device: str) -> Optional[int]:
    """The path MTU of the device's port 1 in bytes as verbs reports it; None where ibv_devinfo cannot say."""
    result = host.run(["ibv_devinfo", "-d", device, "-i", "1"])
    match = re.search(r"active_mtu:\s+(\d+)", result.out)
    return int(match.group(1)) if result.ok and match else None


def path_mtu_of(netdev_mtu: int) -> int:
    """The path MTU a network MTU allows: the largest of 256 to 4096 that fits with the headers, bytes."""
    if netdev_mtu >= NETDEV_MTU_FOR_PATH_MTU_MAX:
        return PATH_MTU_MAX
    # 104 bytes is what the kernel sets aside for the headers around a RoCE payload.
    return max([size for size in (256, 512, 1024, 2048, PATH_MTU_MAX) if size <= netdev_mtu - 104] or [256])


@dataclass(frozen=True)
class CmDefaults:
    """What rdma_cm gives to connections that do not ask: the ToS byte and the RoCE mode ("" where not readable)."""

    tos: Optional[int]
    mode: str


def read_cm_defaults(host: Host, device: str) -> CmDefaults:
    """Read rdma_cm's defaults of a device; empty until its configfs directory exists (see write_cm_defaults)."""
    base = "%s/%s/ports/1" % (CONFIGFS, device)
    tos = host.read_value(base + "/default_roce_tos")
    return CmDefaults(
        int(tos) if tos is not None and tos.isdigit() else None, host.read_value(base + "/default_roce_mode") or ""
    )


def write_cm_defaults(host: Host, device: str, tos: int) -> None:
    """Set RoCE v2 and the ToS byte. The configfs directory is left there, so that reading needs no writing.

    Raises OSError when rdma_cm is not loaded or the device is gone.
    """
    host.make_directory("%s/%s" % (CONFIGFS, device))
    base = "%s/%s/ports/1" % (CONFIGFS, device)
    host.write_attribute(base + "/default_roce_mode", ROCE_MODE)
    host.write_attribute(base + "/default_roce_tos", str(tos))


def forget_cm_defaults(host: Host, device: str) -> None:
    """Put the ToS byte back to 0 and remove the configfs directory."""
    base = "%s/%s" % (CONFIGFS, device)
    host.write_attribute(base + "/ports/1/default_roce_tos", "0")
    host.remove_directory(base)
