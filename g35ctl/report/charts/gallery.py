"""Which charts a document has, and what stands on them. Every label says what kind of figure it is: measured on real
hardware unless marked emulated or scaled; ceilings and knees are computed, and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from g35ctl.report.charts import bars, lines, svg
from g35ctl.report.charts.lines import Line, LineChart, Point, Rule, Tick
from g35ctl.report.charts.scales import step
from g35ctl.report.document import Document
from g35ctl.report.figures import TIERS, BenchPart, LinePart, RowPart, ServingPart
from g35ctl.report.strings import Strings
from g35ctl.site.sizes import format_size
from g35ctl.validate.serving_result import P99_SAMPLES


@dataclass(frozen=True)
class Look:
    """How a path is drawn everywhere: memory lies wide under G3.5, so that both show where they coincide."""

    colour: str
    shape: str
    width: float
    dash: str = ""


LOOKS = {
    "local": Look(svg.VERMILION, "square", 2, "7 3"),
    "memory": Look(svg.SKY, "circle", 5),
    "g35": Look(svg.BLUE, "diamond", 2),
}
_SERIES = (
    Look(svg.BLUE, "diamond", 2), Look(svg.VERMILION, "square", 2, "7 3"), Look(svg.GREEN, "circle", 2),
    Look(svg.ORANGE, "triangle", 2, "2 3"), Look(svg.PURPLE, "diamond", 2, "7 3"), Look(svg.SKY, "square", 2),
    Look(svg.DIM, "circle", 2, "2 3"), Look(svg.INK, "triangle", 2),
)  # fmt: skip
_TIER_COLOURS = {
    "device": svg.BLUE, "host": svg.SKY, "memory": svg.GREEN, "flash": svg.ORANGE, "store": svg.PURPLE,
    "computed": svg.EMPTY,
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A drawn chart. ``group`` is serving or bench; ``wide`` ones want the whole width of the page."""

    identifier: str
    title: str
    group: str
    svg: str
    wide: bool = False


def pictures(document: Document, strings: Strings) -> tuple[Picture, ...]:
    """All charts of the document, drawn."""
    return tuple(map(_drawn, _charts(document, strings)))


def pairs(before: Document, after: Document, strings: Strings) -> tuple[tuple[Picture, Picture], ...]:
    """The line charts that both documents have, each pair on the same axes."""
    earlier = {chart.identifier: chart for chart in _charts(before, strings) if isinstance(chart, LineChart)}
    found = []
    for chart in _charts(after, strings):
        if isinstance(chart, LineChart) and chart.identifier in earlier:
            old = earlier[chart.identifier]
            low, high = min(old.y_low, chart.y_low), max(old.y_high, chart.y_high)
            ticks = tuple(sorted({*old.x_ticks, *chart.x_ticks}, key=lambda tick: tick.value))
            alike = (
                replace(item, identifier=f"{side}-{item.identifier}", y_low=low, y_high=high, x_ticks=ticks)
                for side, item in (("before", old), ("after", chart))
            )
            first, second = map(_drawn, alike)
            found.append((first, second))
    return tuple(found)


def _charts(document: Document, strings: Strings) -> tuple[LineChart | bars.BarChart, ...]:
    found: list[LineChart | bars.BarChart] = []
    if document.serving is not None and document.serving.rows:
        found += _serving(document.serving, strings)
    if document.bench is not None:
        found += _bench(document.bench, strings)
    return tuple(found)


def _drawn(chart: LineChart | bars.BarChart) -> Picture:
    group = "bench" if chart.identifier.endswith("bandwidth") else "serving"
    if isinstance(chart, LineChart):
        return Picture(chart.identifier, chart.title, group, lines.draw(chart))
    return Picture(chart.identifier, chart.title, group, bars.draw(chart), wide=True)


def _label(text: str, strings: Strings, *, emulated: bool, scaled: bool = False) -> str:
    marks = [strings.emulated] * emulated + [strings.scaled] * scaled
    return f"{text} [{', '.join(marks)}]" if marks else text


def _serving(serving: ServingPart, strings: Strings) -> list[LineChart | bars.BarChart]:
    charts = (
        _times(serving, strings, "ttft-mean", "mean"),
        _times(serving, strings, "ttft-p99", "p99"),
        _hits(serving, strings, "hit-rate"),
        _turns(serving, strings, "hit-per-turn"),
        _tiers(serving, strings, "tiers"),
    )
    return [chart for chart in charts if chart is not None]


def _lines(
    serving: ServingPart, strings: Strings, point: Callable[[RowPart], Point | None], told: Callable[[float], str]
) -> tuple[Line, ...]:
    """One line per path that has points; the last value stands in its label."""
    found = []
    for path in serving.measured_paths:
        rows = sorted((row for row in serving.rows if row.path == path), key=lambda row: row.users)
        points = tuple(item for item in map(point, rows) if item is not None)
        if points:
            look = LOOKS[path]
            name, value = strings.paths[path], told(points[-1].y)
            found.append(Line(name, value, points, look.colour, look.shape, look.width, look.dash))
    return tuple(found)


def seconds(value: float) -> str:
    """``5.04``; below a second with milliseconds."""
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def users_name(users: int, strings: Strings) -> str:
    """A number of users; a replayed trace, which has none, is called that."""
    return str(users) if users else strings.serving.trace


def users_group(users: int, strings: Strings) -> str:
    """``48 users``, or that a trace was replayed."""
    return strings.serving.users_group.format(users=users) if users else strings.serving.trace


def _times(serving: ServingPart, strings: Strings, identifier: str, statistic: str) -> LineChart | None:
    words = strings.serving

    def point(row: RowPart) -> Point | None:
        if row.ttft is None:
            return None
        value = row.ttft.mean if statistic == "mean" else row.ttft.p99
        title = words.point.format(
            path=strings.paths[row.path], x=users_group(row.users, strings), value=f"{seconds(value)} s"
        )
        if statistic == "mean":
            return Point(row.users, value, title, row.mean_low, row.mean_high)
        return Point(row.users, value, title, weak=not row.ttft.p99_counts)

    drawn = _lines(serving, strings, point, lambda value: f"{seconds(value)} s")
    if not drawn:
        return None
    rules, notes = _knees(serving, strings)
    if statistic == "mean":
        subtitle, title = words.seconds_lower, words.chart_mean
        whiskers = any(
            p.low is not None and p.high is not None and p.high > p.low for item in drawn for p in item.points
        )
        notes += (words.whiskers,) * whiskers
    else:
        subtitle, title = words.p99_lower, words.chart_p99
        notes += _hollow(drawn, words.hollow_points)
    highest = max(max(p.y, p.high or 0) for item in drawn for p in item.points)
    return LineChart(
        identifier, title, _label(subtitle, strings, emulated=serving.emulated, scaled=serving.scaled),
        words.active_users, drawn, _user_ticks(serving, strings), 0, highest * 1.05, rules=rules, notes=notes,
    )  # fmt: skip


def _hollow(drawn: Iterable[Line], sentence: str) -> tuple[str, ...]:
    weak = any(point.weak for item in drawn for point in item.points)
    return (sentence.format(count=P99_SAMPLES),) * weak


def _user_ticks(serving: ServingPart, strings: Strings) -> tuple[Tick, ...]:
    return tuple(Tick(float(users), users_name(users, strings)) for users in serving.users)


def knee(contexts: float) -> str:
    """A number of users: with one decimal where that means anything."""
    return f"{contexts:.1f}" if contexts < 100 else f"{contexts:,.0f}"


def _knees(serving: ServingPart, strings: Strings) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """The predicted knee of each measured path: a line where it lies on the chart, a note where it does not."""
    rules, notes = [], []
    low, high = min(serving.users), max(serving.users)
    for part in serving.paths:
        if part.contexts is None or part.path not in serving.measured_paths:
            continue
        told = {"path": strings.paths[part.path], "users": knee(part.contexts)}
        if low <= part.contexts <= high and low < high:
            words = strings.serving.knee_label.format(**told)
            rules.append(Rule(part.contexts, words, LOOKS[part.path].colour, vertical=True))
        else:
            sentence = strings.serving.knee_beyond if part.contexts > high else strings.serving.knee_before
            notes.append(sentence.format(**told))
    return tuple(rules), tuple(notes)


def _percent_axis(drawn: Iterable[Line], *more: float) -> tuple[float, float]:
    """From a round value below what is shown to 100; rates that stay high are not pressed into a corner."""
    lowest = min([point.y for item in drawn for point in item.points] + list(more))
    size = step(max(100 - lowest, 1), 4)
    return max(0.0, (lowest - 0.15 * (100 - lowest)) // size * size), 100.0


def _hits(serving: ServingPart, strings: Strings, identifier: str) -> LineChart | None:
    words = strings.serving

    def point(row: RowPart) -> Point | None:
        if row.hit_rate is None:
            return None
        value = 100 * row.hit_rate
        x = users_group(row.users, strings)
        return Point(row.users, value, words.point.format(path=strings.paths[row.path], x=x, value=f"{value:.2f} %"))

    drawn = _lines(serving, strings, point, lambda value: f"{value:.2f} %")
    if not drawn:
        return None
    ceiling = 100 * serving.workload.ceiling
    low, high = _percent_axis(drawn, ceiling)
    rules, notes = _knees(serving, strings)
    ceiling_rule = Rule(ceiling, words.ceiling_label.format(percent=f"{ceiling:.2f}"), svg.INK, vertical=False)
    return LineChart(
        identifier, words.chart_hit,
        _label(words.percent_higher, strings, emulated=serving.emulated, scaled=serving.scaled),
        words.active_users, drawn, _user_ticks(serving, strings), low, high, y_most=100, rules=(ceiling_rule, *rules),
        notes=notes, axis_note=words.axis_starts,
    )  # fmt: skip


def _turns(serving: ServingPart, strings: Strings, identifier: str) -> LineChart | None:
    """Hit rate by turn, at the largest number of users of which turns are known."""
    words = strings.serving
    known = [part for part in serving.turns if part.hit_rate is not None]
    if not known:
        return None
    most = max(part.users for part in known)
    drawn = []
    for path in serving.measured_paths:
        own = sorted((p for p in known if (p.path, p.users) == (path, most)), key=lambda part: part.turn)
        points = tuple(
            Point(
                part.turn,
                100 * (part.hit_rate or 0),
                words.point.format(
                    path=strings.paths[path], x=f"{words.turn} {part.turn}", value=f"{100 * (part.hit_rate or 0):.2f} %"
                ),
            )
            for part in own
        )
        if points:
            look, value = LOOKS[path], f"{points[-1].y:.2f} %"
            drawn.append(Line(strings.paths[path], value, points, look.colour, look.shape, look.width, look.dash))
    ticks = tuple(Tick(float(turn), str(turn)) for turn in sorted({p.turn for p in known if p.users == most}))
    return LineChart(
        identifier, words.chart_turn.format(users=users_name(most, strings)),
        _label(words.percent_of_turn, strings, emulated=serving.emulated, scaled=serving.scaled),
        words.turn, tuple(drawn), ticks, 0, 100, y_most=100,
    )  # fmt: skip


def _tiers(serving: ServingPart, strings: Strings, identifier: str) -> bars.BarChart | None:
    words = strings.serving
    found = []
    for users in serving.users:
        for path in serving.measured_paths:
            row = serving.row(path, users)
            if row is not None and row.tiers:
                parts = tuple(
                    bars.Part(strings.tiers[tier], row.tiers.get(tier, 0.0), _TIER_COLOURS[tier]) for tier in TIERS
                )
                found.append(bars.Bar(users_group(users, strings), strings.paths[path], parts))
    if not found:
        return None
    seen = [tier for tier in TIERS if any(row.tiers.get(tier) for row in serving.rows)]
    legend = tuple(bars.Part(strings.tiers[tier], 0, _TIER_COLOURS[tier]) for tier in seen)
    subtitle = _label(words.percent_of_prompt, strings, emulated=serving.emulated, scaled=serving.scaled)
    return bars.BarChart(identifier, words.chart_tiers, subtitle, legend, tuple(found))


def _bench(bench: BenchPart, strings: Strings) -> list[LineChart]:
    found = []
    for suite in ("fabric", "storage", "store"):
        own = [part for part in bench.lines if part.suite == suite and part.points]
        if own:
            found.append(_bandwidth(suite, own, strings, f"{suite}-bandwidth"))
    return found


def line_name(part: LinePart, strings: Strings) -> str:
    """What a line is called in the language: test, queue depth, tier."""
    words = strings.bench
    template = words.lines.get(part.test, words.lines["other"])
    name = template.format(depth=part.queue_depth, test=part.test)
    return f"{name}, {words.stores.get(part.tier, part.tier)}" if part.tier else name


def _bandwidth(suite: str, parts: list[LinePart], strings: Strings, identifier: str) -> LineChart:
    words = strings.bench
    drawn = []
    for index, part in enumerate(parts):
        look = _SERIES[index % len(_SERIES)]
        name = line_name(part, strings)
        points = tuple(
            Point(
                size, rate, strings.serving.point.format(path=name, x=format_size(int(size)), value=f"{rate:.3g} GB/s")
            )
            for size, rate in part.points
        )
        drawn.append(Line(name, f"{points[-1].y:.3g}", points, look.colour, look.shape, look.width, look.dash))
    sizes = sorted({point.x for item in drawn for point in item.points})
    highest = max(point.y for item in drawn for point in item.points)
    return LineChart(
        identifier, words.charts[suite],
        _label(words.bandwidth_higher, strings, emulated=any(part.emulated for part in parts)),
        words.axes[suite], tuple(drawn), tuple(Tick(size, format_size(int(size))) for size in sizes), 0, highest * 1.05,
        logarithmic=True,
    )  # fmt: skip
