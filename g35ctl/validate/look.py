"""Looking at a site without touching it: what status shows.

Takes no lock and leaves no run behind, so that it can be used while a deploy is going on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from g35ctl.engine.events import TaskEvent
from g35ctl.engine.folder import RunFolder, state_directory
from g35ctl.engine.ledger import write_atomically
from g35ctl.engine.planning import make_plan
from g35ctl.engine.reading import read_back
from g35ctl.engine.run import Failure, StageResult
from g35ctl.engine.session import Interrupt, Session
from g35ctl.engine.stages import participants
from g35ctl.observe import details, readings
from g35ctl.observe.details import PortCounters
from g35ctl.observe.readings import Readings
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site
from g35ctl.validate.functional import judge
from g35ctl.verdict import Verdict


@dataclass(frozen=True)
class Look:
    """A site at one moment. ``failures`` are hosts that could not be read, with the reason."""

    site: Site
    plan: Plan
    readings: Readings
    verdicts: tuple[Verdict, ...]
    failures: tuple[Failure, ...]
    taken: datetime
    counters: Mapping[str, tuple[PortCounters, ...]] = field(default_factory=dict)
    """Counters of each host's data ports."""


class Silent:
    """A display that shows nothing: the look itself is the output."""

    def begin(self, title: str, stages: Sequence[str], hosts: Sequence[str]) -> None: ...

    def stage_started(self, stage: str, hosts: Sequence[str]) -> None: ...

    def task(self, event: TaskEvent) -> None: ...

    def stage_ended(self, result: StageResult) -> None: ...

    def say(self, text: str) -> None: ...

    def end(self) -> None: ...


def look(inventory: str, *, forks: int | None = None) -> Look:
    """Run verify on every host of the site and judge what came.

    Raises SiteInvalid when the inventory is not valid, KeyboardInterrupt when the user stops it.
    """
    site, plan = make_plan(inventory)
    taken = datetime.now(UTC)
    display = Silent()
    with tempfile.TemporaryDirectory(prefix="g35-status-") as temporary, Interrupt(display) as interrupt:
        folder = RunFolder(Path(temporary))
        folder.log("verify").parent.mkdir(mode=0o700)
        write_atomically(folder.plan, plan.to_json())
        session = Session(
            inventory, "status", site, plan, state_directory(inventory), folder, display, interrupt, taken, forks
        )
        reading = read_back(session, participants(plan, "preflight"))
        if interrupt.requested():
            raise KeyboardInterrupt
    verdicts = judge(plan, session.states, reading.findings, None)
    answered = {host: state for host, state in session.states.items() if host in reading.findings}
    counters = details.read(answered).counters
    return Look(site, plan, readings.read(plan, answered), verdicts, reading.failures, taken, counters)
