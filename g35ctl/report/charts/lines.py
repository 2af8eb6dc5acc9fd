"""Line charts: labels stand at the ends of their lines, so that nobody has to match a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from g35ctl.report.charts import svg
from g35ctl.report.charts.scales import Scale, spread, ticks

WIDTH = 500
_PLOT_HEIGHT = 220
_LEFT = 44
_TOP = 52
_PAD = 14
_LABEL = 11.5
_NOTE = 11
_WIDEST_LABEL = 128
_LEADING = 13


@dataclass(frozen=True)
class Point:
    """A measured value. ``low`` and ``high`` draw a whisker; ``weak`` points are hollow; ``title`` shows on hover."""

    x: float
    y: float
    title: str = ""
    low: float | None = None
    high: float | None = None
    weak: bool = False


@dataclass(frozen=True)
class Line:
    """A series. ``label`` and, bold, ``value`` (of the last point) stand at its end; ``points`` rise in x."""

    label: str
    value: str
    points: tuple[Point, ...]
    colour: str
    shape: str = "circle"
    width: float = 2
    dash: str = ""


@dataclass(frozen=True)
class Rule:
    """A value that is no measurement: a vertical line at an x, or a horizontal one at a y."""

    value: float
    label: str
    colour: str
    vertical: bool


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    value: float
    label: str


@dataclass(frozen=True)
class LineChart:
    """A chart before it is drawn. ``y_low`` and ``y_high`` are the values the y axis must show at least;
    ``notes`` stand below it, first ``axis_note`` (a format with ``value``) where the axis does not start at 0."""

    identifier: str
    title: str
    subtitle: str
    x_label: str
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_low: float
    y_high: float
    y_digits: int = 0
    y_most: float | None = None
    rules: tuple[Rule, ...] = ()
    notes: tuple[str, ...] = ()
    axis_note: str = ""
    logarithmic: bool = False


def draw(chart: LineChart) -> str:
    """The chart as one SVG element."""
    labels = [_wrap(line.label) for line in chart.lines]
    room = max(map(_room, labels, (line.value for line in chart.lines)), default=0) + 32
    right = WIDTH - room
    bottom = _TOP + _PLOT_HEIGHT
    xs = [tick.value for tick in chart.x_ticks] or [0.0]
    across = Scale(min(xs), max(xs), _LEFT + _PAD, right - _PAD, chart.logarithmic)
    marks = ticks(chart.y_low, chart.y_high)
    if chart.y_most is not None:
        marks = tuple(value for value in marks if value <= chart.y_most + 1e-9)
    up = Scale(marks[0], marks[-1], bottom, _TOP)
    parts = [
        svg.text(0, 15, chart.title, size=14, bold=True),
        svg.text(0, 33, chart.subtitle, size=_NOTE, colour=svg.DIM),
        *_grid(chart, marks, up, right),
        *_x_axis(chart, across, bottom, right),
        *(_rule(rule, across, up, right, bottom) for rule in chart.rules),
        *(_series(line, across, up) for line in chart.lines),
        *_rule_labels(chart.rules, across, up, right),
        *_end_labels(chart.lines, labels, across, up, right, bottom),
    ]
    y = bottom + 54
    starts = (chart.axis_note.format(value=f"{marks[0]:g}"),) if chart.axis_note and marks[0] > 0 else ()
    for note in (*starts, *chart.notes):
        parts.append(svg.text(0, y, note, size=_NOTE, colour=svg.DIM))
        y += 15
    described = "; ".join(
        [chart.subtitle, *(f"{line.label} {line.value}" for line in chart.lines), *(rule.label for rule in chart.rules)]
    )
    return svg.document(chart.identifier, WIDTH, y - 8, chart.title, described, "".join(parts))


def _grid(chart: LineChart, marks: Sequence[float], up: Scale, right: float) -> list[str]:
    digits = max(chart.y_digits, _digits(marks))
    parts = []
    for index, value in enumerate(marks):
        y = up(value)
        parts.append(svg.line(_LEFT, y, right, y, svg.GRID if index else svg.DIM))
        parts.append(svg.text(_LEFT - 7, y + 4, f"{value:.{digits}f}", size=_NOTE, colour=svg.DIM, anchor="end"))
    return parts


def _digits(marks: Sequence[float]) -> int:
    """As many decimals as tell neighbouring marks apart."""
    return next((count for count in range(4) if all(abs(round(m, count) - m) < 1e-9 for m in marks)), 4)


def _x_axis(chart: LineChart, across: Scale, bottom: float, right: float) -> list[str]:
    parts = [svg.text((_LEFT + right) / 2, bottom + 34, chart.x_label, size=_NOTE, colour=svg.DIM, anchor="middle")]
    free = float("-inf")
    for tick in chart.x_ticks:
        x, half = across(tick.value), svg.text_width(tick.label, _NOTE) / 2
        parts.append(svg.line(x, bottom, x, bottom + 4, svg.DIM))
        if x - half >= free:
            parts.append(svg.text(x, bottom + 17, tick.label, size=_NOTE, colour=svg.DIM, anchor="middle"))
            free = x + half + 6
    return parts


def _rule(rule: Rule, across: Scale, up: Scale, right: float, bottom: float) -> str:
    if rule.vertical:
        x = across(rule.value)
        return svg.line(x, _TOP, x, bottom, rule.colour, 1.3, "2 3")
    y = up(rule.value)
    return svg.line(_LEFT, y, right, y, rule.colour, 1.5, "1.5 3")


def _rule_labels(rules: Sequence[Rule], across: Scale, up: Scale, right: float) -> list[str]:
    """Horizontal rules are labelled where they are, vertical ones from the top down wherever there is room left."""
    parts, taken = [], list[float]()
    for rule in rules:
        if not rule.vertical:
            place = up(rule.value)
            y = place + 15 if place - _TOP < 18 else place - 8
            parts.append(_haloed(_LEFT + 6, y, rule.label, "start"))
            taken.append(y)
    for rule in rules:
        if rule.vertical:
            y = _TOP + 11
            while any(abs(y - other) < _LEADING + 1 for other in taken):
                y += 1
            x = across(rule.value)
            fits = x - svg.text_width(rule.label, _NOTE) - 6 > _LEFT
            parts.append(_haloed(x - 6 if fits else x + 6, y, rule.label, "end" if fits else "start"))
            taken.append(y)
    return parts


def _haloed(x: float, y: float, words: str, anchor: str) -> str:
    """Words that stay readable where a line crosses them."""
    under = svg.text(x, y, words, size=_NOTE, colour=svg.PAPER, anchor=anchor)
    under = under.replace("<text ", f'<text stroke="{svg.PAPER}" stroke-width="4" stroke-linejoin="round" ', 1)
    return under.replace("<text ", '<text aria-hidden="true" ', 1) + svg.text(x, y, words, size=_NOTE, anchor=anchor)


def _series(line: Line, across: Scale, up: Scale) -> str:
    places = [(across(point.x), up(point.y)) for point in line.points]
    parts = []
    if len(places) > 1:
        path = " ".join(f"{svg.number(x)},{svg.number(y)}" for x, y in places)
        dash: dict[str, str | float] = {"stroke_dasharray": line.dash} if line.dash else {}
        parts.append(
            svg.element(
                "polyline", points=path, fill="none", stroke=line.colour, stroke_width=line.width,
                stroke_linejoin="round", **dash,
            )
        )  # fmt: skip
    for point, (x, y) in zip(line.points, places, strict=True):
        if point.low is not None and point.high is not None and point.high > point.low:
            low, high = up(point.low), up(point.high)
            parts += [svg.line(x, low, x, high, line.colour, 1.2)]
            parts += [svg.line(x - 4, end, x + 4, end, line.colour, 1.2) for end in (low, high)]
        parts.append(svg.marker(line.shape, x, y, line.colour, point.title, hollow=point.weak))
    return svg.element("g", "".join(parts), class_="series")


def _room(rows: Sequence[str], value: str) -> float:
    """How wide a label is; its value follows the last row."""
    return max(*(svg.text_width(row, _LABEL) for row in rows), svg.text_width(f"{rows[-1]}  {value}", _LABEL))


def _end_labels(
    lines: Sequence[Line], labels: Sequence[Sequence[str]], across: Scale, up: Scale, right: float, bottom: float
) -> list[str]:
    if not lines:
        return []
    gap = _LEADING * max(len(rows) for rows in labels) + 4
    wanted = [up(line.points[-1].y) for line in lines]
    parts = []
    for line, rows, want, y in zip(lines, labels, wanted, spread(wanted, gap, _TOP, bottom), strict=True):
        x = across(line.points[-1].x)
        parts.append(svg.line(x + 7, want, right + 2, y, svg.EMPTY, 1) if x + 7 < right else "")
        parts.append(svg.marker(line.shape, right + 10, y, line.colour, ""))
        top = y + 4 - _LEADING * (len(rows) - 1) / 2
        for index, row in enumerate(rows):
            last = index == len(rows) - 1
            parts.append(
                svg.text(right + 20, top + _LEADING * index, row, size=_LABEL, value=line.value if last else "")
            )
    # Samples in labels are no data points.
    return [part.replace('class="mark"', 'class="sample"') for part in parts]


def _wrap(words: str) -> list[str]:
    """On one line where that is narrow enough, else broken at the space nearest to the middle."""
    if svg.text_width(words, _LABEL) <= _WIDEST_LABEL or " " not in words:
        return [words]
    spaces = [index for index, character in enumerate(words) if character == " "]
    best = min(spaces, key=lambda index: abs(index - len(words) / 2))
    return [words[:best], words[best + 1 :]]
