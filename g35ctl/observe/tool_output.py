"""What benchmark tools print, typed: fio's JSON and perftest's report. Anything cut off or unexpected is an error.

Read: fio 3.28 to 3.41 (``--output-format=json``), perftest 4.5-0.17 (Debian 12), 25.x and 26.x. perftest's report is
read instead of its JSON: that of 4.5 is not valid JSON, and none of them says in which unit its figures are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIB = 2**20
_UNITS = {"MB/sec": MIB, "MiB/sec": MIB, "Gb/sec": 125_000_000}
"""perftest's "MB/sec" always were 2^20 bytes; later versions say MiB/sec for the same number."""
_BANDWIDTH = re.compile(r"^\s*#bytes\s+#iterations\s+BW peak\[(?P<unit>[^\]]+)\]\s+BW average\[(?P=unit)\]\s+MsgRate")
_LATENCY = re.compile(r"^\s*#bytes\s+#iterations\s+t_min\[usec\].*99% percentile\[usec\]\s+99\.9% percentile\[usec\]")
_TRANSFER = re.compile(r"Test completed: duration [\d.]+, batch count (\d+), throughput ([\d.]+) MB/s")
_RULE = re.compile(r"^-{40,}$")


class ToolOutputError(ValueError):
    """A tool's output cannot be read; the text says which tool's, and what is wrong with it."""

    def __init__(self, tool: str, why: str) -> None:
        super().__init__(f"{tool}: {why}")
        self.tool = tool
        self.why = why


@dataclass(frozen=True)
class Latency:
    """Latency of single operations, microseconds; a percentile the tool does not tell is 0. ``samples`` is how many
    operations it is made from: a P99 of fewer than a hundred says nothing."""

    mean: float
    p50: float = 0.0
    p99: float = 0.0
    p999: float = 0.0
    samples: int = 0


@dataclass(frozen=True)
class Bandwidth:
    """A perftest bandwidth report: bytes per second on average over the measured time."""

    size: int
    iterations: int
    bytes_per_second: float
    messages_per_second: float


@dataclass(frozen=True)
class FioJob:
    """One section of a fio run, one direction. ``runtime`` in seconds."""

    name: str
    bytes_per_second: float
    operations_per_second: float
    moved: int
    runtime: float
    latency: Latency


@dataclass(frozen=True)
class FioRun:
    """One run of fio. ``disks`` are the block devices it saw below what it read: none means that it read no device but,
    say, a regular file that it made in /dev. Whether their statistics moved says nothing: multipath devices of older
    kernels have none."""

    version: str
    jobs: tuple[FioJob, ...]
    disks: tuple[str, ...]


def perftest_bandwidth(text: str) -> Bandwidth:
    """The report of ib_write_bw or ib_read_bw. Raises ToolOutputError."""
    unit, fields = _row(text, _BANDWIDTH, 5)
    if unit not in _UNITS:
        raise ToolOutputError("perftest", f"unit {unit!r} is not known")
    size, iterations = int(fields[0]), int(fields[1])
    average, rate = float(fields[3]) * _UNITS[unit], float(fields[4]) * 1e6
    # The message rate has no unit to be wrong about; it is printed to one message a second.
    if abs(rate * size - average) > max(0.02 * average, 1.5 * size):
        raise ToolOutputError(
            "perftest", f"{average / 1e6:.1f} MB/s do not fit {rate:.0f} messages of {size} bytes a second"
        )
    return Bandwidth(size, iterations, average, rate)


def perftest_latency(text: str) -> Latency:
    """The report of ib_send_lat. Raises ToolOutputError."""
    _, fields = _row(text, _LATENCY, 9)
    _, iterations, _, _, typical, mean, _, p99, p999 = fields[:9]
    return Latency(float(mean), float(typical), float(p99), float(p999), int(iterations))


def transfer_engine(text: str) -> float:
    """Bytes per second of ``transfer_engine_bench --report_unit=MB``. Raises ToolOutputError."""
    found = _TRANSFER.findall(text)
    if not found:
        raise ToolOutputError("transfer_engine_bench", "it did not say that the test completed")
    batches, figure = found[-1]
    if not int(batches):
        raise ToolOutputError("transfer_engine_bench", "not one batch was completed")
    return float(figure) * 1e6


def _row(text: str, header: re.Pattern[str], columns: int) -> tuple[str, list[str]]:
    """The unit of the report and the fields of its only row."""
    lines = text.splitlines()
    found = [(place, match) for place, line in enumerate(lines) if (match := header.match(line))]
    if not found:
        raise ToolOutputError("perftest", "there is no report in its output")
    place, match = found[-1]
    rows: list[str] = []
    for line in lines[place + 1 :]:
        if _RULE.match(line.strip()):
            break
        if line.strip()[:1].isdigit():
            rows.append(line)
    else:
        raise ToolOutputError("perftest", "its report is cut off")
    if len(rows) != 1:
        raise ToolOutputError("perftest", f"its report has {len(rows)} rows, one was expected")
    fields = rows[0].split()
    if len(fields) < columns or not all(re.fullmatch(r"\d+(\.\d+)?", item) for item in fields[:columns]):
        raise ToolOutputError("perftest", f"a row cannot be read: {rows[0].strip()!r}")
    return match.groupdict().get("unit", ""), fields


def fio(text: str, direction: str = "read") -> FioRun:
    """fio's JSON, one direction of it (read or write). Raises ToolOutputError, also for sections that failed."""
    # fio writes what it has to say into the file of its report, before the report.
    said, brace, report = ("\n" + text).partition("\n{")
    try:
        data = json.loads(brace.strip() + report)
    except ValueError as error:
        words = [line for line in said.splitlines() if line.strip()]
        cut = f"it said only: {words[-1]}" if words else "it is empty" if not text.strip() else "it is cut off"
        raise ToolOutputError("fio", f"{cut} ({error})") from error
    try:
        jobs = tuple(_fio_job(item, direction) for item in data["jobs"])
        disks = tuple(str(item["name"]) for item in data.get("disk_util") or [])
        version = str(data["fio version"])
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ToolOutputError):
            raise
        raise ToolOutputError("fio", f"its JSON has another form: {type(error).__name__} {error}") from error
    if not jobs:
        raise ToolOutputError("fio", "no section ran")
    return FioRun(version, jobs, disks)


def _fio_job(item: Mapping[str, Any], direction: str) -> FioJob:
    name = str(item["jobname"])
    if item["error"]:
        raise ToolOutputError("fio", f"section {name} ended with error {item['error']}")
    part = item[direction]
    moved, runtime = int(part["io_bytes"]), float(part["runtime"]) / 1000
    # A worker that was killed leaves error 0 and nothing moved.
    if moved <= 0 or runtime <= 0:
        raise ToolOutputError("fio", f"section {name} moved no data")
    told = part["lat_ns"] if part["lat_ns"].get("percentile") else part["clat_ns"]
    shares = {float(key): float(value) / 1000 for key, value in (told.get("percentile") or {}).items()}
    latency = Latency(
        float(part["lat_ns"]["mean"]) / 1000,
        shares.get(50.0, 0.0),
        shares.get(99.0, 0.0),
        shares.get(99.9, 0.0),
        int(part["total_ios"]),
    )
    return FioJob(name, float(part["bw_bytes"]), float(part["iops"]), moved, runtime, latency)
