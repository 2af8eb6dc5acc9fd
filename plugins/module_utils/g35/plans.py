"""What each stage is to bring about on one host: the plans that travel from the planner to the modules.

The planner (g35ctl/plan) builds these, the variables plugin hands them to the roles as ``g35_<stage>_plan``, and the
modules load them with :mod:`.schema`. Sizes are bytes, times seconds, addresses plain text without a prefix length.
Field documentation here becomes the roles' argument specs and the variable reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

from .plan_parts import File, Unit
from .plan_parts import doc as _doc
from .plans_cache import (
    CachePlan,
    EtcdPlan,
    MasterPlan,
    NofNamespace,
    NofPlan,
    RuntimePlan,
    StoreInstance,
    StorePlan,
    Wheel,
)

__all__ = [
    "AnaState", "BoxPlan", "CachePlan", "ConnectPath", "ConnectPlan", "ControllerIds", "EtcdPlan", "FabricPlan",
    "FabricPort", "FabricTuning", "File", "HostKey", "MasterPlan", "Mount", "NofNamespace", "NofPlan",
    "Portal", "ProbePlan", "RedfishAccess",
    "RedfishInterface", "RuntimePlan", "SpdkAccess", "StoragePlan", "StoreInstance", "StorePlan", "StripedSet",
    "TargetNamespace",
    "TargetPlan", "TlsKey", "Unit", "Wheel", "_doc",
]  # fmt: skip


@dataclass(frozen=True)
class AnaState:
    """What a portal says about one ANA group: whether hosts should reach its namespaces there."""

    group: int = field(metadata=_doc("Number of the group, 1 to 128"))
    state: str = field(metadata=_doc("optimized, non-optimized, inaccessible, persistent-loss or change"))


@dataclass(frozen=True)
class Portal:
    """An NVMe-oF listening address of a box: one per rail and head."""

    address: str = field(metadata=_doc("Address it listens on"))
    rail: str = field(metadata=_doc("Rail of the address"))
    transport: str = field(default="rdma", metadata=_doc("rdma or tcp"))
    port: int = field(default=4420, metadata=_doc("Service port"))
    family: str = field(default="ipv4", metadata=_doc("ipv4 or ipv6"))
    port_id: int = field(
        default=1, metadata=_doc("Number of the nvmet port; derived from the portal itself, so it stays")
    )
    ana: Tuple[AnaState, ...] = field(
        default=(), metadata=_doc("ANA groups that are not optimized through this portal")
    )
    tls: bool = field(default=False, metadata=_doc("Whether it takes NVMe/TCP connections with TLS 1.3 only"))


@dataclass(frozen=True)
class HostKey:
    """The DH-HMAC-CHAP key of a host. The key is in no plan: only where the controller has it, and its digest."""

    host_nqn: str = field(metadata=_doc("NQN of the host that proves itself with it"))
    digest: str = field(metadata=_doc("Digest of the key, twelve hexadecimal digits"))
    key_file: str = field(metadata=_doc("File on the controller that holds the key"))
    controller_digest: str = field(
        default="", metadata=_doc("Digest of the key the box proves itself with; empty: it does not have to")
    )
    controller_key_file: str = field(default="", metadata=_doc("File on the controller that holds that key"))


@dataclass(frozen=True)
class TlsKey:
    """The TLS key of a host's NVMe/TCP connections. The key is in no plan: only where it is, and its digest."""

    host_nqn: str = field(metadata=_doc("NQN of the host"))
    digest: str = field(metadata=_doc("Digest of the key, twelve hexadecimal digits"))
    key_file: str = field(metadata=_doc("File on the controller that holds the key"))


@dataclass(frozen=True)
class TargetNamespace:
    """One SSD exported through a subsystem."""

    nqn: str = field(metadata=_doc("NQN of its subsystem"))
    nsid: int = field(metadata=_doc("Namespace identifier within the subsystem"))
    uuid: str = field(metadata=_doc("UUID of the namespace; stays the same for life"))
    nguid: str = field(metadata=_doc("The UUID without dashes"))
    device: str = field(metadata=_doc("Stable path (/dev/disk/by-id/...) or a regular file"))
    serial: str = field(metadata=_doc("Serial number to present, at most 20 characters"))
    model: str = field(metadata=_doc("Model to present, at most 40 characters"))
    allowed_hosts: Tuple[str, ...] = field(
        default=(), metadata=_doc("NQNs of the hosts that may connect; * alone: any host may")
    )
    ana_group: int = field(default=1, metadata=_doc("ANA group of the namespace, 1 to 128"))
    buffered_io: bool = field(default=False, metadata=_doc("Through the page cache; only for a regular file"))


@dataclass(frozen=True)
class ControllerIds:
    """The range a head takes controller identifiers from; disjoint between two heads of one subsystem."""

    lowest: int = field(metadata=_doc("Lowest identifier, at least 1"))
    highest: int = field(metadata=_doc("Highest identifier, at most 65519"))


@dataclass(frozen=True)
class TargetPlan:
    """The nvmet configuration of a box. Ports and subsystems g35ctl did not make are never touched."""

    site: str = field(metadata=_doc("Name of the site"))
    portals: Tuple[Portal, ...] = field(metadata=_doc("Portals to listen on"))
    namespaces: Tuple[TargetNamespace, ...] = field(metadata=_doc("Namespaces to export"))
    authentication: Tuple[HostKey, ...] = field(
        default=(), metadata=_doc("Hosts that have to prove themselves with DH-HMAC-CHAP")
    )
    tls: Tuple[TlsKey, ...] = field(default=(), metadata=_doc("Hosts that connect with TLS (tcp), by key"))
    controller_ids: Optional[ControllerIds] = field(
        default=None, metadata=_doc("Range of controller identifiers; the kernel's whole range when absent")
    )
    firmware: str = field(
        default="", metadata=_doc("Firmware revision to present where the kernel can; empty leaves the kernel's")
    )
    striped: bool = field(
        default=False, metadata=_doc("Whether an owner has a striped set on them, which the box must not assemble")
    )
    max_queue_size: int = field(
        default=0, metadata=_doc("Entries per queue a portal offers where the kernel can say so; 0 leaves its default")
    )
    files: Tuple[File, ...] = field(default=(), metadata=_doc("Files of the stage"))
    units: Tuple[Unit, ...] = field(default=(), metadata=_doc("systemd units of the stage"))


@dataclass(frozen=True)
class SpdkAccess:
    """How a box that runs SPDK is driven, and what its transport and subsystems are made with."""

    socket: str = field(metadata=_doc("JSON-RPC socket on the controller: local, or forwarded from the box by ssh"))
    max_queue_depth: int = field(default=128, metadata=_doc("Entries per queue of the transport"))
    max_io_qpairs: int = field(default=127, metadata=_doc("I/O queue pairs per controller of the transport"))
    ana: bool = field(default=True, metadata=_doc("Whether subsystems report ANA"))
    min_cntlid: int = field(default=1, metadata=_doc("Lowest controller identifier; disjoint between two heads"))
    max_cntlid: int = field(default=65519, metadata=_doc("Highest controller identifier"))
    dhchap_key: str = field(
        default="", metadata=_doc("Name of the owner's DH-HMAC-CHAP key in the target's keyring, {host} is the owner")
    )
    dhchap_controller_key: str = field(
        default="", metadata=_doc("Name of the controller's DH-HMAC-CHAP key in the target's keyring")
    )


@dataclass(frozen=True)
class RedfishInterface:
    """A data port of the box that gets its address through Redfish."""

    path: str = field(metadata=_doc("EthernetInterface resource, /redfish/v1/..."))
    address: str = field(metadata=_doc("IPv4 address it is to have"))
    netmask: str = field(metadata=_doc("Network mask of its rail"))
    mtu: int = field(metadata=_doc("MTU, bytes"))


@dataclass(frozen=True)
class RedfishAccess:
    """How the management processors of a box are reached. The password is no part of a plan."""

    addresses: Tuple[str, ...] = field(metadata=_doc("Management addresses, address or address:port, of one chassis"))
    username: str = field(metadata=_doc("Account"))
    ca_file: str = field(default="", metadata=_doc("CA certificates on the controller; empty for the system's"))
    interfaces: Tuple[RedfishInterface, ...] = field(default=(), metadata=_doc("Data ports to address"))
    settle_seconds: float = field(default=20.0, metadata=_doc("Time an address takes to answer, seconds"))


@dataclass(frozen=True)
class BoxPlan:
    """What a box that nobody logs in to is to export, and how it is reached."""

    site: str = field(metadata=_doc("Name of the site"))
    box: str = field(metadata=_doc("Inventory name of the box"))
    driver: str = field(metadata=_doc("spdk, redfish or discovery"))
    portals: Tuple[Portal, ...] = field(metadata=_doc("Portals it listens on"))
    namespaces: Tuple[TargetNamespace, ...] = field(
        metadata=_doc("Namespaces it exports; the device is a bdev with spdk and empty otherwise")
    )
    owners: Dict[str, str] = field(
        default_factory=dict, metadata=_doc("Host NQN to inventory name, for every owner of its namespaces")
    )
    run_on: str = field(default="", metadata=_doc("Host that asks the box; empty for the controller"))
    spdk: Optional[SpdkAccess] = field(default=None, metadata=_doc("Access with driver spdk"))
    redfish: Optional[RedfishAccess] = field(default=None, metadata=_doc("Access with driver redfish"))


@dataclass(frozen=True)
class FabricPort:
    """A data NIC port on a rail."""

    netdev: str = field(metadata=_doc("Network device"))
    rail: str = field(metadata=_doc("Rail it is on"))
    address: str = field(metadata=_doc("Its address on the rail"))
    prefix_length: int = field(metadata=_doc("Prefix length of the rail's subnet"))
    mtu: int = field(metadata=_doc("MTU, bytes"))


@dataclass(frozen=True)
class FabricTuning:
    """Settings of data NICs beyond the traffic contract. ``keep`` leaves what is there."""

    ring_size: str = field(default="keep", metadata=_doc("Entries of the rx and tx rings: keep, max, or a number"))
    adaptive_interrupts: str = field(default="keep", metadata=_doc("Adaptive rx interrupt moderation: keep, on or off"))
    lldpad: str = field(
        default="refuse", metadata=_doc("A running lldpad: refuse, or mask (stop it and mask its units)")
    )


@dataclass(frozen=True)
class FabricPlan:
    """RoCE settings of a host: the traffic contract applied to its ports."""

    site: str = field(metadata=_doc("Name of the site"))
    transport: str = field(metadata=_doc("rdma or tcp"))
    ports: Tuple[FabricPort, ...] = field(metadata=_doc("Data ports"))
    dscp: int = field(metadata=_doc("DSCP of RoCE data"))
    priority: int = field(metadata=_doc("Priority of RoCE data; PFC is on for it alone"))
    cnp_dscp: int = field(metadata=_doc("DSCP of congestion notification packets"))
    cnp_priority: int = field(metadata=_doc("Priority of congestion notification packets; strict, no PFC"))
    tos: int = field(metadata=_doc("ToS byte of RoCE data: DSCP<<2|2"))
    bandwidth_percent: int = field(metadata=_doc("ETS share of the RoCE traffic class, percent"))
    lossless: str = field(
        default="required", metadata=_doc("required, or unavailable: the site accepted NICs without DCB by name")
    )
    tuning: FabricTuning = field(
        default=FabricTuning(), metadata=_doc("Settings of data NICs beyond the traffic contract")
    )
    files: Tuple[File, ...] = field(default=(), metadata=_doc("Files of the stage"))
    units: Tuple[Unit, ...] = field(default=(), metadata=_doc("systemd units of the stage"))


@dataclass(frozen=True)
class ConnectPath:
    """One controller: a subsystem reached through one portal from one port of this host."""

    nqn: str = field(metadata=_doc("NQN of the subsystem"))
    transport: str = field(metadata=_doc("rdma or tcp"))
    address: str = field(metadata=_doc("Address of the portal"))
    port: int = field(metadata=_doc("Service port of the portal"))
    source_address: str = field(metadata=_doc("Address of this host on the rail"))
    netdev: str = field(metadata=_doc("Network device that holds the source address"))
    rail: str = field(metadata=_doc("Rail both are on"))


@dataclass(frozen=True)
class ConnectPlan:
    """Every path this host must hold, and how it introduces itself."""

    site: str = field(metadata=_doc("Name of the site"))
    host_uuid: str = field(metadata=_doc("Host identifier (hostid)"))
    host_nqn: str = field(metadata=_doc("Host NQN; carries the same UUID"))
    paths: Tuple[ConnectPath, ...] = field(metadata=_doc("Paths to hold"))
    managed_nqns: Tuple[str, ...] = field(
        metadata=_doc(
            "All subsystems of the site; a controller to one without a path here is stale and gets disconnected"
        )
    )
    io_queues: int = field(metadata=_doc("I/O queues per controller"))
    queue_size: int = field(metadata=_doc("Entries per queue"))
    keep_alive: int = field(metadata=_doc("Keep-alive timeout, seconds"))
    reconnect_delay: int = field(metadata=_doc("Delay between reconnect attempts, seconds"))
    controller_loss_timeout: int = field(metadata=_doc("Give a lost controller up after, seconds; -1 never"))
    tos: int = field(metadata=_doc("ToS byte of the connections (rdma); 0 with tcp: not set"))
    io_policy: str = field(metadata=_doc("Multipath policy: numa, round-robin or queue-depth"))
    authentication: Optional[HostKey] = field(
        default=None, metadata=_doc("The DH-HMAC-CHAP key of this host; none: it does not authenticate")
    )
    tls: Optional[TlsKey] = field(
        default=None, metadata=_doc("The TLS key of this host (tcp); none: it connects in plain text")
    )
    files: Tuple[File, ...] = field(default=(), metadata=_doc("Files of the stage"))
    units: Tuple[Unit, ...] = field(default=(), metadata=_doc("systemd units of the stage"))


@dataclass(frozen=True)
class Mount:
    """A namespace owned by this host: its file system and where it is mounted."""

    nqn: str = field(metadata=_doc("NQN of its subsystem"))
    nsid: int = field(metadata=_doc("Namespace identifier within the subsystem"))
    uuid: str = field(metadata=_doc("UUID of the namespace"))
    size: int = field(metadata=_doc("Capacity of the namespace, bytes"))
    mount_point: str = field(metadata=_doc("Where its file system is mounted"))
    previous_owners: Tuple[str, ...] = field(
        default=(), metadata=_doc("Owners whose mark may be replaced: the namespace is being moved from them")
    )
    stripe: str = field(
        default="", metadata=_doc("UUID of the striped set it is a part of; empty: it has a file system of its own")
    )


@dataclass(frozen=True)
class StripedSet:
    """Owned namespaces under one file system: an md array of level 0. Without one of them nothing of it can be read."""

    uuid: str = field(metadata=_doc("UUID of the array; derived from the site and all its namespaces"))
    members: Tuple[str, ...] = field(metadata=_doc("UUIDs of all its namespaces, in the order of the array"))
    mount_point: str = field(metadata=_doc("Where its file system is mounted"))
    chunk_size: int = field(metadata=_doc("Bytes that lie on one namespace before the next one follows"))

    @property
    def name(self) -> str:
        """Name of the array, in its superblocks and below /dev/md."""
        return "g35-%s" % self.uuid[:8]

    @property
    def device(self) -> str:
        """Where it appears when it is assembled."""
        return "/dev/md/%s" % self.name

    @property
    def unit(self) -> str:
        """The unit that assembles it."""
        return "g35-stripe-%s.service" % self.uuid

    @property
    def md_uuid(self) -> str:
        """Its UUID as mdadm writes one."""
        text = self.uuid.replace("-", "")
        return ":".join(text[at : at + 8] for at in range(0, 32, 8))

    @property
    def links(self) -> Tuple[str, ...]:
        """Its members' devices by the names that udev gives them everywhere."""
        return tuple("/dev/disk/by-id/nvme-uuid.%s" % uuid for uuid in self.members)


@dataclass(frozen=True)
class StoragePlan:
    """The file systems of the namespaces this host owns. Data is only ever destroyed by name."""

    site: str = field(metadata=_doc("Name of the site"))
    host: str = field(metadata=_doc("Inventory name of this host: the owner in marker files"))
    mounts: Tuple[Mount, ...] = field(metadata=_doc("Owned namespaces; those of a striped set share their mount point"))
    file_system: str = field(default="xfs", metadata=_doc("Kind of file system"))
    destroy: Tuple[str, ...] = field(
        default=(), metadata=_doc("UUIDs of namespaces whose foreign contents may be overwritten")
    )
    sets: Tuple[StripedSet, ...] = field(default=(), metadata=_doc("Striped sets"))
    files: Tuple[File, ...] = field(default=(), metadata=_doc("Files of the stage"))
    units: Tuple[Unit, ...] = field(default=(), metadata=_doc("systemd units of the stage"))


@dataclass(frozen=True)
class ProbePlan:
    """What the functional validation needs to write and read values from this host."""

    site: str = field(metadata=_doc("Name of the site"))
    python: str = field(metadata=_doc("Python interpreter of Mooncake's environment"))
    local_address: str = field(metadata=_doc("Address of this host on the first rail it has"))
    protocol: str = field(metadata=_doc("rdma or tcp"))
    devices: Tuple[str, ...] = field(metadata=_doc("Network devices whose RDMA devices carry the data; none with tcp"))
    master_rpc: str = field(metadata=_doc("RPC address of the master, address:port, or etcd:// with two masters"))
    master_admin: str = field(metadata=_doc("Admin address of the master, or of both with a comma between them"))
    segments: Dict[str, Tuple[str, ...]] = field(
        default_factory=dict, metadata=_doc("Owner host to its segments (address:port) that this host writes to")
    )
    total_capacity: int = field(default=0, metadata=_doc("Flash capacity of all stores together, bytes"))
    value_size: int = field(default=1048576, metadata=_doc("Size of a probe value, bytes"))
    segment_size: int = field(default=0, metadata=_doc("Largest memory segment of those stores, bytes"))
    keys: int = field(default=8, metadata=_doc("Probe values per owner"))
    user: str = field(default="g35", metadata=_doc("Unprivileged user that runs the probe"))
    bucket_size: int = field(default=268435456, metadata=_doc("Size of a flash bucket file of those stores, bytes"))
    tos: int = field(default=0, metadata=_doc("ToS byte of the traffic contract"))
    cluster_id: str = field(default="", metadata=_doc("With two masters: their name in etcd"))
