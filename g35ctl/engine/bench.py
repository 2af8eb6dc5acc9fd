"""Running a benchmark suite: one module execution on every host, all at the same time, and what each brought back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.g35.bench_jobs import BenchJob
from ansible.module_utils.g35.schema import dump

from g35ctl.engine.failures import from_event
from g35ctl.engine.ledger import write_atomically
from g35ctl.engine.run import Failure, StageResult
from g35ctl.engine.runner import Play
from g35ctl.engine.session import Session
from g35ctl.plan.bench import least_seconds

FOLDER = "bench"
"""Directory of the run folder with what the tools said, one file per suite and host."""


@dataclass(frozen=True)
class Measured:
    """What a suite brought. ``states`` are by host; a host without one could not run it and is in ``failures``.
    ``evidence`` names each host's file in the run folder."""

    states: Mapping[str, Mapping[str, Any]]
    failures: tuple[Failure, ...]
    stage: StageResult
    evidence: Mapping[str, str]
    interrupted: bool = False


def token(session: Session) -> str:
    """Names this run to the hosts, which then tell its gate, files and values from those of another."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", session.folder.identifier)[:60]


def measure(session: Session, suite: str, jobs: Mapping[str, BenchJob]) -> Measured:
    """Run the jobs (host to job) and keep what the tools said. Whatever goes wrong, nothing is left running."""
    hosts = tuple(jobs)
    session.display.stage_started("validate", hosts)
    least = least_seconds(jobs)
    session.display.say(
        f"{suite}: {len(hosts)} hosts measure together"
        + (f", for at least {least / 60:.0f} minutes" if least > 90 else "")
    )
    variables = {"g35_bench_jobs": {host: dump(job) for host, job in jobs.items()}}
    # The hosts wait for each other: each needs a fork of its own.
    played = session.play(Play("validate", "bench", hosts, forks=len(hosts), variables=variables))
    states: dict[str, Mapping[str, Any]] = {}
    failures: list[Failure] = []
    for event in played.events:
        if event.action == "g35_bench" and event.outcome == "ok" and event.state:
            states[event.host] = dict(event.state)
        else:
            failures.extend(from_event(event))
    broken = played.controller_failure(str(session.folder.log("validate")))
    failures.extend([broken] if broken else [])
    interrupted = session.interrupt.requested()
    if interrupted or failures:
        ending = Play("validate", "bench", hosts, forks=session.forks, variables={"g35_bench_action": "end"})
        session.play(ending, to_the_end=True)
    evidence = {host: _keep(session, suite, host, state) for host, state in states.items()}
    outcomes = {host: "ok" if host in states else "interrupted" if interrupted else "failed" for host in hosts}
    stage = StageResult("validate", outcomes, played.seconds, dict(played.executions), played.changed_tasks)
    return Measured(states, () if interrupted else tuple(failures), stage, evidence, interrupted)


def _keep(session: Session, suite: str, host: str, state: Mapping[str, Any]) -> str:
    """Write what a host brought into the run folder; the file's name relative to it."""
    name = f"{FOLDER}/{suite}/{re.sub(r'[^A-Za-z0-9._-]', '_', host)}.json"
    path = session.folder.path / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, dict(state))
    return name
