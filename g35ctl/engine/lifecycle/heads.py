"""Boxes with several heads: what concerns one of them concerns all."""

from __future__ import annotations

from g35ctl.plan.moves import Move
from g35ctl.site.model import Site


def heads_of(site: Site, box: str) -> tuple[str, ...]:
    """A box and the boxes that are further heads of it."""
    return (box, *(item.name for item in site.group("ebof") if item.box is not None and item.box.head_of == box))


def heads_of_move(site: Site, move: Move) -> tuple[str, ...]:
    """Every box that a move concerns, with its further heads."""
    boxes = dict.fromkeys(box for box, _ in move.subsystems)
    return tuple(dict.fromkeys(name for box in boxes for name in heads_of(site, box)))
