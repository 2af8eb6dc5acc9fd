from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from g35ctl.errors import G35Error
from g35ctl.lab import VmLab, accel, qemu, qmp
from g35ctl.lab.image import Image
from g35ctl.lab.paths import GuestPaths


def _argv(lab: VmLab, name: str) -> list[str]:
    guest = lab.topology.guest(name)
    image = Image("id", Path("/images/id"))
    return qemu.guest_argv(lab.topology, guest, lab.paths.guest(name), image, accel.EMULATION, 22100, [7, 8])


def test_management_is_reachable_from_this_machine_only(lab: VmLab) -> None:
    (user,) = [word for word in _argv(lab, "gpu1") if word.startswith("user,")]
    assert "restrict=on" in user
    assert "hostfwd=tcp:127.0.0.1:22100-:22" in user


def test_every_rail_has_its_own_tap_and_the_box_its_drives(lab: VmLab) -> None:
    argv = _argv(lab, "ebof1")
    assert "tap,id=rail-a,fd=7" in argv
    assert "tap,id=rail-b,fd=8" in argv
    drives = [word for word in argv if word.startswith("nvme,")]
    assert [word.split("serial=")[1].split(",")[0] for word in drives] == [f"EBOF1-SSD{n}" for n in range(4)]
    assert not [word for word in _argv(lab, "gpu1") if word.startswith("nvme,")]


def test_no_two_devices_share_a_slot(lab: VmLab) -> None:
    slots = [word.split("addr=")[1] for word in _argv(lab, "ebof1") if "addr=" in word and "hostfwd" not in word]
    assert len({int(slot, 16) for slot in slots}) == len(slots) == 9


def test_a_comma_in_a_path_does_not_end_the_option(lab: VmLab, tmp_path: Path) -> None:
    guest = lab.topology.guest("gpu1")
    files = GuestPaths(tmp_path / "a,b")
    argv = qemu.guest_argv(lab.topology, guest, files, Image("i", Path("/i")), accel.EMULATION, 1, [3, 4])
    assert any("a,,b/root.qcow2" in word for word in argv)


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits to be killed, with the given words on its command line; started when this yields."""
    argv = [sys.executable, "-c", "print('ready', flush=True); input()", *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_stale_pid_file_never_ends_a_stranger(lab: VmLab) -> None:
    files = lab.paths.guest("gpu1")
    with _process() as stranger:
        files.pid.write_text(f"{stranger.pid}\n")
        assert qemu.running_pid(files) is None
        assert qemu.kill(files) is False
        assert stranger.poll() is None


def test_a_guest_of_another_lab_is_a_stranger(lab: VmLab, tmp_path: Path) -> None:
    with _process("-pidfile", str(GuestPaths(tmp_path / "other").pid)) as stranger:
        lab.paths.guest("gpu1").pid.write_text(str(stranger.pid))
        lab.down()
        assert stranger.poll() is None


def test_power_off_ends_exactly_the_guests_own_process(lab: VmLab) -> None:
    files = lab.paths.guest("gpu1")
    with _process("-pidfile", str(files.pid)) as process:
        files.pid.write_text(str(process.pid))
        assert qemu.running_pid(files) == process.pid
        assert lab.faults.poweroff("gpu1") is True
        assert qemu.running_pid(files) is None
        assert process.wait() == -9
    assert lab.faults.poweroff("gpu1") is False


class _Qmp(threading.Thread):
    """One connection's worth of QEMU."""

    def __init__(self, path: Path, answers: list[str]) -> None:
        super().__init__(daemon=True)
        self.answers = answers
        self.commands: list[dict[str, object]] = []
        directory = os.open(path.parent, os.O_PATH)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(f"/proc/self/fd/{directory}/{path.name}")
        self.server.listen()
        os.close(directory)
        self.start()

    def run(self) -> None:
        channel, _ = self.server.accept()
        with channel, channel.makefile("rwb") as stream:
            stream.write(b'{"QMP": {}}\n')
            stream.flush()
            for answer in ['{"return": {}}', *self.answers]:
                self.commands.append(json.loads(stream.readline()))
                stream.write(answer.encode() + b"\n")
                stream.flush()
        self.server.close()


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A directory whose path alone is longer than a socket address may be."""
    directory = tmp_path / ("d" * 60) / ("e" * 60)
    directory.mkdir(parents=True)
    return directory


def test_a_command_is_answered_past_events_on_a_very_long_path(deep: Path) -> None:
    server = _Qmp(deep / "qmp.sock", ['{"event": "RESUME"}\n{"return": {"status": "running"}}'])
    assert qmp.execute(deep / "qmp.sock", "query-status", timeout=5) == {"status": "running"}
    assert [command["execute"] for command in server.commands] == ["qmp_capabilities", "query-status"]


def test_a_refusal_is_an_error_with_qemus_words(deep: Path) -> None:
    _Qmp(deep / "qmp.sock", ['{"error": {"class": "DeviceNotFound", "desc": "no such device"}}'])
    with pytest.raises(G35Error, match="set_link") as caught:
        qmp.execute(deep / "qmp.sock", "set_link", {"name": "x", "up": False}, timeout=5)
    assert "no such device" in caught.value.why


def test_nobody_listening_is_an_error(deep: Path) -> None:
    with pytest.raises(G35Error, match="does not answer"):
        qmp.execute(deep / "qmp.sock", "query-status")


def _probe(code: str) -> qemu.Accelerator:
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        try:
            return accel.judge_probe(process.stdout.fileno(), process)
        finally:
            process.kill()


def test_kvm_counts_when_the_guest_reached_user_space() -> None:
    code = f"print('Linux version 6.1'); print({accel.PROBE_ANSWER.decode()!r}, flush=True); input()"
    assert _probe(code) == accel.HARDWARE


def test_kvm_that_aborts_means_emulation_and_says_why() -> None:
    chosen = _probe("print('kvm_buf_set_msrs: Assertion failed')")
    assert chosen.emulated
    assert "kvm_buf_set_msrs" in chosen.reason


@pytest.mark.parametrize("code", ["input()", "print('Booting from ROM..', flush=True); input()"])
def test_kvm_that_hangs_in_firmware_means_emulation(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "FIRST_LINE_SECONDS", 0.3)
    assert _probe(code).emulated


def test_kvm_that_hangs_in_the_kernel_means_emulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "USER_SPACE_SECONDS", 0.5)
    chosen = _probe("print('Linux version 6.1', flush=True); input()")
    assert chosen.emulated
    assert "user space" in chosen.reason


def test_without_the_device_nothing_is_probed(lab: VmLab, tmp_path: Path) -> None:
    assert accel.choose(Image("i", tmp_path), print, kvm=tmp_path / "none").emulated


def test_the_answer_is_kept_until_the_machine_changes(
    lab: VmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes: list[Image] = []
    keys = ["machine one"]
    kvm = tmp_path / "kvm"
    kvm.touch()
    (tmp_path / "cache/g35ctl/images").mkdir(parents=True)
    monkeypatch.setattr(accel, "_machine_key", lambda path: keys[-1])
    monkeypatch.setattr(accel, "_probe", lambda image: probes.append(image) or accel.HARDWARE)
    for _ in range(3):
        assert accel.choose(Image("i", tmp_path), lambda line: None, kvm=kvm) == accel.HARDWARE
    assert len(probes) == 1
    keys.append("machine two")
    accel.choose(Image("i", tmp_path), lambda line: None, kvm=kvm)
    assert len(probes) == 2
