"""The Swordfish picture of NVMe over Fabrics: endpoints, volumes, and who is let to which of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Set, Tuple

from .box import SeenNamespace, SeenPortal
from .redfish import links

PROTOCOL = "NVMeOverFabrics"
NO_ADDRESS = ("", "0.0.0.0")  # noqa: S104 (what an interface without an address says)


@dataclass
class Access:
    """A Connection or Zone: whom it lets to which endpoints, all by path; ``volumes`` is empty where it names none."""

    path: str
    initiators: Set[str]
    targets: Set[str]
    volumes: Set[str] = field(default_factory=set)


@dataclass
class FabricView:
    """An NVMe-oF fabric of the service. ``connections`` and ``zones`` are collection paths, empty where not offered."""

    path: str
    endpoints: str
    connections: str = ""
    zones: str = ""
    targets: Dict[str, List[Dict[str, Any]]] = field(default_factory=dict)
    initiators: Dict[str, str] = field(default_factory=dict)
    accesses: List[Access] = field(default_factory=list)
    volumes: Dict[str, List[Dict[str, Any]]] = field(default_factory=dict)

    def endpoints_of(self, nqn: str) -> Set[str]:
        """Paths of a subsystem's endpoints."""
        return {str(item["@odata.id"]) for item in self.targets.get(nqn, ())}

    def volumes_of(self, nqn: str) -> List[Dict[str, Any]]:
        """Volumes of a subsystem, each once however many endpoints lead to it."""
        found: Dict[str, Dict[str, Any]] = {}
        for item in self.targets.get(nqn, ()):
            for storage in endpoint_storages(item):
                for volume in self.volumes.get(storage, ()):
                    found[str(volume.get("@odata.id"))] = volume
        return list(found.values())

    def concerning(self, nqn: str) -> List[Access]:
        """Connections or zones that let somebody to a subsystem."""
        mine = self.endpoints_of(nqn)
        volumes = {str(item.get("@odata.id")) for item in self.volumes_of(nqn)}
        # A connection that names volumes concerns those only, even where its endpoints lead to more.
        return [
            item for item in self.accesses if (item.volumes & volumes if item.volumes else bool(item.targets & mine))
        ]

    def allowed(self, nqn: str) -> Optional[Tuple[str, ...]]:
        """Host NQNs that a subsystem admits; None where the firmware does not tell."""
        if not self.connections and not self.zones:
            return None
        paths = {path for item in self.concerning(nqn) for path in item.initiators}
        return tuple(sorted(name for name, path in self.initiators.items() if path in paths))


def endpoint_roles(endpoint: Dict[str, Any]) -> Set[str]:
    """Whether an endpoint is a Target, an Initiator, or Both."""
    return {str(item.get("EntityRole")) for item in endpoint.get("ConnectedEntities") or ()}


def endpoint_nqn(endpoint: Dict[str, Any]) -> str:
    """The NQN that an endpoint is known by; empty when it has none."""
    for item in endpoint.get("Identifiers") or ():
        if item.get("DurableNameFormat") == "NQN":
            return str(item.get("DurableName", ""))
    return ""


def endpoint_storages(endpoint: Dict[str, Any]) -> List[str]:
    """Paths of the storage subsystems behind an endpoint."""
    entities = endpoint.get("ConnectedEntities") or ()
    return [path for item in entities if item.get("EntityType") == "StorageSubsystem"
            for path in links(item.get("EntityLink"))]  # fmt: skip


def connection_ends(told: Dict[str, Any], role: str, groups: Dict[str, Set[str]]) -> Set[str]:
    """Endpoints of one side of a connection, those of its endpoint groups included."""
    found = set(links(told.get("%sEndpoints" % role)))
    for group in links(told.get("%sEndpointGroups" % role)):
        found |= groups.get(group, set())
    return found


def endpoint_portals(endpoint: Dict[str, Any], default: str) -> List[SeenPortal]:
    """Listening addresses of an endpoint; ``default`` is the transport where it names none."""
    found = []
    for item in endpoint.get("IPTransportDetails") or ():
        protocol = str(item.get("TransportProtocol", "")).lower()
        transport = "tcp" if "tcp" in protocol else "rdma" if "roce" in protocol else default
        for family in ("IPv4Address", "IPv6Address"):
            address = str((item.get(family) or {}).get("Address") or "")
            if address not in NO_ADDRESS:
                found.append(SeenPortal(address, int(item.get("Port") or 4420), transport))
    return found


def volume_namespace(volume: Dict[str, Any]) -> SeenNamespace:
    """A volume as the namespace it is."""
    properties = volume.get("NVMeNamespaceProperties") or {}
    names = {str(item.get("DurableNameFormat")): str(item.get("DurableName", "")).lower()
             for item in volume.get("Identifiers") or ()}  # fmt: skip
    data = (volume.get("Capacity") or {}).get("Data") or {}
    size = volume.get("CapacityBytes") or data.get("AllocatedBytes") or 0
    nguid = names.get("NGUID", "").replace("-", "")
    return SeenNamespace(_number(properties.get("NamespaceId")) or 1, names.get("UUID", ""), nguid, int(size))


def _number(value: Any) -> int:
    """A namespace identifier, which Swordfish writes as text such as 0x011."""
    try:
        return int(str(value), 0)
    except ValueError:
        return 0
