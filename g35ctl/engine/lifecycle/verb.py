"""How an act becomes a closed run: its verdicts, its failures, its exit code."""

from __future__ import annotations

from collections.abc import Callable

from g35ctl.engine import failures as told
from g35ctl.engine.lifecycle.hands import Hands, StepFailed, Stopped
from g35ctl.engine.run import Failure, Run, StageResult
from g35ctl.engine.session import Session, record
from g35ctl.exits import Exit
from g35ctl.verdict import Grade, Verdict

STEPS = ("verify", "preflight", "pool", "release", "fence", "target", "connect", "storage", "cache", "remove")
"""Stages that the runs of acts tell of."""

Work = Callable[[Hands], tuple[Verdict, ...]]


def run_act(session: Session, what: str, work: Work) -> tuple[Run, tuple[Verdict, ...]]:
    """Do ``work`` and close it. What fails on hosts is in the run; G35Error is raised through."""
    hosts = tuple(host.name for host in session.plan.hosts if host.stages())
    session.display.begin(f"{session.verb}: {what} of site {session.plan.site}", STEPS, hosts)
    hands = Hands(session)
    verdicts: tuple[Verdict, ...] = ()
    failures: tuple[Failure, ...] = ()
    stopped = False
    try:
        verdicts = work(hands)
    except StepFailed as failed:
        failures = failed.failures
    except Stopped:
        stopped = True
    session.save_states()
    return closed_run(session, hands.results, verdicts, failures, stopped), verdicts


def closed_run(
    session: Session, results: list[StageResult], verdicts: tuple[Verdict, ...], failures: tuple[Failure, ...],
    stopped: bool,
) -> Run:  # fmt: skip
    """The run of steps that were taken outside a deploy. An act is done or it is not: it has no partial success."""
    missed = any(item.grade is Grade.FAIL for item in verdicts)
    code = told.exit_code(
        results, failures, check=False, interrupted=stopped or session.interrupt.requested(), verdicts_failed=missed
    )
    if code is Exit.PARTIAL:
        code = Exit.DEPLOY_FAILED
    return record(session, results, failures, code)
