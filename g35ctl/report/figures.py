"""What the benchmark and serving suites measured, as the report keeps it: the parts of a Document that charts, tables,
summary.csv and comparisons are made from.

Units throughout: seconds, bytes, GB/s (10^9 bytes), tokens, requests per second; hit rates are shares between 0 and 1.
What was not measured is None, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from g35ctl.validate.serving_result import Distribution

PATHS = ("local", "memory", "g35")
"""The three cache paths, in the order in which they are shown."""
TIERS = ("device", "host", "memory", "flash", "store", "computed")
"""Where prompt tokens come from, nearest first; what no tier had is computed."""
PUBLISHED_CONTEXT = 160_000
"""Context length of the published method, tokens."""


@dataclass(frozen=True)
class RowPart:
    """All trials of one path and number of users. ``ttft`` is of turns 1 and later, ``cold_ttft`` of turn 0;
    ``mean_low`` and ``mean_high`` are the extreme means of single trials. ``tiers`` holds each tier's share of all
    prompt tokens. ``recomputed`` counts tokens per request. ``complete`` is false when a trial is missing or was cut
    short."""

    path: str
    users: int
    trials: int
    offered_rate: float
    achieved_rate: float
    errors: int
    complete: bool
    ttft: Distribution | None = None
    cold_ttft: Distribution | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    hit_rate: float | None = None
    recomputed: float | None = None
    tiers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TurnPart:
    """One turn of all users and trials of a path."""

    path: str
    users: int
    turn: int
    requests: int
    hit_rate: float | None = None
    ttft_mean: float | None = None


@dataclass(frozen=True)
class PathPart:
    """What a path was made of, and the predicted knee: how many users' whole contexts fit (``contexts``)."""

    path: str
    memory: int
    flash: int
    how: str = ""
    contexts: float | None = None


@dataclass(frozen=True)
class WorkloadPart:
    """The workload. ``rate`` is requests per second and node; ``ceiling`` the highest hit rate it allows. ``trace``
    names a trace that was replayed instead; its rows have 0 ``users``."""

    users: tuple[int, ...]
    rate: float
    nodes: int
    context: int
    shared_prefix: int
    new_tokens: int
    output_tokens: int
    rounds: int
    trials: int
    seed: int
    ceiling: float
    trace: str = ""


@dataclass(frozen=True)
class EqualityPart:
    """Greedy answers with the cache against cold ones."""

    path: str
    asked: int
    equal: int
    differing: str = ""


@dataclass(frozen=True)
class AgreementPart:
    """The built-in load generator and aiperf on the same workload; ``tolerance`` is a share."""

    users: int
    builtin_ttft_mean: float
    aiperf_ttft_mean: float
    builtin_hit_rate: float
    aiperf_hit_rate: float
    aiperf_version: str
    tolerance: float


@dataclass(frozen=True)
class CostPart:
    """What keeping a context in memory costs, as a multiple of shared flash with its share of enclosure and network:
    lowest, typical and highest, and the typical prices of a GB they were made from. Assumed, not measured."""

    currency: str
    as_of: str
    ratio_low: float
    ratio_typical: float
    ratio_high: float
    memory_gb: float
    flash_gb: float


@dataclass(frozen=True)
class ServingPart:
    """The site's own version of the published table. ``missing`` says in words what could not be measured."""

    workload: WorkloadPart
    paths: tuple[PathPart, ...]
    rows: tuple[RowPart, ...]
    turns: tuple[TurnPart, ...] = ()
    equalities: tuple[EqualityPart, ...] = ()
    agreement: AgreementPart | None = None
    missing: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    restored: bool = True
    emulated: bool = False
    cost: CostPart | None = None

    def row(self, path: str, users: int) -> RowPart | None:
        """The row of one path and number of users, or None."""
        return next((row for row in self.rows if (row.path, row.users) == (path, users)), None)

    @property
    def users(self) -> tuple[int, ...]:
        """User counts that have a row, rising."""
        return tuple(sorted({row.users for row in self.rows}))

    @property
    def measured_paths(self) -> tuple[str, ...]:
        """Paths that have a row, in the order of PATHS."""
        return tuple(path for path in PATHS if any(row.path == path for row in self.rows))

    @property
    def scaled(self) -> bool:
        """True when the workload was cut down to what an emulated site can bear."""
        return self.emulated and self.workload.context < PUBLISHED_CONTEXT


@dataclass(frozen=True)
class LinePart:
    """One line of GB/s against block size. ``points`` are (bytes, GB/s) pairs."""

    suite: str
    test: str
    points: tuple[tuple[float, ...], ...]
    tier: str = ""
    queue_depth: int = 0
    emulated: bool = False


@dataclass(frozen=True)
class MeasurementPart:
    """One run of one tool between two ends; times of single operations in microseconds."""

    suite: str
    test: str
    tool: str
    host: str
    peer: str = ""
    subject: str = ""
    tier: str = ""
    block_size: int = 0
    queue_depth: int = 0
    gigabytes_per_second: float = 0.0
    operations_per_second: float = 0.0
    latency_mean: float | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    latency_samples: int = 0
    verified: int = 0
    mismatched: int = 0
    emulated: bool = False
    evidence: str = ""
    problem: str = ""


@dataclass(frozen=True)
class CounterPart:
    """How far a counter of a data port rose while a suite ran."""

    suite: str
    host: str
    netdev: str
    counter: str
    kind: str
    rise: int


@dataclass(frozen=True)
class BenchPart:
    """What the fabric, storage and store suites measured."""

    lines: tuple[LinePart, ...] = ()
    measurements: tuple[MeasurementPart, ...] = ()
    counters: tuple[CounterPart, ...] = ()
    emulated: bool = False


@dataclass(frozen=True)
class CommandPart:
    """A command line that was run, with the tool's version; ``hosts`` where it ran, if known."""

    suite: str
    tool: str
    command: str
    version: str = ""
    hosts: tuple[str, ...] = ()
