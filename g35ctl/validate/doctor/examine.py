"""Looking at a site twice, some seconds apart, without touching it.

Takes no lock and leaves no run behind. Hosts whose ssh server is silent are found once, all at the same time, and are
not waited for again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from g35ctl.engine.connections import answering, connections
from g35ctl.engine.folder import RunFolder, state_directory
from g35ctl.engine.ledger import write_atomically
from g35ctl.engine.planning import make_plan, recorded_stages
from g35ctl.engine.reading import Reading, read_back
from g35ctl.engine.run import Failure
from g35ctl.engine.session import Interrupt, Session
from g35ctl.engine.stages import logged_in, participants
from g35ctl.observe import details, readings
from g35ctl.plan.model import Plan
from g35ctl.validate.doctor.model import Case, Note, Sample
from g35ctl.validate.look import Silent


def examine(
    inventory: str,
    seconds: float,
    *,
    forks: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Case:
    """Run verify twice on every host that answers, ``seconds`` apart (from the end of the first to the begin of the
    second; 0 samples once).

    Raises SiteInvalid when the inventory is not valid, KeyboardInterrupt when the user stops it.
    """
    site, plan = make_plan(inventory)
    everyone = participants(plan, "preflight")
    with tempfile.TemporaryDirectory(prefix="g35-doctor-") as temporary, Interrupt(Silent()) as interrupt:
        folder = RunFolder(Path(temporary))
        folder.log("verify").parent.mkdir(mode=0o700)
        write_atomically(folder.plan, plan.to_json())

        def sample(stage: str, hosts: Sequence[str]) -> tuple[Sample, Reading]:
            session = Session(
                inventory, "doctor", site, plan, state_directory(inventory), folder, Silent(), interrupt,
                datetime.now(UTC), forks,
            )  # fmt: skip
            reading = read_back(session, hosts, stage=stage)
            if interrupt.requested():
                raise KeyboardInterrupt
            return _sample(plan, session.states, reading), reading

        silent = answering(connections(inventory, logged_in(plan, everyone)))
        missing = {item.host for item in silent}
        asked = [name for name in everyone if name not in missing]
        first, reading = sample("first", asked) if asked else (_nothing(plan), None)
        ended, failures = clock(), list(silent) + list(reading.failures if reading is not None else ())
        second, apart = first, 0.0
        if seconds > 0 and reading is not None and reading.findings:
            _wait(seconds, sleep, interrupt.requested)
            second, again = sample("second", [name for name in asked if name in reading.findings])
            apart = clock() - ended
            failures += again.failures
    return Case(plan, first, second, apart, recorded_stages(inventory, plan), tuple(failures))


def _wait(seconds: float, sleep: Callable[[float], None], stopped: Callable[[], bool]) -> None:
    """Sleep in short pieces, so that a request to stop is heard."""
    left = seconds
    while left > 0:
        if stopped():
            raise KeyboardInterrupt
        sleep(min(0.5, left))
        left -= 0.5


def _nothing(plan: Plan) -> Sample:
    return Sample(readings.read(plan, {}), details.Details())


def _sample(plan: Plan, states: Mapping[str, Mapping[str, Any]], reading: Reading) -> Sample:
    answered = {host: state for host, state in states.items() if host in reading.findings}
    notes = tuple(note for host, found in reading.findings.items() for note in notes_of(host, found))
    return Sample(readings.read(plan, answered), details.read(answered), notes)


def notes_of(host: str, found: Iterable[Mapping[str, Any]]) -> tuple[Note, ...]:
    """A host's findings, typed."""

    def note(item: Mapping[str, Any]) -> Note:
        def text(key: str, otherwise: str = "") -> str:
            return str(item.get(key, otherwise))

        return Note(
            host, text("stage"), text("check"), text("subject"), text("observed"), text("expected"), text("remedy"),
            text("severity", "error"),
        )  # fmt: skip

    return tuple(note(item) for item in found)


def unread(case: Case) -> tuple[Failure, ...]:
    """Hosts and controller problems that kept something from being read, each once."""
    return tuple(dict.fromkeys(case.unread))
