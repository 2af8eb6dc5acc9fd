"""What was read from a tier, typed: the form in which verify's readings reach verdicts, status and the report.

Each class is the part of a stage's state that is judged or shown. The extractors beside this file build them from the
plain data a module returned.
"""

from __future__ import annotations

from dataclasses import dataclass

LIVE = "live"
_USABLE_ANA = ("optimized", "non-optimized")
LOCAL_DISK = "LOCAL_DISK"
"""Mooncake's name for a replica in an owner's flash directory."""


@dataclass(frozen=True)
class DcbSettings:
    """DCB of a port. ``dscp`` holds (DSCP, priority) pairs; the ETS tuples are empty where the NIC has no ETS;
    ``classes`` is its number of traffic classes."""

    pfc: tuple[int, ...]
    dscp: tuple[tuple[int, int], ...]
    classes: int
    ets_priorities: tuple[int, ...] = ()
    ets_selection: tuple[str, ...] = ()
    ets_bandwidth: tuple[int, ...] = ()


@dataclass(frozen=True)
class Port:
    """A data port. ``mtu`` is None where the device does not exist, ``tos`` where rdma_cm's default cannot be read;
    ``dcb`` is None where the NIC has none, and ``dcb_error`` says why when it could not be read."""

    netdev: str
    mtu: int | None
    carrier: bool
    rdma_device: str = ""
    tos: int | None = None
    dcb: DcbSettings | None = None
    dcb_error: str = ""

    @property
    def software_rdma(self) -> bool:
        """Whether its RDMA device is the kernel's own soft-RoCE or soft-iWARP."""
        return self.rdma_device.startswith(("rxe", "siw"))


@dataclass(frozen=True)
class Export:
    """A namespace as the box exports it. ``portals`` are ``address:port`` of the portals its subsystem is on."""

    nqn: str
    nsid: int
    uuid: str
    enabled: bool
    allowed_hosts: tuple[str, ...]
    any_host: bool
    portals: tuple[str, ...]


@dataclass(frozen=True)
class Controller:
    """An NVMe-oF controller of a host: one path. ``ana_states`` are those of its namespaces, empty without ANA."""

    name: str
    nqn: str
    transport: str
    state: str
    address: str
    port: str
    source_address: str
    ana_states: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it serves I/O: its state is "live" and no ANA state forbids it."""
        return self.state == LIVE and all(item in _USABLE_ANA for item in self.ana_states)

    @property
    def condition(self) -> str:
        """Its state in words, with the ANA state where that is what is wrong."""
        bad = [item for item in self.ana_states if item not in _USABLE_ANA]
        return f"{self.state}, ANA {' '.join(bad)}" if bad else self.state


@dataclass(frozen=True)
class FileSystem:
    """An owned namespace on its owner. ``device`` is empty where no path shows the namespace; ``mounted`` tells that
    this very device is mounted there as XFS; ``used_by`` is what else uses it; the marker's fields are empty where
    there is none. Sizes in bytes, 0 where not mounted. ``stripe`` is the set it is a part of: several namespaces then
    have one file system, whose marker names them all (``marker_members``)."""

    nqn: str
    nsid: int
    uuid: str
    mount_point: str
    device: str
    device_uuid: str
    multipath: bool
    mounted: bool
    used_by: tuple[str, ...] = ()
    size: int = 0
    free: int = 0
    marker_owner: str = ""
    marker_uuid: str = ""
    marker_site: str = ""
    stripe: str = ""
    marker_members: tuple[str, ...] = ()


@dataclass(frozen=True)
class Segment:
    """A memory segment as the master lists it. ``name`` is the store's ``address:port``."""

    name: str
    protocol: str
    size: int
    status: str = ""


@dataclass(frozen=True)
class Pool:
    """What the master says. ``file_capacity`` is the flash of all stores together, bytes; ``gets`` counts questions for
    a key and ``gets_found`` those that had an answer, both since it started; None where not told."""

    role: str
    ready: bool
    segments: tuple[Segment, ...]
    file_capacity: int | None
    file_used: int | None = None
    keys: int | None = None
    clients: int | None = None
    gets: int | None = None
    gets_found: int | None = None
    file_hit_bytes: int | None = None
    memory_hit_bytes: int | None = None


@dataclass(frozen=True)
class Store:
    """One store on its owner, as that host sees it. ``errors`` are recent failures in its log; ``free`` and ``total``
    are the bytes of its flash directory's file system, None where it cannot be read."""

    name: str
    healthy: bool
    answers: bool
    errors: tuple[str, ...] = ()
    free: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class Cache:
    """Mooncake on one host. ``pool`` is what the master told this host; None when it did not answer."""

    version: str
    stores: tuple[Store, ...]
    pool: Pool | None = None


@dataclass(frozen=True)
class Replica:
    """Where a copy of a value is: its kind (MEMORY, LOCAL_DISK, OTHER) and the store it is in, by the name of that
    store's segment (``address:port``); a client the master lists no segment of is named by its id."""

    kind: str
    segment: str


@dataclass(frozen=True)
class Written:
    """A value that a probe wrote for ``owner`` to hold, and where the master said its replicas were in the end."""

    key: str
    owner: str
    replicas: tuple[Replica, ...]
    problem: str = ""


@dataclass(frozen=True)
class Back:
    """A value read back: whether it was byte-equal to what was written."""

    key: str
    equal: bool
    seconds: float
    problem: str = ""


@dataclass(frozen=True)
class ProbeWrites:
    """What a host wrote."""

    host: str
    values: tuple[Written, ...]


@dataclass(frozen=True)
class ProbeReads:
    """What a host read, and the master's count of flash hits before and after."""

    host: str
    values: tuple[Back, ...]
    hits_before: int
    hits_after: int
