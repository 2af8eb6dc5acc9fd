"""Stacked horizontal bars: how a whole is made up."""

from __future__ import annotations

from dataclasses import dataclass

from g35ctl.report.charts import svg

WIDTH = 1020
_ROW = 22
_BAR = 15
_TOP = 78
_GROUP_GAP = 8


@dataclass(frozen=True)
class Part:
    """A share of a bar, 0 to 1."""

    name: str
    share: float
    colour: str


@dataclass(frozen=True)
class Bar:
    """One bar. A change of ``group`` leaves a gap and names the group."""

    group: str
    label: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class BarChart:
    """A chart before it is drawn. ``legend`` names every part that occurs, in stacking order."""

    identifier: str
    title: str
    subtitle: str
    legend: tuple[Part, ...]
    bars: tuple[Bar, ...]


def draw(chart: BarChart) -> str:
    """The chart as one SVG element."""
    groups = max((svg.text_width(bar.group, 12) for bar in chart.bars), default=0)
    names = max((svg.text_width(bar.label, 12) for bar in chart.bars), default=0)
    left = groups + names + 34
    width = WIDTH - left - 8
    parts = [
        svg.text(0, 15, chart.title, size=14, bold=True),
        svg.text(0, 33, chart.subtitle, size=11, colour=svg.DIM),
        *_legend(chart.legend),
    ]
    y: float = _TOP
    before = ""
    for bar in chart.bars:
        if bar.group != before:
            y += _GROUP_GAP if before else 0
            parts.append(svg.text(0, y + 12, bar.group, size=12, bold=True))
            before = bar.group
        parts.append(svg.text(left - 8, y + 12, bar.label, size=12, anchor="end"))
        parts.append(_bar(bar, left, y, width))
        y += _ROW
    description = "; ".join(
        f"{bar.group} {bar.label}: " + ", ".join(f"{part.name} {100 * part.share:.1f} %" for part in bar.parts)
        for bar in chart.bars
    )
    return svg.document(chart.identifier, WIDTH, y + 2, chart.title, description, "".join(parts))


def _legend(legend: tuple[Part, ...]) -> list[str]:
    parts, x = [], 0.0
    for item in legend:
        parts.append(svg.element("rect", x=x, y=48, width=12, height=12, rx=2, fill=item.colour))
        parts.append(svg.text(x + 18, 58, item.name, size=11.5))
        x += 18 + svg.text_width(item.name, 11.5) + 22
    return parts


def _bar(bar: Bar, left: float, y: float, width: float) -> str:
    parts, x = [], left
    for part in bar.parts:
        length = width * part.share
        if length <= 0:
            continue
        told = svg.element("title", f"{100 * part.share:.1f} %")
        parts.append(
            svg.element(
                "rect", told, x=x, y=y, width=length, height=_BAR, fill=part.colour, stroke=svg.PAPER,
                stroke_width=1, class_="mark",
            )
        )  # fmt: skip
        if length > 38:
            ink = svg.PAPER if part.colour in _DARK else svg.INK
            parts.append(
                svg.text(x + length / 2, y + 11.5, f"{100 * part.share:.1f} %", size=10, colour=ink, anchor="middle")
            )
        x += length
    return svg.element("g", "".join(parts), class_="series")


_DARK = frozenset({svg.BLUE, svg.VERMILION, svg.GREEN})
