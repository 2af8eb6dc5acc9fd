"""Everything that was read from a site in one pass, typed, with what could not be read kept beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from g35ctl.observe import cache, connect, fabric, probe, storage, target
from g35ctl.observe.model import Cache, Controller, Export, FileSystem, Port, ProbeReads, ProbeWrites
from g35ctl.observe.reading import StateError
from g35ctl.plan.model import STAGE_PLANS, HostPlan, Plan

T = TypeVar("T")

NOT_REACHED = "the host was not reached"


@dataclass(frozen=True)
class Readings:
    """Readings by host. A host that is absent from a mapping although its plan has the stage is in ``problems``, by
    (host, stage): why the reading is missing. ``unreached`` are hosts of the plan from which nothing came."""

    ports: Mapping[str, tuple[Port, ...]] = field(default_factory=dict)
    exports: Mapping[str, tuple[Export, ...]] = field(default_factory=dict)
    controllers: Mapping[str, tuple[Controller, ...]] = field(default_factory=dict)
    file_systems: Mapping[str, tuple[FileSystem, ...]] = field(default_factory=dict)
    caches: Mapping[str, Cache] = field(default_factory=dict)
    writes: Mapping[str, ProbeWrites] = field(default_factory=dict)
    reads: Mapping[str, ProbeReads] = field(default_factory=dict)
    problems: Mapping[tuple[str, str], str] = field(default_factory=dict)
    unreached: tuple[str, ...] = ()
    emulated: bool = False
    """Some data port is soft-RoCE: figures then say nothing about real hardware."""


def read(
    plan: Plan,
    states: Mapping[str, Mapping[str, Any]],
    probes: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
) -> Readings:
    """Type what verify (``states``: host to stage to state) and the probes (host to action to state) brought.

    ``probes`` None means that none were made. Never raises: what is missing or malformed becomes a problem.
    """
    reader = _Collector(states, {} if probes is None else probes)
    for host in plan.hosts:
        reader.host(host, probes is not None)
    return Readings(
        reader.ports,
        reader.exports,
        reader.controllers,
        reader.file_systems,
        reader.caches,
        reader.writes,
        reader.reads,
        reader.problems,
        tuple(reader.unreached),
        any(port.software_rdma for ports in reader.ports.values() for port in ports),
    )


class _Collector:
    def __init__(
        self,
        states: Mapping[str, Mapping[str, Any]],
        probes: Mapping[str, Mapping[str, Mapping[str, Any]]],
    ) -> None:
        self.states = states
        self.probes = probes
        self.ports: dict[str, tuple[Port, ...]] = {}
        self.exports: dict[str, tuple[Export, ...]] = {}
        self.controllers: dict[str, tuple[Controller, ...]] = {}
        self.file_systems: dict[str, tuple[FileSystem, ...]] = {}
        self.caches: dict[str, Cache] = {}
        self.writes: dict[str, ProbeWrites] = {}
        self.reads: dict[str, ProbeReads] = {}
        self.problems: dict[tuple[str, str], str] = {}
        self.unreached: list[str] = []

    def host(self, plan: HostPlan, probed: bool) -> None:
        """Read every stage of the host's plan."""
        stages = [stage for stage in STAGE_PLANS if stage != "probe" and getattr(plan, stage) is not None]
        came = self.states.get(plan.name) or {}
        if stages and not any(came.get(stage) for stage in stages):
            self.unreached.append(plan.name)
        self._take(plan.name, "fabric", plan.fabric, self.ports, fabric.ports)
        self._take(plan.name, "target", plan.target, self.exports, target.exports)
        self._take(plan.name, "connect", plan.connect, self.controllers, connect.controllers)
        self._take(plan.name, "storage", plan.storage, self.file_systems, storage.file_systems)
        self._take(plan.name, "cache", plan.cache, self.caches, cache.cache)
        if probed and plan.probe is not None:
            name = plan.name
            self._probe(name, "write", self.writes, lambda state: probe.writes(name, state))
            self._probe(name, "read", self.reads, lambda state: probe.reads(name, state))

    def _take(
        self, host: str, stage: str, plan: object, into: dict[str, T], extract: Callable[[Mapping[str, Any]], T]
    ) -> None:
        if plan is None:
            return
        state = (self.states.get(host) or {}).get(stage)
        if not state:
            self.problems[host, stage] = NOT_REACHED if host in self.unreached else "nothing was read"
            return
        try:
            into[host] = extract(state)
        except StateError as error:
            self.problems[host, stage] = f"the reading is malformed: {error}"

    def _probe(self, host: str, action: str, into: dict[str, T], extract: Callable[[Mapping[str, Any]], T]) -> None:
        state = (self.probes.get(host) or {}).get(action)
        if not state:
            self.problems[host, f"probe.{action}"] = f"the {action} probe brought no result"
            return
        try:
            into[host] = extract(state)
        except StateError as error:
            self.problems[host, f"probe.{action}"] = f"the {action} probe's result is malformed: {error}"
