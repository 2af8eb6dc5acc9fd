"""Drain, undrain, fail over, rebalance: what each begins with, and how it ends. The moves between are the mover's.

An act that was cut off is found by the next command, which says so; the same command goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from g35ctl.engine.lifecycle.hands import Hands, StepFailed, Stopped
from g35ctl.engine.lifecycle.heads import heads_of_move
from g35ctl.engine.lifecycle.mover import Mover, segments_of
from g35ctl.engine.lifecycle.readiness import (
    candidates,
    must_be_as_planned,
    must_be_away,
    must_be_owner,
    must_fit,
    must_not_be_master,
    rails,
)
from g35ctl.engine.lifecycle.record import (
    EMPTIED,
    LEAVING,
    PLANNED,
    Act,
    Stage,
    clear_act,
    load_act,
    load_custody,
    save_act,
    save_custody,
)
from g35ctl.engine.session import Session
from g35ctl.engine.stages import APPLIED
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.custody import DRAIN, FAILOVER, Absence, Custody
from g35ctl.plan.moves import Move, NoTarget, away_from, evened_out, home_to
from g35ctl.site.model import Site
from g35ctl.verdict import Verdict


@dataclass(frozen=True)
class MoveOptions:
    """``pause`` between two moves and ``empty_seconds`` for emptying a store's memory, seconds; ``confirmed``: the
    operator said by name that a dead host is off or shut out; ``most`` moves (0: all), ``tolerance`` of a rebalance."""

    pause: float = 0.0
    empty_seconds: int = 300
    confirmed: bool = False
    most: int = 0
    tolerance: float = 0.1


def propose(session: Session, verb: str, subject: str, options: MoveOptions) -> tuple[Move, ...]:
    """The moves that a verb would make, from what is on record. Raises G35Error when it cannot be done."""
    custody = load_custody(session.state)
    ownership, site = session.plan.ownership, session.site
    if verb == "undrain":
        must_be_away(custody, subject)
        return home_to(subject, custody.away[subject].home, ownership)
    if verb == "rebalance":
        return evened_out(
            ownership, candidates(site, custody), rails(site), tolerance=options.tolerance, most=options.most
        )
    try:
        return away_from(subject, ownership, candidates(site, custody), rails(site))
    except NoTarget as error:
        raise G35Error(
            f"{subject} cannot give up {', '.join(error.subsystems)}",
            why="no other cache owner that is in service shares a rail with the box",
            next_command="bring another owner into service first: g35ctl deploy, or g35ctl undrain HOST",
            exit_code=Exit.PREFLIGHT_FAILED,
        ) from error


def drain(hands: Hands, host: str, options: MoveOptions) -> tuple[Verdict, ...]:
    """Move everything off a living host and take it out of service. Raises G35Error, StepFailed, Stopped."""
    session = hands.session
    act = _resumed(session, "drain", host)
    if act is None:
        custody = load_custody(session.state)
        must_be_owner(session, host)
        if host in custody.away and not custody.owned_by(host):
            session.display.say(f"{host} is out of service already ({custody.away[host].why})")
            return ()
        if any(item.name == host for item in session.site.group("mooncake_masters")):
            session.display.say(f"warning: the Mooncake master stays on {host}: restarting it interrupts the pool")
        moves = propose(session, "drain", host, options)
        must_be_as_planned(hands, _concerned(session.site, moves), f"drain {host}")
        _must_fit(hands, custody, moves)
        home = custody.away[host].home if host in custody.away else ()
        absence = Absence(DRAIN, _now(), tuple(dict.fromkeys((*home, *_uuids(moves)))))
        act = _begin(session, "drain", host, moves, custody.without(host, absence))
    verdicts = _mover(hands, act, options).run()
    _over(hands, host)
    session.display.say(f"{host} owns nothing and may be serviced; g35ctl undrain {host} brings it back")
    return verdicts


def failover(hands: Hands, host: str, options: MoveOptions) -> tuple[Verdict, ...]:
    """Give what a dead host owned to others, once it is proven to be shut out. Raises G35Error, StepFailed, Stopped."""
    session = hands.session
    act = load_act(session.state)
    if act is not None and not (act.verb == "failover" and act.subject == host):
        act = _taken_over(session, act, host)
    if act is None:
        custody = load_custody(session.state)
        must_be_owner(session, host)
        must_not_be_master(session, host)
        if host in custody.away and not custody.owned_by(host):
            session.display.say(f"{host} owns nothing any more ({custody.away[host].why})")
            return ()
        moves = propose(session, "failover", host, options)
        must_be_as_planned(
            hands, [name for name in _concerned(session.site, moves) if name != host], "failover " + host
        )
        _must_fit(hands, custody, moves)
        absence = Absence(FAILOVER, _now(), _uuids(moves), clean=False)
        act = _begin(session, "failover", host, moves, custody.without(host, absence), dead=True)
    else:
        session.display.say(act.describe() + "; going on")
    verdicts = _mover(hands, act, options).run()
    _over(hands, host)
    session.display.say(
        f"{host} is shut out. When it comes back, g35ctl deploy cleans it and g35ctl undrain {host} gives it back"
        " what it owned"
    )
    return verdicts


def undrain(hands: Hands, host: str, options: MoveOptions) -> tuple[Verdict, ...]:
    """Bring a host back with what it owned; also takes back a drain that was cut off. Raises as drain does."""
    session = hands.session
    act = load_act(session.state)
    custody = load_custody(session.state)
    if host in custody.removed:
        save_custody(session.state, replace(custody, removed=custody.removed - {host}))
        session.replan()
        session.display.say(f"{host} is wanted again; g35ctl deploy brings it into service with what is on it")
        return ()
    if act is not None and act.subject == host and act.verb == DRAIN:
        session.display.say(act.describe() + "; taking it back")
        _finish_begun(hands, act, options)
        act = None
    elif act is not None:
        act = _resumed(session, "undrain", host)
    if act is None:
        custody = load_custody(session.state)
        must_be_away(custody, host)
        welcome(hands, host)
        moves = propose(session, "undrain", host, options)
        custody = load_custody(session.state)
        must_be_as_planned(hands, [name for name in _concerned(session.site, moves) if name != host], "undrain " + host)
        act = _begin(session, "undrain", host, moves, custody)
    _prepare(hands, act)
    verdicts = _mover(hands, act, options).run()
    save_custody(session.state, load_custody(session.state).back(host))
    clear_act(session.state)
    session.replan()
    return verdicts


def rebalance(hands: Hands, options: MoveOptions) -> tuple[Verdict, ...]:
    """Even out what owners hold, one namespace at a time. Raises as drain does."""
    session = hands.session
    site = session.plan.site
    act = _resumed(session, "rebalance", site)
    if act is None:
        moves = propose(session, "rebalance", site, options)
        if not moves:
            session.display.say("nothing to move: what owners hold is even enough")
            return ()
        custody = load_custody(session.state)
        must_be_as_planned(hands, _concerned(session.site, moves), "rebalance")
        _must_fit(hands, custody, moves)
        act = _begin(session, "rebalance", site, moves, custody)
    verdicts = _mover(hands, act, options).run()
    clear_act(session.state)
    session.replan()
    return verdicts


def welcome(hands: Hands, host: str) -> None:
    """Make a host that was failed over let go of what it had, before anything else is asked of it."""
    session = hands.session
    custody = load_custody(session.state)
    absence = custody.away.get(host)
    if absence is None or absence.clean:
        return
    session.display.say(f"{host} was failed over at {absence.since}: letting go of what it had")
    session.replan(replace(custody, letting_go=custody.letting_go | {host}))
    try:
        hands.release(host, fenced=True)
    finally:
        session.replan()
    save_custody(session.state, load_custody(session.state).without(host, replace(absence, clean=True)))
    session.replan()


# beginnings


def _begin(
    session: Session, verb: str, subject: str, moves: Sequence[Move], custody: Custody, *, dead: bool = False
) -> Act:
    stages = tuple(Stage(move, segments=segments_of(session.plan, move.source, move.uuids)) for move in moves)
    act = Act(
        verb, subject, session.folder.identifier.replace("~", "-"), _now(), stages, dead,
        runs=(session.folder.identifier,),
    )  # fmt: skip
    # The act first: a record that says a host is away without an act that says why would be a riddle.
    save_act(session.state, act)
    save_custody(session.state, custody)
    session.replan()
    for move in moves:
        session.display.say(f"to move: {move}, {move.size >> 30} GiB")
    return act


def _resumed(session: Session, verb: str, subject: str) -> Act | None:
    """The act of that verb and subject that was cut off. Raises G35Error when another one is in the way."""
    act = load_act(session.state)
    if act is None:
        return None
    if (act.verb, act.subject) != (verb, subject):
        raise in_the_way(act)
    session.display.say(act.describe() + "; going on")
    act = replace(act, runs=(*act.runs, session.folder.identifier))
    save_act(session.state, act)
    return act


def in_the_way(act: Act) -> G35Error:
    """The error of a command that cannot begin while another act is unfinished."""
    back = f", or take it back with: g35ctl undrain {act.subject}" if act.verb == DRAIN else ""
    return G35Error(
        "another act is unfinished",
        why=act.describe(),
        next_command=f"{act.command}{back}",
    )


def _taken_over(session: Session, act: Act, host: str) -> Act | None:
    """An act that a death cut across: its own subject died, or the host that was to take over did.

    Of its own subject, moves that have left go on as they are and all others become moves of the dead. When another
    host died, the act is given up: what it had begun is recorded with its new owner, and dies with it.
    """
    begun = [item for item in act.stages if item.reached(LEAVING) and item.phase != "done"]
    if act.verb == DRAIN and act.subject == host:
        session.display.say(act.describe() + f"; {host} is dead now, so it goes on as a failover")
        stages = tuple(
            replace(item, phase=PLANNED) if item.phase in (EMPTIED, LEAVING) else item for item in act.stages
        )
        custody = load_custody(session.state)
        # A move that was leaving is recorded with its new owner already; until it is fenced it is the dead host's.
        for item in act.stages:
            if item.phase == LEAVING:
                custody = custody.moved(item.move.uuids, item.move.source)
        absence = replace(custody.away[host], why=FAILOVER, clean=False)
        taken = replace(act, verb="failover", dead=True, stages=stages, digests={}, noted=-1)
        save_act(session.state, taken)
        save_custody(session.state, custody.without(host, absence))
        session.replan()
        return taken
    if any(item.move.target == host for item in begun):
        session.display.say(act.describe() + f"; given up, because {host} was to take over and is dead")
        custody = load_custody(session.state)
        lost = [item for item in begun if item.move.target == host]
        marks = {uuid: (item.move.source, *custody.marks.get(uuid, ())) for item in lost for uuid in item.move.uuids}
        save_custody(session.state, replace(custody, marks={**custody.marks, **marks}))
        clear_act(session.state)
        session.replan()
        return None
    raise in_the_way(act)


# ends


def _mover(hands: Hands, act: Act, options: MoveOptions) -> Mover:
    def gate(stage: Stage) -> None:
        """Between two moves: who took over holds, and the operator's pause."""
        hands.verify((stage.move.target,))
        for _ in range(int(options.pause)):
            if hands.session.interrupt.requested():
                raise Stopped
            hands.sleep(1.0)

    wanted: Callable[[Stage], None] | None = gate if act.verb == "rebalance" or options.pause else None
    return Mover(hands, act, confirmed=options.confirmed, gate=wanted, empty_seconds=options.empty_seconds)


def _over(hands: Hands, host: str) -> None:
    """The host owns nothing and is out of service: nothing is known of it any more, and the act is over."""
    session = hands.session
    hands.ledger.forget((host,), APPLIED)
    clear_act(session.state)
    session.replan()


def _finish_begun(hands: Hands, act: Act, options: MoveOptions) -> None:
    """Bring moves that are half done to their end, open what was only closed, and end the act."""
    session = hands.session
    waiting = [item for item in act.stages if not item.reached(LEAVING)]
    rest = replace(act, stages=tuple(item for item in act.stages if item.reached(LEAVING)), noted=-1)
    if rest.left:
        _mover(hands, rest, options).run()
    closed = [name for item in waiting for name in item.segments]
    if closed:
        _reopen(hands, act, closed)
    clear_act(session.state)
    session.replan()


def _reopen(hands: Hands, act: Act, segments: Sequence[str]) -> None:
    """Open closed memory again: a job that still runs is taken back, a store that it emptied is started anew."""
    from g35ctl.engine.lifecycle.mover import pool_host

    still: list[str] = list(segments)
    for job in act.jobs:
        host = pool_host(hands.plan, avoid=(act.subject,))
        still = list(hands.pool("reopen", host, act.token, segments=list(segments), job=job)["closed"])
    if still and act.jobs:
        hands.session.display.say(f"{', '.join(still)} were emptied: their stores are started again")
        hands.apply("cache", (act.subject,))


def _prepare(hands: Hands, act: Act) -> None:
    """Before a host gets anything back: can it be reached, is it fit, are its ports set."""
    session = hands.session
    custody = load_custody(session.state)
    for item in act.left:
        custody = custody.moved(item.move.uuids, item.move.target)
    session.replan(custody)
    try:
        hands.preflight((act.subject,))
        hands.apply("fabric", (act.subject,))
    finally:
        session.replan()


def _must_fit(hands: Hands, custody: Custody, moves: Sequence[Move]) -> None:
    for move in moves:
        custody = custody.moved(move.uuids, move.target)
    must_fit(hands, custody, tuple(dict.fromkeys(move.target for move in moves)))


def _concerned(site: Site, moves: Sequence[Move]) -> list[str]:
    names = [name for move in moves for name in (*heads_of_move(site, move), move.source, move.target)]
    return list(dict.fromkeys(names))


def _uuids(moves: Sequence[Move]) -> tuple[str, ...]:
    return tuple(uuid for move in moves for uuid in move.uuids)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


__all__ = ["MoveOptions", "StepFailed", "Stopped", "drain", "failover", "propose", "rebalance", "undrain", "welcome"]
