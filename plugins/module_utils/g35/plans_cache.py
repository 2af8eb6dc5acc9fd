"""What stage cache is to bring about on one host: Mooncake's environment, masters, stores.

Beside plans.py, with the same rules: sizes are bytes, times seconds; field documentation becomes the argument specs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Tuple

from .plan_parts import File, Unit
from .plan_parts import doc as _doc


@dataclass(frozen=True)
class Wheel:
    """A Python wheel that the controller pushes."""

    name: str = field(metadata=_doc("File name"))
    sha256: str = field(metadata=_doc("SHA-256 of the file, hexadecimal"))


@dataclass(frozen=True)
class RuntimePlan:
    """Mooncake's own Python environment on a host, at ``<prefix>/<version>-<digest>`` (``current`` links to it)."""

    version: str = field(metadata=_doc("Release of Mooncake"))
    distribution: str = field(metadata=_doc("Name of its wheel"))
    wheels: Tuple[Wheel, ...] = field(metadata=_doc("The wheel and everything it needs"))
    wheel_directory: str = field(metadata=_doc("Directory of the wheels on the controller"))
    prefix: str = field(metadata=_doc("Where environments are installed"))
    user: str = field(metadata=_doc("Unprivileged user of the services"))


@dataclass(frozen=True)
class MasterPlan:
    """A Mooncake master on this host: where it must answer, and what its files and units are."""

    site: str = field(metadata=_doc("Name of the site"))
    address: str = field(metadata=_doc("Address it binds to"))
    rpc_port: int = field(metadata=_doc("RPC port"))
    metrics_port: int = field(metadata=_doc("Admin and metrics port"))
    etcd: str = field(
        default="", metadata=_doc("With two masters: client addresses of all etcd members, with ; between them")
    )
    cluster_id: str = field(default="", metadata=_doc("With two masters: their name in etcd; all clients are given it"))
    admins: str = field(
        default="", metadata=_doc("With two masters: admin addresses of both, address:port, with a comma between them")
    )
    files: Tuple[File, ...] = field(default=(), metadata=_doc("Files of the master"))
    units: Tuple[Unit, ...] = field(default=(), metadata=_doc("systemd units of the master"))


@dataclass(frozen=True)
class StoreInstance:
    """One ``mooncake_client`` that owns one flash directory."""

    name: str = field(
        metadata=_doc("Name of the store: the UUID of its namespace or set, or made from its local directory")
    )
    address: str = field(metadata=_doc("Address it binds to and is known by"))
    rpc_port: int = field(metadata=_doc("RPC port"))
    http_port: int = field(metadata=_doc("Health and metrics port"))
    protocol: str = field(metadata=_doc("rdma or tcp"))
    devices: Tuple[str, ...] = field(
        metadata=_doc("Network devices whose RDMA devices carry the data; resolved on the host; none with tcp")
    )
    segment_size: int = field(metadata=_doc("Memory landing zone, bytes"))
    directory: str = field(metadata=_doc("Flash directory, below the mount point"))
    namespace_uuid: str = field(
        metadata=_doc("UUID of the namespace or striped set it lies on; empty: a local directory")
    )
    capacity: int = field(metadata=_doc("What the store may use of the file system, bytes"))
    unit: str = field(metadata=_doc("Its systemd unit"))
    mount_point: str = field(default="", metadata=_doc("Mount point its directory lies on"))
    local_buffer_size: int = field(default=0, metadata=_doc("Registered staging buffer, bytes"))
    bucket_size: int = field(default=0, metadata=_doc("Size of a flash bucket file, bytes"))
    huge_page_size: int = field(default=0, metadata=_doc("Size of the huge pages its memory is made of; 0 for none"))
    stripe: Tuple[str, ...] = field(
        default=(), metadata=_doc("UUIDs of the namespaces of the striped set it lies on; empty: it is none")
    )

    @property
    def members(self) -> Tuple[str, ...]:
        """UUIDs of the namespaces it lies on; none for a local directory."""
        return self.stripe or ((self.namespace_uuid,) if self.namespace_uuid else ())


@dataclass(frozen=True)
class StorePlan:
    """The stores of a cache owner."""

    site: str = field(metadata=_doc("Name of the site"))
    master_address: str = field(
        metadata=_doc("RPC address of the master, address:port; with two masters etcd:// and the members of etcd")
    )
    instances: Tuple[StoreInstance, ...] = field(metadata=_doc("Stores, one per owned namespace or striped set"))
    files: Tuple[File, ...] = field(default=(), metadata=_doc("Files of the stores"))
    units: Tuple[Unit, ...] = field(default=(), metadata=_doc("systemd units of the stores"))
    master_admin: str = field(
        default="", metadata=_doc("Admin address of the master, address:port; of two, with a comma between them")
    )
    cluster_id: str = field(default="", metadata=_doc("With two masters: their name in etcd"))


@dataclass(frozen=True)
class EtcdPlan:
    """A member of the etcd in which two masters agree on who leads."""

    site: str = field(metadata=_doc("Name of the site"))
    name: str = field(metadata=_doc("Name of the member"))
    address: str = field(metadata=_doc("Address it binds to"))
    client_port: int = field(metadata=_doc("Port for masters and stores"))
    peer_port: int = field(metadata=_doc("Port for the other members"))
    members: Tuple[str, ...] = field(metadata=_doc("All members of the cluster, name=http://address:port"))
    program: str = field(metadata=_doc("The etcd server"))


@dataclass(frozen=True)
class NofNamespace:
    """A raw namespace of the experimental profile, as Mooncake is told of it."""

    nqn: str = field(metadata=_doc("NQN of its subsystem"))
    nsid: int = field(metadata=_doc("Namespace identifier within the subsystem"))
    address: str = field(metadata=_doc("Address of the portal through which it is reached; there is no second path"))
    port: int = field(metadata=_doc("Service port of the portal"))
    size: int = field(metadata=_doc("Bytes that Mooncake may use, from the start"))


@dataclass(frozen=True)
class NofPlan:
    """Raw namespaces that Mooncake itself opens (profile nof-experimental)."""

    site: str = field(metadata=_doc("Name of the site"))
    transport: str = field(metadata=_doc("RDMA or TCP"))
    master_rpc: str = field(metadata=_doc("RPC address of the master, address:port"))
    master_admin: str = field(metadata=_doc("Admin address of the master, address:port"))
    namespaces: Tuple[NofNamespace, ...] = field(metadata=_doc("Namespaces of the pool"))
    registers: bool = field(default=False, metadata=_doc("Whether this host registers them with the master"))


@dataclass(frozen=True)
class CachePlan:
    """Everything Mooncake on one host: the environment, the firewall, and whichever of master and stores it has."""

    site: str = field(metadata=_doc("Name of the site"))
    runtime: RuntimePlan = field(metadata=_doc("Python environment"))
    master: Optional[MasterPlan] = field(default=None, metadata=_doc("The master, on its host"))
    store: Optional[StorePlan] = field(default=None, metadata=_doc("The stores, on owners"))
    etcd: Optional[EtcdPlan] = field(default=None, metadata=_doc("A member of etcd, with two masters"))
    nof: Optional[NofPlan] = field(default=None, metadata=_doc("Raw namespaces, with the experimental profile"))
    files: Tuple[File, ...] = field(default=(), metadata=_doc("Files of the stage"))
    units: Tuple[Unit, ...] = field(default=(), metadata=_doc("systemd units of the stage"))
