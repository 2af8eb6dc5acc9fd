"""Programs beside the module: ended with everything they started, and found again by the next run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from ansible.module_utils.g35 import children
from ansible.module_utils.g35.children import Child, Stop
from ansible.module_utils.g35.host import Host


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_output_and_code_come_back() -> None:
    result = Child(["sh", "-c", "echo out; echo err >&2; exit 3"]).wait(10, lambda: False)
    assert (result.code, result.out, result.err) == (3, "out\n", "err\n")


def test_a_program_that_is_stopped_ends_with_all_it_started() -> None:
    child = Child(["sh", "-c", "sleep 60 & echo $!; wait"])
    inner = ""
    while not inner:
        inner = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().strip()
    result = child.wait(60, lambda: True)
    assert result.code == 124
    assert "stopped" in result.err
    assert not alive(child.pid)
    # Killed with it; the kernel may take a moment.
    Host("/").wait_until(lambda: not alive(int(inner.split()[0])), 10, 0.01)
    assert not alive(int(inner.split()[0]))


def test_a_program_dies_with_the_module_whoever_it_runs_as() -> None:
    assert children.bound(["fio", "--name"]) == ["setpriv", "--pdeathsig", "KILL", "fio", "--name"]
    assert children.bound(["prlimit", "-m", "setpriv", "--reuid", "g35", "env", "x"]) == [
        *["setpriv", "--pdeathsig", "KILL", "prlimit", "-m"],
        *["setpriv", "--pdeathsig", "KILL", "--reuid", "g35", "env", "x"],
    ]


def test_a_program_that_takes_too_long_is_ended() -> None:
    result = Child(["sleep", "60"]).wait(0.1, lambda: False)
    assert result.code == 124
    assert "0.1 s" in result.err


def test_a_talking_program_is_heard_line_by_line() -> None:
    child = Child(["cat"], talking=True)
    child.say("one")
    assert child.listen(10, lambda: False) == "one\n"
    assert child.listen(60, lambda: True) is None
    child.end()
    child.say("nobody hears")
    assert child.listen(10, lambda: False) is None


def test_standard_output_without_a_reader_stops() -> None:
    read, write = os.pipe()
    saved = os.dup(1)
    os.dup2(write, 1)
    try:
        stop = Stop()
        os.close(read)
        os.close(write)
        stop._watch()
        assert stop.requested()
    finally:
        os.dup2(saved, 1)
        os.close(saved)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "run").mkdir()
    return Host(str(tmp_path), sleep=lambda _: None)


def process(host: Host, pid: int, started: str) -> Path:
    folder = host.path(f"/proc/{pid}")
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S"] + ["0"] * 18 + [started]
    (folder / "stat").write_text(f"{pid} (python3 (x)) {' '.join(fields)}\n")
    return folder / "stat"


def test_a_benchmark_that_was_left_is_ended(host: Host) -> None:
    stat = process(host, 4711, "99")
    host.path(children.RECORD).write_text(json.dumps({"pid": 4711, "started": "99"}))
    killed: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        killed.append((pid, number))
        stat.unlink()

    assert children.end(host, kill=kill)
    assert killed == [(4711, signal.SIGTERM)]
    assert not host.exists(children.RECORD)


def test_one_that_does_not_end_is_killed(host: Host) -> None:
    process(host, 4711, "99")
    host.path(children.RECORD).write_text(json.dumps({"pid": 4711, "started": "99"}))
    killed: list[int] = []
    assert children.end(host, seconds=0, kill=lambda _, number: killed.append(number))
    assert killed == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize("record", ['{"pid": 4711, "started": "98"}', "{}", "nonsense", '{"pid": 1'])
def test_another_process_of_that_number_is_left_alone(host: Host, record: str) -> None:
    process(host, 4711, "99")
    host.path(children.RECORD).write_text(record)
    assert not children.end(host, kill=lambda *_: pytest.fail("killed somebody else"))


def test_the_record_is_only_taken_away_by_whom_it_names(host: Host) -> None:
    process(host, os.getpid(), "5")
    children.record(host)
    assert json.loads(host.read(children.RECORD) or "")["pid"] == os.getpid()
    children.forget(host)
    assert not host.exists(children.RECORD)
