"""NVMe-oF state as the kernel tells it: controllers, subsystems, namespaces and paths, from sysfs alone.

sysfs reads the same on every kernel and needs no tool, where the output of ``nvme list`` and its exit codes changed
from release to release. Everything that decides whether a path is up starts here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from .host import Host

CONTROLLERS = "/sys/class/nvme"
SUBSYSTEMS = "/sys/class/nvme-subsystem"
FABRICS_TRANSPORTS = ("rdma", "tcp", "fc", "loop")
LIVE = "live"
#: states of a controller that the kernel is still bringing up or back
IN_TRANSIT = ("new", "connecting", "reconnecting", "resetting")

_HEAD = re.compile(r"^nvme\d+n\d+$")
_PATH = re.compile(r"^nvme\d+c\d+n\d+$")


@dataclass(frozen=True)
class PathDevice:
    """One controller's way to a namespace under native multipath (``nvme0c1n1``)."""

    name: str
    nsid: int
    ana_state: str


@dataclass(frozen=True)
class Controller:
    """One NVMe controller. Numbers are -1 where the kernel does not tell; times in seconds; ``queue_count`` includes
    the admin queue; ``sqsize`` is zero based, as in the specification."""

    name: str
    transport: str
    state: str
    nqn: str
    address: str = ""
    port: str = ""
    source_address: str = ""
    host_nqn: str = ""
    host_id: str = ""
    queue_count: int = -1
    sqsize: int = -1
    keep_alive: int = -1
    reconnect_delay: int = -1
    controller_loss_timeout: int = -1
    paths: Tuple[PathDevice, ...] = ()

    @property
    def live(self) -> bool:
        """Only state "live" serves I/O; "connecting" is a path that is down, whatever its controller's existence."""
        return self.state == LIVE

    @property
    def fabrics(self) -> bool:
        return self.transport in FABRICS_TRANSPORTS


@dataclass(frozen=True)
class Namespace:
    """A block device with a namespace on it. ``size`` in bytes, ``number`` is major:minor; ``multipath`` tells the
    shared head device of native multipath from a device that hangs on one controller."""

    name: str
    nsid: int
    uuid: str
    wwid: str
    size: int
    number: str
    multipath: bool

    @property
    def device(self) -> str:
        return "/dev/%s" % self.name


@dataclass(frozen=True)
class Subsystem:
    """One NVM subsystem as this host sees it, with the controllers that multipath merged into it."""

    name: str
    nqn: str
    io_policy: str
    controllers: Tuple[str, ...]
    namespaces: Tuple[Namespace, ...]


@dataclass(frozen=True)
class Topology:
    """Everything NVMe on this host at one moment."""

    controllers: Tuple[Controller, ...]
    subsystems: Tuple[Subsystem, ...]

    def of(self, nqn: str) -> Tuple[Controller, ...]:
        """Fabrics controllers of a subsystem, live or not."""
        return tuple(item for item in self.controllers if item.nqn == nqn and item.fabrics)

    def subsystem_of(self, nqn: str) -> Tuple[Subsystem, ...]:
        """The kernel's subsystems of that NQN: one when multipath merged the paths."""
        return tuple(item for item in self.subsystems if item.nqn == nqn)

    def namespace(self, nqn: str, nsid: int) -> Optional[Namespace]:
        """The block device of a namespace, or None while no path shows it."""
        found = [ns for item in self.subsystem_of(nqn) for ns in item.namespaces if ns.nsid == nsid]
        return next((ns for ns in found if ns.multipath), found[0] if found else None)

    def live_controllers(self, nqn: str, nsid: int) -> Tuple[Controller, ...]:
        """Live controllers whose path to this namespace can carry I/O (ANA state permitting)."""
        usable = ("optimized", "non-optimized", "")
        return tuple(
            item
            for item in self.of(nqn)
            if item.live
            and (not item.paths or any(path.nsid == nsid and path.ana_state in usable for path in item.paths))
        )


def parse_address(text: str) -> Dict[str, str]:
    """The fields of a controller's address, ``traddr=192.0.2.11,trsvcid=4420,host_traddr=...``; older kernels separate
    with blanks."""
    fields: Dict[str, str] = {}
    for part in re.split(r"[ ,]+", text.strip()):
        key, separator, value = part.partition("=")
        if separator:
            fields[key] = value
    return fields


def read_topology(host: Host) -> Topology:
    """What is there now. A controller that disappears while it is read is left out."""
    controllers = tuple(
        found
        for found in (_controller(host, name) for name in host.list(CONTROLLERS) if re.match(r"^nvme\d+$", name))
        if found is not None
    )
    subsystems = tuple(
        found for found in (_subsystem(host, name, controllers) for name in host.list(SUBSYSTEMS)) if found is not None
    )
    return Topology(controllers, subsystems)


def _controller(host: Host, name: str) -> Optional[Controller]:
    base = "%s/%s" % (CONTROLLERS, name)
    state = host.read_value(base + "/state")
    nqn = host.read_value(base + "/subsysnqn")
    if state is None or nqn is None:
        return None
    transport = host.read_value(base + "/transport") or ""
    fields = parse_address(host.read_value(base + "/address") or "") if transport != "pcie" else {}
    return Controller(
        name=name,
        transport=transport,
        state=state,
        nqn=nqn,
        address=fields.get("traddr", ""),
        port=fields.get("trsvcid", ""),
        source_address=fields.get("host_traddr", ""),
        host_nqn=host.read_value(base + "/hostnqn") or "",
        host_id=host.read_value(base + "/hostid") or "",
        queue_count=_number(host, base + "/queue_count"),
        sqsize=_number(host, base + "/sqsize"),
        keep_alive=_number(host, base + "/kato"),
        reconnect_delay=_number(host, base + "/reconnect_delay"),
        controller_loss_timeout=_number(host, base + "/ctrl_loss_tmo"),
        paths=tuple(
            PathDevice(
                item,
                _number(host, "%s/%s/nsid" % (base, item)),
                host.read_value("%s/%s/ana_state" % (base, item)) or "",
            )
            for item in host.list(base)
            if _PATH.match(item)
        ),
    )


def _subsystem(host: Host, name: str, controllers: Tuple[Controller, ...]) -> Optional[Subsystem]:
    base = "%s/%s" % (SUBSYSTEMS, name)
    nqn = host.read_value(base + "/subsysnqn")
    if nqn is None:
        return None
    entries = host.list(base)
    members = [item.name for item in controllers if item.name in entries]
    namespaces: List[Namespace] = [_namespace(host, base, item, True) for item in entries if _HEAD.match(item)]
    # Without native multipath each controller has its own block device instead of a shared head.
    for member in members:
        folder = "%s/%s" % (CONTROLLERS, member)
        namespaces += [_namespace(host, folder, item, False) for item in host.list(folder) if _HEAD.match(item)]
    return Subsystem(name, nqn, host.read_value(base + "/iopolicy") or "", tuple(members), _without_twins(namespaces))


def _without_twins(namespaces: List[Namespace]) -> Tuple[Namespace, ...]:
    seen: Dict[str, Namespace] = {}
    for item in namespaces:
        seen.setdefault(item.name, item)
    return tuple(seen.values())


def _namespace(host: Host, folder: str, name: str, multipath: bool) -> Namespace:
    base = "%s/%s" % (folder, name)
    return Namespace(
        name=name,
        nsid=_number(host, base + "/nsid"),
        uuid=(host.read_value(base + "/uuid") or "").lower(),
        wwid=host.read_value(base + "/wwid") or "",
        size=max(_number(host, base + "/size"), 0) * 512,
        number=host.read_value(base + "/dev") or "",
        multipath=multipath,
    )


def _number(host: Host, path: str) -> int:
    text = host.read_value(path)
    if text == "off":  # ctrl_loss_tmo and reconnect_delay of a controller that never gives up
        return -1
    try:
        return int(text) if text is not None else -1
    except ValueError:
        return -1


@dataclass(frozen=True)
class MountEntry:
    """A line of /proc/self/mountinfo. ``number`` is the device's major:minor."""

    number: str
    mount_point: str
    file_system: str
    source: str
    options: Tuple[str, ...]


def read_mounts(host: Host) -> Tuple[MountEntry, ...]:
    """Every mount of this host, later mounts last."""
    found: List[MountEntry] = []
    for line in (host.read("/proc/self/mountinfo") or "").splitlines():
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if not separator or len(fields) < 6 or len(tail) < 3:
            continue
        options = tuple(fields[5].split(",")) + tuple(tail[2].split(","))
        found.append(MountEntry(fields[2], _unescape(fields[4]), tail[0], _unescape(tail[1]), options))
    return tuple(found)


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def users_of(host: Host, namespace: Namespace, mounts: Tuple[MountEntry, ...]) -> Tuple[str, ...]:
    """What uses a namespace's device right now: mount points of it or of its partitions, and stacked devices."""
    numbers = {namespace.number: ""}
    base = "/sys/block/%s" % namespace.name
    used: List[str] = []
    for entry in host.list(base):
        if entry.startswith(namespace.name + "p"):
            numbers[host.read_value("%s/%s/dev" % (base, entry)) or ""] = entry
            used += ["/dev/%s" % item for item in host.list("%s/%s/holders" % (base, entry))]
    used += ["/dev/%s" % item for item in host.list(base + "/holders")]
    used += [item.mount_point for item in mounts if item.number and item.number in numbers]
    return tuple(used)
