"""The figures of a plan, against the table computed by hand for 160,000 tokens, two hosts and 16 requests/s."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from published import hardware, model, workload

from g35ctl.plan.workload.figures import context_of, cost, figures
from g35ctl.plan.workload.model import WorkloadFigures
from g35ctl.plan.workload.prefill import Prefill, ceiling, expected_rate, findable, longest
from g35ctl.site.model_shape import ModelShape
from g35ctl.site.workload_model import Prices


def made(name: str = "deepseek-v3", **changes: object) -> WorkloadFigures:
    return figures(workload(**changes), Prices(), model(name), hardware())


# model, type, GB per context, users that fit 500 GB, GB/s at 16 requests/s, GB/s per accelerator, requests/s of one box
TABLE = [
    ("deepseek-v3", "bf16", 11.24, 44.5, 180, 11.2, 32.0),
    ("deepseek-v3", "fp8", 5.62, 88.9, 90, 5.6, 64.0),
    ("qwen3-235b-a22b", "bf16", 30.80, 16.2, 493, 30.8, 11.7),
    ("llama-3.1-70b", "bf16", 52.43, 9.5, 839, 52.4, 6.9),
    ("glm-4.6", "bf16", 60.29, 8.3, 965, 60.3, 6.0),
    ("minimax-m2", "bf16", 40.63, 12.3, 650, 40.6, 8.9),
    ("llama-3.1-405b", "bf16", 82.58, 6.1, 1321, 82.6, 4.4),
]


@pytest.mark.parametrize(("name", "dtype", "gigabytes", "knee", "needed", "each", "sustained"), TABLE)
def test_the_table_of_models(
    name: str, dtype: str, gigabytes: float, knee: float, needed: float, each: float, sustained: float
) -> None:
    found = made(name, kv_dtype=dtype)
    assert found.context_tokens == 160_000
    assert found.context_bytes / 1e9 == pytest.approx(gigabytes, abs=0.006)
    assert found.knee("local") == pytest.approx(knee, abs=0.06)
    box = next(link for link in found.links if link.name == "boxes together")
    assert box.needed / 1e9 == pytest.approx(needed, abs=0.6)
    assert box.needed / 16 / 1e9 == pytest.approx(each, abs=0.06)
    assert box.requests == pytest.approx(sustained, abs=0.06)


def test_the_local_path_of_the_published_set_up_falls_off_between_32_and_48_users() -> None:
    found = made()
    assert found.path("local").holds(32)
    assert not found.path("local").holds(48)
    assert found.path("memory").contexts is None
    assert found.path("g35").holds(10_000)


def test_the_workload_has_a_ceiling() -> None:
    assert ceiling(workload()) == pytest.approx(0.984, abs=0.0005)
    assert ceiling(workload(context_tokens=4096, new_tokens=64, rounds=4, block_tokens=128)) == pytest.approx(
        0.9798, abs=0.0005
    )


def test_owners_pass_on_what_others_read() -> None:
    assert hardware().inbound == 1.5
    assert hardware(separate_owners=True).inbound == 1.0
    ports = next(link for link in made().links if link.name == "data ports of a host")
    assert ports.needed == pytest.approx(1.5 * 8 * 160_000 * 70_272)
    assert not ports.needed <= ports.available
    assert ports.fits  # at the rate that prefill lets through


def test_ranks_that_each_read_the_latent_multiply_the_traffic() -> None:
    once, four = made(), made(read_amplification=4)
    assert four.links[0].needed == 4 * once.links[0].needed
    assert four.knee("local") == once.knee("local")


def test_flash_wear_follows_the_rate_and_the_new_tokens() -> None:
    found = made().endurance
    assert found is not None
    assert found.dwpd_offered == pytest.approx(16 * 2500 * 70_272 * 86_400 * 1.1 / 184e12)
    assert found.dwpd < found.dwpd_offered
    more = made(new_contexts=2).endurance
    assert more is not None
    assert more.bytes_per_day - found.bytes_per_day == pytest.approx(2 * 48 * 160_000 * 70_272 * 1.1)


def test_a_context_costs_a_twentieth_in_shared_flash_at_typical_prices() -> None:
    found = cost(Prices(), 160_000 * 70_272)
    assert found.memory.typical == pytest.approx(11.24352 * 15)
    assert found.flash.typical == pytest.approx(11.24352 * 0.75)
    assert found.ratio.typical == pytest.approx(20)
    assert found.ratio.low < found.ratio.typical < found.ratio.high
    assert found.as_of == "2026-12-01"


def test_prefill_agrees_with_its_measured_time_and_hits_are_cheap() -> None:
    prefill = Prefill(160_000, 42.0, 0.85)
    assert prefill.seconds(160_000, 0) == pytest.approx(42.0)
    assert prefill.seconds(80_000, 0) + prefill.seconds(80_000, 80_000) == pytest.approx(42.0)
    assert prefill.seconds(2_500, 157_500) < 1.5


@given(st.integers(2, 400), st.integers(0, 200_000), st.integers(1, 200_000), st.floats(0, 1))
def test_prefill_in_pieces_takes_as_long_as_in_one(pieces: int, cached: int, computed: int, share: float) -> None:
    prefill = Prefill(100_000, 10.0, share)
    first = computed // pieces
    parts = prefill.seconds(first, cached) + prefill.seconds(computed - first, cached + first)
    assert parts == pytest.approx(prefill.seconds(computed, cached))


@given(st.integers(1, 100_000), st.integers(1, 5_000), st.integers(2, 9), st.integers(1, 1024))
def test_nothing_is_findable_that_was_not_sent(context: int, new: int, rounds: int, page: int) -> None:
    load = workload(context_tokens=context, new_tokens=new, rounds=rounds, block_tokens=page)
    assert findable(load, 0) == 0
    assert all(findable(load, turn) <= context + (turn - 1) * new for turn in range(1, rounds))
    assert 0 <= ceiling(load) < 1
    assert longest(load) == context + (rounds - 1) * new


@given(st.integers(1, 10**13), st.integers(1, 10**13))
def test_more_room_never_lowers_a_knee(one: int, other: int) -> None:
    less, more = sorted((one, other))
    small = figures(workload(tiers={"memory": less}), Prices(), model(), hardware(pool=less))
    large = figures(workload(tiers={"memory": more}), Prices(), model(), hardware(pool=more))
    for path in ("local", "g35"):
        assert (small.knee(path) or 0) <= (large.knee(path) or 0)


def test_what_is_assumed_is_said() -> None:
    notes = " ".join(made("qwen3-235b-a22b").notes)
    assert "40,960" in notes
    assert "read_amplification" in " ".join(made().notes)
    assert "rated_gbps" in " ".join(figures(workload(), Prices(), model(), hardware(box=0.0)).notes)


def test_a_stated_size_needs_no_config() -> None:
    found = figures(workload(kv_dtype="fp8"), Prices(), ModelShape.fixed(70_272), hardware())
    assert found.bytes_per_token == 70_272
    assert context_of(workload(), ModelShape.fixed(70_272)).size == 160_000 * 70_272


def test_the_expected_rate_is_the_least_of_three_limits() -> None:
    assert expected_rate(workload(rate=0.01)) == 0.01
    assert expected_rate(workload(parallel=1)) < expected_rate(workload(parallel=2))
    assert expected_rate(workload(groups=1, parallel=100)) == pytest.approx(expected_rate(workload(parallel=100)) / 2)
