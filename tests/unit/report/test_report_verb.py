"""``g35ctl report``: finds a run, rebuilds its report, prints summary or document."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tier_sample as tier

from g35ctl import report
from g35ctl.cli.main import main
from g35ctl.exits import Exit
from g35ctl.verdict import Grade, Verdict

RUN = "20261201T120000.000Z-deploy"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("G35_STATE", raising=False)
    (tmp_path / "hosts.yml").write_text("all: {}\n", encoding="utf-8")
    verdicts = (Verdict("functional", "pool.capacity", Grade.PASS, "1", "1"),)
    report.write(tmp_path / ".g35" / "runs" / RUN, tier.run(), verdicts, tier.plan(), tier.site())
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["g35ctl", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_last_run_is_rebuilt_and_summed_up(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = site / ".g35" / "runs" / RUN / "report.html"
    page.unlink()
    assert call(monkeypatch, "-i", str(site), "report") == Exit.OK
    out = capsys.readouterr().out
    assert str(page) in out
    assert "PASS: sample, deploy" in out
    assert page.is_file()


def test_document_goes_to_stdout_as_json(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "-i", str(site), "-o", "json", "report", RUN[:8]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["verdict"] == "PASS"


def test_language_is_asked_for_and_an_unknown_one_refused(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = site / ".g35" / "runs" / RUN
    assert call(monkeypatch, "-i", str(site), "report", "--lang", "zh-CN") == Exit.OK
    assert str(folder / "report.zh-CN.html") in capsys.readouterr().out
    assert (folder / "report.zh-CN.html").is_file()
    for verb in ("report", "deploy", "validate"):
        assert call(monkeypatch, "-i", str(site), verb, "--lang", "tlh") == Exit.USAGE
        assert "languages: en, zh-CN" in capsys.readouterr().err


def test_report_that_cannot_be_rebuilt_names_the_file_and_ends_with_1(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = site / ".g35" / "runs" / RUN / "report.html"
    page.unlink()
    page.mkdir()
    assert call(monkeypatch, "-i", str(site), "report") == Exit.DEPLOY_FAILED
    assert f"error: {page} could not be written" in capsys.readouterr().err


def test_two_runs_are_compared_and_a_regression_can_fail_the_caller(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    later = site / ".g35" / "runs" / "20261208T090000.000Z-validate"
    verdicts = (Verdict("functional", "pool.capacity", Grade.FAIL, "0", "1", remedy="g35ctl doctor"),)
    report.write(later, tier.run(Exit.THRESHOLDS_MISSED), verdicts, tier.plan(), tier.site())
    compare = ("-i", str(site), "report", "--compare", RUN, "last")
    assert call(monkeypatch, *compare) == Exit.OK
    out = capsys.readouterr().out
    assert "WORSE functional pool.capacity: pass -> fail: 0; g35ctl doctor" in out
    assert list(later.glob("compare-*.html"))
    assert call(monkeypatch, *compare, "--exit-code") == Exit.THRESHOLDS_MISSED
    capsys.readouterr()
    assert call(monkeypatch, "-o", "json", *compare) == Exit.OK
    assert json.loads(capsys.readouterr().out)["regressions"] is True


def test_unknown_run_is_a_usage_error(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "-i", str(site), "report", "1999") == Exit.USAGE
    assert "g35ctl runs" in capsys.readouterr().err


def test_unknown_suite_is_refused_before_anything_is_done(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "-i", str(site), "validate", "--suite", "fabrik") == Exit.USAGE
    assert "suites: functional, " in capsys.readouterr().err
    assert [path.name for path in (site / ".g35" / "runs").iterdir()] == [RUN]
