"""What ``g35ctl validate`` does: one locked session, the chosen suites, a closed run."""

from __future__ import annotations

from collections.abc import Sequence

from g35ctl.engine import failures
from g35ctl.engine.proof import Proof
from g35ctl.engine.run import Run
from g35ctl.engine.session import Session, record
from g35ctl.engine.stages import participants
from g35ctl.exits import Exit
from g35ctl.validate import suites
from g35ctl.validate.bench_storage import check_named, with_named


def validate(session: Session, names: Sequence[str], write_namespaces: Sequence[str] = ()) -> tuple[Run, Proof]:
    """Run the named suites on the session's site; the run as it ended, and what was judged.

    ``write_namespaces`` (UUIDs) are added to those that the site names. Raises G35Error (usage) for an unknown suite or
    namespace, before anything is done.
    """
    chosen = suites.select(names)
    session.site = with_named(session.site, write_namespaces)
    check_named(session.plan, session.site)
    hosts = participants(session.plan, "preflight")
    title = f"validation of site {session.plan.site}: {', '.join(suite.name for suite in chosen)}"
    session.display.begin(title, ("validate",), hosts)
    proof = suites.run(session, chosen)
    for stage in proof.stages:
        session.display.stage_ended(stage)
    session.save_states()
    run = record(session, proof.stages, proof.failures, exit_code(proof, session.interrupt.requested()))
    return run, proof


def exit_code(proof: Proof, interrupted: bool) -> Exit:
    """What the process tells its caller about a validation.

    A silent host comes first (5): what else fails may only follow from it. A validation that could not be run is 1,
    one that was missed is 7, also when a probe failed on a host: its values are then judged as missing.
    """
    if interrupted:
        return Exit.INTERRUPTED
    if any(item.subject == failures.UNREACHABLE for item in proof.failures):
        return Exit.UNREACHABLE
    if any(not item.host for item in proof.failures):
        return Exit.DEPLOY_FAILED
    if proof.failed:
        return Exit.THRESHOLDS_MISSED
    return Exit.DEPLOY_FAILED if proof.failures else Exit.OK
