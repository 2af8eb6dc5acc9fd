"""Two runs side by side: which checks ended otherwise, which figures moved by more than their tolerance.

Pure functions of two documents. A figure is judged only where both runs measured the same thing on the same kind of
hardware; everything else is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ansible.module_utils.g35.schema import dump

from g35ctl.report.document import Document
from g35ctl.report.figures import BenchPart, RowPart, ServingPart, WorkloadPart

SCHEMA_VERSION = 1
WORSE, BETTER, SAME, SHOWN, APPEARED, VANISHED = "worse", "better", "same", "shown", "appeared", "vanished"
STATES = (WORSE, BETTER, APPEARED, VANISHED, SHOWN, SAME)
"""In the order in which they are listed."""


@dataclass(frozen=True)
class Tolerance:
    """How far a figure may move: a share of the earlier value, or, if ``absolute``, in its own unit. ``rising`` says
    that more is worse."""

    amount: float
    rising: bool
    absolute: bool = False


TOLERANCES: Mapping[str, Tolerance] = {
    "ttft_mean": Tolerance(0.10, rising=True),
    "ttft_p99": Tolerance(0.15, rising=True),
    "hit_rate": Tolerance(0.5, rising=False, absolute=True),
    "achieved_rate": Tolerance(0.10, rising=False),
    "errors": Tolerance(0, rising=True, absolute=True),
    "bandwidth": Tolerance(0.10, rising=False),
    "latency_p99": Tolerance(0.20, rising=True),
}


@dataclass(frozen=True)
class CheckChange:
    """One check of either run. Grades are empty where the run did not make it; a skipped check was not made."""

    suite: str
    check: str
    state: str
    before: str
    after: str
    host: str = ""
    subject: str = ""
    observed_before: str = ""
    observed_after: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class FigureChange:
    """One figure that both runs have. ``change`` is a share of the earlier value, or a difference where ``unit`` is %;
    None where the earlier value is 0."""

    figure: str
    suite: str
    state: str
    before: float
    after: float
    unit: str
    change: float | None
    path: str = ""
    users: int = 0
    test: str = ""
    tier: str = ""
    block_size: int = 0
    queue_depth: int = 0
    host: str = ""
    peer: str = ""
    subject: str = ""


@dataclass(frozen=True)
class VersionChange:
    """A component whose version differs."""

    component: str
    before: str
    after: str


@dataclass(frozen=True)
class Caution:
    """A reason not to take differences at face value; ``kind`` is a key of the catalogues' ``[compare.cautions]``."""

    kind: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Side:
    """One of the two runs."""

    run: str
    site: str
    verb: str
    started: str
    verdict: str
    emulated: bool


@dataclass(frozen=True)
class Comparison:
    """The whole comparison. ``regressions`` is true when a check or a figure got worse."""

    schema_version: int
    regressions: bool
    before: Side
    after: Side
    cautions: tuple[Caution, ...]
    checks: tuple[CheckChange, ...]
    figures: tuple[FigureChange, ...]
    versions: tuple[VersionChange, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return dump(self)

    def counts(self) -> dict[str, int]:
        """How many checks and figures are in each state."""
        every = [item.state for item in self.checks] + [item.state for item in self.figures]
        return {state: every.count(state) for state in STATES}


def compare(before: Document, after: Document) -> Comparison:
    """What changed from one run to the other."""
    checks = tuple(sorted(_checks(before, after), key=lambda item: STATES.index(item.state)))
    figures = tuple(sorted(_figures(before, after), key=lambda item: STATES.index(item.state)))
    return Comparison(
        SCHEMA_VERSION,
        any(item.state == WORSE for item in checks) or any(item.state == WORSE for item in figures),
        _side(before),
        _side(after),
        tuple(_cautions(before, after)),
        checks,
        figures,
        tuple(
            VersionChange(name, before.versions.get(name, ""), after.versions.get(name, ""))
            for name in dict.fromkeys((*before.versions, *after.versions))
            if before.versions.get(name) != after.versions.get(name)
        ),
    )


def _side(document: Document) -> Side:
    run = document.run
    return Side(run.identifier, run.site, run.verb, run.started, document.verdict, document.emulated)


def _cautions(before: Document, after: Document) -> Iterator[Caution]:
    if before.run.site != after.run.site:
        yield Caution("site", before.run.site, after.run.site)
    elif before.run.plan_digest != after.run.plan_digest:
        yield Caution("plan", before.run.plan_digest, after.run.plan_digest)
    if before.emulated != after.emulated:
        yield Caution("emulated")
    if before.serving is not None and after.serving is not None:
        differing = _workload_fields(before.serving.workload, after.serving.workload)
        if differing:
            yield Caution("workload", ", ".join(differing))
    if before.run.check or after.run.check:
        yield Caution("check")
    if before.run.started > after.run.started:
        yield Caution("order")


def _workload_fields(before: WorkloadPart, after: WorkloadPart) -> tuple[str, ...]:
    """What differs between two workloads. User counts may: only those that both have are compared. So may trials."""
    names = [field.name for field in fields(WorkloadPart) if field.name not in ("users", "trials", "ceiling")]
    return tuple(name for name in names if getattr(before, name) != getattr(after, name))


_Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class _Told:
    grade: str
    observed: str
    remedy: str


def _told(document: Document) -> dict[_Key, _Told]:
    """What a run says about each thing: its checks, and failures of its stages."""
    found = {
        (item.suite, item.check, item.host, item.subject): _Told(item.grade, item.observed, item.remedy)
        for item in document.verdicts
        if item.grade != "SKIP"
    }
    judged = {(check, host, subject) for _, check, host, subject in found}
    for failure in document.failures:
        if (failure.check, failure.host, failure.subject) not in judged:
            key = (failure.stage, failure.check, failure.host, failure.subject)
            found[key] = _Told("FAIL", failure.observed, failure.remedy)
    return found


_RANK = {"FAIL": 0, "WARN": 1, "PASS": 2}


def _checks(before: Document, after: Document) -> Iterator[CheckChange]:
    """Every check of either run."""
    old, new = _told(before), _told(after)
    reached = {check.suite for check in after.verdicts} | {stage.stage for stage in after.stages}
    for key in dict.fromkeys((*new, *old)):
        suite, check, host, subject = key
        was, now = old.get(key), new.get(key)
        yield CheckChange(
            suite,
            check,
            _check_state(was, now, suite in reached),
            was.grade if was else "",
            now.grade if now else "",
            host,
            subject,
            was.observed if was else "",
            now.observed if now else "",
            now.remedy if now else "",
        )


def _check_state(was: _Told | None, now: _Told | None, reached: bool) -> str:
    """What only exists while something is wrong (findings, failures) is worse when it comes and better when it goes,
    provided that the later run got far enough to see it."""
    if was is not None and now is not None:
        difference = _RANK[now.grade] - _RANK[was.grade]
        return WORSE if difference < 0 else BETTER if difference > 0 else SAME
    if now is not None:
        return APPEARED if now.grade == "PASS" else WORSE
    assert was is not None
    return BETTER if was.grade != "PASS" and reached else VANISHED


def _figures(before: Document, after: Document) -> Iterator[FigureChange]:
    comparable = before.emulated == after.emulated
    if before.serving is not None and after.serving is not None:
        same = comparable and not _workload_fields(before.serving.workload, after.serving.workload)
        yield from _serving(before.serving, after.serving, same)
    if before.bench is not None and after.bench is not None:
        yield from _bandwidth(before.bench, after.bench, comparable)
        yield from _latency(before.bench, after.bench, comparable)


def state(figure: str, before: float, after: float, low: float | None = None, high: float | None = None) -> str:
    """Worse, better or the same, by the figure's tolerance. Within ``low``..``high``, the range that single trials of
    the earlier run had, a figure has not moved."""
    tolerance = TOLERANCES[figure]
    moved = (after - before) * (1 if tolerance.rising else -1)
    allowed = tolerance.amount if tolerance.absolute else tolerance.amount * before
    if abs(moved) <= allowed + 1e-12 or (low is not None and high is not None and low <= after <= high):
        return SAME
    return WORSE if moved > 0 else BETTER


def _change(before: float, after: float) -> float | None:
    return after / before - 1 if before else None


def _serving(before: ServingPart, after: ServingPart, same: bool) -> Iterator[FigureChange]:
    for users in after.users:
        for path in after.measured_paths:
            was, now = before.row(path, users), after.row(path, users)
            if was is not None and now is not None:
                yield from _row(was, now, same)


def _row(was: RowPart, now: RowPart, same: bool) -> Iterator[FigureChange]:
    def told(figure: str, old: float, new: float, unit: str, change: float | None, judged: str) -> FigureChange:
        return FigureChange(
            figure, "serving", judged if same else SHOWN, old, new, unit, change, path=was.path, users=was.users
        )

    if was.ttft is not None and now.ttft is not None:
        old, new = was.ttft.mean, now.ttft.mean
        judged = state("ttft_mean", old, new, was.mean_low, was.mean_high)
        yield told("ttft_mean", old, new, "s", _change(old, new), judged)
        old, new = was.ttft.p99, now.ttft.p99
        counts = was.ttft.p99_counts and now.ttft.p99_counts
        yield told("ttft_p99", old, new, "s", _change(old, new), state("ttft_p99", old, new) if counts else SHOWN)
    if was.hit_rate is not None and now.hit_rate is not None:
        old, new = 100 * was.hit_rate, 100 * now.hit_rate
        yield told("hit_rate", old, new, "%", new - old, state("hit_rate", old, new))
    old, new = was.achieved_rate, now.achieved_rate
    judged = state("achieved_rate", old, new) if was.offered_rate == now.offered_rate else SHOWN
    yield told("achieved_rate", old, new, "1/s", _change(old, new), judged)
    if was.errors or now.errors:
        old, new = float(was.errors), float(now.errors)
        yield told("errors", old, new, "", _change(old, new), state("errors", old, new))


def _bandwidth(before: BenchPart, after: BenchPart, same: bool) -> Iterator[FigureChange]:
    earlier = {
        (part.suite, part.test, part.tier, part.queue_depth, size): rate
        for part in before.lines
        for size, rate in part.points
    }
    for part in after.lines:
        for size, rate in part.points:
            old = earlier.get((part.suite, part.test, part.tier, part.queue_depth, size))
            if old is not None:
                yield FigureChange(
                    "bandwidth", part.suite, state("bandwidth", old, rate) if same else SHOWN, old, rate, "GB/s",
                    _change(old, rate), test=part.test, tier=part.tier, block_size=int(size),
                    queue_depth=part.queue_depth,
                )  # fmt: skip


def _latency(before: BenchPart, after: BenchPart, same: bool) -> Iterator[FigureChange]:
    """Of the measurements that are made for their latency; where bandwidth is the aim it follows from the queue."""
    aims = ("latency", "remote", "local")
    earlier = {
        (item.suite, item.test, item.host, item.peer, item.subject, item.block_size, item.queue_depth): item
        for item in before.measurements
        if item.test in aims and not item.problem
    }
    for item in after.measurements:
        key = (item.suite, item.test, item.host, item.peer, item.subject, item.block_size, item.queue_depth)
        was = earlier.get(key)
        if was is None or item.problem or was.latency_p99 is None or item.latency_p99 is None:
            continue
        judged = same and min(was.latency_samples, item.latency_samples) >= 100
        yield FigureChange(
            "latency_p99", item.suite, state("latency_p99", was.latency_p99, item.latency_p99) if judged else SHOWN,
            was.latency_p99, item.latency_p99, "us", _change(was.latency_p99, item.latency_p99), test=item.test,
            block_size=item.block_size, queue_depth=item.queue_depth, host=item.host, peer=item.peer,
            subject=item.subject,
        )  # fmt: skip
