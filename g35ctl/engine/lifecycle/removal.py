"""Taking hosts, boxes and whole sites out: everything g35ctl made is undone, nothing else, and data stays on the SSDs.

Destroying data is another step, which only a site's typed name begins.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from g35ctl.engine.lifecycle import acts
from g35ctl.engine.lifecycle.hands import Hands
from g35ctl.engine.lifecycle.heads import heads_of
from g35ctl.engine.lifecycle.mover import Mover, segments_of
from g35ctl.engine.lifecycle.readiness import must_be_as_planned
from g35ctl.engine.lifecycle.record import (
    DONE,
    LEAVING,
    Act,
    Stage,
    clear_act,
    load_act,
    load_custody,
    save_act,
    save_custody,
)
from g35ctl.engine.runner import Play
from g35ctl.engine.stages import APPLIED
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.custody import REMOVED, Absence, Custody
from g35ctl.plan.moves import Move, ties
from g35ctl.plan.order import together
from g35ctl.verdict import Verdict

#: stages of a host in the order in which they are taken off
HOST_STAGES = ("inference", "cache", "storage", "connect", "fabric")
BOX_STAGES = ("target", "box", "fabric")


def remove(hands: Hands, name: str, *, gone: bool = False) -> tuple[Verdict, ...]:
    """Take a host or a box out of the tier. ``gone``: the host will never answer again, so that only the record is
    made. Raises G35Error, StepFailed, Stopped."""
    session = hands.session
    act = load_act(session.state)
    if act is not None and (act.verb, act.subject) != ("remove", name):
        raise acts.in_the_way(act)
    member = next((item for item in session.site.hosts if item.name == name), None)
    if member is None:
        raise G35Error(f"{name} is no member of this site", next_command="g35ctl plan", exit_code=Exit.USAGE)
    if "ebof" in member.groups:
        return _remove_box(hands, name, act)
    return _remove_host(hands, name, gone)


def _remove_host(hands: Hands, host: str, gone: bool) -> tuple[Verdict, ...]:
    session = hands.session
    custody = load_custody(session.state)
    if custody.owned_by(host):
        how = f"g35ctl failover {host}" if gone else f"g35ctl drain {host}"
        raise G35Error(
            f"{host} still owns {len(custody.owned_by(host))} namespaces",
            why="removing it would take their data out of the pool",
            next_command=f"{how}, then the same command again",
            exit_code=Exit.PREFLIGHT_FAILED,
        )
    if any(item.name == host for item in session.site.group("mooncake_masters")):
        raise G35Error(
            f"the Mooncake master is on {host}",
            next_command="take it out of group mooncake_masters and deploy, then the same command again",
            exit_code=Exit.PREFLIGHT_FAILED,
        )
    if not gone:
        owner = any(item.name == host for item in session.site.group("cache_owners"))
        away = {name: item for name, item in custody.away.items() if name != host}
        asked = replace(custody, away=away, letting_go=custody.letting_go | ({host} if owner else frozenset()))
        session.replan(asked)
        try:
            if owner:
                hands.release(host, fenced=host in custody.away and not custody.away[host].clean)
            hands.remove(HOST_STAGES, (host,))
        finally:
            session.replan()
    save_custody(session.state, custody.without(host, Absence(REMOVED, _now())))
    hands.ledger.forget((host,), (*APPLIED, "inference"))
    session.replan()
    session.display.say(f"{host} is removed; take it out of the inventory, or bring it back: g35ctl undrain {host}")
    return ()


def _remove_box(hands: Hands, box: str, act: Act | None) -> tuple[Verdict, ...]:
    """Its namespaces leave the pool with what is on them; what is only in the memory of their stores goes to others."""
    session = hands.session
    heads = heads_of(session.site, box)
    if act is None:
        _must_not_tear(hands, box)
        moves = _of_box(hands, box)
        owners = list(dict.fromkeys(move.source for move in moves))
        must_be_as_planned(hands, [*heads, *owners], f"remove {box}")
        stages = tuple(Stage(move, segments=segments_of(session.plan, move.source, move.uuids)) for move in moves)
        act = Act("remove", box, session.folder.identifier, _now(), stages)
        save_act(session.state, act)
    else:
        session.display.say(act.describe() + "; going on")
    if not all(item.reached(LEAVING) for item in act.stages):
        mover = Mover(hands, act)
        mover.empty_all()
        act = mover.act
        for item in act.stages:
            act = act.with_stage(item.move.key, phase=LEAVING)
        save_act(session.state, act)
    custody = load_custody(session.state)
    save_custody(session.state, replace(custody, removed=custody.removed | {box}))
    session.replan()
    for owner in dict.fromkeys(item.move.source for item in act.stages if item.phase != DONE):
        hands.release(owner)
        if session.plan.host(owner).storage is not None and session.plan.host(owner).storage.mounts:  # type: ignore[union-attr]
            for stage in ("connect", "storage", "cache"):
                hands.apply(stage, (owner,))
    # For its own removal the box is planned once more, letting nobody in.
    session.replan(
        replace(
            custody, removed=custody.removed - {box},
            fenced=frozenset(uuid for item in act.stages for uuid in item.move.uuids),
        )
    )  # fmt: skip
    try:
        hands.remove(BOX_STAGES, heads)
    finally:
        session.replan()
    hands.ledger.forget(heads, APPLIED)
    clear_act(session.state)
    session.replan()
    session.display.say(f"{box} is removed, its data is still on it; take it out of the inventory")
    return ()


def _of_box(hands: Hands, box: str) -> list[Move]:
    going = together([item for item in hands.plan.ownership if item.box == box], ties)
    return [
        Move(
            box, items[0].nqn, tuple(item.uuid for item in items), sum(item.size for item in items), items[0].owner, "",
            tuple((box, nqn) for nqn in list(dict.fromkeys(item.nqn for item in items))[1:]),
        )
        for items in going
    ]  # fmt: skip


def _must_not_tear(hands: Hands, box: str) -> None:
    """A striped set that lies on other boxes as well would be lost with this one."""
    ownership = hands.plan.ownership
    here = {item.stripe for item in ownership if item.box == box and item.stripe}
    others = [item for item in ownership if item.stripe in here and item.box != box]
    torn = sorted({(item.owner, item.stripe, item.box) for item in others})
    if torn:
        owner, stripe, other = torn[0]
        raise G35Error(
            f"striped set {stripe} of {owner} lies on {box} and on {other}",
            why=f"without the namespaces of {box} nothing of the whole set can be read",
            next_command=f"to lose what is on it: take {box} out of the inventory, name all other namespaces of {owner}"
            " in its g35_storage.destroy, and g35ctl deploy",
            exit_code=Exit.PREFLIGHT_FAILED,
        )


def teardown(hands: Hands, *, destroy: bool = False) -> tuple[Verdict, ...]:
    """Take everything off every member, top stage first. With ``destroy`` the file systems of the namespaces are wiped
    between unmounting and disconnecting. Can be run again after a failure. Raises G35Error, StepFailed, Stopped."""
    session = hands.session
    act = load_act(session.state)
    if act is not None:
        raise acts.in_the_way(act)
    plan = session.plan
    boxes = [host.name for host in plan.hosts if host.target is not None or host.box is not None]
    hosts = [host.name for host in plan.hosts if host.name not in boxes]
    masters = [name for name in hosts if (cache := plan.host(name).cache) is not None and cache.master is not None]
    others = [name for name in hosts if name not in masters]
    hands.remove(("inference",), hosts)
    hands.remove(("cache",), others)
    hands.remove(("cache",), masters)
    hands.remove(("storage",), hosts)
    if destroy:
        _destroy(hands, [name for name in hosts if plan.host(name).storage is not None])
    hands.remove(("connect", "fabric"), hosts)
    hands.remove(BOX_STAGES, boxes)
    hands.ledger.forget([host.name for host in plan.hosts], (*APPLIED, "inference"))
    if destroy:
        save_custody(session.state, Custody())
    else:
        session.display.say("the data is still on the namespaces; g35ctl deploy brings the tier back with it")
    return ()


def _destroy(hands: Hands, hosts: list[str]) -> None:
    """Wipe. The site's name was typed; the module compares it once more, on the host."""
    if hosts:
        variables = {"g35_wipe_site": hands.plan.site}
        hands.play(Play("wipe", "wipe", tuple(hosts), forks=hands.session.forks, variables=variables))


def must_be_typed(given: str, wanted: str, option: str, what: str) -> None:
    """Refuse (G35Error) what nobody has typed the name for."""
    if given != wanted:
        raise G35Error(
            what,
            why=f"{option} {given} names something else" if given else "it begins when its name is typed",
            next_command=f"add {option} {wanted}",
            exit_code=Exit.USAGE,
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
