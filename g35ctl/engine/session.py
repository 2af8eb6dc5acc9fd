"""What every verb that touches hosts needs: the plan, the site's lock, a run folder, progress and a clean stop.

with open_session(inventory, "deploy", display) as session:
    played = session.play(Play("connect", "connect", hosts))
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from g35ctl.engine.events import TaskEvent
from g35ctl.engine.folder import RunFolder
from g35ctl.engine.ledger import write_atomically
from g35ctl.engine.progress import Display
from g35ctl.engine.run import Failure, Run, StageResult
from g35ctl.engine.runner import Play, Played, run_play
from g35ctl.exits import Exit
from g35ctl.plan.custody import Custody
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site


class Interrupt:
    """Turns the first SIGINT or SIGTERM into a request to stop; a second one interrupts at once."""

    def __init__(self, display: Display) -> None:
        self._event = threading.Event()
        self._display = display
        self._said = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # Only a flag: what is interrupted here may be in the middle of printing.
        if self._event.is_set():
            raise KeyboardInterrupt
        self._event.set()

    def requested(self) -> bool:
        """True once the user asked to stop; says so the first time it is noticed."""
        asked = self._event.is_set()
        if asked and not self._said:
            self._said = True
            self._display.say("stopping: the running stage is ended, nothing new is begun (again to stop at once)")
        return asked


@dataclass
class Session:
    """One run on one site, from the lock to the last event."""

    inventory: str
    verb: str
    site: Site
    plan: Plan
    state: Path
    folder: RunFolder
    display: Display
    interrupt: Interrupt
    started: datetime
    forks: int | None = None
    accelerate: str = ""
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def play(self, play: Play, *, to_the_end: bool = False) -> Played:
        """Run a playbook; its events go to events.jsonl, the display, and what modules read to ``states``.

        ``to_the_end`` is for what puts things back: it is begun, and goes on, although the user asked to stop.
        """
        stopping = (lambda: False) if to_the_end else self.interrupt.requested
        return run_play(play, self.folder, self.state, self.inventory, self._on_event, stopping, self.accelerate)

    def _on_event(self, event: TaskEvent) -> None:
        record = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **event.record()}
        with self._guard, self.folder.events.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record, sort_keys=True, default=dict) + "\n")
        self.display.task(event)

    def replan(self, custody: Custody | None = None) -> None:
        """Plan again, from what is on record now or from ``custody``; what is played from here on works from that."""
        from g35ctl.engine.planning import plan_again

        self.plan = plan_again(self.inventory, self.site, custody)
        write_atomically(self.folder.plan, self.plan.to_json())

    def remember(self, host: str, stage: str, state: Any) -> None:
        """Keep what was read of a host's stage, newest last."""
        with self._guard:
            self.states.setdefault(host, {})[stage] = state

    def save_states(self) -> None:
        """Write what was read to state.json in the run folder. Evidence that cannot be written is missed out loud, but
        does not turn a run that ended into one that crashed."""
        path = self.folder.path / "state.json"
        try:
            with self._guard:
                write_atomically(path, self.states)
        except OSError as error:
            self.display.say(f"{path} could not be written: {error}")

    @property
    def seconds(self) -> float:
        return round((datetime.now(UTC) - self.started).total_seconds(), 2)


def record(
    session: Session, stages: Sequence[StageResult], failures: Sequence[Failure], code: Exit, *, check: bool = False
) -> Run:
    """What the session's run did, once it has ended."""
    return Run(
        identifier=session.folder.identifier,
        verb=session.verb,
        site=session.plan.site,
        started=session.started.isoformat(timespec="seconds"),
        seconds=session.seconds,
        folder=str(session.folder.path),
        stages=tuple(stages),
        failures=tuple(failures),
        exit_code=code,
        check=check,
        plan_digest=session.plan.digest,
        state=session.states,
        versions=versions(),
    )


def versions() -> dict[str, str]:
    """Versions that decide what a run did."""
    import platform
    from importlib.metadata import version

    return {"python": platform.python_version()} | {
        name: version(name) for name in ("g35ctl", "ansible-core", "ansible-runner")
    }
