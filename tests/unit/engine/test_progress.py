"""What a run tells while it goes on, and how its end is printed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import tier_sample

from g35ctl.cli import outcome
from g35ctl.engine import progress
from g35ctl.engine.conclusion import Conclusion
from g35ctl.engine.events import TaskEvent
from g35ctl.engine.run import Failure, Run, StageResult
from g35ctl.exits import Exit
from g35ctl.report import writer
from g35ctl.verdict import Grade, Verdict

EVENT = TaskEvent("connect", "gpu1", "Hold paths", "g35_connect", "failed", False, 1, message="no path\nmore")
ENDED = StageResult("connect", {"gpu1": "failed", "gpu2": "ok"}, 2.0, {"gpu1": 1, "gpu2": 1}, 0)


def walk(display: progress.Display) -> None:
    display.begin("deploy of site lab", ("fabric", "connect"), ("gpu1", "gpu2"))
    display.stage_started("connect", ("gpu1", "gpu2"))
    display.task(EVENT)
    display.stage_ended(ENDED)
    display.say("a word")
    display.end()


def test_plain_lines_name_the_host_and_the_reason() -> None:
    stream = io.StringIO()
    walk(progress.PlainLines(stream))
    text = stream.getvalue()
    assert "connect: gpu1: failed: Hold paths: no path" in text
    assert "connect: 1 ok, 1 failed in 2.0 s" in text
    assert "\x1b" not in text


def test_json_lines_are_one_object_each() -> None:
    stream = io.StringIO()
    walk(progress.JsonLines(stream))
    objects = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [item["event"] for item in objects] == ["begin", "stage_started", "task", "stage_ended", "message"]
    assert objects[3]["hosts"] == {"gpu1": "failed", "gpu2": "ok"}


@pytest.mark.parametrize("hosts", [2, 200])
def test_the_table_shows_every_host_of_a_small_site_and_counts_of_a_fleet(hosts: int) -> None:
    stream = io.StringIO()
    display = progress.LiveTable(stream)
    names = tuple(f"gpu{number}" for number in range(hosts))
    display.begin("deploy of site lab", ("connect",), names)
    display.stage_started("connect", names)
    display.stage_ended(StageResult("connect", dict.fromkeys(names, "ok") | {"gpu1": "failed"}, 2.0))
    display.end()
    text = stream.getvalue()
    assert ("FAILED" in text) == (hosts == 2)
    assert ("199 ok" in text) == (hosts == 200)


def test_display_follows_output_and_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(progress.make_display("jsonl"), progress.JsonLines)
    assert isinstance(progress.make_display("json"), progress.PlainLines)
    assert isinstance(progress.make_display("text"), progress.PlainLines)


def conclusion(tmp_path: Path, code: Exit, failures: tuple[Failure, ...] = ()) -> Conclusion:
    run = Run(
        "20260101T000000.000Z-deploy", "deploy", "lab", "2026-01-01T00:00:00+00:00", 12.0, str(tmp_path),
        (StageResult("connect", {"gpu1": "changed"}, 2.0, {"gpu1": 4}, 3),), failures, code,
    )  # fmt: skip
    verdicts = (
        Verdict("functional", "paths", Grade.PASS, "2", "2"),
        Verdict("functional", "pfc", Grade.FAIL, "off", "3", host="gpu1", remedy="g35ctl deploy --only fabric"),
    )
    paths = writer.write(tmp_path, run, verdicts, tier_sample.plan(), tier_sample.site())
    return Conclusion(run, verdicts, paths)


def test_the_json_object_has_everything_a_caller_needs(tmp_path: Path) -> None:
    failure = Failure("gpu2", "connect", "connect.path", "1", "2", "look")
    data = json.loads(json.dumps(conclusion(tmp_path, Exit.PARTIAL, (failure,)).to_json()))
    assert data["schema_version"] == 1
    assert data["ok"] is False
    assert data["changed"] == 3
    assert data["module_executions"] == {"gpu1": 4}
    assert data["run"].endswith("-deploy")
    keys = {"host", "stage", "check", "observed", "expected", "remedy"}
    assert all(keys <= set(item) for item in data["failures"])
    assert [item["host"] for item in data["failures"]] == ["gpu2", "gpu1"]


def test_text_puts_failures_on_stderr_and_figures_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failure = Failure("gpu2", "connect", "connect.path", "one path", "two paths", "check rail b")
    outcome.report_conclusion(conclusion(tmp_path, Exit.PARTIAL, (failure,)), "text", "g35ctl deploy")
    out, err = capsys.readouterr()
    assert "check rail b" in err
    assert "next:" in err
    assert "FAIL pfc gpu1: off, expected 3; g35ctl deploy --only fabric" in out
    assert "at most 4 per host" in out
    assert "changed: 3 tasks" in out
    assert "report.html" in out


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome.report_conclusion(conclusion(tmp_path, Exit.INTERRUPTED), "text", "g35ctl -i x deploy")
    assert "next: g35ctl -i x deploy  (continues" in capsys.readouterr().err


def test_every_exit_code_of_a_run_has_its_words() -> None:
    runs = set(Exit) - {Exit.USAGE, Exit.SITE_INVALID, Exit.LOCKED, Exit.DEPLOY_FAILED}
    assert all(outcome.headline(code) != "FAILED" for code in runs)
