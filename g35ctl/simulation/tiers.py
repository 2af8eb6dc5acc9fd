"""Tiers that hold prefixes of users' contexts, least recently used first out, and links that are used in turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass


class Tier:
    """One tier: how many tokens of each user's context it holds. Always a prefix: pages leave from the end of the
    context that was wanted longest ago, as engines and stores evict the leaves of their prefix trees."""

    def __init__(self, capacity: float, page: int) -> None:
        """``capacity`` and ``page`` in tokens; infinite capacity holds everything."""
        self.capacity = capacity
        self.page = page
        self.used = 0
        self._held: OrderedDict[int, int] = OrderedDict()

    def holds(self, user: int) -> int:
        """Tokens of the user's context that are here."""
        return self._held.get(user, 0)

    def touch(self, user: int) -> None:
        """The user's context was wanted just now."""
        if user in self._held:
            self._held.move_to_end(user)

    def put(self, user: int, tokens: int) -> int:
        """Keep the first ``tokens`` tokens of a user's context, whole pages; returns how many of them are new here."""
        tokens = tokens // self.page * self.page
        before = self._held.get(user, 0)
        if tokens <= before:
            self.touch(user)
            return 0
        self._held[user] = tokens
        self._held.move_to_end(user)
        self.used += tokens - before
        self._evict()
        return tokens - before

    def _evict(self) -> None:
        while self.used > self.capacity:
            oldest = next(iter(self._held))
            held = self._held[oldest]
            pages = -(-(self.used - self.capacity) // self.page)
            gone = min(held, int(pages) * self.page)
            self.used -= gone
            if gone == held:
                del self._held[oldest]
            else:
                self._held[oldest] = held - gone


@dataclass
class Link:
    """Something with a bandwidth, bytes per second, that carries one transfer after the other; 0 carries any amount in
    no time. ``carried`` counts its bytes."""

    bandwidth: float
    free_at: float = 0.0
    carried: float = 0.0

    def send(self, now: float, size: float) -> float:
        """When ``size`` bytes that are ready now have passed."""
        self.carried += size
        if self.bandwidth <= 0 or size <= 0:
            return now
        self.free_at = max(self.free_at, now) + size / self.bandwidth
        return self.free_at


def moved(now: float, shares: Iterable[tuple[Link, float]]) -> float:
    """When bytes that pass several links, each carrying its own share, have arrived."""
    return max((link.send(now, size) for link, size in shares), default=now)
