"""What a run did: the record that reports, ledgers and exit codes are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from g35ctl.exits import Exit


@dataclass(frozen=True)
class Failure:
    """One thing that went wrong on one host. ``host`` is empty for failures of the controller itself."""

    host: str
    stage: str
    check: str
    observed: str
    expected: str
    remedy: str
    subject: str = ""


@dataclass(frozen=True)
class StageResult:
    """How a stage ended. ``hosts`` maps each host to ok, changed, failed, unreachable, skipped or held (the ledger's
    record and a fresh verify agree that it already holds)."""

    stage: str
    hosts: dict[str, str]
    seconds: float
    module_executions: dict[str, int] = field(default_factory=dict)
    changed_tasks: int = 0


@dataclass(frozen=True)
class Run:
    """A finished (or interrupted) run. ``state`` holds what verify read: host -> stage -> state."""

    identifier: str
    verb: str
    site: str
    started: str
    seconds: float
    folder: str
    stages: tuple[StageResult, ...]
    failures: tuple[Failure, ...]
    exit_code: Exit
    check: bool = False
    plan_digest: str = ""
    state: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """Number of changed tasks over all hosts."""
        return sum(stage.changed_tasks for stage in self.stages)

    @property
    def module_executions(self) -> dict[str, int]:
        """Module executions per host over all stages."""
        total: dict[str, int] = {}
        for stage in self.stages:
            for host, count in stage.module_executions.items():
                total[host] = total.get(host, 0) + count
        return total
