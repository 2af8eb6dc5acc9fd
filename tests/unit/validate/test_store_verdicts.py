"""Verdicts of the store suite: every byte equal first, speed second."""

from __future__ import annotations

from typing import Any

import bench_samples
import pytest

from g35ctl.plan.bench import store_jobs
from g35ctl.validate import bench_store
from g35ctl.validate.bench_result import BenchResult
from g35ctl.verdict import Grade, Verdict


def judged(change: Any = None, speed: float = 20e9, **settings: Any) -> tuple[BenchResult, tuple[Verdict, ...]]:
    plan, site = bench_samples.lab(**settings)
    jobs = store_jobs(plan, site, "t")
    if not jobs:
        pytest.skip("this plan has no probe")
    states = bench_samples.store_states(jobs, speed)
    if change is not None:
        change(states)
    measured = bench_samples.measured(states)
    result = bench_store.read(site, jobs, measured)
    return result, bench_store.judge(plan, site, result, measured)


def of(verdicts: tuple[Verdict, ...], check: str) -> list[Verdict]:
    return [item for item in verdicts if item.check == check]


def result_of(states: dict[str, Any], host: str, test: str, tier: str) -> dict[str, Any]:
    return next(item for item in states[host]["results"] if (item["test"], item["tier"]) == (test, tier))


def test_every_read_of_every_host_is_verified() -> None:
    result, verdicts = judged()
    assert {item.grade for item in of(verdicts, "store.verified.memory") + of(verdicts, "store.verified.flash")} == {
        Grade.PASS
    }
    assert len(of(verdicts, "store.verified.memory")) == 2 * 2 * 5
    assert len(of(verdicts, "store.verified.flash")) == 2 * 2 * 2
    assert all(item.peer != item.host for item in result.of("store", "get", "batch_get"))


def test_a_wrong_value_fails_whatever_the_speed() -> None:
    def wrong(states: dict[str, Any]) -> None:
        result_of(states, "gpu1", "get", "flash").update(verified=9, mismatched=1, problem="k: not equal")

    _, verdicts = judged(wrong, emulated=True)
    failed = [item for item in verdicts if item.grade is Grade.FAIL]
    assert [(item.check, item.host, item.observed) for item in failed] == [
        ("store.verified.flash", "gpu1", "9 of 10 values equal")
    ]


@pytest.mark.parametrize(
    ("speed", "strict", "expected"),
    [(20e9, False, Grade.PASS), (15e9, False, Grade.WARN), (5e9, False, Grade.WARN), (5e9, True, Grade.FAIL)],
)
def test_a_slow_pool_warns_unless_the_site_is_strict(speed: float, strict: bool, expected: Grade) -> None:
    _, verdicts = judged(speed=speed, store={"thresholds": {"miss_is_warning": not strict}})
    assert {item.grade for item in of(verdicts, "store.batch_get.memory")} == {expected}


def test_flash_is_judged_where_ssds_are_rated() -> None:
    assert {item.grade for item in of(judged()[1], "store.batch_get.flash")} == {Grade.SKIP}
    rated = judged(storage={"ssd_gbps": 7})[1]
    assert {item.grade for item in of(rated, "store.batch_get.flash")} == {Grade.PASS}


def test_sizes_without_room_are_left_out_and_told() -> None:
    plan, site = bench_samples.lab(store={"sizes": ["64KiB", "15MiB"], "flash_sizes": ["64KiB"]})
    whole, _ = judged(store={"sizes": ["64KiB"], "flash_sizes": ["64KiB"]})
    told = bench_store.judge(plan, site, whole, bench_samples.measured({}))
    assert [(item.grade, item.observed[:17]) for item in of(told, "store.sizes.memory")] == [
        (Grade.SKIP, "left out: 15 MiB ")
    ]
    assert of(told, "store.sizes.flash") == []


def test_the_network_without_the_store_is_shown() -> None:
    result, verdicts = judged()
    assert [item.observed for item in of(verdicts, "store.transfer.memory")] == ["20.00 GB/s"] * 2
    assert {item.tool for item in result.of("store", "transfer")} == {"transfer_engine_bench"}


@pytest.mark.parametrize(("there", "expected"), [(8, Grade.PASS), (5, Grade.WARN), (0, Grade.FAIL)])
def test_values_read_from_flash_must_have_been_there_alone(there: int, expected: Grade) -> None:
    _, verdicts = judged(lambda states: result_of(states, "gpu2", "flash", "flash").update(on_flash=there))
    assert {item.host: item.grade for item in of(verdicts, "store.placement")}["gpu2"] is expected


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda states: result_of(states, "gpu1", "put", "memory").update(problem="put: error -200"), "error -200"),
        (lambda states: states["gpu1"].update(results=[], problem="the worker ended"), "the worker ended"),
        (lambda states: states.pop("gpu1"), "gpu1 brought no result"),
        (lambda states: result_of(states, "gpu1", "get", "memory").update(bytes=0, verified=0), "nothing was moved"),
    ],
)
def test_what_could_not_be_done_is_a_failure_to_run(change: Any, told: str) -> None:
    result, verdicts = judged(change)
    assert [item for item in result.measurements if told in item.problem]
    assert Grade.FAIL not in {item.grade for item in verdicts}
