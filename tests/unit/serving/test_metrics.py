"""Engines' own counters and logs: recorded texts, restarts, cut-off texts, and a split that loses no token."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.validate.serving.metrics import (
    EngineCounters,
    StoreBytes,
    UnknownMetrics,
    counters,
    parse,
    store_bytes,
    tier_tokens,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "serving"

SGLANG = """# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m",tp_rank="0"} 1000.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 300.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 100.0
sglang:cached_tokens_total{cache_source="storage",model_name="m"} 200.0
sglang:cached_tokens_total{cache_source="total",model_name="m"} 600.0
"""


def test_vllm_as_recorded() -> None:
    found = counters((FIXTURES / "vllm-0.32.0-metrics.txt").read_text())
    assert found.prompt > 0
    assert found.prompt == found.device + found.external + found.computed


def test_sglang() -> None:
    assert counters(SGLANG) == EngineCounters(1000, 300, 100, 200, 400)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "neither"),
        ("python_info 1.0\n", "neither"),
        ("vllm:prompt_tokens_total 5.0\n", "by_source_total is missing"),
        ("vllm:num_requests_running 0.0\n", "by_source_total is missing"),
        ("sglang:num_running_reqs 0.0\n", "--enable-metrics"),
        (SGLANG[:-9], "not a metrics line"),
        ("vllm:prompt_tokens_total{a=\n", "not a metrics line"),
    ],
)
def test_what_is_not_whole_is_refused(text: str, told: str) -> None:
    with pytest.raises(UnknownMetrics, match=told):
        counters(text)


def test_an_engine_that_served_nothing_yet() -> None:
    assert counters("vllm:prompt_tokens_total 0.0\n").prompt == 0


def test_a_restart_is_noticed() -> None:
    before, after = EngineCounters(10, 1, 0, 4, 5), EngineCounters(30, 1, 0, 9, 20)
    assert after.since(before) == EngineCounters(20, 0, 0, 5, 15)
    assert before.since(after) is None


def test_labels_with_everything_in_them() -> None:
    sample = parse('a:b{x="1,2",y="q\\"}"} 3 1700000000000')[0]
    assert (sample.name, sample.labels["x"], sample.value) == ("a:b", "1,2", 3)


def test_tiers_from_the_log_as_recorded() -> None:
    found = store_bytes((FIXTURES / "vllm-0.32.0-tier-log.txt").read_text())
    assert found.memory > 0
    assert found.total == found.memory + found.flash + found.unknown
    assert store_bytes("nothing of interest\n") == StoreBytes()


@given(
    st.lists(st.tuples(*[st.integers(0, 10**7)] * 4), min_size=1, max_size=4),
    st.tuples(*[st.integers(0, 10**10)] * 3),
)
def test_no_token_is_lost_between_tiers(engines: list[tuple[int, ...]], loads: tuple[int, ...]) -> None:
    rises = [EngineCounters(sum(item), item[0], item[1], item[2], item[3]) for item in engines]
    found = tier_tokens(rises, StoreBytes(*loads))
    assert found.prompt == sum(item.prompt for item in rises)
    assert min(found.memory, found.flash, found.store) >= 0
    assert tier_tokens(rises, None).store == sum(item.external for item in rises)
