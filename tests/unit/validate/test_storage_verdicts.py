"""Verdicts of the storage suite: ratings, sums, fairness, and what the network adds."""

from __future__ import annotations

from typing import Any

import bench_samples
import pytest

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.bench import storage_jobs
from g35ctl.validate import bench_storage
from g35ctl.validate.bench_grading import MEASURED
from g35ctl.validate.bench_result import BenchResult
from g35ctl.verdict import Grade, Verdict

RATED = {"ssd_gbps": 7.0}


def judged(
    change: Any = None, storage: dict[str, Any] | None = None, emulated: bool = False, **options: Any
) -> tuple[BenchResult, tuple[Verdict, ...]]:
    plan, site = bench_samples.lab(storage=storage or {}, emulated=emulated)
    jobs = storage_jobs(plan, site, "t")
    states = bench_samples.storage_states(jobs, **options)
    if change is not None:
        change(states)
    measured = bench_samples.measured(states)
    result = bench_storage.read(plan, site, jobs, measured)
    return result, bench_storage.judge(plan, site, result, measured)


def grades(verdicts: tuple[Verdict, ...], check: str) -> set[Grade]:
    return {item.grade for item in verdicts if item.check == check}


@pytest.mark.parametrize(("alone", "expected"), [(6.5e9, Grade.PASS), (6.0e9, Grade.WARN), (5e9, Grade.FAIL)])
def test_a_namespace_alone_is_held_against_the_rating_of_an_ssd(alone: float, expected: Grade) -> None:
    _, verdicts = judged(storage=RATED, alone=alone)
    assert grades(verdicts, "storage.namespace") == {expected}
    assert len([item for item in verdicts if item.check == "storage.namespace"]) == 4  # one setting of each is judged


def test_without_a_rating_the_figure_is_shown() -> None:
    _, verdicts = judged()
    assert grades(verdicts, "storage.namespace") == {Grade.SKIP}
    assert all("6.50 GB/s" in item.observed for item in verdicts if item.check == "storage.namespace")


@pytest.mark.parametrize(
    ("together", "storage", "expected", "limit"),
    [
        (6.5e9, RATED, Grade.PASS, "all SSDs"),  # 28 GB/s; ports carry 50, the box 360
        (5e9, RATED, Grade.FAIL, "all SSDs"),
        (11.5e9, {}, Grade.PASS, "ports of all owners"),
        (10.1e9, {}, Grade.WARN, "ports of all owners"),
    ],
)
def test_all_at_once_is_held_against_what_limits_it(
    together: float, storage: dict[str, Any], expected: Grade, limit: str
) -> None:
    _, verdicts = judged(storage=storage, together=together)
    (box,) = [item for item in verdicts if item.check == "storage.box"]
    assert box.grade is expected
    assert limit in box.expected


@pytest.mark.parametrize(("slow", "expected"), [(0.95, Grade.PASS), (0.75, Grade.WARN), (0.5, Grade.FAIL)])
def test_fairness_compares_owners_by_namespace(slow: float, expected: Grade) -> None:
    def slower(states: dict[str, Any]) -> None:
        for run in states["gpu2"]["runs"]:
            if run["test"] == "aggregate":
                run["out"] = bench_samples.fio_report(run["targets"], 5e9 * slow, 100)

    (fairness,) = [item for item in judged(slower)[1] if item.check == "storage.fairness"]
    assert fairness.grade is expected
    assert "gpu2 got" in fairness.observed


@pytest.mark.parametrize(("remote", "expected"), [(100, Grade.PASS), (130, Grade.WARN), (200, Grade.FAIL)])
def test_the_networks_share_of_latency_is_judged(remote: float, expected: Grade) -> None:
    _, verdicts = judged(remote=remote, local=80)
    (added,) = [item for item in verdicts if item.check == "storage.latency"]
    assert added.grade is expected
    assert added.observed.startswith(f"{remote - 80:.1f} us added by the network")


def test_emulated_figures_are_held_against_nothing() -> None:
    result, verdicts = judged(emulated=True, storage=RATED, alone=3e6, together=1e6, remote=9000, local=300)
    assert result.emulated
    assert {item.grade for item in verdicts} == {Grade.PASS}
    assert MEASURED in {item.expected for item in verdicts}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: run.update(problem="namespace is not mounted at /x"), "not mounted"),
        (lambda run: run.update(out=run["out"][:100]), "cut off"),
        (lambda run: run.update(out=bench_samples.fio_report(["another"], 1e9, 10)), "nothing about this namespace"),
    ],
)
def test_a_run_that_gave_nothing_is_no_missed_threshold(change: Any, told: str) -> None:
    result, verdicts = judged(lambda states: change(states["gpu1"]["runs"][0]), storage=RATED, together=6.5e9)
    assert [item.problem for item in result.measurements if item.problem and told in item.problem]
    assert Grade.FAIL not in {item.grade for item in verdicts}


def test_what_was_read_from_a_file_is_no_figure_of_a_device() -> None:
    def no_disk(states: dict[str, Any]) -> None:
        for run in states["gpu1"]["runs"] + states["gpu2"]["runs"]:
            if run["test"] == "remote":
                run["out"] = run["out"].replace('{"name": "nvme0n1", "read_ios": 9, "write_ios": 0}', "")

    result, _ = judged(no_disk)
    assert [item.test for item in result.measurements if "was a file" in item.problem] == ["remote"]


def test_sums_are_only_made_where_everybody_has_a_figure() -> None:
    def one_missing(states: dict[str, Any]) -> None:
        for run in states["gpu1"]["runs"]:
            if run["test"] == "aggregate":
                run["problem"] = "a path was lost"

    _, verdicts = judged(one_missing)
    assert grades(verdicts, "storage.box") == set()
    assert grades(verdicts, "storage.aggregate") == {Grade.SKIP}


def test_writing_is_shown_where_it_was_named() -> None:
    plan, _ = bench_samples.lab()
    _, verdicts = judged(storage={"write_namespaces": [plan.ownership[0].uuid]})
    assert [(item.subject, item.grade) for item in verdicts if item.check == "storage.write"] == [
        (plan.ownership[0].uuid, Grade.PASS)
    ]
    assert grades(judged()[1], "storage.write") == set()


def test_only_namespaces_of_the_site_may_be_named() -> None:
    plan, site = bench_samples.lab()
    named = bench_storage.with_named(site, [plan.ownership[1].uuid])
    bench_storage.check_named(plan, named)
    assert [str(item) for item in named.validation.storage.write_namespaces] == [plan.ownership[1].uuid]
    for wrong in ("00000000-0000-4000-8000-000000000000", "nonsense"):
        with pytest.raises(G35Error) as caught:
            bench_storage.check_named(plan, bench_storage.with_named(site, [wrong]))
        assert caught.value.exit_code is Exit.USAGE


def test_the_chart_has_a_line_for_each_queue_depth_and_one_for_all_at_once() -> None:
    names = [line.name for line in judged()[0].series()]
    assert len(names) == 4
    assert len(judged()[0].series()[0].points) == 4
