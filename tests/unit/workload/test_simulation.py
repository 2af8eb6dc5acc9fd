"""The model of the three paths: the published knee, and what must hold whatever the numbers are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published import hardware, inputs, model, workload

from g35ctl.plan.workload.figures import context_of
from g35ctl.simulation.point import Point, Setting
from g35ctl.simulation.run import Inputs, knee, simulate
from g35ctl.simulation.sensitivity import sensitivity
from g35ctl.simulation.tiers import Link, Tier, moved
from g35ctl.site.workload_model import Prices
from g35ctl.validate.serving_result import CachePath, PointResult, ServingResult


def run(path: CachePath, users: int, seed: int = 1, pool: int = 160 * 10**12, **changes: Any) -> PointResult:
    load = workload(**changes)
    return Point(Setting(load, context_of(load, model()), hardware(pool=pool)), path, users, seed).run()


def test_the_published_table() -> None:
    """Local falls off between 32 and 48 users; the other two stay flat near five seconds, and together."""
    table = simulate(inputs(trials=5), "published").result
    for path in CachePath:
        for users in (8, 16, 32, 48):
            row = table.row(path, users)
            assert row is not None
            assert row.ttft is not None
            assert row.complete
            if path is CachePath.LOCAL and users == 48:
                assert row.ttft.mean > 8
                assert row.ttft.tail > 3
                assert 0.90 < (row.hit_rate or 0) < 0.96
            else:
                assert 4.5 < row.ttft.mean < 5.3
                assert row.ttft.tail < 1.5
                assert row.hit_rate == pytest.approx(0.984, abs=0.001)


def test_the_knee_that_is_found_by_trying_is_the_one_that_is_computed() -> None:
    found = inputs()
    assert abs((knee(found, CachePath.LOCAL) or 0) - 44.5) <= 1.5
    assert knee(found, CachePath.MEMORY) is None
    assert knee(found, CachePath.G35) is None


def test_the_same_seed_gives_the_same_figures_and_another_one_others() -> None:
    first, again = (simulate(inputs(users=(48,)), "x", 3).to_json() for _ in range(2))
    assert json.dumps(first) == json.dumps(again)
    assert simulate(inputs(users=(48,)), "x", 4).to_json()["result"] != first["result"]
    assert first["predicted"] is True
    assert ServingResult.from_json(json.loads(json.dumps(first))["result"]).points[0].generator == "simulated"


def test_turn_by_turn_an_overcommitted_lru_in_cyclic_order_finds_nothing() -> None:
    """Measured with a real engine on a small scale: twelve users on room for nine, in turn, hit nothing."""
    small = run(CachePath.LOCAL, 48, tiers={"memory": "190GB"}, order="cyclic", parallel=1)
    assert (small.hit_rate or 0) < 0.05
    assert (run(CachePath.G35, 48, tiers={"memory": "190GB"}, order="cyclic", parallel=1).hit_rate or 0) > 0.98


def test_prompts_that_reach_another_host_find_their_context_in_a_shared_pool_only() -> None:
    local, pool = (run(path, 8, affinity=0.5) for path in (CachePath.LOCAL, CachePath.G35))
    assert (local.hit_rate or 0) < 0.8
    assert (pool.hit_rate or 0) == pytest.approx(0.984, abs=0.001)


def test_a_slow_network_is_seen_on_the_shared_path_alone() -> None:
    slow = {"links": {"port_gbps": 1.0}, "tiers": {"memory": "1GB"}}
    fast = run(CachePath.G35, 8, tiers={"memory": "1GB"})
    assert run(CachePath.G35, 8, **slow).ttft.mean > 2 * fast.ttft.mean  # type: ignore[union-attr]
    assert run(CachePath.LOCAL, 8, **slow).ttft == run(CachePath.LOCAL, 8, tiers={"memory": "1GB"}).ttft


def test_hits_are_told_by_tier() -> None:
    tokens = run(CachePath.G35, 48, tiers={"device": "30GB", "memory": "120GB"}).tokens
    assert tokens is not None
    assert tokens.device > 0
    assert tokens.memory > 0
    assert tokens.flash > tokens.device
    assert run(CachePath.LOCAL, 16).tokens.host > 0  # type: ignore[union-attr]


points = st.builds(
    dict,
    users=st.integers(1, 40),
    seed=st.integers(0, 99),
    rounds=st.integers(2, 5),
    parallel=st.integers(1, 8),
    order=st.sampled_from(["random", "cyclic"]),
    affinity=st.sampled_from([0.0, 0.7, 1.0]),
    new_tokens=st.integers(1, 9_000),
    tiers=st.fixed_dictionaries(
        {"device": st.integers(0, 10**11), "memory": st.integers(0, 10**12), "local_flash": st.integers(0, 10**12)}
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(CachePath)), points)
def test_tokens_are_conserved_and_no_run_beats_the_ceiling(path: CachePath, chosen: dict[str, Any]) -> None:
    found = run(path, **chosen)
    load = workload(**{key: value for key, value in chosen.items() if key not in ("users", "seed")})
    assert found.completed == found.requested == chosen["users"] * (load.rounds - 1)
    assert found.tokens is not None
    sent = sum(turn.prompt_tokens for turn in found.turns[1:])
    assert found.tokens.prompt == sent
    assert found.tokens.computed == found.recomputed
    for turn in found.turns[1:]:
        prompt = load.context_tokens + turn.turn * load.new_tokens
        assert turn.requests == chosen["users"]
        assert turn.prompt_tokens == prompt * turn.requests
        assert turn.cached_tokens <= (prompt - load.new_tokens) * turn.requests
    idle = load.timing.overhead_seconds
    assert found.ttft is not None
    assert found.ttft.minimum >= idle


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([CachePath.LOCAL, CachePath.G35]), st.integers(10, 40), st.floats(0.2, 1.2), st.floats(1.1, 2))
def test_more_capacity_finds_no_less(path: CachePath, users: int, share: float, more: float) -> None:
    """In expectation: the order of requests depends on what is found, so single runs may differ a little."""
    size = int(users * 11.2e9 / 2 * share)

    def mean(memory: int) -> float:
        rates = [run(path, users, seed, pool=memory, tiers={"memory": memory}).hit_rate or 0.0 for seed in range(4)]
        return sum(rates) / len(rates)

    assert mean(int(size * more)) >= mean(size) - 0.02


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 500)), max_size=60), st.integers(0, 1500), st.integers(1, 64)
)
def test_a_tier_never_holds_more_than_it_can(puts: list[tuple[int, int]], capacity: int, page: int) -> None:
    tier = Tier(capacity, page)
    longest: dict[int, int] = {}
    for user, tokens in puts:
        tier.put(user, tokens)
        longest[user] = max(longest.get(user, 0), tokens)
        assert tier.used == sum(tier.holds(name) for name in range(10)) <= capacity
    assert all(tier.holds(user) <= tokens and tier.holds(user) % page == 0 for user, tokens in longest.items())


def test_the_context_wanted_longest_ago_leaves_first_and_from_its_end() -> None:
    tier = Tier(100, 10)
    tier.put(1, 50)
    tier.put(2, 50)
    tier.touch(1)
    tier.put(3, 20)
    assert (tier.holds(1), tier.holds(2), tier.holds(3)) == (50, 30, 20)


def test_a_link_carries_one_transfer_after_the_other() -> None:
    link, other = Link(10.0), Link(0.0)
    assert link.send(0.0, 50) == 5
    assert link.send(1.0, 50) == 10
    assert link.send(30.0, 10) == 31
    assert moved(31.0, [(link, 20), (other, 10**9)]) == 33
    assert link.carried == 130


def test_each_input_is_changed_on_its_own_and_shown() -> None:
    cases = sensitivity(inputs(trials=1))
    assert len({case.what for case in cases}) == len(cases) > 15
    by_name = {case.what: case for case in cases}
    assert (by_name["memory x 0.8 (200 GB)"].knee or 0) < (by_name["as it is"].knee or 0)
    assert by_name["kv_dtype fp8"].hit_rate["local"] > by_name["as it is"].hit_rate["local"]
    assert all(case.ttft["g35"] == pytest.approx(case.ttft["memory"], rel=0.1) for case in cases)


def test_prices_reach_the_figures() -> None:
    found = inputs(users=(8,), trials=1)
    dear = replace(found, prices=Prices.model_validate({"currency": "EUR", "as_of": "2027-01-31"}))
    assert isinstance(dear, Inputs)
    assert simulate(dear, "x").figures.cost.currency == "EUR"
