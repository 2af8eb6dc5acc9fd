"""What ``g35ctl validate`` does: one locked session, the chosen suites, a closed run."""

from __future__ import annotations

from collections.abc import Sequence

from g35ctl.engine import failures
from g35ctl.engine.deploy import versions
from g35ctl.engine.proof import Proof
from g35ctl.engine.run import Run
from g35ctl.engine.session import Session
from g35ctl.engine.stages import participants
from g35ctl.validate import suites


def validate(session: Session, names: Sequence[str]) -> tuple[Run, Proof]:
    """Run the named suites on the session's site; the run as it ended, and what was judged.

    Raises G35Error (usage) for an unknown suite, before anything is done.
    """
    chosen = suites.select(names)
    hosts = participants(session.plan, "preflight")
    title = f"validation of site {session.plan.site}: {', '.join(suite.name for suite in chosen)}"
    session.display.begin(title, ("validate",), hosts)
    proof = suites.run(session, chosen)
    for stage in proof.stages:
        session.display.stage_ended(stage)
    session.save_states()
    code = failures.exit_code(
        proof.stages,
        proof.failures,
        check=False,
        interrupted=session.interrupt.requested(),
        verdicts_failed=proof.failed,
    )
    run = Run(
        identifier=session.folder.identifier,
        verb=session.verb,
        site=session.plan.site,
        started=session.started.isoformat(timespec="seconds"),
        seconds=session.seconds,
        folder=str(session.folder.path),
        stages=proof.stages,
        failures=proof.failures,
        exit_code=code,
        plan_digest=session.plan.digest,
        state=session.states,
        versions=versions(),
    )
    return run, proof
