"""One playbook on a set of hosts through ansible-runner, told as typed events."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from g35ctl.content import content_root
from g35ctl.engine import events
from g35ctl.engine.environment import ansible_environment, forks_for
from g35ctl.engine.events import Talk, TaskEvent
from g35ctl.engine.folder import RunFolder
from g35ctl.engine.run import Failure

_TALK_LINES = 40


@dataclass(frozen=True)
class Play:
    """What to run: ``playbook`` is a name in playbooks/ or an absolute path; ``variables`` must hold no secret."""

    stage: str
    playbook: str
    hosts: tuple[str, ...]
    check: bool = False
    diff: bool = False
    forks: int | None = None
    variables: dict[str, Any] = field(default_factory=dict)


@dataclass
class Played:
    """What a play did. ``outcomes`` maps hosts to ok, changed, failed, unreachable or skipped."""

    stage: str
    hosts: tuple[str, ...]
    outcomes: dict[str, str] = field(default_factory=dict)
    executions: dict[str, int] = field(default_factory=dict)
    changed_tasks: int = 0
    seconds: float = 0.0
    events: list[TaskEvent] = field(default_factory=list)
    talk: list[str] = field(default_factory=list)
    cancelled: bool = False
    code: int = 0

    def take(self, event: TaskEvent) -> None:
        """Account for one event: a host's outcome only ever gets worse."""
        self.events.append(event)
        self.executions[event.host] = self.executions.get(event.host, 0) + event.executions
        self.changed_tasks += event.changed
        before = self.outcomes.get(event.host, "skipped")
        now = event.outcome
        if now == "failed" and event.ignored:
            now = "ok"
        if event.changed:
            now = "changed"
        order = ("skipped", "ok", "changed", "failed", "unreachable")
        self.outcomes[event.host] = max(before, now, key=order.index)

    def controller_failure(self, log: str) -> Failure | None:
        """Ansible ended badly without any host having failed: a broken playbook, role or inventory."""
        told = any(outcome in ("failed", "unreachable") for outcome in self.outcomes.values())
        if self.code == 0 or told or self.cancelled:
            return None
        said = "\n".join(self.talk[-_TALK_LINES:]) or f"exit code {self.code} without a word"
        return Failure("", self.stage, "ansible", said, "ansible-playbook ends with 0", f"see {log}")


def run_play(
    play: Play, folder: RunFolder, state: Path, inventory: str, on_event: Callable[[TaskEvent], None],
    cancelled: Callable[[], bool] = lambda: False, accelerate: str = "",
) -> Played:  # fmt: skip
    """Run a playbook and return what it did. ``on_event`` is called, from this thread, for each task on each host.

    Nothing that ansible-runner would write (events with arguments, environment, output) is left in the run folder.
    """
    import time

    from ansible_runner import Runner, RunnerConfig

    private = folder.path / "runner" / play.stage
    private.mkdir(parents=True, mode=0o700)
    limit = private / "hosts"
    limit.write_text("\n".join(play.hosts) + "\n", encoding="utf-8")
    variables = private / "variables.json"
    variables.write_text(json.dumps(play.variables), encoding="utf-8")
    config = RunnerConfig(
        str(private), playbook=_playbook(play.playbook), inventory=[str(Path(inventory).absolute())], limit=f"@{limit}",
        ident="run", quiet=True, suppress_env_files=True, forks=forks_for(len(play.hosts), play.forks),
        fact_cache_type="memory",
    )  # fmt: skip
    config.prepare()
    _say_everything(config, play, folder, state, variables, accelerate)
    played = Played(play.stage, play.hosts)
    log = folder.log(play.stage)
    started = time.monotonic()
    with log.open("a", encoding="utf-8") as lines:

        def handle(raw: dict[str, Any]) -> bool:
            event = events.read(play.stage, raw)
            if isinstance(event, Talk):
                played.talk.append(event.text)
                lines.write(event.text + "\n")
            elif event is not None:
                played.take(event)
                lines.write(_log_line(event))
                on_event(event)
            lines.flush()
            return False  # not to be written by ansible-runner

        runner = Runner(config, cancel_callback=cancelled, event_handler=handle)
        try:
            runner.run()
        finally:
            shutil.rmtree(private, ignore_errors=True)
    played.seconds = round(time.monotonic() - started, 2)
    played.cancelled = bool(runner.canceled)
    played.code = runner.rc if runner.rc is not None else 1
    return played


def _playbook(name: str) -> str:
    path = Path(name)
    return str(path if path.is_absolute() else content_root() / "playbooks" / f"{name}.yml")


def _say_everything(config: Any, play: Play, folder: RunFolder, state: Path, variables: Path, accelerate: str) -> None:
    """Replace what ansible-runner inherited by what we say, and keep only what it added itself."""
    import os

    added = {name: value for name, value in config.env.items() if os.environ.get(name) != value}
    plan = folder.plan if folder.plan.exists() else None
    said = ansible_environment(
        run_folder=folder.path,
        state=state,
        forks=forks_for(len(play.hosts), play.forks),
        plan_file=plan,
        accelerate=accelerate,
    )
    config.env = {**added, **said}
    extra: Sequence[str] = [*(["--check"] if play.check else []), *(["--diff"] if play.diff else [])]
    program = str(Path(sys.executable).parent / config.command[0])
    launcher = str(Path(__file__).with_name("launch.py"))
    config.command = [
        sys.executable, launcher, program, *config.command[1:-1], "-e", f"@{variables}", *extra, config.command[-1],
    ]  # fmt: skip
    config.suppress_output_file = True
    config.suppress_ansible_output = True
    config.pexpect_timeout = 0.5  # how soon a cancelled run is noticed, seconds


def _log_line(event: TaskEvent) -> str:
    lines = [f"{event.outcome:<11} {event.host:<20} {event.seconds:8.2f}s  {event.task}"]
    lines += [f"    {change.get('what')}: {change.get('before')} -> {change.get('after')}" for change in event.changes]
    lines += [
        f"    {item.get('severity')} {item.get('check')} {item.get('subject')}: {item.get('observed')},"
        f" expected {item.get('expected')}; {item.get('remedy')}"
        for item in event.findings
    ]
    if event.outcome in ("failed", "unreachable") and not event.findings:
        lines += [f"    {line}" for line in event.message.splitlines()]
    return "\n".join(lines) + "\n"
