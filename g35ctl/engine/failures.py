"""Failures: made from events, told once however many hosts share them, and turned into an exit code. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from g35ctl.engine.events import TaskEvent
from g35ctl.engine.run import Failure, StageResult
from g35ctl.exits import Exit

UNREACHABLE = "unreachable"
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\bport \d+")
# What ssh says -> check, what was expected, what to do.
_SSH = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "ssh.host_key", "the pinned host key",
     "find out why the key changed; if the host was reinstalled: g35ctl trust --replace"),
    ("Host key verification failed", "ssh.host_key", "a pinned host key", "g35ctl trust"),
    ("Permission denied", "ssh.login", "a key that the host accepts", "check ansible_user and its key"),
    ("Could not resolve hostname", "ssh.name", "a name that resolves", "check ansible_host in the inventory"),
    ("Connection refused", "ssh.connect", "an ssh server that answers", "check ansible_port and that sshd runs"),
)  # fmt: skip

# What Ansible says where a module cannot even start -> what was observed.
_NO_PYTHON = (
    (re.compile(r"requires a minimum of Python version (?P<least>[\d.]+)\. Current version: (?P<have>[\d.]+)"),
     "Python {have}"),
    (re.compile(r"module interpreter '(?P<path>[^']+)' was not found"), "{path} does not exist"),
    (re.compile(r"(?P<path>/\S*python\S*): (?:No such file or directory|not found)"), "{path} does not exist"),
    (re.compile(r"No python interpreters found"), "no Python"),
)  # fmt: skip
_PYTHON_REMEDY = (
    "install one beside the system's and name it with ansible_python_interpreter: /usr/bin/python3.11 in the inventory:"
    " RHEL 8 and 9 family, Anolis 8: dnf install python3.11; openEuler 22.03, KeyarchOS 5: dnf install python3 (3.9)"
    " or build 3.11 into /opt; Debian, Ubuntu: apt-get install python3"
)


def from_event(event: TaskEvent) -> tuple[Failure, ...]:
    """The failures that one task event tells; empty when it did not fail."""
    if event.outcome == "unreachable":
        return (unreachable(event.stage, event.host, event.message),)
    if event.outcome != "failed" or event.ignored:
        return ()
    errors = [item for item in event.findings if item.get("severity") == "error"]
    if not errors:
        python = _python(event)
        if python is not None:
            return (python,)
        return (
            Failure(
                event.host, event.stage, event.action, event.message or "no message", "success", "see the stage's log"
            ),
        )
    return tuple(
        Failure(
            host=event.host,
            stage=event.stage,
            check=str(item.get("check", "")),
            observed=str(item.get("observed", "")),
            expected=str(item.get("expected", "")),
            remedy=str(item.get("remedy", "")),
            subject=str(item.get("subject", "")),
        )
        for item in errors
    )


def _python(event: TaskEvent) -> Failure | None:
    """No module can run on the host, because its Python is missing or older than this ansible-core accepts."""
    for pattern, observed in _NO_PYTHON:
        found = pattern.search(event.message)
        if found:
            expected = f"Python {found['least']} or later" if "least" in found.groupdict() else "a Python 3"
            told = observed.format(**{key: value.strip() for key, value in found.groupdict().items()})
            return Failure(event.host, event.stage, "host.python", told, expected, _PYTHON_REMEDY)
    return None


def unreachable(stage: str, host: str, message: str) -> Failure:
    """A host that could not be talked to, with the reason ssh gave."""
    for said, check, expected, remedy in _SSH:
        if said in message:
            return Failure(host, stage, check, said, expected, remedy, UNREACHABLE)
    last = (message.strip().splitlines() or ["no answer"])[-1]
    return Failure(
        host,
        stage,
        "ssh.connect",
        last,
        "a connection",
        "power, network and address of the host; then run again",
        UNREACHABLE,
    )


@dataclass(frozen=True)
class Group:
    """One failure and everything it happened to."""

    failure: Failure
    hosts: tuple[str, ...]
    subjects: tuple[str, ...]


def group(failures: Iterable[Failure]) -> tuple[Group, ...]:
    """The same failure on many hosts or subjects once, most hosts first, in stage order of appearance otherwise."""
    found: dict[tuple[str, str, str, str], list[Failure]] = {}
    for failure in failures:
        observed = _ADDRESS.sub("*", failure.observed)
        for name in (failure.host, failure.subject):
            observed = observed.replace(name, "*") if name else observed
        found.setdefault((failure.stage, failure.check, observed, failure.expected), []).append(failure)
    groups = [
        Group(
            items[0],
            tuple(dict.fromkeys(item.host for item in items if item.host)),
            tuple(dict.fromkeys(item.subject for item in items if item.subject and item.subject != UNREACHABLE)),
        )
        for items in found.values()
    ]
    return tuple(sorted(groups, key=lambda item: -len(item.hosts)))


def lines(failures: Sequence[Failure], logs: str, most: int = 12) -> list[str]:
    """The grouped failures as text; ``logs`` is the directory of the stages' logs."""
    told: list[str] = []
    groups = group(failures)
    for item in groups[:most]:
        failure = item.failure
        told.append(f"failed: {failure.stage}: {failure.check}")
        told.append(f"  hosts:    {_some(item.hosts) or 'controller'}")
        if item.subjects:
            told.append(f"  subject:  {_some(item.subjects, 4)}")
        observed = failure.observed.splitlines() or [""]
        told.append(f"  observed: {observed[0]}")
        told.extend(f"            {line}" for line in observed[1:])
        told.append(f"  expected: {failure.expected}")
        told.append(f"  remedy:   {failure.remedy}")
        told.append(f"  log:      {logs}/{failure.stage}.log")
    if len(groups) > most:
        told.append(f"and {len(groups) - most} more; all are in the report")
    return told


def warnings(events: Iterable[TaskEvent]) -> list[str]:
    """Findings that stop nothing, each once with its hosts."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for event in events:
        for item in event.findings:
            if item.get("severity") == "warning":
                key = (str(item.get("check", "")), str(item.get("observed", "")), str(item.get("remedy", "")))
                found.setdefault(key, {})[event.host] = None
    return [
        f"warning: {check}: {observed} on {_some(tuple(hosts))}; {remedy}"
        for (check, observed, remedy), hosts in found.items()
    ]


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def exit_code(
    stages: Sequence[StageResult], failures: Sequence[Failure], *, check: bool, interrupted: bool, verdicts_failed: bool
) -> Exit:
    """What the process tells its caller about a run.

    Preflight problems come before anything was touched (4, or 5 when the only problem is silence); later, 5 when every
    failure is a host that does not answer, 6 when some hosts came through, 1 when none did.
    """
    if interrupted:
        return Exit.INTERRUPTED
    if failures:
        silent = all(failure.subject == UNREACHABLE for failure in failures)
        if silent:
            return Exit.UNREACHABLE
        if any(failure.stage == "preflight" for failure in failures):
            return Exit.PREFLIGHT_FAILED
        if all(failure.stage == "validate" and failure.host for failure in failures):
            return Exit.THRESHOLDS_MISSED
        failed = {failure.host for failure in failures}
        done = {host for stage in stages for host, how in stage.hosts.items() if how in ("ok", "changed", "held")}
        came_through = done - failed
        return Exit.PARTIAL if came_through and "" not in failed else Exit.DEPLOY_FAILED
    if verdicts_failed:
        return Exit.THRESHOLDS_MISSED
    if check and any(stage.changed_tasks for stage in stages):
        return Exit.CHANGES_PENDING
    return Exit.OK
