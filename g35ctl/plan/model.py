"""The Plan: what should be, computed from the Site. Frozen, with a JSON form.

Per-host stage plans are the dataclasses of ``ansible.module_utils.g35.plans``, the very objects the modules load on
the hosts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ansible.module_utils.g35.plans import (
    BoxPlan,
    CachePlan,
    ConnectPlan,
    FabricPlan,
    ProbePlan,
    StoragePlan,
    TargetPlan,
)
from ansible.module_utils.g35.plans_inference import InferencePlan
from ansible.module_utils.g35.schema import dump, load

from g35ctl.plan.switch.model import SwitchPlan
from g35ctl.plan.workload.model import WorkloadFigures

STAGES = ("preflight", "target", "fabric", "connect", "storage", "cache", "inference", "validate")
"""Stages in order. ``target`` (boxes) and ``fabric`` (hosts) run side by side; ``connect`` waits for both."""

StagePlan = TargetPlan | BoxPlan | FabricPlan | ConnectPlan | StoragePlan | CachePlan | InferencePlan | ProbePlan
STAGE_PLANS: Mapping[str, type[StagePlan]] = {
    "target": TargetPlan,
    "box": BoxPlan,
    "fabric": FabricPlan,
    "connect": ConnectPlan,
    "storage": StoragePlan,
    "cache": CachePlan,
    "inference": InferencePlan,
    "probe": ProbePlan,
}


@dataclass(frozen=True)
class Ownership:
    """Who owns a namespace. ``since`` says where the decision came from: moved, pinned, claimed, kept or planned;
    ``slot`` is the place of its store among the owner's ports, ``stripe`` the UUID of the striped set that it is a part
    of; empty: it has a store of its own."""

    nqn: str
    nsid: int
    uuid: str
    box: str
    size: int
    owner: str
    since: str
    slot: int = 0
    stripe: str = ""


@dataclass(frozen=True)
class HostPlan:
    """One host's stage plans; a host that takes no part in a stage has no plan for it."""

    name: str
    target: TargetPlan | None = None
    box: BoxPlan | None = None
    fabric: FabricPlan | None = None
    connect: ConnectPlan | None = None
    storage: StoragePlan | None = None
    cache: CachePlan | None = None
    inference: InferencePlan | None = None
    probe: ProbePlan | None = None

    def stages(self) -> tuple[str, ...]:
        """The stage plans this host has, in stage order (``probe`` belongs to stage validate, ``box`` to
        stage target: a box that nobody logs in to)."""
        return tuple(name for name in STAGE_PLANS if getattr(self, name) is not None)

    def variables(self) -> dict[str, Any]:
        """The role variables: ``g35_<stage>_plan`` for each stage plan (plain JSON data)."""
        return {f"g35_{name}_plan": dump(getattr(self, name)) for name in self.stages()}


@dataclass(frozen=True)
class DisruptiveStep:
    """A step that would interrupt something live, named before it is taken."""

    host: str
    stage: str
    what: str
    interrupts: str


@dataclass(frozen=True)
class HostMemory:
    """Memory that the stores of a host take, bytes: landing zones, and registered staging buffers."""

    host: str
    stores: int
    segments: int
    buffers: int

    @property
    def total(self) -> int:
        """Everything the host's stores take, bytes."""
        return self.segments + self.buffers


@dataclass(frozen=True)
class HostQueues:
    """What the NVMe paths of a host take from its NICs: queue pairs (one I/O queue or admin queue each), and memory
    regions (one per queue entry)."""

    host: str
    paths: int
    io_queues: int
    queue_pairs: int
    memory_regions: int


@dataclass(frozen=True)
class TierUse:
    """One tier of a host with engines: ``level`` is G1 to G4, ``user`` what fills it, ``size`` in bytes, ``tokens`` how
    many that is (0: not known, or none). ``fits`` is False where it cannot be had; ``note`` says why, or what it is of.
    """

    host: str
    level: str
    user: str
    medium: str
    size: int
    tokens: int
    holds: str
    fits: bool = True
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """The tier in figures: ``raw`` is the size of all owned namespaces and ``capacity`` what stores may use of them,
    bytes; ``rated_gbps`` sums what the boxes are rated for, GB/s, leaving out ``unrated_boxes``."""

    boxes: int = 0
    owners: int = 0
    namespaces: int = 0
    paths: int = 0
    raw: int = 0
    capacity: int = 0
    rated_gbps: float = 0.0
    unrated_boxes: int = 0
    memory: tuple[HostMemory, ...] = ()
    queues: tuple[HostQueues, ...] = ()
    tiers: tuple[TierUse, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Everything that should be. ``digest`` changes exactly when a host has to be touched: see plan/digest.py.

    ``switches`` are rendered only: they are no hosts, take part in no stage and change no digest. ``workload`` is what
    the tier can hold and carry, predicted, for sites that state a workload; it changes no digest either.
    """

    site: str
    hosts: tuple[HostPlan, ...]
    ownership: tuple[Ownership, ...]
    stage_hosts: Mapping[str, tuple[str, ...]]
    disruptive: tuple[DisruptiveStep, ...] = ()
    warnings: tuple[str, ...] = ()
    digest: str = ""
    summary: Summary = field(default_factory=Summary)
    switches: tuple[SwitchPlan, ...] = ()
    workload: WorkloadFigures | None = None

    def host(self, name: str) -> HostPlan:
        """The plan of one host. Raises KeyError."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, HostPlan]:
        return {host.name: host for host in self.hosts}

    def striped_sets(self, hosts: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """The striped sets of these hosts, each as the UUIDs of all its namespaces in the order of the array."""
        return tuple(
            item.members
            for host in self.hosts
            if host.name in hosts and host.storage is not None
            for item in host.storage.sets
        )

    def variables(self) -> dict[str, dict[str, Any]]:
        """Member of the inventory to its role variables; ``g35_switch_plan`` for a switch."""
        found = {host.name: host.variables() for host in self.hosts}
        return found | {switch.name: {"g35_switch_plan": dump(switch)} for switch in self.switches}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; ``Plan.from_json`` reads it back equal."""
        return dump(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Plan:
        """Read ``to_json`` output. Raises ansible.module_utils.g35.schema.SchemaError."""
        return load(Plan, data)
