"""From values to coordinates, and the round values that axes are labelled with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps ``low``..``high`` linearly, or by powers of two, to ``start``..``end``."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, here = self.low, self.high, value
        if self.logarithmic:
            low, high, here = math.log2(low), math.log2(high), math.log2(value)
        share = 0.5 if high == low else (here - low) / (high - low)
        return self.start + share * (self.end - self.start)


def step(span: float, wanted: int = 5) -> float:
    """1, 2, 2.5 or 5 times a power of ten, so that about ``wanted`` steps make the span."""
    if span <= 0:
        return 1.0
    rough = span / wanted
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(
        (factor * magnitude for factor in (1, 2, 2.5, 5) if factor * magnitude >= rough * 0.999), 10 * magnitude
    )


def ticks(low: float, high: float, wanted: int = 5) -> tuple[float, ...]:
    """Round values that enclose ``low``..``high``, rising."""
    size = step(high - low, wanted)
    first, last = math.floor(low / size + 1e-9), math.ceil(high / size - 1e-9)
    return tuple(round(number * size, 12) for number in range(first, max(last, first + 1) + 1))


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> tuple[float, ...]:
    """Places as near to the wanted ones as a distance of ``gap`` allows, within ``low``..``high`` where they fit.

    The order is kept; equal wishes keep the order in which they are given.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [0.0] * len(wanted)
    before = low - gap
    for index in order:
        before = placed[index] = max(wanted[index], before + gap)
    after = max(high, low + gap * (len(wanted) - 1)) + gap
    for index in reversed(order):
        after = placed[index] = min(placed[index], after - gap)
    return tuple(placed)
