"""What each stage is to bring about on one host: the plans that travel from the planner to the modules.

The planner (g35ctl/plan) builds these, the variables plugin hands them to the roles as ``g35_<stage>_plan``, and the
modules load them with :mod:`.schema`. Sizes are bytes, times seconds, addresses plain text without a prefix length.
Field documentation here becomes the roles' argument specs and the variable reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple


@dataclass(frozen=True)
class File:
    """A file that g35ctl owns on a host, rendered on the controller."""

    path: str
    content: str
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"


@dataclass(frozen=True)
class Unit:
    """A systemd unit and what must be true of it. ``restart_on``: paths of files whose change calls for a restart."""

    name: str
    enabled: bool = True
    active: bool = True
    restart_on: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Portal:
    """An NVMe-oF listening address of a box: one per rail and head."""

    address: str
    rail: str
    transport: str = "rdma"
    port: int = 4420
    family: str = "ipv4"
    port_id: int = 1


@dataclass(frozen=True)
class TargetNamespace:
    """One SSD exported as one subsystem. ``device`` is a stable path (/dev/disk/by-id/...) or a regular file."""

    nqn: str
    nsid: int
    uuid: str
    nguid: str
    device: str
    serial: str
    model: str
    allowed_hosts: Tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetPlan:
    """The nvmet configuration of a box. Ports and subsystems g35ctl did not make are never touched."""

    site: str
    portals: Tuple[Portal, ...]
    namespaces: Tuple[TargetNamespace, ...]
    files: Tuple[File, ...] = ()
    units: Tuple[Unit, ...] = ()


@dataclass(frozen=True)
class FabricPort:
    """A data NIC port on a rail."""

    netdev: str
    rail: str
    address: str
    prefix_length: int
    mtu: int


@dataclass(frozen=True)
class FabricPlan:
    """RoCE settings of a host: the traffic contract applied to its ports.

    ``lossless`` is "required" or "unavailable" (the site accepted a NIC without DCB by name). ``tos`` is DSCP<<2|2.
    """

    site: str
    transport: str
    ports: Tuple[FabricPort, ...]
    dscp: int
    priority: int
    cnp_dscp: int
    cnp_priority: int
    tos: int
    bandwidth_percent: int
    lossless: str = "required"
    files: Tuple[File, ...] = ()
    units: Tuple[Unit, ...] = ()


@dataclass(frozen=True)
class ConnectPath:
    """One controller: a subsystem reached through one portal from one port of this host."""

    nqn: str
    transport: str
    address: str
    port: int
    source_address: str
    netdev: str
    rail: str


@dataclass(frozen=True)
class ConnectPlan:
    """Every path this host must hold, and how it introduces itself. ``managed_nqns`` are all subsystems of the site:
    controllers to those that are not in ``paths`` are stale and get disconnected; others are never touched."""

    site: str
    host_uuid: str
    host_nqn: str
    paths: Tuple[ConnectPath, ...]
    managed_nqns: Tuple[str, ...]
    io_queues: int
    queue_size: int
    keep_alive: int
    reconnect_delay: int
    controller_loss_timeout: int
    tos: int
    io_policy: str
    files: Tuple[File, ...] = ()
    units: Tuple[Unit, ...] = ()


@dataclass(frozen=True)
class Mount:
    """A namespace owned by this host: its file system and where it is mounted."""

    nqn: str
    nsid: int
    uuid: str
    size: int
    mount_point: str


@dataclass(frozen=True)
class StoragePlan:
    """The file systems of the namespaces this host owns. ``destroy`` lists the UUIDs of namespaces whose present
    contents, not made by g35ctl, may be overwritten: data is only ever destroyed by name."""

    site: str
    host: str
    mounts: Tuple[Mount, ...]
    file_system: str = "xfs"
    destroy: Tuple[str, ...] = ()
    files: Tuple[File, ...] = ()
    units: Tuple[Unit, ...] = ()


@dataclass(frozen=True)
class Wheel:
    """A Python wheel that the controller pushes; ``sha256`` in hexadecimal."""

    name: str
    sha256: str


@dataclass(frozen=True)
class RuntimePlan:
    """Mooncake's own Python environment on a host, at ``<prefix>/<version>-<digest>`` (``current`` links to it)."""

    version: str
    distribution: str
    wheels: Tuple[Wheel, ...]
    wheel_directory: str
    prefix: str
    user: str


@dataclass(frozen=True)
class MasterPlan:
    """A Mooncake master on this host: where it must answer, and what its files and units are."""

    site: str
    address: str
    rpc_port: int
    metrics_port: int
    files: Tuple[File, ...] = ()
    units: Tuple[Unit, ...] = ()


@dataclass(frozen=True)
class StoreInstance:
    """One ``mooncake_client`` that owns one flash directory. Sizes in bytes."""

    name: str
    address: str
    rpc_port: int
    http_port: int
    protocol: str
    devices: Tuple[str, ...]
    segment_size: int
    directory: str
    namespace_uuid: str
    capacity: int
    unit: str


@dataclass(frozen=True)
class StorePlan:
    """The stores of a cache owner."""

    site: str
    master_address: str
    instances: Tuple[StoreInstance, ...]
    files: Tuple[File, ...] = ()
    units: Tuple[Unit, ...] = ()


@dataclass(frozen=True)
class CachePlan:
    """Everything Mooncake on one host: the environment, the firewall, and whichever of master and stores it has."""

    site: str
    runtime: RuntimePlan
    master: Optional[MasterPlan] = None
    store: Optional[StorePlan] = None
    files: Tuple[File, ...] = ()
    units: Tuple[Unit, ...] = ()


@dataclass(frozen=True)
class ProbePlan:
    """What the functional validation needs to write and read values from this host."""

    site: str
    python: str
    local_address: str
    protocol: str
    devices: Tuple[str, ...]
    master_rpc: str
    master_admin: str
    segments: Dict[str, Tuple[str, ...]] = field(default_factory=dict)
    total_capacity: int = 0
    value_size: int = 1048576
    segment_size: int = 0
    keys: int = 8
