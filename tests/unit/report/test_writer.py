"""Writing reports: what cannot be written or drawn costs neither the run's result nor the rest of the report."""

from __future__ import annotations

import errno
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import report_sample as sample
import tier_sample

from g35ctl import report
from g35ctl.cli.outcome import report_conclusion
from g35ctl.engine.conclusion import Conclusion, conclude
from g35ctl.engine.folder import RunFolder
from g35ctl.engine.progress import make_display
from g35ctl.engine.session import Interrupt, Session
from g35ctl.exits import Exit
from g35ctl.report import page, png, writer
from g35ctl.report.strings import ENGLISH, Strings, catalogue

CHINESE = catalogue("zh-CN")


def write(folder: Path, strings: Strings = ENGLISH) -> report.Paths:
    return report.write(
        folder, tier_sample.run(), sample.PASSED, tier_sample.plan(), tier_sample.site(), strings=strings
    )


def session(folder: Path) -> Session:
    display = make_display("json")
    run = RunFolder(folder / "run")
    site, plan = tier_sample.site(), tier_sample.plan()
    return Session("inventory", "deploy", site, plan, folder, run, display, Interrupt(display), datetime.now(UTC))


def close(folder: Path, code: Exit = Exit.PARTIAL) -> Conclusion:
    return conclude(session(folder), tier_sample.run(code), sample.PASSED)


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("template lost")


def test_other_language_lies_beside_the_english_page(tmp_path: Path) -> None:
    paths = write(tmp_path, CHINESE)
    assert paths.html == tmp_path / "report.zh-CN.html"
    assert 'lang="zh-CN"' in paths.html.read_text(encoding="utf-8")
    assert 'lang="en"' in (tmp_path / "report.html").read_text(encoding="utf-8")
    before = (tmp_path / "report.html").read_bytes()
    report.rebuild(tmp_path, CHINESE)
    assert (tmp_path / "report.html").read_bytes() == before


def test_charts_of_another_language_have_their_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "render", str.encode)  # drawing is tested with the charts
    english = writer.render(tmp_path, sample.full())
    chinese = writer.render(tmp_path, sample.full(), CHINESE)
    assert {path.parent.name for path in english.charts} == {"charts"}
    assert {path.parent.name for path in chinese.charts} == {"charts.zh-CN"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (*english.charts, *chinese.charts))


def test_page_that_cannot_be_rendered_leaves_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "render", broken)
    paths = write(tmp_path)
    assert paths.problems == (f"{tmp_path / 'report.html'} could not be written: RuntimeError: template lost",)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "report.json", "summary.csv"]


def test_missing_png_renderer_costs_the_copies_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    paths = writer.render(tmp_path, sample.full())
    assert paths.charts == ()
    assert "pip install resvg-py" in paths.problems[0]
    assert paths.html.exists()
    with pytest.raises(png.NoRenderer):
        png.render("<svg/>")


def test_file_in_the_way_is_named_and_nothing_half_written_is_left(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    paths = write(tmp_path)
    assert len(paths.problems) == 1
    assert "report.html could not be written" in paths.problems[0]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_full_disk_keeps_the_exit_code_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writer, "store", full)
    monkeypatch.setattr("g35ctl.engine.folder.write_atomically", full)
    closed = close(tmp_path)
    assert closed.run.exit_code is Exit.PARTIAL
    report_conclusion(closed, "text", "g35ctl deploy")
    captured = capsys.readouterr()
    assert captured.err.count("No space left on device") == 5  # four files and run.json
    assert "g35ctl report 20261201T120000Z-deploy" in captured.err
    assert "PARTLY DONE" in captured.out
    assert "report: " not in captured.out


def test_document_that_cannot_even_be_built_is_a_message_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writer, "build", broken)
    closed = close(tmp_path, Exit.OK)
    report_conclusion(closed, "json", "g35ctl deploy")
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert told["ok"] is True
    assert told["report_problems"] == ["the report could not be made: RuntimeError: template lost"]
    assert json.loads((tmp_path / "run/run.json").read_text(encoding="utf-8"))["status"] == "finished"


def test_page_that_cannot_be_rendered_in_a_deploy_still_leaves_its_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "render", broken)
    monkeypatch.setattr("sys.argv", ["/usr/bin/g35ctl", "deploy", "--yes"])
    closed = close(tmp_path, Exit.OK)
    assert closed.run.exit_code is Exit.OK
    assert len(closed.problems) == 1
    assert report.read(tmp_path / "run").run.command == "g35ctl deploy --yes"


def test_evidence_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = session(tmp_path)
    (tmp_path / "run").write_text("in the way", encoding="utf-8")
    running.save_states()
    assert "state.json could not be written" in capsys.readouterr().err
