"""Verdicts of the fabric suite: against the ports' own speed, with losses, and where nothing could be measured."""

from __future__ import annotations

from typing import Any

import bench_samples
import pytest

from g35ctl.plan.bench import fabric_jobs
from g35ctl.validate import bench_fabric
from g35ctl.validate.bench_grading import MEASURED, kind_of
from g35ctl.validate.bench_result import BenchResult
from g35ctl.verdict import Grade, Verdict


def judged(
    change: Any = None, settings: dict[str, Any] | None = None, **options: Any
) -> tuple[BenchResult, tuple[Verdict, ...]]:
    plan, site = bench_samples.lab(**(settings or {}))
    jobs = fabric_jobs(plan, site, "t")
    states = bench_samples.fabric_states(jobs, **options)
    if change is not None:
        change(states)
    measured = bench_samples.measured(states)
    steps = {step.key: step for job in jobs.values() if job.fabric for item in job.fabric.rounds for step in item.steps}
    result = bench_fabric.read(plan, site, steps, measured)
    return result, bench_fabric.judge(plan, site, result, measured)


def grades(verdicts: tuple[Verdict, ...], check: str) -> set[Grade]:
    return {item.grade for item in verdicts if item.check == check}


@pytest.mark.parametrize(
    ("gigabits", "write", "read", "incast"),
    [(98, Grade.PASS, Grade.PASS, Grade.PASS), (91, Grade.WARN, Grade.PASS, Grade.PASS),
     (86, Grade.WARN, Grade.WARN, Grade.PASS), (80, Grade.FAIL, Grade.FAIL, Grade.FAIL)],
)  # fmt: skip
def test_bandwidth_is_held_against_the_ports_speed(gigabits: float, write: Grade, read: Grade, incast: Grade) -> None:
    _, verdicts = judged(gigabits=gigabits)
    assert grades(verdicts, "fabric.write") == {write}
    assert grades(verdicts, "fabric.read") == {read}
    assert grades(verdicts, "fabric.incast") == {incast}
    assert len([item for item in verdicts if item.check == "fabric.write"]) == 6  # three pairs, two rails


def test_a_figure_says_what_it_is_held_against_and_where_it_comes_from() -> None:
    _, verdicts = judged(gigabits=80)
    first = next(item for item in verdicts if item.check == "fabric.write")
    assert first.observed == "10.00 GB/s, 80.0%"
    assert first.expected.startswith("at least 92% of 12.50 GB/s (gpu1 eth1)")
    assert first.evidence == "bench/suite/gpu1.json"
    assert first.remedy


@pytest.mark.parametrize(("mean", "expected"), [(2, Grade.PASS), (7, Grade.WARN), (30, Grade.FAIL)])
def test_latency_has_its_own_thresholds(mean: float, expected: Grade) -> None:
    _, verdicts = judged(mean=mean)
    assert grades(verdicts, "fabric.latency") == {expected}
    assert grades(verdicts, "fabric.latency.p99") == {expected}


def test_a_port_whose_speed_is_not_told_is_shown_and_not_judged() -> None:
    def unknown(states: dict[str, Any]) -> None:
        states["gpu2"]["speeds"] = {"eth1": 0, "eth2": 0}

    _, verdicts = judged(unknown)
    writes = [item for item in verdicts if item.check == "fabric.write"]
    assert {item.grade for item in writes} == {Grade.PASS, Grade.SKIP}
    assert all("12.25 GB/s" in item.observed for item in writes)


@pytest.mark.parametrize(("settings", "device"), [({"emulated": True}, "mlx5_0"), ({}, "rxe_eth1")])
def test_emulated_figures_are_shown_and_held_against_nothing(settings: dict[str, Any], device: str) -> None:
    result, verdicts = judged(settings=settings, gigabits=0.1, mean=1400, device=device)
    assert result.emulated
    assert all(item.emulated for item in verdicts)
    assert {item.grade for item in verdicts} == {Grade.PASS}
    assert {item.expected for item in verdicts if "counters" not in item.check} == {MEASURED}


@pytest.mark.parametrize(
    ("counter", "rise", "grade"),
    [("rx_prio3_discards", 5, Grade.FAIL), ("rx_prio3_pause", 5, Grade.PASS), ("rx_prio0_pause", 5, Grade.FAIL),
     ("rx_prio3_pause", 0, Grade.PASS), ("tx_pause_storm_warning_events", 1, Grade.FAIL)],
)  # fmt: skip
def test_losses_and_pause_in_another_priority_fail(counter: str, rise: int, grade: Grade) -> None:
    def happened(states: dict[str, Any]) -> None:
        states["gpu1"]["counters"] = {"before": bench_samples.port(**{counter: 7}),
                                      "after": bench_samples.port(**{counter: 7 + rise})}  # fmt: skip

    result, verdicts = judged(happened)
    assert grades(verdicts, "fabric.counters") == {grade} | {Grade.PASS}
    told = next(item for item in verdicts if item.check == "fabric.counters" and item.host == "gpu1")
    assert (f"+{rise}" in told.observed) == bool(rise)
    assert sum(item.rise for item in result.counters) == rise


def test_sequence_errors_of_emulated_hardware_warn() -> None:
    def happened(states: dict[str, Any]) -> None:
        states["gpu1"]["counters"]["after"] = {"eth1": {"ethtool": {}, "rdma": {"rcvd_seq_err": 3}, "link": {}}}

    assert grades(judged(happened)[1], "fabric.counters") == {Grade.FAIL, Grade.PASS}
    assert grades(judged(happened, {"emulated": True})[1], "fabric.counters") == {Grade.WARN, Grade.PASS}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda states: states["gpu1"]["steps"][0].update(out=""), "no report"),
        (lambda states: states["gpu1"]["steps"][0].update(code=1, err="Unable to init\n"), "ended with 1: Unable"),
        (lambda states: states["gpu1"]["steps"][0].update(problem="gpu2 did not come"), "gpu2 did not come"),
        (lambda states: states.pop("gpu1"), "gpu1 brought no result"),
    ],
)
def test_what_could_not_be_measured_is_no_missed_threshold(change: Any, told: str) -> None:
    result, verdicts = judged(change)
    broken = [item for item in result.measurements if item.problem]
    assert broken
    assert all(told in item.problem for item in broken)
    assert {item.grade for item in verdicts} <= {Grade.PASS, Grade.SKIP}


def test_every_planned_step_has_a_measurement_with_its_command_line() -> None:
    result, _ = judged()
    assert {item.test for item in result.measurements} == {"write", "read", "latency", "incast"}
    assert all(item.command for item in result.measurements)
    assert result.versions == {"perftest": "6.06"}
    assert [line.name for line in result.series()][:2]


@pytest.mark.parametrize(
    ("counter", "kind"),
    [("rx_prio3_pause", "pause"), ("tx_prio0_pause", "pause_wrong_priority"), ("tx_pfc_ena_frames_pri3", "pause"),
     ("np_cnp_sent", "cnp"), ("roce_slow_restart_cnps", "sequence"), ("out_of_sequence", "sequence"),
     ("rx_out_of_buffer", "discard"), ("carrier_changes", "link"), ("rx_prio3_bytes", ""),
     ("rx_prio3_pause_duration", ""), ("sent_pkts", "")],
)  # fmt: skip
def test_what_a_counter_means(counter: str, kind: str) -> None:
    assert kind_of(counter, 3) == kind
