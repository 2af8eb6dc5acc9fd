"""What a site's tiers can hold and carry for its model and workload, in figures. Frozen, with a JSON form.

Everything here is predicted: computed from the inventory, the model's ``config.json`` and the assumptions that
``notes`` name. Bytes are bytes, bandwidths bytes per second, rates requests per second, times seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

#: in the order of the published table
PATHS = ("local", "memory", "g35")


@dataclass(frozen=True)
class TierFigures:
    """One tier of the cache. ``name`` is device, memory, local flash or shared flash; ``shared`` tells a pool that
    every host reads from one that serves its own host only. ``contexts`` is how many whole contexts fit in ``total``
    bytes and ``load_seconds`` how long one takes to reach a host that is alone; 0 where nothing has to be moved."""

    name: str
    per_host: int
    total: int
    shared: bool
    contexts: float
    load_seconds: float


@dataclass(frozen=True)
class PathFigures:
    """One of the three cache paths. ``contexts`` is its knee: with more active users than this, contexts are evicted
    before they are wanted again. None: the path holds whatever it is given. ``tier`` is what decides it."""

    path: str
    tier: str
    contexts: float | None

    def holds(self, users: int) -> bool:
        """Whether so many users' contexts stay."""
        return self.contexts is None or users <= self.contexts


@dataclass(frozen=True)
class LinkFigures:
    """What one link has to carry when every request finds its context below the device. ``needed`` is at the offered
    rate and ``expected`` at the rate that prefill lets through; ``requests`` is the rate that would fill the link. 0 as
    ``available``: not known."""

    name: str
    count: int
    needed: float
    expected: float
    available: float
    requests: float

    @property
    def fits(self) -> bool:
        """Whether the expected rate can be carried; True while the link's limit is not known."""
        return self.available <= 0 or self.expected <= self.available


@dataclass(frozen=True)
class EnduranceFigures:
    """Writes to flash. ``dwpd`` is in whole drive writes per day of all flash, at the expected rate, ``dwpd_offered``
    at the offered one; ``rated`` what the drives are rated for."""

    bytes_per_day: float
    dwpd: float
    dwpd_offered: float
    rated: float

    @property
    def fits(self) -> bool:
        """Whether the drives last as long as they are rated for."""
        return self.dwpd <= self.rated


@dataclass(frozen=True)
class Range:
    """A figure with its uncertainty."""

    low: float
    typical: float
    high: float


@dataclass(frozen=True)
class CostFigures:
    """What it costs to keep one context, in ``currency``, at prices as of ``as_of`` (ISO date). ``flash`` is shared
    flash with its share of enclosure, NICs and switch ports; ``ratio`` is memory over flash."""

    currency: str
    as_of: str
    memory: Range
    flash: Range
    ratio: Range


@dataclass(frozen=True)
class WorkloadFigures:
    """All figures of one site. ``expected_rate`` is what its accelerators can prefill when every context is found."""

    model: str
    attention: str
    kv_dtype: str
    bytes_per_token: float
    context_tokens: int
    context_bytes: int
    state_bytes: int
    users: tuple[int, ...]
    ceiling: float
    offered_rate: float
    expected_rate: float
    tiers: tuple[TierFigures, ...]
    paths: tuple[PathFigures, ...]
    links: tuple[LinkFigures, ...]
    endurance: EnduranceFigures | None
    cost: CostFigures
    notes: tuple[str, ...] = ()

    def path(self, name: str) -> PathFigures:
        """The figures of path ``local``, ``memory`` or ``g35``. Raises KeyError."""
        for item in self.paths:
            if item.path == name:
                return item
        raise KeyError(name)

    def knee(self, name: str) -> float | None:
        """The predicted number of users beyond which a path falls off, None when it does not. Raises KeyError."""
        return self.path(name).contexts
