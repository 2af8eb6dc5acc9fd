"""Counts what a plain ansible-playbook run executes on its hosts, the way g35ctl counts its own runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

from g35ctl.engine import events


class CallbackModule(CallbackBase):
    """Writes ``{"executions": N, "changed": N, "failed": N}`` to the file that BENCH_COUNT names."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "bench_count"

    def __init__(self) -> None:
        super().__init__()
        self.total = {"executions": 0, "changed": 0, "failed": 0}

    def _take(self, kind: str, result: Any) -> None:
        data = {"host": "h", "task_action": result.task.action, "res": result.result}
        event = events.read("naive", {"event": kind, "event_data": data})
        assert isinstance(event, events.TaskEvent)
        self.total["executions"] += event.executions
        self.total["changed"] += event.changed
        self.total["failed"] += event.outcome == "failed"

    def v2_runner_on_ok(self, result: Any) -> None:
        self._take("runner_on_ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._take("runner_on_failed", result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        Path(os.environ["BENCH_COUNT"]).write_text(json.dumps(self.total), encoding="utf-8")
