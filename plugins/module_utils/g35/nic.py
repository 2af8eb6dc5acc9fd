"""A data NIC beyond DCB: which family it is of, its tuning as a table of settings, and facts about its slot.

A setting says how it is read, what it must be and how it is written; the fabric stage compares and writes. A NIC that
does not have a setting answers None and is left alone. Families (nic_mlx5, nic_bnxt, nic_irdma) add their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import rdma
from .converge import Finding
from .dcb import Contract
from .host import Host
from .plans import FabricTuning

#: what tuning guides of NIC vendors ask of the slot, bytes
MAX_READ_REQUEST = 4096
_PCI = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_CAPABILITY_PCIE = 0x10


@dataclass(frozen=True)
class Setting:
    """One setting of a NIC. ``read`` answers None where the NIC does not have it.

    ``early`` ones come before DCB (a firmware agent that owns DCB must be silenced first). ``interrupts`` names what
    writing it disturbs. ``undo`` takes it back when g35ctl leaves the host, where that means anything.
    """

    key: str
    want: str
    read: Callable[[], Optional[str]]
    write: Callable[[], None]
    interrupts: str = ""
    early: bool = False
    undo: Optional[Callable[[], None]] = None


@dataclass(frozen=True)
class Nic:
    """A data port's NIC as its family's module sees it. ``pci`` and ``device`` are empty where there is none."""

    host: Host
    netdev: str
    driver: str
    pci: str
    device: str
    contract: Contract
    tos: int
    tuning: FabricTuning


def _none(_: Nic) -> List[Any]:
    return []


def _nothing(_: Nic) -> Dict[str, Any]:
    return {}


def _no_findings(_: Nic, __: Dict[str, Any]) -> List[Finding]:
    return []


@dataclass(frozen=True)
class Family:
    """NICs that are set the same way. ``blocks``: see dcb.Contract. ``vendor_tool``: mlnx_qos may drive them."""

    name: str
    drivers: Tuple[str, ...]
    blocks: bool = False
    vendor_tool: bool = False
    settings: Callable[[Nic], Sequence[Setting]] = field(default=_none)
    facts: Callable[[Nic], Dict[str, Any]] = field(default=_nothing)
    findings: Callable[[Nic, Dict[str, Any]], List[Finding]] = field(default=_no_findings)


#: NICs of no known family: DCB and ethtool, as far as their driver has them
GENERIC = Family("generic", ())


def driver_of(host: Host, netdev: str) -> str:
    """The kernel driver of a network device, empty for one without a device."""
    return host.link_name("/sys/class/net/%s/device/driver" % netdev) or ""


def pci_of(host: Host, netdev: str) -> str:
    """The PCI address of a network device, empty where it is on another bus."""
    name = host.link_name("/sys/class/net/%s/device" % netdev) or ""
    return name if _PCI.match(name) else ""


def identify(host: Host, netdev: str, contract: Contract, tos: int, tuning: FabricTuning) -> Nic:
    """What is known about the NIC of a network device."""
    device = rdma.device_of(host, netdev) or ""
    return Nic(host, netdev, driver_of(host, netdev), pci_of(host, netdev), device, contract, tos, tuning)


def attribute(nic: Nic, key: str, path: str, want: int) -> Setting:
    """A setting that is a number in a file; None where the file is not there."""

    def read() -> Optional[str]:
        return number(nic.host.read_value(path))

    return Setting(key, str(want), read, lambda: nic.host.write_attribute(path, str(want)))


def number(text: Optional[str]) -> Optional[str]:
    """A number as drivers write it (decimal, 0x...) in decimal; other text as it is."""
    try:
        return None if text is None else str(int(text, 0))
    except ValueError:
        return text


# Settings that ethtool knows for every NIC.


def ethtool_settings(nic: Nic) -> List[Setting]:
    """Ring sizes and interrupt moderation, as far as the site says something about them."""
    found = []
    if nic.tuning.ring_size != "keep":
        limits = _rings(nic)[0]
        want = {
            side: most if nic.tuning.ring_size == "max" else min(most, int(nic.tuning.ring_size))
            for side, most in limits.items()
        }
        if want:
            argv = ["ethtool", "-G", nic.netdev]
            for side, entries in want.items():
                argv += [side, str(entries)]
            found.append(
                Setting("rings", _rings_text(want), lambda: _rings_text(_rings(nic)[1]) or None,
                        lambda: _must(nic, argv), "queue restart on %s" % nic.netdev)
            )  # fmt: skip
    if nic.tuning.adaptive_interrupts != "keep":
        argv_c = ["ethtool", "-C", nic.netdev, "adaptive-rx", nic.tuning.adaptive_interrupts]
        found.append(
            Setting("adaptive_rx", nic.tuning.adaptive_interrupts, lambda: _adaptive(nic), lambda: _must(nic, argv_c))
        )
    return found


def _rings(nic: Nic) -> Tuple[Dict[str, int], Dict[str, int]]:
    """Most and current entries of the rx and tx rings; empty where the NIC has no such setting."""
    result = nic.host.run(["ethtool", "-g", nic.netdev])
    parts = result.out.partition("Current hardware settings:") if result.ok else ("", "", "")
    most, now = (
        {side.lower(): int(value) for side, value in re.findall(r"^(RX|TX):\s+(\d+)\s*$", part, re.MULTILINE)}
        for part in (parts[0], parts[2])
    )
    return most, {side: entries for side, entries in now.items() if side in most}


def _rings_text(rings: Dict[str, int]) -> str:
    return " ".join("%s %d" % pair for pair in sorted(rings.items()))


def _adaptive(nic: Nic) -> Optional[str]:
    result = nic.host.run(["ethtool", "-c", nic.netdev])
    match = re.search(r"^Adaptive RX:\s*(on|off)\b", result.out, re.MULTILINE)
    return match.group(1) if result.ok and match else None


def _must(nic: Nic, argv: Sequence[str]) -> None:
    nic.host.must(argv)


# Facts about the slot: reported, never changed.


def slot_facts(nic: Nic) -> Dict[str, Any]:
    """``max_read_request`` (bytes), ``relaxed_ordering`` and ``iommu`` (identity, DMA, DMA-FQ; none) of the slot."""
    base = "/sys/bus/pci/devices/%s" % nic.pci
    if not nic.pci or not nic.host.exists(base):
        return {}
    facts: Dict[str, Any] = {"iommu": nic.host.read_value(base + "/iommu_group/type") or "none"}
    control = _device_control(nic.host, base + "/config")
    if control is not None:
        facts["max_read_request"] = 128 << (control >> 12 & 7)
        facts["relaxed_ordering"] = bool(control & 0x10)
    return facts


def _device_control(host: Host, path: str) -> Optional[int]:
    """The Device Control register of the PCI Express capability, None where it cannot be read."""
    try:
        data = host.path(path).read_bytes()
    except OSError:
        return None
    # Without privilege only the first 64 bytes are given, and no capability is in them.
    position, seen = (data[0x34] & 0xFC if len(data) > 0x34 else 0), 0
    while position and position + 10 <= len(data) and seen < 48:
        if data[position] == _CAPABILITY_PCIE:
            return data[position + 8] | data[position + 9] << 8
        position, seen = data[position + 1] & 0xFC, seen + 1
    return None


def roce_enabled(nic: Nic) -> Optional[bool]:
    """Whether the device's ``enable_roce`` is on; None where the driver has no such parameter."""
    if not nic.pci:
        return None
    result = nic.host.run(["devlink", "dev", "param", "show", "pci/" + nic.pci, "name", "enable_roce"])
    match = re.search(r"\bvalue (true|false)", result.out)
    return match.group(1) == "true" if result.ok and match else None


def slot_findings(nic: Nic, facts: Dict[str, Any]) -> List[Finding]:
    """What of the facts costs throughput (information) or makes RoCE impossible (error)."""
    found = []
    where = "%s (%s)" % (nic.netdev, nic.pci)
    if facts.get("roce") is False:
        command = "devlink dev param set pci/%s name enable_roce value true cmode driverinit" % nic.pci
        found.append(
            Finding("fabric.roce", where, "enable_roce is false", "true",
                    "%s; devlink dev reload pci/%s (interrupts the port)" % (command, nic.pci))
        )  # fmt: skip
    size = facts.get("max_read_request")
    if size is not None and size < MAX_READ_REQUEST:
        found.append(
            Finding("fabric.max_read_request", where, "%d bytes" % size, "%d bytes" % MAX_READ_REQUEST,
                    "set it in the firmware setup, or setpci -s %s CAP_EXP+8.w=5000:7000" % nic.pci, "info")
        )  # fmt: skip
    if facts.get("relaxed_ordering") is False:
        found.append(
            Finding("fabric.relaxed_ordering", where, "off", "on",
                    "enable it in the firmware setup and the NIC's firmware (PCI_WR_ORDERING)", "info")
        )  # fmt: skip
    if str(facts.get("iommu", "")).startswith("DMA"):
        found.append(
            Finding("fabric.iommu", where, "translates (%s)" % facts["iommu"], "pass-through",
                    "iommu=pt on the kernel command line, then reboot", "info")
        )  # fmt: skip
    return found
