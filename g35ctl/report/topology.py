"""Where everything in the topology drawing goes: boxes on the left, rails in the middle, hosts on the right.

Pure geometry in SVG user units; the page's template only draws what is laid out here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from g35ctl.report.document import BoxPart, Document, EndpointPart, HostPart

WIDTH = 960
MAX_DRAWN = 64
"""Boxes, or hosts, drawn at most; the rest is counted."""

_MARGIN = 12
_BOX_WIDTH = 330
_HOST_WIDTH = 300
_LINE = 16
_HEADER = 24
_GAP = 12
_CHIP = 20
_CHIPS_PER_ROW = 14
_COLOURS = (
    "#2f6db3", "#c2571a", "#2e8540", "#8a4f9e", "#b3852f", "#1f8a8a",
    "#a83a5b", "#5b6b2f", "#4f5bb3", "#7a5230", "#3a7ca8", "#6b6b6b",
)  # fmt: skip


@dataclass(frozen=True)
class Chip:
    """A namespace's square: ``label`` is its owner's number, ``title`` what it is in words."""

    x: int
    y: int
    label: str
    colour: str
    title: str


@dataclass(frozen=True)
class Link:
    """An endpoint's line to its rail, ending in a dot there; its label is written inside the frame."""

    x1: int
    x2: int
    y: int
    text_x: int
    text: str
    colour: str


@dataclass(frozen=True)
class Frame:
    """A box or a host. ``badge`` is a host's number; ``bad`` marks one on which something failed."""

    x: int
    y: int
    width: int
    height: int
    name: str
    note: str
    bad: bool
    links: tuple[Link, ...]
    chips: tuple[Chip, ...] = ()
    badge: str = ""
    badge_colour: str = ""


@dataclass(frozen=True)
class RailLine:
    """A rail, drawn as a vertical line."""

    x: int
    y1: int
    y2: int
    name: str
    subnet: str
    colour: str


@dataclass(frozen=True)
class Drawing:
    """The laid out topology. ``more_boxes`` and ``more_hosts`` count what was left out."""

    width: int
    height: int
    chip: int
    rails: tuple[RailLine, ...]
    boxes: tuple[Frame, ...]
    hosts: tuple[Frame, ...]
    more_boxes: int
    more_hosts: int


def lay_out(document: Document, *, owns: str, owns_none: str, master: str) -> Drawing:
    """Lay the document's topology out. ``owns`` is a format string with ``{count}``; the other texts are used as is."""
    topology = document.topology
    left = _MARGIN + _BOX_WIDTH
    right = WIDTH - _MARGIN - _HOST_WIDTH
    step = (right - left) // (len(topology.rails) + 1)
    rail_x = {rail.name: left + step * (index + 1) for index, rail in enumerate(topology.rails)}
    rail_colour = {rail.name: _COLOURS[index % len(_COLOURS)] for index, rail in enumerate(topology.rails)}
    numbers = {host.name: index + 1 for index, host in enumerate(topology.hosts)}
    bad = _bad_hosts(document)
    top = 2 * _LINE + _GAP

    boxes: list[Frame] = []
    y = top
    for box in topology.boxes[:MAX_DRAWN]:
        frame = _box(box, y, rail_x, rail_colour, numbers, box.name in bad)
        boxes.append(frame)
        y += frame.height + _GAP
    bottom = y
    hosts: list[Frame] = []
    y = top
    for host in topology.hosts[:MAX_DRAWN]:
        note = owns.format(count=host.owned) if host.owned else owns_none
        note = f"{note}, {master}" if host.master else note
        frame = _host(host, y, rail_x, rail_colour, numbers[host.name], note, host.name in bad)
        hosts.append(frame)
        y += frame.height + _GAP
    bottom = max(bottom, y)
    rails = tuple(
        RailLine(rail_x[rail.name], top - 6, bottom - _GAP + 6, rail.name, rail.subnet, rail_colour[rail.name])
        for rail in topology.rails
    )
    return Drawing(
        WIDTH,
        bottom + _LINE,
        _CHIP,
        rails,
        tuple(boxes),
        tuple(hosts),
        max(0, len(topology.boxes) - MAX_DRAWN),
        max(0, len(topology.hosts) - MAX_DRAWN),
    )


def _bad_hosts(document: Document) -> set[str]:
    failed = {check.host for check in document.verdicts if check.grade == "FAIL"}
    return failed | {failure.host for failure in document.failures}


def _links(
    endpoints: Sequence[EndpointPart],
    y: int,
    edge: int,
    text_x: int,
    rail_x: Mapping[str, int],
    rail_colour: Mapping[str, str],
) -> tuple[Link, ...]:
    links = []
    for index, end in enumerate(endpoints):
        text = f"{end.name} {end.address}".strip()
        colour = rail_colour.get(end.rail, "#888888")
        links.append(Link(edge, rail_x.get(end.rail, edge), y + index * _LINE, text_x, text, colour))
    return tuple(links)


def _box(
    box: BoxPart,
    y: int,
    rail_x: Mapping[str, int],
    rail_colour: Mapping[str, str],
    numbers: Mapping[str, int],
    bad: bool,
) -> Frame:
    links = _links(box.portals, y + _HEADER + 10, _MARGIN + _BOX_WIDTH, _MARGIN + 10, rail_x, rail_colour)
    grid = y + _HEADER + _LINE * len(box.portals) + 8
    chips = []
    for index, namespace in enumerate(box.namespaces):
        number = numbers.get(namespace.owner)
        chips.append(
            Chip(
                _MARGIN + 10 + (index % _CHIPS_PER_ROW) * (_CHIP + 2),
                grid + (index // _CHIPS_PER_ROW) * (_CHIP + 2),
                "?" if number is None else str(number),
                "#888888" if number is None else _COLOURS[(number - 1) % len(_COLOURS)],
                f"{namespace.uuid} {namespace.nqn} owner {namespace.owner}",
            )
        )
    rows = -(-len(box.namespaces) // _CHIPS_PER_ROW)
    height = grid - y + rows * (_CHIP + 2) + 8
    rated = f"{box.rated_gbps:g} GB/s" if box.rated_gbps else ""
    return Frame(_MARGIN, y, _BOX_WIDTH, height, box.name, rated, bad, links, tuple(chips))


def _host(
    host: HostPart,
    y: int,
    rail_x: Mapping[str, int],
    rail_colour: Mapping[str, str],
    number: int,
    note: str,
    bad: bool,
) -> Frame:
    x = WIDTH - _MARGIN - _HOST_WIDTH
    links = _links(host.ports, y + _HEADER + 10, x, x + 10, rail_x, rail_colour)
    height = _HEADER + _LINE * max(1, len(host.ports)) + 8
    colour = _COLOURS[(number - 1) % len(_COLOURS)]
    return Frame(x, y, _HOST_WIDTH, height, host.name, note, bad, links, badge=str(number), badge_colour=colour)
