"""The storage suite: fio on every namespace alone and on all at once, fairness, and what the network adds to a read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from ansible.module_utils.g35.bench_jobs import BenchJob, StorageRound, Target

from g35ctl.engine.bench import Measured, measure, token
from g35ctl.engine.proof import Proof
from g35ctl.engine.session import Session
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.observe import tool_output
from g35ctl.observe.tool_output import Latency, ToolOutputError
from g35ctl.plan.bench import storage_jobs
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site
from g35ctl.validate import bench_report
from g35ctl.validate.bench_grading import Grading, Limit, counter_changes, emulated
from g35ctl.validate.bench_result import BenchResult, Measurement
from g35ctl.verdict import Grade, Verdict

SUITE = "storage"
GIGA = 1e9
#: tests of the module that give figures; layout only prepares
_TESTS = ("namespace", "aggregate", "remote", "local", "write")


def run(session: Session) -> Proof:
    """Run the suite on the session's site. Raises G35Error (usage) for a named namespace that nobody owns."""
    check_named(session.plan, session.site)
    jobs = storage_jobs(session.plan, session.site, token(session))
    if not jobs:
        why = "no box of this site has a namespace with an owner"
        return Proof((Verdict(SUITE, "storage.namespace", Grade.SKIP, why, "namespaces"),))
    measured = measure(session, SUITE, jobs)
    result = read(session.plan, session.site, jobs, measured)
    return bench_report.conclude(session, SUITE, result, judge(session.plan, session.site, result, measured), measured)


def with_named(site: Site, uuids: Sequence[str]) -> Site:
    """The site with these namespaces named for writing too. Raises G35Error (usage) for what is no UUID."""
    if not uuids:
        return site
    try:
        more = tuple(UUID(item) for item in uuids)
    except ValueError as error:
        raise G35Error(
            f"--write-namespace {' '.join(uuids)}: {error}", next_command="g35ctl plan", exit_code=Exit.USAGE
        ) from error
    storage = site.validation.storage
    named = storage.model_copy(update={"write_namespaces": (*storage.write_namespaces, *more)})
    return site.model_copy(update={"validation": site.validation.model_copy(update={"storage": named})})


def check_named(plan: Plan, site: Site) -> None:
    """Namespaces named for writing must be some owner's: a typing error must not pass for consent."""
    known = {item.uuid for item in plan.ownership}
    unknown = [str(uuid) for uuid in site.validation.storage.write_namespaces if str(uuid) not in known]
    if unknown:
        raise G35Error(
            f"namespace {unknown[0]} is not one of this site",
            why="writing is only measured on namespaces that are named, and every one named must be owned here",
            next_command="g35ctl plan",
            exit_code=Exit.USAGE,
        )


def read(plan: Plan, site: Site, jobs: Mapping[str, BenchJob], measured: Measured) -> BenchResult:
    """The figures of every run that was planned, or why there is none. Pure."""
    soft = emulated(site, _devices(plan, measured))
    found = [item for host, job in jobs.items() for item in _host(host, job, measured, soft)]
    return BenchResult(tuple(found), counter_changes(SUITE, plan, measured), bench_report.versions(measured), soft)


def _devices(plan: Plan, measured: Measured) -> list[str]:
    """RDMA devices of the ports, as the counters name them."""
    return [
        str(port.get("device", ""))
        for state in measured.states.values()
        for port in ((state.get("counters") or {}).get("after") or {}).values()
    ]


def _host(host: str, job: BenchJob, measured: Measured, soft: bool) -> Iterator[Measurement]:
    """Each planned measurement of a host, in its order."""
    assert job.storage is not None
    state = measured.states.get(host)
    runs: dict[tuple[str, str, int, int], Mapping[str, Any]] = {
        (str(item.get("round")), uuid, int(item.get("block_size", 0)), int(item.get("queue_depth", 0))): item
        for item in (state or {}).get("runs", [])
        for uuid in item.get("targets", [])
    }
    version = str(((state or {}).get("versions") or {}).get("fio", ""))
    for step in job.storage.rounds:
        if step.test not in _TESTS:
            continue
        for target, point in ((target, point) for target in step.targets for point in step.points):
            told = runs.get((step.name, target.uuid, point.block_size, point.queue_depth))
            blank = Measurement(
                SUITE, step.test, "fio", host, "" if step.test == "local" else target.box, target.uuid,
                group=step.name if step.test in ("aggregate", "write") else "", block_size=point.block_size,
                queue_depth=point.queue_depth, emulated=soft, version=version,
                evidence=measured.evidence.get(host, ""),
            )  # fmt: skip
            if told is None:
                yield replace(blank, problem=f"{host} brought no result")
            else:
                blank = replace(blank, command=str(told.get("command", "")))
                yield _figure(blank, target, step, told, job.storage.raw)


def _figure(blank: Measurement, target: Target, step: StorageRound, told: Mapping[str, Any], raw: bool) -> Measurement:
    if told.get("problem"):
        return replace(blank, problem=str(told["problem"]))
    direction = "write" if step.test == "write" else "read"
    try:
        done = tool_output.fio(str(told.get("out", "")), direction)
    except ToolOutputError as error:
        return replace(blank, problem=str(error))
    job = next((item for item in done.jobs if item.name == target.uuid), None)
    if job is None:
        return replace(blank, problem="fio reported nothing about this namespace")
    if (raw or step.test == "remote") and not done.disks:
        return replace(blank, problem="no block device was read: what fio read was a file")
    return replace(
        blank,
        bytes_per_second=job.bytes_per_second,
        operations_per_second=job.operations_per_second,
        latency=job.latency,
        seconds=job.runtime,
        moved=job.moved,
    )


def judge(plan: Plan, site: Site, result: BenchResult, measured: Measured) -> tuple[Verdict, ...]:
    """Verdicts of the suite. Pure. Of a namespace alone the setting nearest to 1 MiB at the largest queue depth is
    judged; the others are shown in the report."""
    grading = Grading(SUITE, result.emulated)
    wanted = site.validation.storage
    nics = _nics(plan, measured)
    block = min(wanted.block_sizes, key=lambda size: abs(size - 2**20))
    deepest = max(wanted.queue_depths)
    ssd = Limit(wanted.ssd_gbps * GIGA, "rating of one SSD")
    limits = wanted.thresholds
    for item in result.measurements:
        if item.suite != SUITE:
            continue
        if item.problem:
            grading.unmeasured(f"storage.{item.test}", item)
        elif item.test == "namespace" and (item.block_size, item.queue_depth) == (block, deepest):
            limit = Limit.lowest([ssd, nics.get(item.host, Limit(0))]) if ssd.bytes_per_second else Limit(0)
            grading.share(
                "storage.namespace", item.bytes_per_second, limit, limits.namespace_share, limits.namespace_share_warn,
                host=item.host, subject=item.subject, evidence=item.evidence,
                remedy="compare with the other namespaces of this box: one slow SSD is a drive or its slot, all slow"
                " is the path; g35ctl status shows paths that are down",
            )  # fmt: skip
        elif item.test == "write":
            grading.add(
                "storage.write", Grade.PASS, f"{item.gigabytes_per_second:.3f} GB/s", "measured, because it was named",
                host=item.host, subject=item.subject, evidence=item.evidence,
            )  # fmt: skip
    _aggregate(grading, plan, site, result, nics)
    _network_latency(grading, site, result)
    grading.counters(result.counters, plan, measured)
    return tuple(grading.verdicts)


def _nics(plan: Plan, measured: Measured) -> dict[str, Limit]:
    """Each host's data ports together, bytes per second; 0 where a port's speed is not told."""
    found = {}
    for host, state in measured.states.items():
        fabric = plan.host(host).fabric
        told = state.get("speeds") or {}
        speeds = [float(told.get(port.netdev, 0)) * 125_000 for port in (fabric.ports if fabric is not None else ())]
        found[host] = Limit(sum(speeds) if all(speeds) else 0.0, f"data ports of {host}")
    return found


def _aggregate(grading: Grading, plan: Plan, site: Site, result: BenchResult, nics: Mapping[str, Limit]) -> None:
    """All namespaces at once: the sum of the best block size against what limits it, and how evenly owners shared."""
    groups: dict[str, list[Measurement]] = {}
    for item in result.of(SUITE, "aggregate"):
        groups.setdefault(item.group, []).append(item)
    planned = len(plan.ownership)
    whole = {name: items for name, items in groups.items() if len(items) == planned}
    if not whole:
        return  # what is missing was told measurement by measurement
    best = max(whole.values(), key=lambda items: sum(item.bytes_per_second for item in items))
    limits = site.validation.storage.thresholds
    limit = _together(plan, site, best, nics)
    sizes = ", ".join(sorted({f"{item.block_size // 1024} KiB" for item in best}))
    grading.share(
        "storage.box", sum(item.bytes_per_second for item in best), limit, limits.box_share, limits.box_share_warn,
        subject=f"{len(best)} namespaces at once, {sizes}", evidence=best[0].evidence,
        remedy="what is below its rating: one box (its ports, its PCIe), one rail (switch uplinks), or all hosts"
        " (io_queues and queue_size of g35_nvme); see the figures by host in the report",
    )  # fmt: skip
    shares = {host: figure / count for host, (figure, count) in _by_owner(best).items()}
    if len(shares) > 1:
        low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        ratio = shares[low] / shares[high]
        grading.at_least(
            "storage.fairness", ratio, limits.fairness, limits.fairness_warn,
            f"{ratio:.2f}: {low} got {shares[low] / GIGA:.3f} GB/s per namespace, {high} {shares[high] / GIGA:.3f}",
            subject="owners", evidence=best[0].evidence,
            remedy=f"compare paths and queues of {low} and {high} (g35ctl status), and the switch's buffers",
        )  # fmt: skip


def _by_owner(items: Sequence[Measurement]) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for item in items:
        figure, count = found.get(item.host, (0.0, 0))
        found[item.host] = (figure + item.bytes_per_second, count + 1)
    return found


def _together(plan: Plan, site: Site, items: Sequence[Measurement], nics: Mapping[str, Limit]) -> Limit:
    """The lowest of: all SSDs together, all owners' ports together, the boxes' ratings together."""
    ssds = Limit(site.validation.storage.ssd_gbps * GIGA * len(items), "all SSDs")
    owners = {item.host for item in items}
    ports = [nics.get(owner, Limit(0)).bytes_per_second for owner in owners]
    rated = [
        (host.box.rated_gbps or 0.0) * GIGA
        for host in site.hosts
        if host.box is not None and any(item.peer == host.name for item in items)
    ]
    return Limit.lowest(
        [
            ssds,
            Limit(sum(ports) if all(ports) else 0.0, "ports of all owners"),
            Limit(sum(rated) if rated and all(rated) else 0.0, "rating of the boxes"),
        ]
    )


def _network_latency(grading: Grading, site: Site, result: BenchResult) -> None:
    """The same blocks of flash read from the owner and on the box itself: the difference is the network's."""
    limits = site.validation.storage.thresholds
    local = {item.subject: item.latency for item in result.of(SUITE, "local") if item.latency is not None}
    for item in result.of(SUITE, "remote"):
        here: Latency | None = local.get(item.subject)
        if item.latency is None:
            continue
        if here is None:
            grading.add(
                "storage.latency", Grade.SKIP, f"{item.latency.mean:.1f} us; g35ctl does not log in to {item.peer}",
                "the box's own latency to compare with", host=item.host, subject=item.subject, evidence=item.evidence,
            )  # fmt: skip
            continue
        grading.at_most(
            "storage.latency", item.latency.mean - here.mean, limits.remote_latency_us, limits.remote_latency_us_warn,
            f"us added by the network ({item.latency.mean:.1f} on {item.host}, {here.mean:.1f} on {item.peer})",
            host=item.host, subject=item.subject, evidence=item.evidence,
            remedy="interrupt affinity and C-states of owner and box, then the switch; g35ctl doctor",
        )  # fmt: skip
