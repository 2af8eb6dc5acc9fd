"""From points to rows to verdicts: the published figures pass, each fault alone fails, few samples judge no P99."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from results import point, result

from g35ctl.site.serving_model import ServingThresholds
from g35ctl.validate.serving.judge import judge, rows
from g35ctl.validate.serving_result import CachePath, Equality, ServingResult
from g35ctl.verdict import Grade, Verdict

G35, MEMORY, LOCAL = CachePath.G35, CachePath.MEMORY, CachePath.LOCAL


def graded(found: ServingResult) -> dict[tuple[str, str], Grade]:
    return {(item.check, item.subject): item.grade for item in judge(found, ServingThresholds())}


def failed(found: Sequence[Verdict]) -> set[str]:
    return {item.check for item in found if item.grade is Grade.FAIL}


def test_a_good_site_passes_everything() -> None:
    grades = graded(result({(G35, 8): 0.10, (MEMORY, 8): 0.10, (G35, 48): 0.11, (MEMORY, 48): 0.11}))
    assert set(grades.values()) == {Grade.PASS}
    assert ("serving.ttft_p99", "path g35, 48 users") in grades
    assert ("serving.growth", "path g35, 48 users") in grades


@pytest.mark.parametrize(("ttft", "grade"), [(0.109, Grade.PASS), (0.12, Grade.WARN), (0.13, Grade.FAIL)])
def test_slower_than_memory(ttft: float, grade: Grade) -> None:
    grades = graded(result({(G35, 8): ttft, (MEMORY, 8): 0.10}))
    assert grades["serving.ttft_mean", "path g35, 8 users"] is grade


def test_emulated_times_are_shown_and_never_failed() -> None:
    found = judge(result({(G35, 8): 0.5, (MEMORY, 8): 0.10}, emulated=True), ServingThresholds())
    assert not failed(found)
    assert all(item.emulated for item in found)
    assert any(item.check == "serving.ttft_mean" and item.grade is Grade.WARN for item in found)


def test_lost_hits_fail_on_emulated_hardware_too() -> None:
    found = judge(result({(G35, 8): 0.10, (MEMORY, 8): 0.10}, hit={G35: 0.90}, emulated=True), ServingThresholds())
    assert failed(found) == {"serving.hit_rate", "serving.hit_deficit"}


def test_no_p99_below_a_hundred_samples() -> None:
    grades = graded(result({(G35, 8): 0.10, (MEMORY, 8): 0.10}, samples=99))
    assert grades["serving.ttft_p99", "path g35, 8 users"] is Grade.SKIP
    assert grades["serving.ttft_tail", "path g35, 8 users"] is Grade.SKIP
    assert grades["serving.ttft_mean", "path g35, 8 users"] is Grade.PASS


def test_a_claimed_hit_without_the_time_of_a_hit_fails() -> None:
    found = judge(result({(LOCAL, 8): 0.9}), ServingThresholds())
    assert failed(found) == {"serving.hits_are_hits"}
    # Without hits, slow turns are what they claim to be.
    assert not failed(judge(result({(LOCAL, 8): 0.9}, hit={LOCAL: 0.0}), ServingThresholds()))


def test_errors() -> None:
    assert graded(result({(MEMORY, 8): 0.1}, failed=1))["serving.errors", "path memory, 8 users"] is Grade.FAIL
    few = result({(MEMORY, 8): 0.1}, failed=1, requested=2000)
    assert graded(few)["serving.errors", "path memory, 8 users"] is Grade.WARN


def test_another_answer_than_the_cold_one_fails() -> None:
    found = judge(result({}, equalities=(Equality(G35, 3, 2, "question 1: ..."),)), ServingThresholds())
    assert failed(found) == {"serving.answers"}
    assert "question 1" in found[0].observed


def test_the_mean_must_not_vary_between_three_trials() -> None:
    points = [point(G35, 8, trial, trial, ttft=ttft) for trial, ttft in enumerate((0.1, 0.1, 0.2))]
    found = result({}, points=points)
    assert graded(found)["serving.variation", "path g35, 8 users"] is Grade.FAIL


def test_the_knee_shows_as_growth() -> None:
    grades = graded(result({(G35, 8): 0.1, (G35, 48): 0.2, (MEMORY, 8): 0.1, (MEMORY, 48): 0.2}))
    assert grades["serving.growth", "path g35, 48 users"] is Grade.FAIL


def test_rows_pool_trials() -> None:
    points = [point(G35, 8, 0, 0, ttft=0.1), point(G35, 8, 1, 1, ttft=0.3, incomplete="an engine was restarted")]
    found = rows(points, {0: ([0.1] * 3, [1.0]), 1: ([0.3] * 3, [])})
    assert len(found) == 1
    row = found[0]
    assert row.ttft is not None and row.ttft.samples == 6 and row.ttft.mean == pytest.approx(0.2)
    assert row.cold_ttft is not None and row.cold_ttft.samples == 1
    assert (row.mean_low, row.mean_high) == (pytest.approx(0.1), pytest.approx(0.3))
    assert (row.complete, row.trials) == (False, 2)
    assert row.tokens is not None and row.tokens.prompt == 2 * 200


def test_an_untold_tier_is_not_made_up() -> None:
    points = [point(G35, 8, 0, 0, tokens=None), point(G35, 8, 1, 1)]
    assert rows(points, {})[0].tokens is None


@pytest.mark.parametrize(("slow", "grade", "told"), [(0.2, Grade.FAIL, "g35 8"), (0.1, Grade.PASS, "g35 48")])
def test_most_users_within_a_bound(slow: float, grade: Grade, told: str) -> None:
    figures = {(LOCAL, 8): 0.9, (MEMORY, 8): 0.1, (MEMORY, 48): 0.1, (G35, 8): 0.1, (G35, 48): slow}
    found = judge(result(figures), ServingThresholds(ttft_bound=0.15))
    bound = next(item for item in found if item.check == "serving.users_at_bound")
    assert bound.grade is grade
    assert told in bound.observed and "local 0" in bound.observed and "memory 48" in bound.observed
