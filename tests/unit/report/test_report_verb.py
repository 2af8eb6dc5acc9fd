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
from g35ctl.validate.verdict import Grade, Verdict

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


def test_unknown_run_is_a_usage_error(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "-i", str(site), "report", "1999") == Exit.USAGE
    assert "g35ctl runs" in capsys.readouterr().err


def test_unknown_suite_is_refused_before_anything_is_done(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "-i", str(site), "validate", "--suite", "fabrik") == Exit.USAGE
    assert "suites: functional, all" in capsys.readouterr().err
    assert [path.name for path in (site / ".g35" / "runs").iterdir()] == [RUN]
