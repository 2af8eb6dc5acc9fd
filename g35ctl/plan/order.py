"""The one order in which the planner looks at names: as people count (ssd2 before ssd10), and total; and what belongs
together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

_DIGITS = re.compile(r"(\d+)")

NaturalKey = tuple[tuple[tuple[int, int, str], ...], str]


def natural(name: str) -> NaturalKey:
    """Sort key: runs of digits compare as numbers; equal readings (01 and 1) fall back to the text itself."""
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(name) if part)
    return parts, name


def together(items: Sequence[T], ties: Callable[[T], Iterable[object]]) -> list[list[T]]:
    """Items in groups: two that have a tie (any hashable) in common are in one group, also by way of others.

    Groups are in the order of their first item, and items keep their order.
    """
    leaders = list(range(len(items)))

    def leader(place: int) -> int:
        while leaders[place] != place:
            leaders[place] = leaders[leaders[place]]
            place = leaders[place]
        return place

    seen: dict[object, int] = {}
    for place, item in enumerate(items):
        for tie in ties(item):
            one, other = sorted((leader(seen.setdefault(tie, place)), leader(place)))
            leaders[other] = one
    groups: dict[int, list[T]] = {}
    for place, item in enumerate(items):
        groups.setdefault(leader(place), []).append(item)
    return list(groups.values())
