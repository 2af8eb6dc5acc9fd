"""summary.csv: every check and every figure of a report, one a row, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, fields

from g35ctl.report.document import Document
from g35ctl.report.figures import BenchPart, ServingPart

COLUMNS = (
    "kind", "suite", "name", "host", "peer", "subject", "path", "users", "turn", "tier", "block_bytes", "queue_depth",
    "statistic", "value", "unit", "samples", "origin", "grade", "observed", "expected",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class _Row:
    kind: str
    suite: str
    name: str
    host: str = ""
    peer: str = ""
    subject: str = ""
    path: str = ""
    users: int | None = None
    turn: int | None = None
    tier: str = ""
    block_bytes: int | None = None
    queue_depth: int | None = None
    statistic: str = ""
    value: float | None = None
    unit: str = ""
    samples: int | None = None
    origin: str = ""
    grade: str = ""
    observed: str = ""
    expected: str = ""


assert tuple(field.name for field in fields(_Row)) == COLUMNS


def render(document: Document) -> str:
    """The file's text. ``kind`` is check or figure; ``origin`` is measured, emulated, scaled or predicted."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in _rows(document):
        writer.writerow([_cell(getattr(row, name)) for name in COLUMNS])
    return stream.getvalue()


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return str(value)
    # What comes from hosts must not become a formula in a spreadsheet.
    return f"'{value}" if value.startswith(_FORMULA) else value


def _rows(document: Document) -> Iterator[_Row]:
    for check in document.verdicts:
        yield _Row(
            "check", check.suite, check.check, check.host, subject=check.subject, grade=check.grade,
            origin="emulated" if check.emulated else "measured", observed=check.observed, expected=check.expected,
        )  # fmt: skip
    if document.serving is not None:
        yield from _serving(document.serving)
    if document.bench is not None:
        yield from _bench(document.bench)


def _serving(serving: ServingPart) -> Iterator[_Row]:
    origin = "scaled" if serving.scaled else "emulated" if serving.emulated else "measured"
    yield _Row(
        "figure", "serving", "hit_rate_ceiling", value=serving.workload.ceiling, unit="share", origin="predicted"
    )
    for part in serving.paths:
        if part.contexts is not None:
            yield _Row(
                "figure", "serving", "knee", path=part.path, value=part.contexts, unit="users", origin="predicted"
            )
    for row in serving.rows:
        figures: list[tuple[str, str, float | None, str, int | None]] = []
        for name, spread in (("ttft", row.ttft), ("cold_ttft", row.cold_ttft)):
            if spread is not None:
                figures += [
                    (name, statistic, getattr(spread, statistic), "s", spread.samples)
                    for statistic in ("mean", "p50", "p90", "p99", "minimum", "maximum")
                ]
        figures += [
            ("ttft_trial_mean", "minimum", row.mean_low, "s", row.trials),
            ("ttft_trial_mean", "maximum", row.mean_high, "s", row.trials),
            ("hit_rate", "", row.hit_rate, "share", None),
            ("computed_tokens", "mean", row.recomputed, "tokens/request", None),
            ("offered_rate", "", row.offered_rate, "1/s", None),
            ("achieved_rate", "", row.achieved_rate, "1/s", None),
            ("errors", "", float(row.errors), "requests", None),
        ]
        for name, statistic, value, unit, samples in figures:
            if value is not None:
                yield _Row(
                    "figure", "serving", name, path=row.path, users=row.users, statistic=statistic, value=value,
                    unit=unit, samples=samples, origin=origin,
                )  # fmt: skip
        for tier, share in row.tiers.items():
            yield _Row(
                "figure", "serving", "prompt_tokens", path=row.path, users=row.users, tier=tier, value=share,
                unit="share", origin=origin,
            )  # fmt: skip
    for turn in serving.turns:
        for name, value, unit in (("hit_rate", turn.hit_rate, "share"), ("ttft", turn.ttft_mean, "s")):
            if value is not None:
                yield _Row(
                    "figure", "serving", name, path=turn.path, users=turn.users, turn=turn.turn,
                    statistic="mean" if name == "ttft" else "", value=value, unit=unit, samples=turn.requests,
                    origin=origin,
                )  # fmt: skip


def _bench(bench: BenchPart) -> Iterator[_Row]:
    for item in bench.measurements:
        figures: tuple[tuple[str, str, float | None, str, int | None], ...] = (
            ("bandwidth", "", item.gigabytes_per_second or None, "GB/s", None),
            ("operations", "", item.operations_per_second or None, "1/s", None),
            ("latency", "mean", item.latency_mean, "us", item.latency_samples),
            ("latency", "p50", item.latency_p50, "us", item.latency_samples),
            ("latency", "p99", item.latency_p99, "us", item.latency_samples),
            ("wrong_values", "", float(item.mismatched) if item.verified or item.mismatched else None, "values",
             item.verified),
        )  # fmt: skip
        for name, statistic, value, unit, samples in figures:
            if value is not None:
                yield _Row(
                    "figure", item.suite, f"{item.test}.{name}", item.host, item.peer, item.subject, tier=item.tier,
                    block_bytes=item.block_size or None, queue_depth=item.queue_depth or None, statistic=statistic,
                    value=value, unit=unit, samples=samples, origin="emulated" if item.emulated else "measured",
                )  # fmt: skip
    for counter in bench.counters:
        subject = f"{counter.netdev} {counter.counter}"
        yield _Row(
            "figure", counter.suite, f"counter.{counter.kind}", counter.host, subject=subject, statistic="rise",
            value=float(counter.rise), unit="events",
        )  # fmt: skip
