"""Rows of the page's tables, ready to be shown: figures with their digits and marks, in the language of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from g35ctl.report.charts.gallery import seconds, users_name
from g35ctl.report.document import Document
from g35ctl.report.figures import BenchPart, MeasurementPart, RowPart, ServingPart
from g35ctl.report.strings import Strings
from g35ctl.site.sizes import format_size
from g35ctl.validate.serving_result import P99_SAMPLES

NOTHING = "\N{EN DASH}"
"""Stands where there is no figure."""
FEW, PARTIAL = "\N{DAGGER}", "\N{DOUBLE DAGGER}"
MAX_MEASUREMENTS = 60
"""Rows of one suite's table on the page; all of them are in report.json and summary.csv."""

MAX_COMMANDS = 300
"""Command lines on the page: a fleet has one for each pair of hosts. All of them are in report.json."""


@dataclass(frozen=True)
class UserRow:
    """One number of users in the three-path table: a cell per path for each figure, and G3.5 against memory."""

    users: str
    means: tuple[str, ...]
    p99s: tuple[str, ...]
    hits: tuple[str, ...]
    mean_ratio: str
    p99_ratio: str
    hit_difference: str


@dataclass(frozen=True)
class DetailRow:
    """One path and number of users in full."""

    users: str
    path: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class KeyFigure:
    """A figure of the overview: large ``value``, what it is, and what it was made from."""

    label: str
    value: str
    note: str = ""
    emulated: bool = False
    predicted: bool = False


@dataclass(frozen=True)
class BenchTable:
    """The measurements of one suite. ``more`` rows are not shown."""

    suite: str
    rows: tuple[tuple[str, ...], ...]
    emulated: bool
    more: int = 0


def mark(row: RowPart, *, p99: bool = False) -> str:
    """The marks of a row's figures: too few samples (of a P99), not complete."""
    few = p99 and row.ttft is not None and not row.ttft.p99_counts
    return FEW * few + PARTIAL * (not row.complete)


def ratio(after: float | None, before: float | None) -> float | None:
    """``after / before``, or None where that means nothing."""
    return after / before if after is not None and before else None


def three_paths(serving: ServingPart, strings: Strings) -> tuple[UserRow, ...]:
    """The table of the published result, for every number of users that was measured."""
    found = []
    for users in serving.users:
        rows = [serving.row(path, users) for path in serving.measured_paths]
        memory, shared = serving.row("memory", users), serving.row("g35", users)
        both = (shared, memory)
        found.append(
            UserRow(
                users_name(users, strings),
                tuple(_cell(row, seconds(row.ttft.mean) if row and row.ttft else "") for row in rows),
                tuple(_cell(row, seconds(row.ttft.p99) if row and row.ttft else "", p99=True) for row in rows),
                tuple(
                    _cell(row, f"{100 * row.hit_rate:.2f}" if row and row.hit_rate is not None else "") for row in rows
                ),
                _times(ratio(*(row.ttft.mean if row and row.ttft else None for row in both))),
                _times(ratio(*(row.ttft.p99 if row and row.ttft else None for row in both))),
                hit_difference(shared, memory),
            )
        )
    return tuple(found)


def _cell(row: RowPart | None, text: str, *, p99: bool = False) -> str:
    return f"{text}{mark(row, p99=p99)}" if row is not None and text else NOTHING


def _times(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} \N{MULTIPLICATION SIGN}"


def hit_difference(shared: RowPart | None, memory: RowPart | None) -> str:
    """Hit rate of one row less another's, in percentage points."""
    if shared is None or memory is None or shared.hit_rate is None or memory.hit_rate is None:
        return NOTHING
    return f"{100 * (shared.hit_rate - memory.hit_rate):+.2f} pp".replace("-", "\N{MINUS SIGN}")


def details(serving: ServingPart, strings: Strings) -> tuple[DetailRow, ...]:
    """Every row in full, by users and path."""
    found = []
    for users in serving.users:
        for path in serving.measured_paths:
            row = serving.row(path, users)
            if row is not None:
                found.append(
                    DetailRow(users_name(users, strings), strings.paths[path] + mark(row, p99=True), _detail(row))
                )
    return tuple(found)


def _detail(row: RowPart) -> tuple[str, ...]:
    time = row.ttft
    means = NOTHING
    if row.mean_low is not None and row.mean_high is not None:
        means = f"{seconds(row.mean_low)}{NOTHING}{seconds(row.mean_high)}"
    return (
        str(row.trials),
        str(time.samples) if time else "0",
        seconds(row.cold_ttft.mean) if row.cold_ttft else NOTHING,
        seconds(time.p50) if time else NOTHING,
        seconds(time.p90) if time else NOTHING,
        f"{time.tail:.2f}" if time else NOTHING,
        means,
        f"{row.recomputed:,.0f}" if row.recomputed is not None else NOTHING,
        f"{row.offered_rate:.2f}",
        f"{row.achieved_rate:.2f}",
        str(row.errors),
    )


def key_figures(document: Document, strings: Strings) -> tuple[KeyFigure, ...]:
    """What an integrator looks for first. Empty where nothing was measured."""
    found = []
    if document.serving is not None:
        found += _serving_figures(document.serving, strings)
    if document.bench is not None:
        found += _bench_figures(document.bench, strings)
    return tuple(found)


def _serving_figures(serving: ServingPart, strings: Strings) -> list[KeyFigure]:
    """At the largest number of users that both paths served."""
    both = [users for users in serving.users if serving.row("g35", users) and serving.row("memory", users)]
    if not both:
        return []
    users = both[-1]
    shared, memory = serving.row("g35", users), serving.row("memory", users)
    assert shared is not None
    assert memory is not None
    found = []
    if shared.ttft is not None and memory.ttft is not None:
        for name, after, before, p99 in (
            ("ttft_mean", shared.ttft.mean, memory.ttft.mean, False),
            ("ttft_p99", shared.ttft.p99, memory.ttft.p99, True),
        ):
            marks = mark(shared, p99=p99) or mark(memory, p99=p99)
            note = f"{seconds(after)} s : {seconds(before)} s"
            label = strings.key_figures[name].format(users=users_name(users, strings))
            found.append(KeyFigure(label, _times(ratio(after, before)) + marks, note, serving.emulated))
    if shared.hit_rate is not None:
        note = strings.serving.ceiling_label.format(percent=f"{100 * serving.workload.ceiling:.2f}")
        label = strings.key_figures["hit_rate"].format(users=users_name(users, strings))
        found.append(KeyFigure(label, f"{100 * shared.hit_rate:.2f} %", note, serving.emulated))
    return found + _cost_figure(serving, strings)


def _cost_figure(serving: ServingPart, strings: Strings) -> list[KeyFigure]:
    cost = serving.cost
    if cost is None:
        return []
    note = f"{cost.memory_gb:g} : {cost.flash_gb:g} {cost.currency}/GB, {cost.as_of}"
    return [
        KeyFigure(
            strings.key_figures["cost"], f"{cost.ratio_typical:.3g} \N{MULTIPLICATION SIGN}", note, predicted=True
        )
    ]


def _bench_figures(bench: BenchPart, strings: Strings) -> list[KeyFigure]:
    found = []
    for name, suite, tests in (("storage", "storage", ("aggregate",)), ("store", "store", ("get", "batch_get"))):
        points = [(rate, size) for part in bench.lines if part.suite == suite and part.test in tests
                  for size, rate in part.points]  # fmt: skip
        if points:
            rate, size = max(points)
            found.append(
                KeyFigure(strings.key_figures[name], f"{rate:.3g} GB/s", format_size(int(size)), bench.emulated)
            )
    return found


def few_samples(serving: ServingPart) -> bool:
    """Whether the page must explain the mark of a P99 made of too few samples."""
    return any(row.ttft is not None and row.ttft.samples < P99_SAMPLES for row in serving.rows)


def bench_tables(bench: BenchPart, strings: Strings) -> tuple[BenchTable, ...]:
    """A table per suite, in the order in which the suites run."""
    tables = []
    for suite in ("fabric", "storage", "store"):
        items = [item for item in bench.measurements if item.suite == suite]
        if items:
            shown = _shown(items)
            tables.append(
                BenchTable(
                    suite,
                    tuple(_bench_row(item, strings) for item in shown),
                    any(item.emulated for item in items),
                    len(items) - len(shown),
                )
            )
    return tuple(tables)


def _shown(items: Sequence[MeasurementPart]) -> list[MeasurementPart]:
    """The first rows, and in any case those with a problem or a wrong value."""
    bad = [item for item in items if item.problem or item.mismatched]
    good = [item for item in items if not (item.problem or item.mismatched)]
    return [*bad, *good][:MAX_MEASUREMENTS]


def _bench_row(item: MeasurementPart, strings: Strings) -> tuple[str, ...]:
    words = strings.bench
    test = words.tests.get(item.test, item.test)
    if item.tier:
        test += f", {words.stores.get(item.tier, item.tier)}"
    return (
        test,
        item.host,
        item.peer,
        item.subject,
        format_size(item.block_size) if item.block_size else "",
        str(item.queue_depth or ""),
        f"{item.gigabytes_per_second:.3g}" if item.gigabytes_per_second else NOTHING,
        f"{item.latency_mean:,.1f}" if item.latency_mean is not None else NOTHING,
        f"{item.latency_p99:,.1f}{FEW * (item.latency_samples < P99_SAMPLES)}" if item.latency_p99 else NOTHING,
        words.not_measured.format(problem=item.problem)
        if item.problem
        else (f"{words.mismatched}: {item.mismatched}" if item.mismatched else _verified(item, strings)),
    )


def _verified(item: MeasurementPart, strings: Strings) -> str:
    return f"{strings.bench.verified}: {item.verified}" if item.verified else ""
