"""The serving suite's result: percentiles that occurred, rates of steady turns, a ceiling no run can beat."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.validate.serving_result import (
    CachePath,
    Distribution,
    ErrorCount,
    PathSetting,
    PointResult,
    Row,
    ServingResult,
    TierTokens,
    TurnResult,
    Workload,
)


def workload(**changes: object) -> Workload:
    fields: dict[str, object] = {
        "users": (4, 8),
        "paths": tuple(CachePath),
        "rate": 1.5,
        "nodes": 2,
        "context": 4096,
        "shared_prefix": 0,
        "new_tokens": 64,
        "output_tokens": 4,
        "rounds": 4,
        "trials": 2,
        "seed": 7,
        "block": 128,
    }
    return Workload(**(fields | changes))  # type: ignore[arg-type]


def point(turns: tuple[TurnResult, ...] = ()) -> PointResult:
    ttft = Distribution.of([0.1, 0.2])
    tokens = TierTokens(100, 0, 50, 25, 0, 25)
    return PointResult(
        CachePath.G35, 4, 0, 3, "builtin", 8, 7, 4.0, 3.0, 1.75, ttft, ttft, turns, tokens, (ErrorCount("timeout", 1),)
    )


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=300))
def test_percentiles_are_values_that_occurred_and_in_order(values: list[float]) -> None:
    found = Distribution.of(values)
    assert found is not None
    assert {found.p50, found.p90, found.p99, found.minimum, found.maximum} <= set(values)
    assert found.minimum <= found.p50 <= found.p90 <= found.p99 <= found.maximum
    assert found.p99_counts == (len(values) >= 100)


def test_nearest_rank() -> None:
    found = Distribution.of([float(value) for value in range(1, 101)])
    assert found is not None
    assert (found.p50, found.p90, found.p99, found.tail) == (50, 90, 99, 99 / 50.5)
    assert Distribution.of([]) is None


def test_the_cold_turn_is_not_part_of_the_hit_rate() -> None:
    turns = (TurnResult(0, 4, None, 4000, 0), TurnResult(1, 4, None, 4000, 3900), TurnResult(2, 4, None, 6000, 5900))
    found = point(turns)
    assert found.hit_rate == 0.98
    assert found.recomputed == 200
    assert found.failed == 1
    assert point().hit_rate is None
    assert point().recomputed is None


def test_shares_of_tiers_add_up_to_one() -> None:
    tokens = TierTokens(100, 0, 50, 25, 0, 25)
    assert sum(tokens.shares().values()) == pytest.approx(1)
    assert tokens.hit_rate == pytest.approx(0.875)
    assert TierTokens(0, 0, 0, 0, 0, 0).shares() == {}


def test_ceiling_of_the_measured_workload() -> None:
    # Measured on a real engine with these parameters: 97.98 % on every path that holds all contexts.
    assert workload().ceiling == pytest.approx(0.9798, abs=0.0005)
    assert workload(rounds=1).ceiling == 0


@given(st.integers(1, 20000), st.integers(0, 3000), st.integers(1, 9), st.sampled_from([1, 16, 128, 512]))
def test_the_ceiling_always_leaves_something_to_compute(context: int, new: int, rounds: int, block: int) -> None:
    found = workload(context=context, new_tokens=new, rounds=rounds, block=block).ceiling
    assert 0 <= found < 1


def test_result_survives_json() -> None:
    turns = (TurnResult(0, 4, None, 4000, 0),)
    result = ServingResult(
        workload(),
        (PathSetting(CachePath.LOCAL, 1, 0, 2.5, "one store"),),
        (point(turns),),
        (Row(CachePath.G35, 4, 1, None, None, None, None, 0.9, None, 3.0, 1.75, 1, False),),
        missing=("aiperf is not installed",),
    )
    assert ServingResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert result.row(CachePath.G35, 4) is not None
    assert result.row(CachePath.LOCAL, 4) is None


def test_truncated_result_is_refused() -> None:
    data = ServingResult(workload(), (), (), ()).to_json()
    del data["points"]
    with pytest.raises(ValueError, match="points"):
        ServingResult.from_json(data)
