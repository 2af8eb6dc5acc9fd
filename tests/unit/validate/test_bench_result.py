"""The typed results of the benchmark suites: JSON form, what a chart is drawn from, and a damaged file."""

from __future__ import annotations

from pathlib import Path

import pytest

from g35ctl.errors import G35Error
from g35ctl.observe.tool_output import Latency
from g35ctl.validate import bench_result
from g35ctl.validate.bench_result import BenchResult, CounterChange, Measurement

MIB = 2**20


def stored(test: str, host: str, gbps: float, **more: object) -> Measurement:
    fields = {"suite": "storage", "tool": "fio", "block_size": MIB, "queue_depth": 32, **more}
    return Measurement(test=test, host=host, bytes_per_second=gbps * 1e9, **fields)  # type: ignore[arg-type]


def test_a_result_comes_back_equal_from_its_file(tmp_path: Path) -> None:
    result = BenchResult(
        (stored("namespace", "gpu1", 6.5, latency=Latency(90.5, 80.0, 200.0, 0.0, 1000)),),
        (CounterChange("fabric", "gpu1", "eth1", "rx_discards_phy", "discard", 4, 9),),
        {"fio": "fio-3.33"},
        emulated=True,
    )
    bench_result.write(tmp_path, result)
    assert bench_result.read(tmp_path) == result
    assert bench_result.read(tmp_path / "nothing") is None


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / bench_result.FILE).write_text('{"measurements": [{"suite": "storage"}]}')
    with pytest.raises(G35Error, match="damaged") as caught:
        bench_result.read(tmp_path)
    assert "measurements[0].test: missing" in caught.value.why


def test_only_what_ran_at_once_is_added_up() -> None:
    result = BenchResult(
        (
            stored("aggregate", "gpu1", 10, group="a"),
            stored("aggregate", "gpu2", 12, group="a"),
            stored("aggregate", "gpu1", 9, group="b"),
            stored("aggregate", "gpu1", 99, group="b", problem="a path was lost"),
            stored("namespace", "gpu1", 4, queue_depth=1),
            stored("namespace", "gpu2", 6, queue_depth=1),
            stored("namespace", "gpu2", 3, queue_depth=1, block_size=MIB // 8),
        )
    )
    lines = {line.name: line.points for line in result.series()}
    assert lines == {
        "namespace, queue depth 1": ((MIB // 8, 3.0), (MIB, 5.0)),
        "all namespaces at once": ((MIB, 22.0),),
    }


def test_a_counter_that_was_reset_counts_from_zero() -> None:
    assert CounterChange("fabric", "h", "eth1", "rx_discards_phy", "discard", 7, 2).rise == 2
