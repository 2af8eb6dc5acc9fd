"""The typed site: what the inventory's ``g35_*`` variables and groups mean.

Every variable is one mapping with documented defaults; unknown keys are refused. Sizes are bytes, times seconds,
bandwidths gigabytes per second. Facts behind defaults: docs/variables.md.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from g35ctl.site.bench_model import FabricBench, StorageBench, StoreBench
from g35ctl.site.box_model import (
    Box,
    BoxAna,
    BoxControllerIds,
    BoxNamespace,
    BoxPortal,
    RedfishPort,
    RedfishService,
    SpdkTarget,
)
from g35ctl.site.fields import AbsolutePath, Address, Name, NetDevice, Nqn, Strict, Subnet, TcpPort
from g35ctl.site.inference_model import Inference
from g35ctl.site.mooncake_model import Mooncake, MooncakeEtcd, MooncakeMaster, MooncakeStore
from g35ctl.site.serving_model import ServingBench
from g35ctl.site.sizes import Bytes
from g35ctl.site.workload_model import Prices, Workload

__all__ = [
    "Address", "Box", "BoxAna", "BoxControllerIds", "BoxNamespace", "BoxPortal", "Inference", "Mooncake",
    "MooncakeEtcd", "MooncakeMaster", "MooncakeStore", "RedfishPort", "RedfishService", "SpdkTarget", "Strict",
    "Subnet",
]  # fmt: skip

GROUPS = ("ebof", "gpu_hosts", "cache_owners", "mooncake_masters", "etcd", "routers", "switches")


class SiteIdentity(Strict):
    """``g35_site``: who this site is and what it consents to."""

    name: Name = Field(description="Name of the site; part of NQNs, markers and the ledger")
    profile: Literal["owner", "nof-experimental"] = Field(
        "owner",
        description="How flash is shared: one owner per namespace; or, experimental, Mooncake opens raw namespaces"
        " itself (docs/raw-pool.md)",
    )
    allow_disruptive: bool = Field(False, description="Consent to disruptive steps without --allow-disruptive")


class Rail(Strict):
    """One network plane that data travels on."""

    name: Name = Field(description="Name of the rail")
    subnet: Subnet = Field(description="Its subnet, for example 192.0.2.0/24")


class TrafficContract(Strict):
    """How storage traffic is marked and queued, stated once and used on hosts, switches and in every tool."""

    dscp: int = Field(26, ge=0, le=63, description="DSCP of RoCE data")
    priority: int = Field(3, ge=0, le=7, description="Priority (traffic class) of RoCE data; PFC is on for it alone")
    cnp_dscp: int = Field(48, ge=0, le=63, description="DSCP of congestion notification packets")
    cnp_priority: int = Field(6, ge=0, le=7, description="Priority of congestion notification packets; strict, no PFC")
    bandwidth_percent: int = Field(50, ge=1, le=99, description="ETS share of the RoCE traffic class, percent")
    tos: int | None = Field(None, ge=0, le=255, description="Only to state it: must equal DSCP<<2|2")

    @property
    def type_of_service(self) -> int:
        """The ToS byte every tool is given: DSCP in the upper six bits, ECT(0) in the lower two."""
        return self.dscp << 2 | 2


class Tuning(Strict):
    """Settings of data NICs beyond the traffic contract; ``keep`` leaves what is there (docs/fabric.md)."""

    ring_size: Literal["keep", "max"] | Annotated[int, Field(ge=64, le=65536)] = Field(
        "keep", description="Entries of the rx and tx rings: keep, max, or a number; RoCE data does not use them"
    )
    adaptive_interrupts: Literal["keep"] | bool = Field(
        "keep", description="Adaptive interrupt moderation of receiving: keep, on or off"
    )
    lldpad: Literal["refuse", "mask"] = Field(
        "refuse", description="A running lldpad overwrites DCB: refuse to go on, or mask (stop it for good)"
    )


class Fabric(Strict):
    """``g35_fabric``: the storage network."""

    transport: Literal["rdma", "tcp"] = Field("rdma", description="NVMe-oF and Mooncake transport")
    rails: Annotated[tuple[Rail, ...], Field(min_length=1)] = Field(
        description="Rails, at least one; two for availability"
    )
    mtu: int = Field(9000, ge=1280, le=9216, description="MTU of data ports; RDMA wants at least 4200")
    traffic: TrafficContract = Field(default_factory=TrafficContract, description="The traffic contract")
    lossless: Literal["required", "unavailable"] = Field(
        "required", description="Say 'unavailable' to accept NICs without DCB (no PFC, no ETS)"
    )
    tuning: Tuning = Field(default_factory=Tuning, description="Settings of data NICs beyond the contract")


class Authentication(Strict):
    """In-band authentication of a host's NVMe-oF connections."""

    mode: Literal["none", "dhchap"] = Field(
        "none", description="dhchap: the host proves itself with a DH-HMAC-CHAP key (Linux 6.1 with NVME_AUTH, or 6.7)"
    )
    key_file: str = Field(
        ".keys/{host}.key",
        description="File of mode 0600 on the controller with the host's key, DHHC-1:...; relative to the inventory, "
        "{host} stands for the host's name",
    )
    controller_key_file: str = Field(
        "", description="The same for the key by which the box proves itself to the host; empty: it does not have to"
    )


class Tls(Strict):
    """TLS on a host's NVMe/TCP connections."""

    mode: Literal["none", "psk"] = Field(
        "none", description="psk: connections use TLS 1.3 with a pre-shared key (transport tcp, Linux 6.7 or later)"
    )
    key_file: str = Field(
        ".keys/{host}.psk",
        description="File of mode 0600 on the controller with the host's key, NVMeTLSkey-1:...; relative to the "
        "inventory, {host} stands for the host's name",
    )


class Nvme(Strict):
    """``g35_nvme``: how hosts connect."""

    host_uuid: UUID | None = Field(None, description="Host identity; derived from site and host name when absent")
    io_queues: int = Field(8, ge=1, le=128, description="I/O queues per controller")
    queue_size: int = Field(128, ge=16, le=1024, description="Entries per queue; RDMA is limited to 128 by the kernel")
    keep_alive: int = Field(5, ge=1, le=120, description="Keep-alive timeout, seconds")
    reconnect_delay: int = Field(2, ge=1, le=60, description="Delay between reconnect attempts, seconds")
    controller_loss_timeout: int = Field(600, ge=-1, description="Give a lost controller up after, seconds; -1 never")
    io_policy: Literal["numa", "round-robin", "queue-depth"] = Field("round-robin", description="Multipath policy")
    queue_pair_budget: int = Field(
        1024, ge=2, description="Most queue pairs this host may hold; io_queues shrinks so that all its paths fit"
    )
    authentication: Authentication = Field(default_factory=Authentication, description="In-band authentication")
    tls: Tls = Field(default_factory=Tls, description="TLS of NVMe/TCP connections")


class HostPort(Strict):
    """A data NIC port of a host."""

    netdev: NetDevice = Field(description="Network device, for example enp65s0f0np0")
    rail: Name = Field(description="Rail it is on")
    address: Address = Field(description="Its address on the rail")


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("a chunk is a power of two, such as 512KiB")
    return value


class StorageDirectory(Strict):
    """A local directory that stands in for a namespace."""

    path: AbsolutePath = Field(description="The directory; made when it is absent")
    size: Bytes = Field(gt=0, description="How much of its file system belongs to it")


class Storage(Strict):
    """``g35_storage``: file systems of owned namespaces, or local directories on a site without a box."""

    mount_root: AbsolutePath = Field("/var/lib/g35/flash", description="Directory below which namespaces are mounted")
    layout: Literal["per_namespace", "striped"] = Field(
        "per_namespace",
        description="What a store lies on: each namespace has a file system and a store; or all namespaces of an owner"
        " form one striped set (RAID 0) with one file system and one store (docs/storage.md)",
    )
    chunk_size: Annotated[Bytes, AfterValidator(_power_of_two)] = Field(
        512 * 2**10,
        ge=4096,
        le=64 * 2**20,
        description="Striped sets: bytes on one namespace before the next one follows, a power of two",
    )
    reserve_percent: int = Field(10, ge=1, le=50, description="Share of each file system the store may not use")
    owns: tuple[Nqn, ...] = Field((), description="Host variable: subsystems this host claims as their owner")
    destroy: tuple[UUID, ...] = Field(
        (), description="Namespaces (UUID) whose foreign contents may be overwritten; remove after use"
    )
    directories: tuple[StorageDirectory, ...] = Field(
        (), description="Host variable, only on a site without a box: local directories that serve as flash"
    )


class Metrics(Strict):
    """``g35_metrics``: a collector on hosts with data ports, for Prometheus (docs/metrics.md)."""

    enabled: bool = Field(False, description="Whether hosts collect metrics for the node exporter")
    directory: AbsolutePath = Field(
        "/var/lib/prometheus/node-exporter", description="Directory of its textfile collector; Debian's is the default"
    )
    interval: int = Field(30, ge=5, le=3600, description="Time between two collections, seconds")
    drift_interval: int = Field(300, ge=30, le=86400, description="Time between two looks for drift, seconds")


class Validation(Strict):
    """``g35_validate``: the final stage."""

    value_size: Bytes = Field(
        2**20, ge=4096, le=15 * 2**20, description="Size of a probe value; Mooncake objects stay below 16 MiB"
    )
    keys: int = Field(8, ge=1, le=4096, description="Probe values per owner that must come back from flash")
    workload: Workload | None = Field(None, description="What the tier is planned for (docs/simulate.md)")
    prices: Prices = Field(default_factory=Prices, description="Assumed prices of memory and flash")
    emulated: bool = Field(False, description="The hardware is emulated: figures are shown, thresholds do not apply")
    ports: TcpPort = Field(
        18500, le=65335, description="First of 200 TCP ports, bound to rail addresses only while a benchmark runs"
    )
    fabric: FabricBench = Field(default_factory=FabricBench, description="The fabric suite")
    storage: StorageBench = Field(default_factory=StorageBench, description="The storage suite")
    store: StoreBench = Field(default_factory=StoreBench, description="The store suite")
    serving: ServingBench = Field(default_factory=ServingBench, description="The serving suite")


SwitchVendor = Literal["sonic", "nvue", "eos", "nxos", "comware", "cloudengine"]
SwitchSpeed = Literal["10G", "25G", "40G", "50G", "100G", "200G", "400G", "800G"]
Priority = Annotated[int, Field(ge=0, le=7)]


class SwitchPort(Strict):
    """A port of a switch that carries storage traffic: to a host, to a box, or to another switch."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9/:._-]{0,62}$")] = Field(
        description="Name as the switch writes it, for example Ethernet0, swp1, HundredGigE1/0/1"
    )
    speed: SwitchSpeed = Field(description="Speed of the link; decides the ECN thresholds")
    cable_m: int = Field(5, ge=1, le=40000, description="Length of the cable, metres; decides the PFC headroom")


class SwitchThreshold(Strict):
    """ECN marking on the lossless queue of ports of one speed; replaces the vendor's starting value."""

    speed: SwitchSpeed = Field(description="Speed of the ports it is for")
    ecn_min: Bytes = Field(gt=0, description="Queue depth at which marking begins, for example 150KB")
    ecn_max: Bytes = Field(gt=0, description="Queue depth from which everything is marked")
    probability: int = Field(ge=1, le=100, description="Marking probability just below ecn_max, percent")


class SwitchWatchdog(Strict):
    """PFC watchdog: what ends a pause storm. Some vendors offer fewer settings (docs/switches.md)."""

    enabled: bool = Field(True, description="Whether the watchdog runs on the ports")
    action: Literal["drop", "forward"] = Field("drop", description="What happens to the paused queue's packets")
    detection_ms: int = Field(400, ge=100, le=5000, description="A queue paused this long is in a storm, milliseconds")
    restoration_ms: int = Field(
        400, ge=100, le=60000, description="PFC returns after this long without pause frames, milliseconds"
    )
    poll_ms: int = Field(200, ge=100, le=1000, description="Polling interval, milliseconds")


class Switch(Strict):
    """``g35_switch``: a switch whose configuration is rendered, never pushed (variable of a host in group switches)."""

    vendor: SwitchVendor = Field(description="Operating system; decides the form of the configuration")
    model: Annotated[str, Field(pattern=r"^[ -~]{0,64}$")] = Field(
        "", description="Model or HWSKU, free text; some models need other commands (docs/switches.md)"
    )
    ports: Annotated[tuple[SwitchPort, ...], Field(min_length=1)] = Field(description="Ports with storage traffic")
    mtu: int = Field(9216, ge=1280, le=9216, description="MTU of the ports; a vendor's lower limit is applied")
    thresholds: tuple[SwitchThreshold, ...] = Field(
        (), description="ECN thresholds that replace the vendor's starting values"
    )
    xoff: Bytes = Field(
        0, ge=0, description="Buffer use at which the switch sends pause, where it is known or to be set; 0 leaves it"
    )
    headroom: Bytes = Field(
        0, ge=0, description="comware, cloudengine: buffer behind xoff for frames under way; 0 leaves the vendor's"
    )
    cell_size: int = Field(
        0, ge=0, le=1024, description="comware, cloudengine: bytes per buffer cell of this model; 0 is the vendor's"
    )
    queue_mode: Literal["8q", "4q"] = Field("8q", description="nxos: queues per port that the system policy has")
    lossless_priorities: tuple[Priority, ...] = Field(
        (), description="Priorities this switch can make lossless, where they differ from the vendor's"
    )
    watchdog: SwitchWatchdog = Field(default_factory=SwitchWatchdog, description="PFC watchdog")


class SiteSwitch(Strict):
    """One switch of the inventory. It is no host: nothing ever connects to it."""

    name: str
    groups: tuple[str, ...]
    switch: Switch


class SiteHost(Strict):
    """One host of the inventory with its merged, validated variables."""

    name: str
    groups: tuple[str, ...]
    ports: tuple[HostPort, ...] = ()
    box: Box | None = None
    nvme: Nvme = Field(default_factory=Nvme)
    storage: Storage = Field(default_factory=Storage)
    mooncake: Mooncake = Field(default_factory=Mooncake)
    metrics: Metrics = Field(default_factory=Metrics)
    inference: Inference | None = None


class Site(Strict):
    """The whole site: what the user wants, validated. ``inventory`` is the source the user named (a path).

    ``hosts`` are what g35ctl connects to or knows the exports of; members of group switches are in ``switches`` only.
    """

    identity: SiteIdentity
    fabric: Fabric
    validation: Validation = Field(default_factory=Validation)
    hosts: tuple[SiteHost, ...]
    switches: tuple[SiteSwitch, ...] = ()
    inventory: str

    def group(self, name: str) -> tuple[SiteHost, ...]:
        """Hosts of a group, in inventory order; ``cache_owners`` falls back to ``gpu_hosts`` when it is not used."""
        found = self.members.get(name, ())
        if not found and name == "cache_owners":
            return self.group("gpu_hosts")
        return found

    @cached_property
    def members(self) -> dict[str, tuple[SiteHost, ...]]:
        """Hosts of each group that has any. Looked up for every host of a fleet, so it is made once."""
        found: dict[str, list[SiteHost]] = {}
        for host in self.hosts:
            for name in dict.fromkeys(host.groups):
                found.setdefault(name, []).append(host)
        return {name: tuple(hosts) for name, hosts in found.items()}

    def host(self, name: str) -> SiteHost:
        """The host of that name. Raises KeyError."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)
