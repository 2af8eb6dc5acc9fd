"""Which driver speaks for a box, and the two that change nothing: what the inventory says, and what configfs shows."""

from __future__ import annotations

from typing import Any, Dict, List, Set, Type

from . import nvmet
from .box import BoxError, BoxStage, Driver, Seen, SeenNamespace, SeenPortal, SeenSubsystem
from .box_discovery import DiscoveryDriver
from .box_redfish import RedfishDriver
from .box_spdk import SpdkDriver
from .host import Host
from .plans import BoxPlan
from .schema import load

DRIVERS = ("nvmet", "spdk", "redfish", "discovery", "static")
_BY_ID = "/dev/disk/by-id"
_SECTOR = 512


class StaticDriver(Driver):
    """Driver ``static``: the inventory is the truth. ``grant`` and ``revoke`` raise the operator's exact instruction;
    that it was followed is seen by stage connect, which waits for the owner's controllers."""

    name = "static"

    def discover(self) -> Seen:
        """What the inventory says; nothing is asked."""
        portals = tuple(SeenPortal(item.address, item.port, item.transport) for item in self.plan.portals)
        found = []
        for nqn, items in sorted(self.desired.items()):
            spaces = tuple(SeenNamespace(item.nsid, item.uuid, item.nguid, device=item.device) for item in items)
            found.append(SeenSubsystem(nqn, portals, spaces))
        return Seen(self.name, tuple(found), portals=portals)


class NvmetDriver(Driver):
    """Driver ``nvmet``, to look only: run on the box itself. Stage target configures it."""

    name = "nvmet"

    def discover(self) -> Seen:
        """What configfs exports, and the SSDs that nothing exports or uses yet."""
        host = self.host
        portals: Dict[str, List[SeenPortal]] = {}
        for port_id in host.list(nvmet.ROOT + "/ports"):
            port = nvmet.read_port(host, port_id)
            service = str(port["trsvcid"])
            at = SeenPortal(port["traddr"], int(service) if service.isdigit() else 4420, port["trtype"])
            for nqn in port["links"].values():
                portals.setdefault(nqn, []).append(at)
        found, devices = [], set()
        for nqn in host.list(nvmet.ROOT + "/subsystems"):
            seen = self._subsystem(nqn, portals.get(nqn, []))
            found.append(seen)
            devices |= {host.real(item.device) for item in seen.namespaces}
        every = sorted({portal for items in portals.values() for portal in items}, key=str)
        return Seen(
            self.name, tuple(found), "Linux nvmet", portals=tuple(every), free_devices=tuple(self._free(devices))
        )

    def _subsystem(self, nqn: str, portals: List[SeenPortal]) -> SeenSubsystem:
        have: Dict[str, Any] = nvmet.read_subsystem(self.host, nqn)
        spaces = [
            SeenNamespace(int(nsid), _dashed(item["uuid"]), item["nguid"], self._size(item["device"]), item["device"])
            for nsid, item in have["namespaces"].items()
            if nsid.isdigit()
        ]
        controllers = nvmet.controllers(self.host, nqn)
        return SeenSubsystem(
            nqn, tuple(portals), tuple(spaces), tuple(have["allowed_hosts"]), have["allow_any_host"], have["serial"],
            have["model"], None if controllers is None else tuple(controllers),
        )  # fmt: skip

    def _free(self, exported: Set[str]) -> List[SeenNamespace]:
        """Whole NVMe disks by their stable names that carry no partition and are not exported, one name each."""
        found: Dict[str, str] = {}
        for name in self.host.list(_BY_ID):
            path = "%s/%s" % (_BY_ID, name)
            device = self.host.real(path)
            kernel_name = device.rpartition("/")[2]
            if not name.startswith("nvme-") or "-part" in name or device in exported:
                continue
            block = "/sys/class/block/%s" % kernel_name
            parts = [item for item in self.host.list(block) if item.startswith(kernel_name)]
            used = parts or self.host.list(block + "/holders") or self._mounted(device)
            # The name with model and serial number says most; eui and uuid names only stand in for it.
            plain = not name.startswith(("nvme-eui.", "nvme-uuid.", "nvme-nvme."))
            if not used and (device not in found or plain):
                found[device] = path
        return [SeenNamespace(1, size=self._size(path), device=path) for path in sorted(found.values())]

    def _mounted(self, device: str) -> bool:
        lines = (self.host.read("/proc/self/mounts") or "").splitlines()
        swaps = (self.host.read("/proc/swaps") or "").splitlines()
        return any(line.split(" ", 1)[0] == device for line in lines) or any(line.startswith(device) for line in swaps)

    def _size(self, device: str) -> int:
        """Bytes of a block device or regular file; 0 where it is not there."""
        real = self.host.real(device)
        sectors = self.host.read_value("/sys/class/block/%s/size" % real.rpartition("/")[2])
        if sectors and sectors.isdigit():
            return int(sectors) * _SECTOR
        try:
            return self.host.path(real).stat().st_size
        except OSError:
            return 0


def _dashed(compact: str) -> str:
    """A UUID as it is written."""
    parts = (compact[:8], compact[8:12], compact[12:16], compact[16:20], compact[20:])
    return "-".join(parts) if len(compact) == 32 else compact


def driver(host: Host, plan: BoxPlan, secret: str = "") -> Driver:
    """The driver of a plan. Raises BoxError when the plan lacks what it needs."""
    if plan.driver == "redfish":
        return RedfishDriver(host, plan, secret)
    kinds: Dict[str, Type[Driver]] = {
        "spdk": SpdkDriver,
        "discovery": DiscoveryDriver,
        "nvmet": NvmetDriver,
        "static": StaticDriver,
    }
    if plan.driver not in kinds:
        raise BoxError("no driver %r" % plan.driver, "one of %s" % ", ".join(DRIVERS))
    return kinds[plan.driver](host, plan)


def build(host: Host, plan: Dict[str, Any], secret: str = "") -> BoxStage:
    """The stage of a plan given as plain data. Raises SchemaError, or BoxError when it lacks what its driver needs."""
    return BoxStage(host, driver(host, load(BoxPlan, plan), secret))
