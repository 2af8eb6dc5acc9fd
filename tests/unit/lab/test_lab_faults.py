from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab import VmLab, faults, qemu, qmp, remote
from g35ctl.lab.network import Network


@pytest.fixture
def acts(lab: VmLab, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """A lab whose guests all run, and what is done to its network and its QEMU processes."""
    done: list[tuple[object, ...]] = []

    def execute(path: Path, command: str, arguments: Mapping[str, object] | None = None) -> object:
        done.append((command, path.parent.name, *(arguments or {}).values()))
        return None

    def set_port(self: object, guest: object, rail: object, *, up: bool) -> None:
        done.append(("port", getattr(guest, "name", ""), getattr(rail, "name", ""), up))

    monkeypatch.setattr(qemu, "running_pid", lambda paths: 1)
    monkeypatch.setattr(qmp, "execute", execute)
    monkeypatch.setattr(Network, "set_port", set_port)
    return done


def test_a_cut_rail_makes_packets_vanish_and_is_mended(lab: VmLab, acts: list[tuple[object, ...]]) -> None:
    lab.faults.cut_rail("gpu1", "a")
    assert acts == [("port", "gpu1", "a", False)]
    lab.faults.restore_rail("gpu1", "a")
    assert acts[1:] == [("port", "gpu1", "a", True), ("set_link", "gpu1", "nic-rail-a", True)]


def test_with_carrier_the_guest_is_told_and_the_state_remembered(lab: VmLab, acts: list[tuple[object, ...]]) -> None:
    marks = lab.paths.guest("gpu2").carrier_cut
    lab.faults.cut_rail("gpu2", "b", carrier=True)
    lab.faults.cut_rail("gpu2", "a", carrier=True)
    assert acts == [("set_link", "gpu2", "nic-rail-b", False), ("set_link", "gpu2", "nic-rail-a", False)]
    assert marks.read_text().split() == ["a", "b"]
    lab.faults.restore_rail("gpu2", "b")
    assert marks.read_text().split() == ["a"]


def test_a_guest_that_is_off_cannot_be_tampered_with(lab: VmLab) -> None:
    for act in (
        lambda: lab.faults.cut_rail("gpu1", "a"),
        lambda: lab.faults.reboot("gpu1"),
        lambda: lab.faults.fill("gpu1", "/mnt"),
    ):
        with pytest.raises(G35Error, match="not running") as caught:
            act()
        assert caught.value.next_command == "g35ctl lab fault start gpu1"
        assert caught.value.exit_code == Exit.UNREACHABLE


def test_a_reboot_counts_when_the_boot_id_is_new(
    lab: VmLab, acts: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    boots = iter(["old", None, "old", "new"])
    asked: list[str | None] = []

    def boot_id(*args: object, **kwargs: object) -> str | None:
        asked.append(next(boots))
        return asked[-1]

    monkeypatch.setattr(remote, "running_pid", lambda paths: 1)
    monkeypatch.setattr(remote, "boot_id", boot_id)
    monkeypatch.setattr(remote.time, "sleep", lambda seconds: None)
    lab.faults.reset("gpu1")
    assert acts == [("system_reset", "gpu1")]
    assert asked == ["old", None, "old", "new"]


def _run_locally(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", script, "sh", *arguments], capture_output=True, text=True, check=False)


def test_filling_leaves_what_it_was_told_to_leave(tmp_path: Path) -> None:
    free_mib = int(subprocess.check_output(["df", "--output=avail", "-m", str(tmp_path)], text=True).split()[-1])
    done = _run_locally(faults._FILL, str(tmp_path), str(free_mib - 8))
    assert done.returncode == 0, done.stderr
    taken = int(done.stdout)
    # Others write to the same file system meanwhile.
    assert 0 <= taken <= 64
    _run_locally(faults._UNFILL, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_filling_something_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    done = _run_locally(faults._FILL, str(tmp_path / "none"), "0")
    assert done.returncode == 1
    assert "not a directory" in done.stderr


def test_a_failure_on_the_guest_is_reported_with_its_words(
    lab: VmLab, acts: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ssh(paths: object, guest: object, command: Sequence[str], **kwargs: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(list(command), 1, "", "/mnt/x is not a directory\n")

    monkeypatch.setattr(remote, "ssh", ssh)
    with pytest.raises(G35Error, match="/mnt/x on gpu1") as caught:
        lab.faults.fill("gpu1", "/mnt/x")
    assert caught.value.why == "/mnt/x is not a directory"
