"""What a deploy does before anything else: it ends an act that was cut off, and cleans hosts that came back."""

from __future__ import annotations

from g35ctl.engine.connections import answering, connections
from g35ctl.engine.lifecycle import acts
from g35ctl.engine.lifecycle.hands import Hands, StepFailed, Stopped
from g35ctl.engine.lifecycle.record import load_act, load_custody
from g35ctl.engine.run import Failure, StageResult
from g35ctl.engine.session import Session


def settle(
    session: Session, *, check: bool = False, partial: bool = False
) -> tuple[tuple[StageResult, ...], tuple[Failure, ...]]:
    """Bring the record and the hosts together; what was done for it, and what went wrong.

    With ``check`` nothing is done. Raises G35Error when an act is unfinished and the deploy is ``partial``: what it
    leaves out may be what the act needs.
    """
    act = load_act(session.state)
    hands = Hands(session)
    if act is not None and partial and not check:
        raise acts.in_the_way(act)
    if check:
        return (), ()
    try:
        if act is not None:
            session.display.say(f"{act.describe()}; that comes first")
            finish(hands, act.verb, act.subject)
        for host in _returning(session):
            acts.welcome(hands, host)
    except StepFailed as failed:
        return tuple(hands.results), failed.failures
    except Stopped:
        return tuple(hands.results), ()
    return tuple(hands.results), ()


def finish(hands: Hands, verb: str, subject: str) -> None:
    """Go on with an act as its own verb would. Raises StepFailed, Stopped, G35Error."""
    options = acts.MoveOptions()
    if verb == "rebalance":
        acts.rebalance(hands, options)
    elif verb in ("drain", "failover", "undrain"):
        {"drain": acts.drain, "failover": acts.failover, "undrain": acts.undrain}[verb](hands, subject, options)
    else:
        act = load_act(hands.session.state)
        assert act is not None
        raise acts.in_the_way(act)


def _returning(session: Session) -> tuple[str, ...]:
    """Hosts that were failed over, have not let go yet, and answer."""
    unclean = tuple(host for host, item in load_custody(session.state).away.items() if not item.clean)
    if not unclean:
        return ()
    silent = {failure.host for failure in answering(connections(session.inventory, unclean))}
    for host in sorted(silent):
        session.display.say(f"{host} was failed over and does not answer; left out")
    return tuple(host for host in unclean if host not in silent)
