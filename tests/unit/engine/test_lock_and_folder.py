"""One run at a time; run folders are private, found again and rotated."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from g35ctl.engine import folder
from g35ctl.engine.lock import SiteLock, read_holder
from g35ctl.errors import G35Error
from g35ctl.exits import Exit


def test_a_second_run_is_told_who_holds_the_site(tmp_path: Path) -> None:
    with SiteLock(tmp_path, "deploy"):
        with pytest.raises(G35Error) as caught, SiteLock(tmp_path, "validate"):
            pass
        assert caught.value.exit_code is Exit.LOCKED
        assert "deploy" in caught.value.why
        assert str(os.getpid()) in caught.value.why
        assert str(os.getpid()) in caught.value.next_command
    with SiteLock(tmp_path, "validate"):
        assert read_holder(tmp_path / "lock")["verb"] == "validate"


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom g35ctl.engine.lock import SiteLock\n"
        "SiteLock(Path(sys.argv[1]), 'deploy').__enter__()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert read_holder(tmp_path / "lock")["verb"] == "deploy"
    with SiteLock(tmp_path, "validate"):
        pass


def test_a_run_folder_is_private_and_unfinished_until_it_says_otherwise(tmp_path: Path) -> None:
    made = folder.create(tmp_path, "deploy")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert folder.unfinished_run(tmp_path) == made
    made.finish({"status": "finished", "exit_code": 0})
    assert folder.unfinished_run(tmp_path) is None
    assert folder.find(tmp_path, "last") == made
    assert folder.find(tmp_path, made.identifier[:15]) == made
    with pytest.raises(G35Error) as caught:
        folder.find(tmp_path, "1999")
    assert caught.value.exit_code is Exit.USAGE


def test_the_oldest_runs_go_first_and_nothing_else_does(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = [
        folder.create(tmp_path, "deploy", start + timedelta(seconds=number)) for number in range(folder.KEEP_RUNS + 3)
    ]
    keep = tmp_path / "runs" / "notes"
    keep.mkdir()
    folder.rotate(tmp_path)
    assert folder.runs(tmp_path) == tuple(made[3:])
    assert keep.is_dir()


def test_two_runs_in_one_instant_get_two_folders(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert folder.create(tmp_path, "deploy", now) != folder.create(tmp_path, "deploy", now)


def test_state_lives_beside_a_file_and_inside_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("G35_STATE", raising=False)
    (tmp_path / "hosts.yml").write_text("", encoding="utf-8")
    assert folder.state_directory(str(tmp_path)) == tmp_path / ".g35"
    assert folder.state_directory(str(tmp_path / "hosts.yml")) == tmp_path / ".g35"
    monkeypatch.setenv("G35_STATE", str(tmp_path / "elsewhere"))
    assert folder.state_directory(str(tmp_path)) == tmp_path / "elsewhere"


def test_a_summary_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    made = folder.create(tmp_path, "deploy")
    (made.path / "run.json").write_text(json.dumps([1]), encoding="utf-8")
    assert made.summary() == {}
