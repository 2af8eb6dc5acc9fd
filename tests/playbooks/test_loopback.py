"""Real ansible-runner on this machine: what is counted, what is written down, how it stops."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from g35ctl.engine import folder
from g35ctl.engine.events import TaskEvent
from g35ctl.engine.runner import Play, Played, run_play

CANARY = "canary-8c1f2d"

PLAYBOOK = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: Decide on the controller
      ansible.builtin.set_fact:
        __g35_x: 1
    - name: Run three times
      ansible.builtin.command: "true"
      loop: [1, 2, 3]
      changed_when: false
    - name: Copy
      ansible.builtin.copy:
        content: canary-8c1f2d
        dest: "{{ target }}-{{ inventory_hostname }}"
        mode: "0600"
    - name: Show no environment
      ansible.builtin.command: env
      register: __g35_env
      changed_when: false
    - name: Fail on one
      ansible.builtin.fail:
        msg: wanted
      when: inventory_hostname == 'b'
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    hosts = "".join(
        f"    {name}: {{ansible_connection: local, ansible_python_interpreter: '{sys.executable}'}}\n" for name in "ab"
    )
    (tmp_path / "hosts.yml").write_text(f"all:\n  hosts:\n{hosts}", encoding="utf-8")
    return tmp_path


def play(site: Path, playbook: str, cancelled=lambda: False, **variables: str) -> tuple[Played, list[TaskEvent], Path]:
    (site / "playbook.yml").write_text(playbook, encoding="utf-8")
    run = folder.create(site / ".g35", "deploy")
    seen: list[TaskEvent] = []
    played = run_play(
        Play("connect", str(site / "playbook.yml"), ("a", "b"), variables=variables),
        run, site / ".g35", str(site / "hosts.yml"), seen.append, cancelled,
    )  # fmt: skip
    return played, seen, run.path


def test_counts_and_leaves_no_secret_behind(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_TOKEN", CANARY)
    played, seen, run = play(site, PLAYBOOK, target=str(site / "copied"))
    # 3 loop items, copy (stat and copy), env; set_fact and fail run on the controller.
    assert played.executions == {"a": 6, "b": 6}
    assert played.outcomes == {"a": "changed", "b": "failed"}
    assert played.code != 0
    assert played.controller_failure("log") is None
    assert [(event.host, event.message) for event in seen if event.outcome == "failed"] == [("b", "wanted")]
    written = [path for path in run.rglob("*") if path.is_file()]
    assert run / "logs" / "connect.log" in written
    for path in written:
        assert CANARY.encode() not in path.read_bytes(), path
    assert not list((run / "runner").rglob("command"))


def test_a_playbook_that_cannot_start_is_the_controllers_failure(site: Path) -> None:
    played, seen, _run = play(site, "- hosts: all\n  roles: [no_such_role]\n")
    failure = played.controller_failure("the log")
    assert seen == []
    assert failure is not None
    assert failure.host == ""
    assert "no_such_role" in failure.observed
    assert "the log" in failure.remedy


def test_a_cancelled_play_stops_before_its_time(site: Path) -> None:
    slow = "- hosts: a\n  gather_facts: false\n  tasks:\n    - ansible.builtin.command: sleep 300\n"
    played, _seen, _run = play(site, slow, cancelled=lambda: True)
    assert played.cancelled
    assert played.seconds < 60


def test_ansible_does_not_outlive_a_killed_controller(tmp_path: Path) -> None:
    launcher = Path(folder.__file__).with_name("launch.py")
    script = (
        "import os, signal, subprocess, sys\n"
        f"argv = [sys.executable, {str(launcher)!r}, '/bin/sleep', '300']\n"
        "child = subprocess.Popen(argv, stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "open(f'/proc/{child.pid}/cmdline').read()\n"
        "while b'sleep' not in open(f'/proc/{child.pid}/cmdline', 'rb').read().split(b'\\0')[0]: pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    child = int(done.stdout)
    for _ in range(1000):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        os.sched_yield()
    pytest.fail(f"process {child} is still there")
