"""What ansible-runner's job events mean: typed, counted and free of anything that must not be written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

# Runs on the controller, never on the host: no module execution.
CONTROLLER_ACTIONS = frozenset(
    {
        "add_host", "assert", "debug", "fail", "group_by", "import_playbook", "import_role", "import_tasks",
        "include_role", "include_tasks", "include_vars", "meta", "pause", "set_fact", "set_stats",
        "validate_argument_spec",
    }
)  # fmt: skip
# Actions that look before they act: a stat of the destination, then the module itself.
TWO_EXECUTIONS = frozenset({"copy", "template"})

OUTCOMES = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}
_MESSAGE_LIMIT = 4000


@dataclass(frozen=True)
class TaskEvent:
    """One task that ended on one host.

    ``executions`` is the number of module executions on the host that it cost. ``findings`` and ``changes`` are those
    of our own modules, ``state`` is what they read.
    """

    stage: str
    host: str
    task: str
    action: str
    outcome: str
    changed: bool
    executions: int
    seconds: float = 0.0
    message: str = ""
    ignored: bool = False
    findings: tuple[Mapping[str, Any], ...] = ()
    changes: tuple[Mapping[str, Any], ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The JSON form for events.jsonl and ``-o jsonl``; the state, which can be long, is kept in state.json."""
        data = asdict(self)
        del data["state"]
        data["event"] = "task"
        return data


@dataclass(frozen=True)
class Talk:
    """A line that Ansible itself said outside any task: the evidence when a playbook cannot even start."""

    stage: str
    text: str


def short_action(name: str) -> str:
    """``g35_connect`` -> ``g35_connect``."""
    return name.rpartition(".")[2]


def read(stage: str, raw: Mapping[str, Any]) -> TaskEvent | Talk | None:
    """The typed form of a runner event, or None for events that say nothing about a host."""
    kind = str(raw.get("event", ""))
    if kind in ("verbose", "error", "system_warning", "warning"):
        text = str(raw.get("stdout", "")).strip()
        return Talk(stage, text) if text else None
    outcome = OUTCOMES.get(kind)
    if outcome is None:
        return None
    data = raw.get("event_data") or {}
    result = data.get("res")
    result = result if isinstance(result, Mapping) else {}
    action = short_action(str(data.get("resolved_action") or data.get("task_action") or ""))
    return TaskEvent(
        stage=stage,
        host=str(data.get("host", "")),
        task=str(data.get("task", "")),
        action=action,
        outcome=outcome,
        changed=outcome == "ok" and bool(result.get("changed")),
        executions=_executions(action, outcome, result),
        seconds=round(float(data.get("duration") or 0.0), 3),
        message=_message(result),
        ignored=bool(data.get("ignore_errors")),
        findings=_mappings(result.get("findings")),
        changes=_mappings(result.get("changes")),
        state=result["state"] if isinstance(result.get("state"), Mapping) else {},
    )


def _executions(action: str, outcome: str, result: Mapping[str, Any]) -> int:
    if action in CONTROLLER_ACTIONS or outcome not in ("ok", "failed"):
        return 0
    items = result.get("results")
    times = sum(1 for item in items if not item.get("skipped")) if isinstance(items, list) else 1
    attempts = int(result.get("attempts") or 1)
    return times * attempts * (2 if action in TWO_EXECUTIONS else 1)


def _message(result: Mapping[str, Any]) -> str:
    """What went wrong in words. Only named fields are taken: arguments and file contents never get this far."""
    if result.get("censored"):
        return str(result["censored"])
    parts = [str(result[key]).strip() for key in ("msg", "reason", "module_stderr", "stderr") if result.get(key)]
    items = result.get("results")
    if isinstance(items, list):
        parts += [
            str(item["msg"]) for item in items if isinstance(item, Mapping) and item.get("failed") and item.get("msg")
        ]
    return "\n".join(dict.fromkeys(parts))[-_MESSAGE_LIMIT:]


def _mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()
