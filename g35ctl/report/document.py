"""The report as data: everything report.json holds, and all that the page, JUnit and terminal summary are made from.

A :class:`Document` is built once from a run, its verdicts, the plan and the site. Every rendering takes the document
and nothing else, so a report can be rebuilt from its stored report.json, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible.module_utils.g35.schema import SchemaError, dump, load

from g35ctl.engine.run import Run
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import Plan
from g35ctl.plan.workload.figures import cost
from g35ctl.report.figures import BenchPart, CommandPart, CostPart, ServingPart
from g35ctl.report.results import NOTHING, Results
from g35ctl.site.model import Site
from g35ctl.verdict import Grade, Verdict

SCHEMA_VERSION = 1
NOT_VALIDATED = "NONE"
"""The overall verdict of a run in which nothing was judged and nothing failed."""


@dataclass(frozen=True)
class RunPart:
    """The run itself. ``seconds`` is wall time; ``exit_code`` is the process's, ``exit_name`` its meaning; ``command``
    is what was typed."""

    identifier: str
    verb: str
    site: str
    started: str
    seconds: float
    exit_code: int
    exit_name: str
    changed: int
    check: bool = False
    plan_digest: str = ""
    command: str = ""


@dataclass(frozen=True)
class StagePart:
    """One stage: how each host ended, wall time in seconds, and module executions per host."""

    stage: str
    seconds: float
    hosts: Mapping[str, str]
    module_executions: Mapping[str, int]
    changed_tasks: int = 0


@dataclass(frozen=True)
class CheckPart:
    """One verdict, with its grade as text."""

    suite: str
    check: str
    grade: str
    observed: str
    expected: str
    host: str = ""
    subject: str = ""
    remedy: str = ""
    evidence: str = ""
    emulated: bool = False


@dataclass(frozen=True)
class FailurePart:
    """One failure, in the form every JSON output of the command line uses."""

    host: str
    stage: str
    check: str
    observed: str
    expected: str
    remedy: str
    subject: str = ""


@dataclass(frozen=True)
class EndpointPart:
    """An address on a rail: a portal of a box or a port of a host (``name`` is then the network device)."""

    rail: str
    address: str
    name: str = ""


@dataclass(frozen=True)
class NamespacePart:
    """One namespace and who owns it. ``size`` in bytes."""

    nqn: str
    nsid: int
    uuid: str
    size: int
    owner: str


@dataclass(frozen=True)
class BoxPart:
    """One EBOF box. ``rated_gbps`` in GB/s, 0 where the site does not state it."""

    name: str
    portals: tuple[EndpointPart, ...]
    namespaces: tuple[NamespacePart, ...]
    rated_gbps: float = 0.0


@dataclass(frozen=True)
class HostPart:
    """One host: its data ports, whether it runs the master, how many namespaces it owns."""

    name: str
    ports: tuple[EndpointPart, ...]
    owned: int = 0
    master: bool = False


@dataclass(frozen=True)
class RailPart:
    """One rail and its subnet."""

    name: str
    subnet: str


@dataclass(frozen=True)
class TopologyPart:
    """What is cabled to what, as planned."""

    rails: tuple[RailPart, ...]
    boxes: tuple[BoxPart, ...]
    hosts: tuple[HostPart, ...]
    transport: str
    mtu: int


@dataclass(frozen=True)
class CapacityPart:
    """Planned capacity in bytes: raw flash, what the stores may use of it, and their memory landing zones."""

    flash: int
    stores: int
    memory: int


@dataclass(frozen=True)
class Document:
    """The whole report. ``verdict`` is FAIL, WARN, PASS or NONE (nothing was judged); ``ok`` is true unless FAIL.
    ``serving`` and ``bench`` are None where those suites did not run; ``problems`` says what could not be included."""

    schema_version: int
    ok: bool
    verdict: str
    run: RunPart
    topology: TopologyPart
    capacity: CapacityPart
    stages: tuple[StagePart, ...] = ()
    verdicts: tuple[CheckPart, ...] = ()
    failures: tuple[FailurePart, ...] = ()
    module_executions: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    emulated: bool = False
    serving: ServingPart | None = None
    bench: BenchPart | None = None
    commands: tuple[CommandPart, ...] = ()
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; described by schema.json in this package."""
        return dump(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Document:
        """Read ``to_json`` output back. Raises G35Error when it is not a report this version understands."""
        version = data.get("schema_version")
        if version != SCHEMA_VERSION:
            raise G35Error(
                "the stored report has another format",
                why=f"schema_version is {version!r}, this g35ctl reads {SCHEMA_VERSION}",
                next_command="read it with the g35ctl that wrote it, or run: g35ctl validate",
                exit_code=Exit.USAGE,
            )
        try:
            return load(Document, dict(data))
        except SchemaError as error:
            raise G35Error(
                "the stored report is damaged",
                why="\n".join(error.problems),
                next_command="run: g35ctl validate",
                exit_code=Exit.USAGE,
            ) from error

    def counts(self) -> dict[str, int]:
        """Number of checks of each grade, in the order of importance; grades that do not occur are 0."""
        order = (Grade.FAIL, Grade.WARN, Grade.PASS, Grade.SKIP)
        return {grade.value: sum(check.grade == grade for check in self.verdicts) for grade in order}


def build(
    run: Run,
    verdicts: Sequence[Verdict],
    plan: Plan,
    site: Site,
    results: Results = NOTHING,
    command: str = "",
) -> Document:
    """The document of a run. Pure: the same arguments give the same document."""
    checks = tuple(_check(verdict) for verdict in verdicts)
    failures = tuple(
        FailurePart(item.host, item.stage, item.check, item.observed, item.expected, item.remedy, item.subject)
        for item in run.failures
    ) + tuple(
        FailurePart(item.host, "validate", item.check, item.observed, item.expected, item.remedy, item.subject)
        for item in verdicts
        if item.grade is Grade.FAIL and not _told(item, run)
    )
    verdict = _overall(run, verdicts, failures)
    return Document(
        schema_version=SCHEMA_VERSION,
        ok=verdict != Grade.FAIL.value,
        verdict=verdict,
        run=_run(run, command),
        topology=_topology(plan, site),
        capacity=_capacity(plan),
        stages=tuple(
            StagePart(
                item.stage,
                round(float(item.seconds), 3),
                dict(item.hosts),
                dict(item.module_executions),
                item.changed_tasks,
            )
            for item in run.stages
        ),
        verdicts=checks,
        failures=failures,
        module_executions=run.module_executions,
        versions=_versions(run),
        emulated=any(verdict.emulated for verdict in verdicts)
        or any(part is not None and part.emulated for part in (results.serving, results.bench)),
        serving=replace(results.serving, cost=_cost(site)) if results.serving else None,
        bench=results.bench,
        commands=results.commands,
        problems=results.problems,
    )


def _told(verdict: Verdict, run: Run) -> bool:
    """Whether the run's own failures already say the same thing."""
    key = (verdict.host, verdict.check, verdict.subject, verdict.observed)
    return any((item.host, item.check, item.subject, item.observed) == key for item in run.failures)


def _overall(run: Run, verdicts: Sequence[Verdict], failures: Sequence[FailurePart]) -> str:
    pending = run.exit_code is Exit.CHANGES_PENDING
    if failures or (run.exit_code is not Exit.OK and not pending):
        return Grade.FAIL.value
    grades = {verdict.grade for verdict in verdicts}
    for grade in (Grade.FAIL, Grade.WARN, Grade.PASS):
        if grade in grades:
            return grade.value
    return NOT_VALIDATED


def _check(verdict: Verdict) -> CheckPart:
    return CheckPart(
        verdict.suite,
        verdict.check,
        verdict.grade.value,
        verdict.observed,
        verdict.expected,
        verdict.host,
        verdict.subject,
        verdict.remedy,
        verdict.evidence,
        verdict.emulated,
    )


def _cost(site: Site) -> CostPart:
    prices = site.validation.prices
    costs = cost(prices, 10**9)
    ratio = costs.ratio
    return CostPart(
        prices.currency, prices.as_of, round(ratio.low, 3), round(ratio.typical, 3), round(ratio.high, 3),
        costs.memory.typical, costs.flash.typical,
    )  # fmt: skip


def _run(run: Run, command: str) -> RunPart:
    return RunPart(
        run.identifier,
        run.verb,
        run.site,
        run.started,
        round(float(run.seconds), 3),
        int(run.exit_code),
        run.exit_code.name,
        run.changed,
        run.check,
        run.plan_digest,
        command,
    )


def _versions(run: Run) -> dict[str, str]:
    """What the controller ran, and what was read of the hosts: each distinct value with how many hosts have it."""
    found = dict(run.versions)
    seen: dict[str, dict[str, int]] = {}
    for state in run.state.values():
        system, runtime = _part(state, "system"), _part(_part(state, "cache"), "runtime")
        for name, value in (
            ("system", f"{system.get('id', '')} {system.get('version', '')}".strip()),
            ("kernel", system.get("kernel")),
            ("python on hosts", system.get("python")),
            ("mooncake", runtime.get("version")),
        ):
            if value:
                counts = seen.setdefault(name, {})
                counts[str(value)] = counts.get(str(value), 0) + 1
    for name, counts in seen.items():
        found[name] = ", ".join(f"{value} ({count} hosts)" for value, count in sorted(counts.items()))
    return found


def _part(data: Any, key: str) -> Mapping[str, Any]:
    part = data.get(key) if isinstance(data, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _topology(plan: Plan, site: Site) -> TopologyPart:
    owned: dict[str, int] = {}
    by_box: dict[str, list[NamespacePart]] = {}
    for item in plan.ownership:
        owned[item.owner] = owned.get(item.owner, 0) + 1
        by_box.setdefault(item.box, []).append(NamespacePart(item.nqn, item.nsid, item.uuid, item.size, item.owner))
    boxes = tuple(
        BoxPart(
            host.name,
            tuple(EndpointPart(portal.rail, str(portal.address)) for portal in host.box.portals),
            tuple(by_box.get(host.name, ())),
            float(host.box.rated_gbps or 0),
        )
        for host in site.hosts
        if host.box is not None
    )
    hosts = tuple(
        HostPart(
            host.name,
            tuple(EndpointPart(port.rail, str(port.address), port.netdev) for port in host.ports),
            owned.get(host.name, 0),
            "mooncake_masters" in host.groups,
        )
        for host in site.hosts
        if host.box is None
    )
    rails = tuple(RailPart(rail.name, str(rail.subnet)) for rail in site.fabric.rails)
    return TopologyPart(rails, boxes, hosts, site.fabric.transport, site.fabric.mtu)


def _capacity(plan: Plan) -> CapacityPart:
    stores = [
        store
        for host in plan.hosts
        if host.cache is not None and host.cache.store is not None
        for store in host.cache.store.instances
    ]
    return CapacityPart(
        flash=sum(item.size for item in plan.ownership),
        stores=sum(store.capacity for store in stores),
        memory=sum(store.segment_size for store in stores),
    )
