"""From what the suites left in the run folder (bench.json, serving.json) to the report's own parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.report.figures import (
    AgreementPart,
    BenchPart,
    CommandPart,
    CounterPart,
    EqualityPart,
    LinePart,
    MeasurementPart,
    PathPart,
    RowPart,
    ServingPart,
    TurnPart,
    WorkloadPart,
)
from g35ctl.validate.bench_result import BenchResult, Measurement
from g35ctl.validate.bench_result import read as read_bench
from g35ctl.validate.serving_result import PointResult, Row, ServingResult, TurnResult
from g35ctl.validate.serving_result import read as read_serving


@dataclass(frozen=True)
class Results:
    """What a run measured. ``problems`` names result files that could not be read."""

    serving: ServingPart | None = None
    bench: BenchPart | None = None
    commands: tuple[CommandPart, ...] = ()
    problems: tuple[str, ...] = ()


NOTHING = Results()


def collect(folder: Path | str) -> Results:
    """What the suites of a run wrote before it ended, in whatever way it ended. What cannot be read is in
    ``problems``."""
    serving: ServingResult | None = None
    bench: BenchResult | None = None
    problems = []
    try:
        bench = read_bench(folder)
    except (G35Error, OSError) as error:
        problems.append(_told(error))
    try:
        serving = read_serving(folder)
    except (G35Error, OSError) as error:
        problems.append(_told(error))
    return Results(
        serving_part(serving) if serving is not None else None,
        bench_part(bench) if bench is not None else None,
        (*bench_commands(bench), *serving_commands(serving)),
        tuple(problems),
    )


def _told(error: G35Error | OSError) -> str:
    return f"{error.what}: {error.why}" if isinstance(error, G35Error) else str(error)


def serving_part(result: ServingResult) -> ServingPart:
    """The serving suite's result in the report's form."""
    workload = result.workload
    return ServingPart(
        workload=WorkloadPart(
            tuple(workload.users), workload.rate, workload.nodes, workload.context, workload.shared_prefix,
            workload.new_tokens, workload.output_tokens, workload.rounds, workload.trials, workload.seed,
            workload.ceiling, workload.trace,
        ),
        paths=tuple(
            PathPart(str(item.path), item.memory, item.flash, item.how, item.contexts) for item in result.settings
        ),
        rows=tuple(_row(row, result.points) for row in result.rows),
        turns=_turns(result.points),
        equalities=tuple(
            EqualityPart(str(item.path), item.asked, item.equal, item.differing) for item in result.equalities
        ),
        agreement=_agreement(result),
        missing=tuple(result.missing),
        engines=tuple(result.engines),
        restored=result.restored,
        emulated=result.emulated,
    )  # fmt: skip


def _agreement(result: ServingResult) -> AgreementPart | None:
    found = result.agreement
    if found is None:
        return None
    return AgreementPart(
        found.users, found.builtin_ttft_mean, found.aiperf_ttft_mean, found.builtin_hit_rate, found.aiperf_hit_rate,
        found.aiperf_version, found.tolerance,
    )  # fmt: skip


def _row(row: Row, points: Sequence[PointResult]) -> RowPart:
    own = [point for point in points if (point.path, point.users) == (row.path, row.users)]
    recomputed = [point.recomputed for point in own if point.recomputed is not None]
    steady = sum(turn.requests for point in own for turn in point.turns if turn.turn > 0)
    return RowPart(
        path=str(row.path),
        users=row.users,
        trials=row.trials,
        offered_rate=row.offered_rate,
        achieved_rate=row.achieved_rate,
        errors=row.errors,
        complete=row.complete,
        ttft=row.ttft,
        cold_ttft=row.cold_ttft,
        mean_low=row.mean_low,
        mean_high=row.mean_high,
        hit_rate=row.hit_rate,
        recomputed=sum(recomputed) / steady if recomputed and steady else None,
        tiers=dict(row.tokens.shares()) if row.tokens is not None else {},
    )


def _turns(points: Iterable[PointResult]) -> tuple[TurnPart, ...]:
    """Each turn over all trials: hit rate by tokens, TTFT mean by samples."""
    found: dict[tuple[str, int, int], list[TurnResult]] = {}
    for point in points:
        for turn in point.turns:
            found.setdefault((str(point.path), point.users, turn.turn), []).append(turn)
    parts = []
    for (path, users, number), items in sorted(found.items()):
        prompt = sum(item.prompt_tokens for item in items)
        times = [item.ttft for item in items if item.ttft is not None]
        samples = sum(item.samples for item in times)
        parts.append(
            TurnPart(
                path,
                users,
                number,
                sum(item.requests for item in items),
                sum(item.cached_tokens for item in items) / prompt if prompt else None,
                sum(item.mean * item.samples for item in times) / samples if samples else None,
            )
        )
    return tuple(parts)


def serving_commands(result: ServingResult | None) -> tuple[CommandPart, ...]:
    """The serving suite's command lines; the tool is the first word."""
    if result is None:
        return ()
    return tuple(
        CommandPart("serving", command.split(" ", 1)[0].rpartition("/")[2], command) for command in result.commands
    )


def bench_part(result: BenchResult) -> BenchPart:
    """The benchmark suites' results in the report's form. Counters that did not rise are left out."""
    return BenchPart(
        lines=tuple(
            LinePart(item.suite, item.test, tuple(tuple(point) for point in item.points), item.tier, item.queue_depth,
                     item.emulated)
            for item in result.series()
        ),
        measurements=tuple(_measurement(item) for item in result.measurements),
        counters=tuple(
            CounterPart(item.suite, item.host, item.netdev, item.counter, item.kind, item.rise)
            for item in result.counters
            if item.rise
        ),
        emulated=result.emulated,
    )  # fmt: skip


def _measurement(item: Measurement) -> MeasurementPart:
    latency = item.latency
    return MeasurementPart(
        suite=item.suite,
        test=item.test,
        tool=item.tool,
        host=item.host,
        peer=item.peer,
        subject=item.subject,
        tier=item.tier,
        block_size=item.block_size,
        queue_depth=item.queue_depth,
        gigabytes_per_second=item.gigabytes_per_second,
        operations_per_second=item.operations_per_second,
        latency_mean=latency.mean if latency else None,
        latency_p50=(latency.p50 or None) if latency else None,
        latency_p99=(latency.p99 or None) if latency else None,
        latency_samples=latency.samples if latency else 0,
        verified=item.verified,
        mismatched=item.mismatched,
        emulated=item.emulated,
        evidence=item.evidence,
        problem=item.problem,
    )


def bench_commands(result: BenchResult | None) -> tuple[CommandPart, ...]:
    """Every distinct command line of the benchmark suites with the hosts that ran it, in running order."""
    if result is None:
        return ()
    hosts: dict[tuple[str, str, str, str], list[str]] = {}
    for item in result.measurements:
        if item.command:
            version = item.version or result.versions.get(item.tool, "")
            hosts.setdefault((item.suite, item.tool, item.command, version), []).append(item.host)
    return tuple(
        CommandPart(suite, tool, command, version, tuple(dict.fromkeys(found)))
        for (suite, tool, command, version), found in hosts.items()
    )
