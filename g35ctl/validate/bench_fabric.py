"""The fabric suite: perftest between pairs of hosts and into one, its figures and what the ports' counters say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ansible.module_utils.g35.bench_jobs import PairStep

from g35ctl.engine.bench import Measured, measure, token
from g35ctl.engine.proof import Proof
from g35ctl.engine.session import Session
from g35ctl.observe import tool_output
from g35ctl.observe.tool_output import ToolOutputError
from g35ctl.plan.bench import fabric_jobs
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site
from g35ctl.validate import bench_report
from g35ctl.validate.bench_grading import Grading, Limit, counter_changes, emulated
from g35ctl.validate.bench_result import BenchResult, Measurement
from g35ctl.verdict import Grade, Verdict

SUITE = "fabric"


def run(session: Session) -> Proof:
    """Run the suite on the session's site."""
    jobs = fabric_jobs(session.plan, session.site, token(session))
    if not jobs:
        why = "perftest measures RDMA between hosts: the site uses tcp, or has no two hosts with data ports"
        return Proof((Verdict(SUITE, "fabric.pairs", Grade.SKIP, why, "pairs of hosts with RDMA"),))
    steps = {step.key: step for job in jobs.values() if job.fabric for item in job.fabric.rounds for step in item.steps}
    measured = measure(session, SUITE, jobs)
    result = read(session.plan, session.site, steps, measured)
    verdicts = judge(session.plan, session.site, result, measured)
    return bench_report.conclude(session, SUITE, result, verdicts, measured)


def read(plan: Plan, site: Site, steps: Mapping[str, PairStep], measured: Measured) -> BenchResult:
    """The figures: each step that was planned, with what its client reported or why there is nothing. Pure."""
    devices = [str(name) for state in measured.states.values() for name in (state.get("devices") or {}).values()]
    soft = emulated(site, devices)
    told = {
        str(item.get("key")): (host, item) for host, state in measured.states.items() for item in state.get("steps", [])
    }
    found = []
    for key, step in steps.items():
        host, item = told.get(key, (step.client, {"problem": f"{step.client} brought no result"}))
        version = str((measured.states.get(host, {}).get("versions") or {}).get("perftest", ""))
        blank = Measurement(
            SUITE, step.test, str(item.get("tool", "perftest")), step.client, step.server, f"rail {step.rail}",
            group=key.rpartition(" ")[0] if step.test == "incast" else "", block_size=step.size, emulated=soft,
            command=str(item.get("command", "")), version=version, evidence=measured.evidence.get(host, ""),
        )  # fmt: skip
        found.append(_figure(blank, item))
    versions = bench_report.versions(measured)
    return BenchResult(tuple(found), counter_changes(SUITE, plan, measured), versions, soft)


def _figure(blank: Measurement, item: Mapping[str, Any]) -> Measurement:
    problem = str(item.get("problem") or "")
    if not problem and item.get("code"):
        last = [line for line in str(item.get("err") or item.get("out") or "").splitlines() if line.strip()]
        problem = f"{blank.tool} ended with {item['code']}: {last[-1].strip() if last else 'no word'}"
    if problem:
        return replace(blank, problem=problem)
    try:
        if blank.test == "latency":
            return replace(blank, latency=tool_output.perftest_latency(str(item.get("out", ""))))
        told = tool_output.perftest_bandwidth(str(item.get("out", "")))
    except ToolOutputError as error:
        return replace(blank, problem=str(error))
    if told.bytes_per_second <= 0:
        return replace(blank, problem="not one message was completed in the measured time")
    return replace(
        blank,
        bytes_per_second=told.bytes_per_second,
        operations_per_second=told.messages_per_second,
        moved=told.size * told.iterations,
    )


def speeds(measured: Measured) -> dict[tuple[str, str], float]:
    """(host, network device) to its speed in bytes per second, where the driver tells it."""
    return {
        (host, netdev): float(value) * 125_000
        for host, state in measured.states.items()
        for netdev, value in (state.get("speeds") or {}).items()
        if value
    }


def judge(plan: Plan, site: Site, result: BenchResult, measured: Measured) -> tuple[Verdict, ...]:
    """Verdicts of the suite. Pure. Smaller messages than the largest are shown in the report and not judged."""
    known = speeds(measured)
    grading = Grading(SUITE, result.emulated)
    wanted = site.validation.fabric
    limits = wanted.thresholds
    largest = max(wanted.sizes)
    for item in result.measurements:
        check = f"fabric.{item.test}"
        if item.suite != SUITE or (item.test in ("write", "read") and item.block_size != largest):
            continue
        if item.problem:
            grading.unmeasured(check, item)
        elif item.test == "latency" and item.latency is not None:
            _latency(grading, site, item)
        elif item.test in ("write", "read"):
            good, fair = (
                (limits.write_share, limits.write_share_warn)
                if item.test == "write"
                else (limits.read_share, limits.read_share_warn)
            )
            ends = [_port(plan, known, name, item.subject) for name in (item.host, item.peer)]
            slowest = Limit.lowest(ends) if all(end.bytes_per_second for end in ends) else Limit(0)
            grading.share(
                check, item.bytes_per_second, slowest, good, fair,
                host=item.host, subject=f"{item.peer} on {item.subject}", evidence=item.evidence,
                remedy="g35ctl doctor; compare with the other pairs of this host and of that rail: one slow end is a"
                " port (PCIe width, cable), all slow is the switch",
            )  # fmt: skip
    _incast(grading, plan, site, result, known)
    grading.counters(result.counters, plan, measured)
    return tuple(grading.verdicts)


def _latency(grading: Grading, site: Site, item: Measurement) -> None:
    limits = site.validation.fabric.thresholds
    assert item.latency is not None
    where = f"{item.peer} on {item.subject}"
    remedy = "CPU frequency governor and C-states first (cpupower), then interrupt affinity and the switch's buffers"
    for check, figure, good, fair in (
        ("fabric.latency", item.latency.mean, limits.latency_us, limits.latency_us_warn),
        ("fabric.latency.p99", item.latency.p99, limits.latency_p99_us, limits.latency_p99_us_warn),
    ):
        grading.at_most(
            check, figure, good, fair, "us", host=item.host, subject=where, remedy=remedy, evidence=item.evidence
        )


def _incast(
    grading: Grading, plan: Plan, site: Site, result: BenchResult, known: Mapping[tuple[str, str], float]
) -> None:
    """Many into one: the sum against the receiver's port. Losses are judged by the counters."""
    groups: dict[str, list[Measurement]] = {}
    for item in result.measurements:
        if item.suite == SUITE and item.test == "incast":
            groups.setdefault(item.group, []).append(item)
    for items in groups.values():
        broken = [item for item in items if item.problem]
        for item in broken:
            grading.unmeasured("fabric.incast", item)
        if broken:
            continue
        first = items[0]
        limit = _port(plan, known, first.peer, first.subject)
        share = site.validation.fabric.thresholds.incast_share
        grading.share(
            "fabric.incast", sum(item.bytes_per_second for item in items), limit, share, share,
            host=first.peer, subject=f"{len(items)} to 1 on {first.subject}", evidence=first.evidence,
            remedy="PFC and ECN thresholds of the switch port of this host: g35ctl render; docs/switches.md",
        )  # fmt: skip


def _port(plan: Plan, known: Mapping[tuple[str, str], float], host: str, rail: str) -> Limit:
    """The speed of a host's first port on a rail ("rail a")."""
    for port in _ports_on(plan, host, rail.removeprefix("rail ")):
        return Limit(known.get((host, port), 0.0), f"{host} {port}")
    return Limit(0.0)


def _ports_on(plan: Plan, host: str, rail: str) -> Iterator[str]:
    fabric = plan.host(host).fabric
    for port in fabric.ports if fabric is not None else ():
        if port.rail == rail:
            yield port.netdev
