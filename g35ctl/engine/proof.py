"""The last stage: the whole site read back, values written and read through flash, everything judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from g35ctl.engine.failures import from_event
from g35ctl.engine.ledger import Entry
from g35ctl.engine.reading import Reading, probe, read_back
from g35ctl.engine.run import Failure, StageResult
from g35ctl.engine.session import Session
from g35ctl.engine.stages import participants
from g35ctl.verdict import Grade, Verdict

EVIDENCE = "state.json"
"""The file of the run folder that holds what was judged; Session.save_states writes it."""


@dataclass(frozen=True)
class Proof:
    """What was judged, what could not even be read, and what it cost."""

    verdicts: tuple[Verdict, ...]
    failures: tuple[Failure, ...] = ()
    stages: tuple[StageResult, ...] = field(default_factory=tuple)

    @property
    def failed(self) -> bool:
        """True when a verdict is FAIL."""
        return any(verdict.grade is Grade.FAIL for verdict in self.verdicts)


def prove(session: Session, reading: Reading | None = None, standing: Entry | None = None) -> Proof:
    """Judge the site.

    ``reading`` saves reading it again when nothing was changed since it was taken, and it shows nothing that fails.
    ``standing`` is an earlier validation of the very same plan since which nothing was applied: values are then not
    written again, because that takes memory from whatever the pool is serving.
    """
    from g35ctl.validate.functional import judge

    everyone = participants(session.plan, "preflight")
    probing = participants(session.plan, "validate")
    session.display.stage_started("validate", everyone)
    seconds, executions, changed = 0.0, dict[str, int](), 0
    outcomes = dict.fromkeys(everyone, "ok")
    failures: list[Failure] = []
    verdicts: tuple[Verdict, ...] = ()
    if reading is not None:
        verdicts = tuple(judge(session.plan, session.states, reading.findings, None, EVIDENCE))
        if any(item.grade is Grade.FAIL for item in verdicts) and not session.interrupt.requested():
            # It was taken while a host may still have been starting: one host read the pool before another's stores
            # had joined it. Only what fails when read now is a failure.
            reading = None
    if reading is None:
        reading = read_back(session, everyone, stage="validate")
        failures.extend(reading.failures)
        seconds, changed = reading.played.seconds, reading.played.changed_tasks
        executions.update(reading.played.executions)
        verdicts = tuple(judge(session.plan, session.states, reading.findings, None, EVIDENCE))
    answering = tuple(name for name in probing if name in reading.findings)
    probes: dict[str, dict[str, Any]] = {}
    missed = sum(item.grade is Grade.FAIL for item in verdicts)
    # Values travel over every rail to every owner: on a tier that is known to be broken they would only wait for
    # timeouts, and fill its memory meanwhile.
    probed = bool(answering) and standing is None and not missed
    if probed and not session.interrupt.requested():
        played, probes = probe(session, answering)
        for host, brought in probes.items():
            session.remember(host, "probe", brought)
        for event in played.events:
            failures.extend(from_event(event))
        broken = played.controller_failure(str(session.folder.log("validate")))
        failures.extend([broken] if broken else [])
        seconds, changed = seconds + played.seconds, changed + played.changed_tasks
        for host, count in played.executions.items():
            executions[host] = executions.get(host, 0) + count
    if session.interrupt.requested():
        return Proof((), tuple(failures), (StageResult("validate", dict.fromkeys(everyone, "interrupted"), seconds),))
    if probed:
        verdicts = tuple(judge(session.plan, session.states, reading.findings, probes, EVIDENCE))
    elif standing is not None:
        verdicts = (*verdicts, _standing(standing))
    elif missed:
        verdicts = (*verdicts, _not_tried(missed))
    for host in {item.host for item in failures} | {item.host for item in verdicts if item.grade is Grade.FAIL}:
        if host:
            outcomes[host] = "failed"
    result = StageResult("validate", outcomes, round(seconds, 2), executions, changed)
    return Proof(verdicts, tuple(failures), (result,))


def _not_tried(missed: int) -> Verdict:
    return Verdict(
        suite="functional",
        check="flash.values",
        grade=Grade.SKIP,
        observed=f"not tried: {missed} checks of the tier below fail already",
        expected="values come back from flash byte-equal on every host",
        remedy="mend what fails first, then g35ctl validate",
        evidence=EVIDENCE,
    )


def _standing(entry: Entry) -> Verdict:
    return Verdict(
        suite="functional",
        check="flash.values",
        grade=Grade.SKIP,
        observed=f"proven at {entry.time} by run {entry.run}; nothing was applied since",
        expected="values come back from flash byte-equal on every host",
        remedy="g35ctl validate proves it again",
        evidence=EVIDENCE,
    )
