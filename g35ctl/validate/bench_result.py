"""What the benchmark suites measured: typed, frozen, with a JSON form that lies in the run folder as bench.json.

One :class:`Measurement` is one run of one tool between one pair of ends. Judging is done elsewhere; nothing here knows
a threshold. Bandwidths are bytes per second (GB/s is 10^9), latencies microseconds, sizes bytes, times seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.module_utils.g35.schema import SchemaError, dump, load

from g35ctl.engine.ledger import write_atomically
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.observe.tool_output import Latency

SCHEMA_VERSION = 1
FILE = "bench.json"
"""Name of the file in the run folder."""
GIGA = 1e9


@dataclass(frozen=True)
class Measurement:
    """One run of one tool.

    ``suite`` is fabric, storage or store. ``test`` says what was measured:

    * fabric: ``write``, ``read`` (bandwidth of a pair), ``latency`` (of a pair), ``incast`` (one sender of several);
    * storage: ``namespace`` (one alone), ``aggregate`` (all at once), ``remote`` and ``local`` (latency of small reads,
      on the owner and on the box itself), ``write`` (only where a namespace was named for it);
    * store: ``put``, ``get``, ``batch_put``, ``batch_get``, ``transfer``; ``tier`` is then memory or flash.

    ``host`` ran the tool and ``peer`` is the other end (a host, or the box of a namespace). ``subject`` is the rail or
    the namespace's UUID, ``group`` names measurements that ran at the same time and whose sum is a figure of its own.
    ``problem`` is why there is no figure, or one that does not count. ``emulated`` figures say nothing about hardware.
    """

    suite: str
    test: str
    tool: str
    host: str
    peer: str = ""
    subject: str = ""
    tier: str = ""
    group: str = ""
    block_size: int = 0
    queue_depth: int = 0
    bytes_per_second: float = 0.0
    operations_per_second: float = 0.0
    latency: Latency | None = None
    seconds: float = 0.0
    moved: int = 0
    verified: int = 0
    mismatched: int = 0
    emulated: bool = False
    command: str = ""
    version: str = ""
    evidence: str = ""
    problem: str = ""

    @property
    def gigabytes_per_second(self) -> float:
        """Bandwidth in GB/s (10^9 bytes)."""
        return self.bytes_per_second / GIGA


@dataclass(frozen=True)
class CounterChange:
    """How far a counter of a data port rose while a suite ran. ``kind`` is one of pause, pause_wrong_priority, cnp,
    discard, sequence, link: see g35ctl/validate/bench_counters.py."""

    suite: str
    host: str
    netdev: str
    counter: str
    kind: str
    before: int
    after: int

    @property
    def rise(self) -> int:
        """By how much; a counter that was reset meanwhile gives what it has counted since."""
        return self.after - self.before if self.after >= self.before else self.after


@dataclass(frozen=True)
class Series:
    """A line of the chart "GB/s against block size": ``points`` are (bytes, GB/s), block sizes rising.

    ``name`` is in English; ``test``, ``tier`` and ``queue_depth`` say the same for labels in other languages."""

    suite: str
    name: str
    points: tuple[tuple[float, float], ...]
    emulated: bool = False
    test: str = ""
    tier: str = ""
    queue_depth: int = 0


@dataclass(frozen=True)
class BenchResult:
    """Everything the benchmark suites of one run measured. ``versions`` maps a tool to the version it told, with the
    hosts where they differ."""

    measurements: tuple[Measurement, ...] = ()
    counters: tuple[CounterChange, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    emulated: bool = False
    schema_version: int = SCHEMA_VERSION

    def of(self, suite: str, *tests: str) -> tuple[Measurement, ...]:
        """The measurements of a suite that came to a figure, all or those of the named tests."""
        return tuple(
            item
            for item in self.measurements
            if item.suite == suite and not item.problem and (not tests or item.test in tests)
        )

    def together(self, other: BenchResult) -> BenchResult:
        """Both results as one: suites run one after the other and add to the same file."""
        return BenchResult(
            self.measurements + other.measurements,
            self.counters + other.counters,
            {**self.versions, **other.versions},
            self.emulated or other.emulated,
        )

    def commands(self) -> tuple[str, ...]:
        """Every distinct command line, in the order in which they ran."""
        return tuple(dict.fromkeys(item.command for item in self.measurements if item.command))

    def series(self) -> tuple[Series, ...]:
        """Lines for the chart of GB/s against block size.

        Fabric: read and write, best pair of each size. Storage: the mean of the namespaces alone at each queue depth,
        and the sum of all at once. Store: the sum over hosts of each operation and tier. Lines without a point are left
        out.
        """
        lines: list[Series] = []
        for test in ("write", "read"):
            found = self.of("fabric", test)
            lines += _line("fabric", f"fabric {test}", found, _best)
        alone = self.of("storage", "namespace")
        for depth in sorted({item.queue_depth for item in alone}):
            members = [item for item in alone if item.queue_depth == depth]
            lines += _line("storage", f"namespace, queue depth {depth}", members, _mean)
        lines += _line("storage", "all namespaces at once", self.of("storage", "aggregate"), _sum_at_once)
        for test in ("put", "get", "batch_put", "batch_get"):
            found = self.of("store", test)
            for tier in sorted({item.tier for item in found}):
                members = [item for item in found if item.tier == tier]
                lines += _line("store", f"{test.replace('_', ' ')}, {tier}", members, _sum_at_once)
        return tuple(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; :func:`from_json` reads it back equal."""
        return dump(self)


def from_json(data: Mapping[str, Any]) -> BenchResult:
    """Read ``to_json`` output. Raises ansible.module_utils.g35.schema.SchemaError."""
    return load(BenchResult, dict(data))


def write(folder: Path | str, result: BenchResult) -> Path:
    """Write bench.json into a run folder and return its path. Raises OSError."""
    path = Path(folder) / FILE
    write_atomically(path, result.to_json())
    return path


def read(folder: Path | str) -> BenchResult | None:
    """The benchmark results of a run folder, or None where no such suite ran. Raises G35Error when damaged."""
    path = Path(folder) / FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return from_json(data)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, SchemaError) as error:
        raise G35Error(
            "the stored benchmark results are damaged",
            why=f"{path}: {error}",
            next_command="run: g35ctl validate --suite all",
            exit_code=Exit.USAGE,
        ) from error


def _line(
    suite: str, name: str, found: Iterable[Measurement], together: Callable[[Sequence[Measurement]], float]
) -> list[Series]:
    """The line of these measurements, or none. ``together`` makes one figure (GB/s) of those of one block size."""
    found = tuple(found)
    sizes: dict[int, list[Measurement]] = {}
    for item in found:
        if item.block_size and item.bytes_per_second:
            sizes.setdefault(item.block_size, []).append(item)
    points = tuple((float(size), float(together(sizes[size]))) for size in sorted(sizes))
    emulated = any(item.emulated for items in sizes.values() for item in items)
    if not points:
        return []
    depths = {item.queue_depth for item in found}
    depth = depths.pop() if len(depths) == 1 else 0
    return [Series(suite, name, points, emulated, found[0].test, found[0].tier, depth)]


def _best(items: Sequence[Measurement]) -> float:
    return max(item.gigabytes_per_second for item in items)


def _mean(items: Sequence[Measurement]) -> float:
    return sum(item.gigabytes_per_second for item in items) / len(items)


def _sum_at_once(items: Sequence[Measurement]) -> float:
    """Only what ran at the same time may be added up: the best group counts."""
    groups: dict[str, float] = {}
    for item in items:
        groups[item.group] = groups.get(item.group, 0.0) + item.gigabytes_per_second
    return max(groups.values())
