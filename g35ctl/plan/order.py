"""The one order in which the planner looks at names: as people count (ssd2 before ssd10), and total."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(\d+)")

NaturalKey = tuple[tuple[tuple[int, int, str], ...], str]


def natural(name: str) -> NaturalKey:
    """Sort key: runs of digits compare as numbers; equal readings (01 and 1) fall back to the text itself."""
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(name) if part)
    return parts, name
