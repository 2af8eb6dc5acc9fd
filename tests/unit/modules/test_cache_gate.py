"""The gatekeeper of a store: it starts only on its own mount and never within an earlier run's time to live."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from ansible.module_utils.g35 import storegate

SEGMENT = "192.0.2.21:50052"


class Master:
    """Answers as a master that forgets the old store after ``expires`` seconds and serves from ``serves`` on."""

    def __init__(self, serves: float = 0, expires: float = 0) -> None:
        self.now = 0.0
        self.serves = serves
        self.expires = expires

    def ask(self, url: str) -> str | None:
        if self.now < self.serves:
            return None
        if url.endswith("/health"):
            return '{"role": "leader", "service_ready": true}'
        return "192.0.2.22:50052\n" + (SEGMENT if self.now < self.expires else "")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, seconds: float = 60) -> str:
        return storegate.wait("m:9003", SEGMENT, "/mnt", seconds, self.ask, self.sleep, lambda: self.now)


@pytest.fixture(autouse=True)
def _mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == "/mnt")


def test_nothing_in_the_way_starts_at_once() -> None:
    master = Master()
    assert master.wait() == "" and master.now == 0


def test_it_waits_until_the_earlier_run_has_expired() -> None:
    master = Master(expires=9.5)
    assert master.wait() == "" and master.now >= 9.5


def test_it_waits_for_a_master_that_comes_up_later() -> None:
    master = Master(serves=30)
    assert master.wait() == "" and master.now >= 30


def test_the_wait_is_bounded_and_says_why() -> None:
    assert "still lists" in Master(expires=1000).wait(60)
    assert "not serving" in Master(serves=1000).wait(60)


def test_an_unmounted_directory_is_never_written_to() -> None:
    master = Master()
    found = storegate.wait("m:9003", SEGMENT, "/elsewhere", 5, master.ask, master.sleep, lambda: master.now)
    assert found == "/elsewhere is not a mount point"


def test_a_port_that_only_begins_alike_is_another_store() -> None:
    assert storegate.obstacle("m:9003", "192.0.2.22:5005", "/mnt", Master().ask) == ""


def test_only_the_namespace_that_the_marker_names_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path))
    ask = Master().ask
    assert "marked for nobody" in storegate.obstacle("m:9003", SEGMENT, str(tmp_path), ask, "E61C112B")
    (tmp_path / ".g35-owner.json").write_text(json.dumps({"namespace": "76579227"}))
    assert "marked for 76579227" in storegate.obstacle("m:9003", SEGMENT, str(tmp_path), ask, "E61C112B")
    (tmp_path / ".g35-owner.json").write_text(json.dumps({"namespace": "e61c112b"}))
    assert storegate.obstacle("m:9003", SEGMENT, str(tmp_path), ask, "E61C112B") == ""


def test_with_two_masters_the_serving_one_is_asked() -> None:
    def ask(url: str) -> str | None:
        if url.startswith("http://a:"):
            return '{"role": "standby", "service_ready": false}'
        return '{"role": "leader", "service_ready": true}' if url.endswith("/health") else SEGMENT

    assert "still lists" in storegate.obstacle("a:9003,b:9003", SEGMENT, "/mnt", ask)
    assert storegate.obstacle("a:9003,b:9003", "192.0.2.99:50052", "/mnt", ask) == ""
    assert "a:9003 or c:9003 is not serving" in storegate.obstacle("a:9003,c:9003", SEGMENT, "/mnt", lambda _: None)


@pytest.mark.parametrize(
    ("installed", "problem"),
    [
        (["mooncake_transfer_engine_non_cuda-0.3.13.post1"], ""),
        (["mooncake_transfer_engine_non_cuda-0.3.12"], "holds mooncake_transfer_engine_non_cuda-0.3.12"),
        (["mooncake_transfer_engine-0.3.13.post1"], "holds mooncake_transfer_engine-0.3.13.post1"),
        (
            ["mooncake_transfer_engine_cuda13-0.3.14", "mooncake_transfer_engine_non_cuda-0.3.13.post1"],
            "_cuda13-0.3.14",
        ),
        ([], "holds no Mooncake"),
    ],
)
def test_another_wheel_never_starts(
    tmp_path: Path, installed: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in installed:
        (tmp_path / f"lib/python3.11/site-packages/{name}.dist-info").mkdir(parents=True)
    wheel = "mooncake-transfer-engine-non-cuda==0.3.13.post1"
    assert problem in storegate.other_wheel(str(tmp_path), wheel)
    assert bool(storegate.other_wheel(str(tmp_path), wheel)) == bool(problem)
    if problem:
        told = ["--environment", str(tmp_path), "--wheel", wheel]
        assert storegate.main([*told, "--admin", "m:1", "--segment", "s:1", "--seconds", "3600"]) == 1
        assert "not starting" in capsys.readouterr().err


def test_a_store_that_was_stopped_in_good_order_waits_as_well() -> None:
    """The master drops its segment at once, and what it has on flash only when the time to live is over."""
    slept: list[float] = []
    storegate.wait_out(10, 2.5, slept.append)
    storegate.wait_out(10, 13.0, slept.append)
    storegate.wait_out(10, 0.0, slept.append)
    assert slept == [10.5, 13.0]


def test_when_a_unit_was_stopped_is_asked_of_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"text": "5000000\n"}

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        assert command[:2] == ["systemctl", "show"] and command[-1] == "g35-x.service"
        return subprocess.CompletedProcess(command, 0, said["text"], "")

    monkeypatch.setattr(storegate.subprocess, "run", run)
    assert storegate.stopped_for("g35-x.service", 12.0) == 7.0
    said["text"] = "0\n"  # never stopped since the boot
    assert storegate.stopped_for("g35-x.service", 12.0) == 12.0
    said["text"] = ""  # nobody says: as if it had stopped just now
    assert storegate.stopped_for("g35-x.service", 12.0) == 0.0


def test_a_file_system_of_another_owner_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    (tmp_path / ".g35-owner.json").write_text(json.dumps({"namespace": "u1", "owner": "gpu2"}))
    given = (Master().ask, "u1")
    assert "marked for host gpu2" in storegate.obstacle("m:9003", SEGMENT, str(tmp_path), *given, "gpu1")
    assert storegate.obstacle("m:9003", SEGMENT, str(tmp_path), *given, "gpu2") == ""
