"""What the serving suite measured: for each cache path, number of users and trial. Frozen, with a JSON form.

Units: seconds, tokens, requests per second; hit rates are shares between 0 and 1. What is missing is None or named in
``missing``, never zero. Charts and tables are drawn from this alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from pathlib import Path
from typing import Any

from ansible.module_utils.g35.schema import dump

from g35ctl.engine.ledger import write_atomically
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

SCHEMA_VERSION = 1
FILE = "serving.json"
"""Name of the file in the run folder; the report is made from it."""
#: below this many samples a 99th percentile is the maximum under another name, and is not judged
P99_SAMPLES = 100


class CachePath(StrEnum):
    """Where the KV cache of returning users lives. LOCAL: the node's own small tier; MEMORY: a store that holds every
    context in memory; G35: the same small memory with the shared flash behind it."""

    LOCAL = "local"
    MEMORY = "memory"
    G35 = "g35"


@dataclass(frozen=True)
class Distribution:
    """Of one quantity, seconds. Percentiles are nearest-rank: values that occurred."""

    samples: int
    mean: float
    p50: float
    p90: float
    p99: float
    minimum: float
    maximum: float

    @property
    def p99_counts(self) -> bool:
        """True when there are samples enough to judge the 99th percentile."""
        return self.samples >= P99_SAMPLES

    @property
    def tail(self) -> float:
        """P99 divided by the mean: 1 is a path without stragglers."""
        return self.p99 / self.mean if self.mean > 0 else 0.0

    @staticmethod
    def of(values: Sequence[float]) -> Distribution | None:
        """The distribution of ``values``, or None of nothing."""
        if not values:
            return None
        ordered = sorted(values)

        def rank(percent: int) -> float:
            return ordered[max(0, ceil(percent * len(ordered) / 100) - 1)]

        mean = sum(ordered) / len(ordered)
        return Distribution(len(ordered), mean, rank(50), rank(90), rank(99), ordered[0], ordered[-1])


@dataclass(frozen=True)
class TierTokens:
    """Where the prompt tokens of a measurement came from, by the engines' own counters, summed over all engines.

    ``device``: the engine's own cache (HBM). ``host``: a host-memory tier of the engine. ``memory`` and ``flash``: the
    two tiers of the store. ``store``: from the store, the tier was not told. ``computed``: prefilled again.
    """

    device: int
    host: int
    memory: int
    flash: int
    store: int
    computed: int

    @property
    def prompt(self) -> int:
        """All prompt tokens."""
        return self.device + self.host + self.memory + self.flash + self.store + self.computed

    @property
    def hit_rate(self) -> float:
        """Share of prompt tokens that were not computed."""
        return 1 - self.computed / self.prompt if self.prompt else 0.0

    def shares(self) -> Mapping[str, float]:
        """Each tier's share of all prompt tokens, ``computed`` included; empty of nothing."""
        total = self.prompt
        return {name: getattr(self, name) / total for name in TIERS} if total else {}


#: in the order in which an engine asks them; what none has is computed
TIERS = ("device", "host", "memory", "flash", "store", "computed")


@dataclass(frozen=True)
class TurnResult:
    """One turn of all users: turn 0 is cold, from turn 1 on the context should be found. Tokens as the engine's answers
    state them; ``tokens`` splits them by tier where the engine answers that much."""

    turn: int
    requests: int
    ttft: Distribution | None
    prompt_tokens: int
    cached_tokens: int

    @property
    def hit_rate(self) -> float | None:
        """Share of this turn's prompt tokens that came from a cache."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None


@dataclass(frozen=True)
class ErrorCount:
    """How often one kind of error was seen."""

    kind: str
    count: int


@dataclass(frozen=True)
class PointResult:
    """One measurement: one path, one number of active users, one trial.

    ``order`` is its place in the running order (trials are interleaved). ``ttft`` and ``hit_rate`` are of the steady
    turns (1 and later), ``cold_ttft`` of turn 0. ``offered_rate`` is what the generator was told, ``achieved_rate``
    what was answered. ``tokens`` are None when an engine's counters could not be read. ``incomplete`` says why the
    point is not whole; empty when it is. ``evidence`` names the file of single requests in the run folder.
    """

    path: CachePath
    users: int
    trial: int
    order: int
    generator: str
    requested: int
    completed: int
    seconds: float
    offered_rate: float
    achieved_rate: float
    ttft: Distribution | None
    cold_ttft: Distribution | None
    turns: tuple[TurnResult, ...]
    tokens: TierTokens | None
    errors: tuple[ErrorCount, ...] = ()
    incomplete: str = ""
    evidence: str = ""

    @property
    def hit_rate(self) -> float | None:
        """Share of the prompt tokens of turns 1 and later that came from a cache, by the answers."""
        return _rate(self.turns)

    @property
    def recomputed(self) -> int | None:
        """Tokens of turns 1 and later that were computed although the users had sent them before, and new ones."""
        steady = [turn for turn in self.turns if turn.turn > 0]
        return sum(turn.prompt_tokens - turn.cached_tokens for turn in steady) if steady else None

    @property
    def failed(self) -> int:
        """Requests that ended in an error."""
        return sum(item.count for item in self.errors)


@dataclass(frozen=True)
class Row:
    """All trials of one path and number of users: a row of the published table. ``ttft`` pools the steady turns of all
    trials; ``mean_low`` and ``mean_high`` are the lowest and highest mean of a single trial."""

    path: CachePath
    users: int
    trials: int
    ttft: Distribution | None
    cold_ttft: Distribution | None
    mean_low: float | None
    mean_high: float | None
    hit_rate: float | None
    tokens: TierTokens | None
    offered_rate: float
    achieved_rate: float
    errors: int
    complete: bool


@dataclass(frozen=True)
class PathSetting:
    """What a path was made of. ``memory`` and ``flash`` are bytes over all stores; ``contexts`` is how many users'
    whole contexts fit there (the predicted knee), None when not known; ``how`` says what was changed on the site."""

    path: CachePath
    memory: int
    flash: int
    contexts: float | None
    how: str


@dataclass(frozen=True)
class Workload:
    """The published method as parameters. ``rate`` is requests per second and node; ``context`` the tokens of a user's
    first prompt, which grows by ``new_tokens`` with each of the ``rounds`` turns; ``output_tokens`` are generated.
    ``trace`` names a trace that is replayed instead (``users`` is then 0), ``trace_ceiling`` is what it repeats."""

    users: tuple[int, ...]
    paths: tuple[CachePath, ...]
    rate: float
    nodes: int
    context: int
    shared_prefix: int
    new_tokens: int
    output_tokens: int
    rounds: int
    trials: int
    seed: int
    block: int
    trace: str = ""
    trace_ceiling: float = 0.0

    @property
    def ceiling(self) -> float:
        """The highest hit rate the steady turns of this workload can have: all that was sent before, but whole blocks
        only and never the block that holds the last token."""
        if self.trace:
            return self.trace_ceiling
        found = prompt = 0
        for turn in range(1, self.rounds):
            length = self.prompt_tokens(turn)
            known = min(self.prompt_tokens(turn - 1), length - 1)
            found += known // self.block * self.block
            prompt += length
        return found / prompt if prompt else 0.0

    def prompt_tokens(self, turn: int) -> int:
        """Length of a user's prompt in ``turn``."""
        return self.context + turn * self.new_tokens


@dataclass(frozen=True)
class Agreement:
    """The built-in generator and aiperf on the same workload. Differences are shares of aiperf's figure."""

    users: int
    builtin_ttft_mean: float
    aiperf_ttft_mean: float
    builtin_hit_rate: float
    aiperf_hit_rate: float
    aiperf_version: str
    tolerance: float

    @property
    def ttft_difference(self) -> float:
        """Signed."""
        return self.builtin_ttft_mean / self.aiperf_ttft_mean - 1 if self.aiperf_ttft_mean else 0.0


@dataclass(frozen=True)
class Equality:
    """Greedy answers with the cache against cold ones, one path. ``differing`` quotes the first difference."""

    path: CachePath
    asked: int
    equal: int
    differing: str = ""


@dataclass(frozen=True)
class ServingResult:
    """Everything the serving suite found. ``missing`` names in words what was to be measured and was not, and why;
    ``emulated`` marks figures that say nothing about real hardware; ``restored`` whether the site is known to run on
    the configuration it had before."""

    workload: Workload
    settings: tuple[PathSetting, ...]
    points: tuple[PointResult, ...]
    rows: tuple[Row, ...]
    equalities: tuple[Equality, ...] = ()
    agreement: Agreement | None = None
    missing: tuple[str, ...] = ()
    restored: bool = True
    emulated: bool = False
    engines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def row(self, path: CachePath, users: int) -> Row | None:
        """The row of one path and number of users, or None."""
        return next((row for row in self.rows if (row.path, row.users) == (path, users)), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data; :meth:`from_json` reads it back equal. Derived figures are not in it."""
        return dump(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ServingResult:
        """Read :meth:`to_json` output. Raises ValueError (pydantic's) that names every field that does not fit."""
        from pydantic import TypeAdapter

        return TypeAdapter(ServingResult).validate_python(dict(data))


def _rate(turns: Sequence[TurnResult]) -> float | None:
    steady = [turn for turn in turns if turn.turn > 0]
    prompt = sum(turn.prompt_tokens for turn in steady)
    return sum(turn.cached_tokens for turn in steady) / prompt if prompt else None


def write(folder: Path | str, result: ServingResult) -> Path:
    """Write serving.json into a run folder and return its path. Raises OSError."""
    path = Path(folder) / FILE
    write_atomically(path, result.to_json())
    return path


def read(folder: Path | str) -> ServingResult | None:
    """The serving results of a run folder, or None where the suite did not run. Raises G35Error when damaged."""
    path = Path(folder) / FILE
    try:
        return ServingResult.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise G35Error(
            "the stored serving results are damaged",
            why=f"{path}: {error}",
            next_command="run: g35ctl validate --suite serving",
            exit_code=Exit.USAGE,
        ) from error
