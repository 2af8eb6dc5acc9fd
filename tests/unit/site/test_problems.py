"""How problems are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from g35ctl.site.problems import Position, Problem, SiteInvalid, count, did_you_mean, lines, merged


def test_a_problem_is_one_line_with_its_position_and_a_hint_below() -> None:
    problem = Problem("unknown key 'sise'", Position("/x/a.yml", 3, 7), "did you mean 'size'?", "g35_x.sise", ("h1",))
    assert lines([problem]) == [
        "/x/a.yml:3:7: error: g35_x.sise: unknown key 'sise' (h1)",
        "  hint: did you mean 'size'?",
    ]


def test_a_position_without_a_line_is_the_file() -> None:
    assert str(Position("/x/script.py")) == "/x/script.py"


def test_paths_below_the_working_directory_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(Position(str(tmp_path / "a.yml"), 1, 2)) == "a.yml:1:2"


def test_the_same_problem_on_forty_hosts_is_one() -> None:
    found = merged(Problem("bad", Position("/f", 1, 1), hosts=(f"h{number}",)) for number in range(40))
    assert len(found) == 1
    assert str(found[0]).endswith("(h0, h1 and 38 more)")


def test_errors_come_before_warnings_in_order_of_lines() -> None:
    warning = Problem("w", Position("/a", 1, 1), severity="warning")
    late, early = Problem("late", Position("/a", 9, 1)), Problem("early", Position("/a", 2, 1))
    assert merged([warning, late, early]) == (early, late, warning)
    assert count([warning, late, early]) == "2 errors, 1 warning"


def test_the_error_ends_with_the_next_command() -> None:
    error = SiteInvalid("inv", [Problem("bad", Position("/f", 1, 1))])
    assert error.next_command.endswith("g35ctl -i inv check")
    assert "/f:1:1: error: bad" in error.why


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("sise", ["size", "uuid"], "did you mean 'size'?"),
        ("zzz", ["size", "uuid"], "known here: size, uuid"),
        ("zzz", [], ""),
    ],
)
def test_did_you_mean(word: str, known: list[str], hint: str) -> None:
    assert did_you_mean(word, known) == hint
