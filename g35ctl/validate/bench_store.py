"""The store suite: values through the KV pool from memory and from flash, each read on another host and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ansible.module_utils.g35.bench_jobs import BenchJob, StoreJob

from g35ctl.engine.bench import Measured, measure, token
from g35ctl.engine.proof import Proof
from g35ctl.engine.session import Session
from g35ctl.observe.tool_output import Latency, ToolOutputError, transfer_engine
from g35ctl.plan.bench import store_jobs
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site
from g35ctl.site.sizes import format_size
from g35ctl.validate import bench_report
from g35ctl.validate.bench_grading import Grading, Limit, emulated, gigabytes
from g35ctl.validate.bench_result import BenchResult, Measurement
from g35ctl.verdict import Grade, Verdict

SUITE = "store"
GIGA = 1e9


def run(session: Session) -> Proof:
    """Run the suite on the session's site."""
    jobs = store_jobs(session.plan, session.site, token(session))
    if not jobs:
        why = "no host owns a store whose memory has room for the smallest value"
        return Proof((Verdict(SUITE, "store.get", Grade.SKIP, why, "a KV pool"),))
    measured = measure(session, SUITE, jobs)
    result = read(session.site, jobs, measured)
    return bench_report.conclude(session, SUITE, result, judge(session.plan, session.site, result, measured), measured)


def planned(job: StoreJob) -> Iterator[tuple[str, str, int, int]]:
    """(test, tier, size, batch) of everything a host measures."""
    if job.transfer_seconds:
        yield "transfer", "memory", max(job.sizes), job.batch
    for size in job.sizes:
        for batch in (1, job.batch):
            if job.segments:
                yield "put" if batch == 1 else "batch_put", "memory", size, batch
            yield "get" if batch == 1 else "batch_get", "memory", size, batch
    for size in job.flash_sizes:
        yield "get", "flash", size, 1
        yield "batch_get", "flash", size, job.batch


def read(site: Site, jobs: Mapping[str, BenchJob], measured: Measured) -> BenchResult:
    """The figures of everything that was planned, or why there is none. Pure."""
    protocols = {job.store.probe.protocol for job in jobs.values() if job.store is not None}
    devices = [str(name) for state in measured.states.values() for name in state.get("devices") or []]
    soft = emulated(site, devices if "rdma" in protocols else ())
    found: list[Measurement] = []
    for host, job in jobs.items():
        assert job.store is not None
        state = measured.states.get(host) or {}
        told = {
            (str(item.get("test")), str(item.get("tier")), int(item.get("size", 0)), int(item.get("batch", 0))): item
            for item in state.get("results", [])
        }
        for test, tier, size, batch in planned(job.store):
            peer = "" if "put" in test else job.store.source
            blank = Measurement(
                SUITE, test, "mooncake", host, peer, format_size(size), tier=tier,
                group=f"{test} {tier} {size}", block_size=size, queue_depth=batch, emulated=soft,
                command=str(state.get("command", "")), evidence=measured.evidence.get(host, ""),
            )  # fmt: skip
            found.append(_figure(blank, told.get((test, tier, size, batch)), str(state.get("problem") or "")))
    return BenchResult(tuple(found), (), bench_report.versions(measured), soft)


def _figure(blank: Measurement, told: Mapping[str, Any] | None, broken: str) -> Measurement:
    if told is None:
        return replace(blank, problem=broken or f"{blank.host} brought no result")
    if blank.test == "transfer":
        return _transfer(blank, told)
    moved, seconds = int(told.get("bytes", 0)), float(told.get("seconds", 0.0))
    mismatched = int(told.get("mismatched", 0))
    latency = Latency(
        float(told.get("mean_us", 0.0)), float(told.get("p50_us", 0.0)), float(told.get("p99_us", 0.0)), 0.0,
        int(told.get("calls", 0)),
    )  # fmt: skip
    # A value that came back wrong is judged (and fails); one that was never written or found is a failure to run.
    problem = str(told.get("problem") or "") if not mismatched else ""
    if not problem and not moved and not mismatched:
        problem = "nothing was moved"
    return replace(
        blank,
        bytes_per_second=float(told.get("bytes_per_second", 0.0)),
        operations_per_second=latency.samples / seconds if seconds else 0.0,
        latency=latency,
        seconds=seconds,
        moved=moved,
        verified=int(told.get("verified", 0)),
        mismatched=mismatched,
        problem=problem,
    )


def _transfer(blank: Measurement, told: Mapping[str, Any]) -> Measurement:
    """What the transfer engine's own benchmark reported."""
    blank = replace(blank, tool="transfer_engine_bench", command=str(told.get("command", "")))
    if told.get("problem"):
        return replace(blank, problem=str(told["problem"]))
    try:
        return replace(blank, bytes_per_second=transfer_engine(str(told.get("out", ""))))
    except ToolOutputError as error:
        return replace(blank, problem=str(error))


def judge(plan: Plan, site: Site, result: BenchResult, measured: Measured) -> tuple[Verdict, ...]:
    """Verdicts of the suite. Pure. Reads must be equal everywhere; the largest value size in batches is what is held
    against the network or the SSDs."""
    grading = Grading(SUITE, result.emulated)
    largest = {
        tier: max((item.block_size for item in result.of(SUITE, "get") if item.tier == tier), default=0)
        for tier in ("memory", "flash")
    }
    for item in result.measurements:
        if item.suite != SUITE:
            continue
        check = f"store.{item.test}.{item.tier}"
        where = f"{item.subject} from {item.peer}" if item.peer else item.subject
        if item.problem:
            grading.unmeasured(check, item)
            continue
        if "get" in item.test:
            _equal(grading, item, where)
        if item.test == "batch_get" and item.block_size == largest[item.tier]:
            _share(grading, plan, site, measured, item, where)
        elif item.test == "transfer":
            told = gigabytes(item.bytes_per_second)
            grading.add(check, Grade.PASS, told, "measured", host=item.host, subject=where, evidence=item.evidence)
        elif "put" in item.test and item.block_size == largest[item.tier]:
            told = f"{gigabytes(item.bytes_per_second)}, {item.operations_per_second:.1f} calls/s"
            grading.add(check, Grade.PASS, told, "measured", host=item.host, subject=where, evidence=item.evidence)
    _placement(grading, measured)
    _left_out(grading, site, result)
    return tuple(grading.verdicts)


def _left_out(grading: Grading, site: Site, result: BenchResult) -> None:
    """Sizes that the site asks for and its stores have no room for."""
    wanted = site.validation.store
    for tier, sizes in (("memory", wanted.sizes), ("flash", wanted.flash_sizes)):
        there = {item.block_size for item in result.measurements if item.suite == SUITE and item.tier == tier}
        missing = [format_size(size) for size in sizes if size not in there]
        if missing:
            grading.add(
                f"store.sizes.{tier}", Grade.SKIP, f"left out: {', '.join(missing)} (more than an eighth of an owner's"
                " segments, or than a flash bucket)", "values of these sizes",
            )  # fmt: skip


def _equal(grading: Grading, item: Measurement, where: str) -> None:
    """Every byte of every value that was read."""
    right = item.mismatched == 0 and item.verified > 0
    told = f"{item.verified} of {item.verified + item.mismatched} values equal"
    grading.add(
        f"store.verified.{item.tier}", Grade.PASS if right else Grade.FAIL, told, "all values equal",
        host=item.host, subject=f"{item.test} {where}", evidence=item.evidence,
        remedy="values came back wrong or empty: take this pool out of service and see the store's log on the host that"
        " holds them; g35ctl doctor",
    )  # fmt: skip


def _share(grading: Grading, plan: Plan, site: Site, measured: Measured, item: Measurement, where: str) -> None:
    limits = site.validation.store.thresholds
    worst = Grade.WARN if limits.miss_is_warning else Grade.FAIL
    good, fair = (
        (limits.memory_share, limits.memory_share_warn)
        if item.tier == "memory"
        else (limits.flash_share, limits.flash_share_warn)
    )
    told = (measured.states.get(item.host) or {}).get("speeds") or {}
    fabric = plan.host(item.host).fabric
    speeds = [float(told.get(port.netdev, 0)) * 125_000 for port in (fabric.ports if fabric is not None else ())]
    ports = Limit(sum(speeds) if all(speeds) else 0.0, f"data ports of {item.host}")
    if item.tier == "flash":
        owned = sum(entry.owner == item.peer for entry in plan.ownership)
        ssds = Limit(site.validation.storage.ssd_gbps * GIGA * owned, f"SSDs of {item.peer}")
        ports = Limit.lowest([ports, ssds]) if ssds.bytes_per_second else Limit(0.0)
    grading.share(
        f"store.{item.test}.{item.tier}", item.bytes_per_second, ports, good, fair,
        host=item.host, subject=where, evidence=item.evidence, worst=worst,
        remedy="more store threads and stores per owner (g35_mooncake.store), then Mooncake's limits: docs/validate.md",
    )  # fmt: skip


def _placement(grading: Grading, measured: Measured) -> None:
    """Values read "from flash" were nowhere else."""
    for host, state in measured.states.items():
        for told in state.get("results", []):
            if told.get("test") != "flash":
                continue
            made, there = int(told.get("values", 0)), int(told.get("on_flash", 0))
            grade = Grade.PASS if made and there == made else Grade.WARN if there else Grade.FAIL
            grading.add(
                "store.placement", grade, f"{there} of {made} values on flash only", "all values on flash only",
                host=host, evidence=measured.evidence.get(host, ""),
                remedy="values left in memory were not read back from flash: raise g35_validate.store.flash_timeout;"
                " g35ctl doctor",
            )  # fmt: skip
