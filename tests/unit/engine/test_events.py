"""Runner events become typed, counted and clean records."""

from __future__ import annotations

import json

import pytest

from g35ctl.engine.events import Talk, TaskEvent, read


def raw(event: str, action: str, res: dict, **data: object) -> dict:
    return {
        "event": event,
        "event_data": {
            "host": "gpu1",
            "task": "A task",
            "resolved_action": action,
            "res": res,
            "duration": 1.23456,
            **data,
        },
    }


def task(event: str, action: str, res: dict, **data: object) -> TaskEvent:
    found = read("connect", raw(event, action, res, **data))
    assert isinstance(found, TaskEvent)
    return found


@pytest.mark.parametrize(
    ("event", "action", "res", "executions"),
    [
        ("runner_on_ok", "g35_connect", {"changed": False}, 1),
        ("runner_on_failed", "g35_connect", {"msg": "no"}, 1),
        ("runner_on_ok", "ansible.builtin.copy", {"changed": True}, 2),
        ("runner_on_ok", "ansible.builtin.set_fact", {}, 0),
        ("runner_on_ok", "ansible.builtin.validate_argument_spec", {}, 0),
        ("runner_on_ok", "ansible.builtin.command", {"results": [{}, {"skipped": True}, {}]}, 2),
        ("runner_on_ok", "ansible.builtin.command", {"attempts": 3}, 3),
        ("runner_on_skipped", "g35_cache", {}, 0),
        ("runner_on_unreachable", "g35_cache", {"msg": "timed out"}, 0),
    ],
)
def test_counts_executions_on_the_host_and_only_those(event: str, action: str, res: dict, executions: int) -> None:
    assert task(event, action, res).executions == executions


def test_carries_findings_changes_and_state_of_our_modules() -> None:
    finding = {"check": "connect.path", "severity": "error"}
    change = {"what": "path", "before": "none", "after": "live"}
    found = task(
        "runner_on_ok", "g35_connect",
        {"changed": True, "findings": [finding], "changes": [change], "state": {"controllers": 2}},
    )  # fmt: skip
    assert (found.action, found.changed, found.seconds) == ("g35_connect", True, 1.235)
    assert found.findings == (finding,)
    assert found.changes == (change,)
    assert found.state == {"controllers": 2}


def test_arguments_contents_and_environment_never_reach_a_record() -> None:
    secret = "canary-4711"
    found = task(
        "runner_on_failed", "g35_cache",
        {
            "msg": "refused", "invocation": {"module_args": {"plan": {"files": [{"content": secret}]}}},
            "diff": {"after": secret}, "environment": {"TOKEN": secret}, "plan": secret,
        },
    )  # fmt: skip
    assert secret not in json.dumps(found.record())
    assert found.message == "refused"


def test_censored_results_stay_censored() -> None:
    found = task(
        "runner_on_failed", "ansible.builtin.command", {"censored": "hidden", "msg": "canary", "stderr": "canary"}
    )
    assert found.message == "hidden"


def test_reasons_of_failed_items_are_told() -> None:
    items = [{"failed": True, "msg": "first is wrong"}, {"msg": "fine"}]
    found = task("runner_on_failed", "ansible.builtin.command", {"msg": "One or more items failed", "results": items})
    assert found.message.splitlines() == ["One or more items failed", "first is wrong"]


def test_what_ansible_says_outside_tasks_is_kept_as_talk() -> None:
    assert read("target", {"event": "error", "stdout": "ERROR! no such role\n"}) == Talk(
        "target", "ERROR! no such role"
    )
    assert read("target", {"event": "verbose", "stdout": ""}) is None
    assert read("target", {"event": "playbook_on_start", "stdout": ""}) is None


def test_a_record_is_json_and_holds_no_state() -> None:
    record = task("runner_on_ok", "g35_verify", {"state": {"target": {}}}).record()
    assert "state" not in record
    assert json.loads(json.dumps(record, default=dict))["event"] == "task"
