"""Moves: a drained host ends empty, nothing else moves, going home undoes it, rebalancing only ever improves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.plan.model import Ownership
from g35ctl.plan.moves import Move, NoTarget, away_from, evened_out, home_to
from g35ctl.plan.ownership import Candidate

BOTH = frozenset({"a", "b"})
RAILS = {f"box{number}": BOTH for number in range(4)} | {"side": frozenset({"b"})}


@st.composite
def a_tier(draw: st.DrawFn) -> tuple[tuple[Ownership, ...], tuple[Candidate, ...]]:
    """Owners that all reach every box, and at least two of them."""
    count = draw(st.integers(2, 6))
    candidates = tuple(Candidate(f"gpu{number}", BOTH) for number in range(count))
    found = []
    for number in range(draw(st.integers(1, 20))):
        box, subsystem = f"box{draw(st.integers(0, 3))}", draw(st.integers(0, 8))
        nqn = f"nqn.2026-01.io.x:{box}:{subsystem}"
        owner = next((item.owner for item in found if item.nqn == nqn), f"gpu{draw(st.integers(0, count - 1))}")
        since = next((item.since for item in found if item.nqn == nqn), draw(st.sampled_from(["kept", "pinned"])))
        found.append(Ownership(nqn, number + 1, f"uuid-{number}", box, draw(st.integers(1, 9)), owner, since))
    return tuple(found), candidates


def after(ownership: tuple[Ownership, ...], moves: tuple[Move, ...]) -> tuple[Ownership, ...]:
    target = {uuid: move.target for move in moves for uuid in move.uuids}
    return tuple(replace(item, owner=target.get(item.uuid, item.owner)) for item in ownership)


def loads(ownership: tuple[Ownership, ...], candidates: tuple[Candidate, ...]) -> dict[str, int]:
    return {
        candidate.name: sum(item.size for item in ownership if item.owner == candidate.name) for candidate in candidates
    }


@given(a_tier())
def test_a_drained_host_ends_with_nothing_and_nothing_of_others_moves(tier):
    ownership, candidates = tier
    moves = away_from("gpu0", ownership, candidates, RAILS)
    left = after(ownership, moves)
    assert not [item for item in left if item.owner == "gpu0"]
    assert {move.source for move in moves} <= {"gpu0"}
    owned = {item.uuid for item in ownership if item.owner == "gpu0"}
    assert sorted(uuid for move in moves for uuid in move.uuids) == sorted(owned)
    assert len({move.key for move in moves}) == len(moves)


@given(a_tier())
def test_going_home_undoes_a_drain(tier):
    ownership, candidates = tier
    home = [item.uuid for item in ownership if item.owner == "gpu0"]
    drained = after(ownership, away_from("gpu0", ownership, candidates, RAILS))
    assert after(drained, home_to("gpu0", home, drained)) == ownership


@given(a_tier(), st.integers(0, 5))
def test_rebalancing_only_improves_and_leaves_what_is_pinned(tier, most):
    ownership, candidates = tier
    moves = evened_out(ownership, candidates, RAILS, most=most)
    assert not most or len(moves) <= most
    assert len({move.key for move in moves}) == len(moves)
    pinned = {item.uuid for item in ownership if item.since == "pinned"}
    assert not pinned & {uuid for move in moves for uuid in move.uuids}
    had = {item.owner for item in ownership}
    assert had <= {item.owner for item in after(ownership, moves)}
    now = ownership
    for move in moves:
        before = loads(now, candidates)
        now = after(now, (move,))
        done = loads(now, candidates)
        assert sum(value**2 for value in done.values()) < sum(value**2 for value in before.values())


@given(a_tier())
def test_the_order_of_the_inputs_does_not_matter(tier):
    ownership, candidates = tier
    for plan in (lambda o, c: away_from("gpu0", o, c, RAILS), lambda o, c: evened_out(o, c, RAILS)):
        assert plan(ownership, candidates) == plan(ownership[::-1], candidates[::-1])


def test_a_new_owner_gets_its_share():
    ownership = tuple(Ownership(f"nqn:{n}", 1, f"u{n}", "box0", 10, f"gpu{n % 2}", "kept") for n in range(8))
    candidates = tuple(Candidate(f"gpu{n}", BOTH) for n in range(3))
    moves = evened_out(ownership, candidates, RAILS, tolerance=0.5)
    assert {move.target for move in moves} == {"gpu2"}
    assert sorted(loads(after(ownership, moves), candidates).values()) == [20, 30, 30]


def test_what_nobody_can_take_is_named_and_who_is_out_of_service_gets_nothing():
    ownership = (
        Ownership("nqn:1", 1, "u1", "side", 10, "gpu0", "kept"),
        Ownership("nqn:2", 1, "u2", "box0", 10, "gpu0", "kept"),
    )
    others = (Candidate("gpu0", BOTH), Candidate("gpu1", frozenset({"a"})), Candidate("gpu2", BOTH, accepts=False))
    with pytest.raises(NoTarget) as caught:
        away_from("gpu0", ownership, others, RAILS)
    assert caught.value.subsystems == ("nqn:1 of side",)
    (move,) = away_from("gpu0", ownership[1:], others, RAILS)
    assert move.target == "gpu1"
