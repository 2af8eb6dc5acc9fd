"""Failures are told once, with a remedy, and become one exit code."""

from __future__ import annotations

import pytest

from g35ctl.engine.events import TaskEvent
from g35ctl.engine.failures import UNREACHABLE, exit_code, from_event, group, lines, unreachable, warnings
from g35ctl.engine.run import Failure, StageResult
from g35ctl.exits import Exit


def failure(host: str, stage: str = "connect", observed: str = "no path", subject: str = "") -> Failure:
    return Failure(host, stage, "connect.path", observed, "two paths", "check the rail", subject)


def event(outcome: str, **more: object) -> TaskEvent:
    fields = {
        "stage": "connect",
        "host": "gpu1",
        "task": "T",
        "action": "g35_connect",
        "changed": False,
        "executions": 1,
    }
    return TaskEvent(**{**fields, "outcome": outcome, **more})


def test_the_same_error_on_forty_hosts_is_told_once_with_its_hosts() -> None:
    found = [
        failure(f"gpu{n}", observed=f"gpu{n}: 10.0.0.{n} port {n} timed out", subject=f"nqn{n}") for n in range(40)
    ]
    groups = group([*found, failure("gpu1", observed="another thing")])
    assert [len(item.hosts) for item in groups] == [40, 1]
    text = "\n".join(lines(found, "/run/logs"))
    assert text.count("remedy:") == 1
    assert "and 32 more" in text
    assert "/run/logs/connect.log" in text


def test_findings_of_severity_error_become_failures_and_warnings_do_not() -> None:
    findings = (
        {"check": "a", "subject": "s", "observed": "o", "expected": "e", "remedy": "r", "severity": "error"},
        {"check": "b", "severity": "warning"},
    )
    assert from_event(event("failed", findings=findings)) == (Failure("gpu1", "connect", "a", "o", "e", "r", "s"),)
    assert from_event(event("ok", findings=findings)) == ()
    assert from_event(event("failed", findings=findings, ignored=True)) == ()


def test_warnings_are_told_once_with_their_hosts() -> None:
    clock = {"check": "system.time", "observed": "not synchronized", "remedy": "enable chrony", "severity": "warning"}
    found = warnings([event("ok", findings=(clock,)), event("ok", host="gpu2", findings=(clock,)), event("ok")])
    assert found == ["warning: system.time: not synchronized on gpu1, gpu2; enable chrony"]


def test_a_failure_without_findings_tells_the_message() -> None:
    (found,) = from_event(event("failed", message="Traceback"))
    assert (found.check, found.observed) == ("g35_connect", "Traceback")


@pytest.mark.parametrize(
    ("message", "check", "remedy"),
    [
        ("Failed to connect: Host key verification failed.", "ssh.host_key", "g35ctl trust"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @ Host key verification failed.",
            "ssh.host_key",
            "--replace",
        ),
        ("root@h: Permission denied (publickey).", "ssh.login", "ansible_user"),
        ("ssh: connect to host 10.0.0.1 port 22: No route to host", "ssh.connect", "power"),
    ],
)
def test_an_unreachable_host_gets_the_remedy_for_what_ssh_said(message: str, check: str, remedy: str) -> None:
    found = unreachable("preflight", "gpu1", message)
    assert (found.check, found.subject) == (check, UNREACHABLE)
    assert remedy in found.remedy


SILENT = unreachable("connect", "gpu1", "timed out")
OK = StageResult("connect", {"gpu2": "ok"}, 1.0)
CHANGED = StageResult("connect", {"gpu2": "changed"}, 1.0, {}, 3)


@pytest.mark.parametrize(
    ("stages", "failures", "options", "code"),
    [
        ((OK,), (), {}, Exit.OK),
        ((CHANGED,), (), {"check": True}, Exit.CHANGES_PENDING),
        ((OK,), (), {"check": True}, Exit.OK),
        ((OK,), (), {"verdicts_failed": True}, Exit.THRESHOLDS_MISSED),
        ((OK,), (failure("gpu1"),), {"interrupted": True}, Exit.INTERRUPTED),
        ((OK,), (failure("gpu1", "preflight"), SILENT), {}, Exit.PREFLIGHT_FAILED),
        ((OK,), (SILENT,), {}, Exit.UNREACHABLE),
        ((OK,), (failure("gpu1"), SILENT), {}, Exit.PARTIAL),
        ((), (failure("gpu1"),), {}, Exit.DEPLOY_FAILED),
        ((OK,), (failure("", observed="no such role"),), {}, Exit.DEPLOY_FAILED),
        ((OK,), (failure("gpu1", "validate"),), {}, Exit.THRESHOLDS_MISSED),
        ((OK,), (failure("", "validate", observed="no such role"),), {}, Exit.DEPLOY_FAILED),
    ],
)
def test_exit_codes(stages, failures, options, code) -> None:
    told = {"check": False, "interrupted": False, "verdicts_failed": False, **options}
    assert exit_code(stages, failures, **told) is code


@pytest.mark.parametrize(
    ("message", "observed", "expected"),
    [
        (
            "ansible-core requires a minimum of Python version 3.9. Current version: 3.6.8 (default, Nov 2020)",
            "Python 3.6.8", "Python 3.9 or later",
        ),
        ("The module interpreter '/usr/bin/python3.11' was not found.", "/usr/bin/python3.11 does not exist",
         "a Python 3"),
        ("/bin/sh: 1: /usr/bin/python3: not found", "/usr/bin/python3 does not exist", "a Python 3"),
    ],
)  # fmt: skip
def test_python_that_cannot_run_a_module_is_told_with_what_to_install(
    message: str, observed: str, expected: str
) -> None:
    (found,) = from_event(event("failed", stage="preflight", message=message))
    assert (found.check, found.observed, found.expected) == ("host.python", observed, expected)
    assert "ansible_python_interpreter" in found.remedy
    assert "openEuler" in found.remedy
