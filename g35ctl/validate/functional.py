"""The functional suite: does the tier that was deployed hold, from the wire to a value read back from flash?

Pure: it judges what verify and the probes brought. Truth is what was read; what is missing fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from g35ctl.engine.stages import stage_of
from g35ctl.observe import details, readings
from g35ctl.plan.model import HostPlan, Plan
from g35ctl.validate import fabric, flash, paths, pool, ways
from g35ctl.validate.judging import Judging
from g35ctl.verdict import Verdict

States = Mapping[str, Mapping[str, Any]]
"""Host to stage to the state that verify read."""
Findings = Mapping[str, Sequence[Mapping[str, Any]]]
"""Host to the findings that verify made."""
Probes = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Host to action (write, read) to the state that the probe returned."""


def judge(
    plan: Plan, states: States, findings: Findings, probes: Probes | None, evidence: str = ""
) -> tuple[Verdict, ...]:
    """Every verdict of the suite, one per subject, in a stable order.

    ``probes`` None means that no values were written or read (status): the flash checks are then left out.
    A host that is not in ``findings`` did not answer verify: whatever an earlier stage read of it does not count.
    ``evidence`` names the file in the run folder that holds what is judged here.
    """
    answered = {host: state for host, state in states.items() if host in findings}
    judging = Judging(plan, readings.read(plan, answered, probes), evidence)
    verdicts = [*_hosts(judging, findings)]
    verdicts += fabric.judge(judging)
    verdicts += ways.judge(judging, details.read(answered).ways)
    verdicts += paths.judge(judging)
    verdicts += pool.judge(judging)
    if probes is not None:
        verdicts += flash.judge(judging)
    return tuple(verdicts)


def _hosts(judging: Judging, findings: Findings) -> Iterator[Verdict]:
    """Each host answered, each of its stages could be read, and what the host itself found wrong."""
    for host in judging.plan.hosts:
        stages = [stage for stage in host.stages() if stage != "probe"]
        if not stages:
            continue
        reached = host.name not in judging.readings.unreached
        yield judging.verdict(
            "host.reached",
            reached,
            "answered" if reached else "no answer",
            "answered",
            host=host.name,
            remedy=f"check that the host is up and reachable: g35ctl preflight --limit {host.name}",
        )
        if reached:
            yield from _stages(judging, host, stages, findings.get(host.name, ()))


def _stages(
    judging: Judging, host: HostPlan, stages: Sequence[str], found: Sequence[Mapping[str, Any]]
) -> Iterator[Verdict]:
    for stage in stages:
        missing = judging.missing(stage, host.name)
        yield judging.verdict(
            "stage.read",
            not missing,
            missing or "read",
            "read",
            host=host.name,
            subject=stage,
            remedy=f"run: g35ctl deploy --only {stage_of(host, stage)} --limit {host.name}; see the log of this run",
        )
    for item in found:
        yield from _finding(judging, host.name, item)


def _finding(judging: Judging, host: str, item: Mapping[str, Any]) -> Iterator[Verdict]:
    """A host's own finding as a verdict; notes (severity info) are not judgements."""
    check, subject = str(item.get("check", "finding")), str(item.get("subject", ""))
    observed, expected = str(item.get("observed", "")), str(item.get("expected", ""))
    remedy = str(item.get("remedy", ""))
    severity = item.get("severity", "error")
    name = f"finding.{check}"
    if severity == "warning":
        yield judging.warn(name, observed, expected, host=host, subject=subject, remedy=remedy)
    elif severity != "info":
        yield judging.verdict(name, False, observed, expected, host=host, subject=subject, remedy=remedy)
