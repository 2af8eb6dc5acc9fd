"""Traces: totals agree with an independent count, disorder is sorted, damage is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.errors import G35Error
from g35ctl.validate.serving import trace
from g35ctl.validate.serving.trace import BLOCK, Request, replayed, totals

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"


@pytest.mark.parametrize(
    ("name", "tokens", "output", "blocks", "hits", "hit_tokens"),
    [
        ("mooncake-fast25-conversation-50.jsonl", 601420, 18175, 1205, 49, 25088),
        ("mooncake-fast25-synthetic-50.jsonl", 699413, 9995, 1399, 57, 29184),
    ],
)
def test_totals_of_published_traces(
    name: str, tokens: int, output: int, blocks: int, hits: int, hit_tokens: int
) -> None:
    found = totals(trace.read(FIXTURES / name))
    assert (found.requests, found.input_tokens, found.output_tokens) == (50, tokens, output)
    assert (found.blocks, found.hit_blocks, found.hit_tokens) == (blocks, hits, hit_tokens)


def test_partial_blocks_disorder_and_missing_lengths() -> None:
    found = trace.read(FIXTURES / "aiperf-doc-trace-variants.jsonl")
    assert [item.timestamp for item in found] == sorted(item.timestamp for item in found)
    assert totals(found).hit_blocks == 4
    # The last, partial block repeats too: what it holds counts, never a whole block.
    assert totals(found).hit_tokens == 672 + 655
    assert {item.output_length for item in found if item.input_length in (200, 600)} == {trace.DEFAULT_OUTPUT}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"timestamp": 0, "input_length": 600, "hash_ids": [1]}', "1 hash_ids for 600 tokens, expected 2"),
        ('{"timestamp": 0, "input_length": 0, "hash_ids": []}', "input_length"),
        ('{"timestamp": -1, "input_length": 5, "hash_ids": [1]}', "timestamp"),
        ('{"timestamp": 0, "input_length": 5, "hash_ids": [1]', "line 1"),
        ("[1]", "line 1"),
        ("", "no request"),
    ],
)
def test_damage_is_refused(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(G35Error) as caught:
        trace.read(path)
    assert told in str(caught.value.why)


REQUESTS = st.builds(
    lambda at, ids, cut: Request(at, len(ids) * BLOCK - cut, 1, tuple(ids)),
    st.floats(0, 1e6),
    st.lists(st.integers(0, 20), min_size=1, max_size=8),
    st.integers(0, BLOCK - 1),
)


@given(st.lists(REQUESTS, min_size=1, max_size=20), st.floats(0.5, 5), st.floats(0.1, 10))
def test_replay_keeps_order_length_and_repetitions(requests: list[Request], ratio: float, speed: float) -> None:
    requests.sort(key=lambda item: item.timestamp)
    found = replayed(requests, ratio, speed=speed)
    assert found[0].at == 0
    assert [item.at for item in found] == sorted(item.at for item in found)
    for item, request in zip(found, requests, strict=True):
        assert [seed for seed, _ in item.pieces] == [f"block-{block}" for block in request.blocks]
        assert abs(sum(size for _, size in item.pieces) - request.input_length * ratio) <= len(item.pieces)
    assert 0 <= totals(requests).ceiling <= 1


def test_what_the_model_cannot_take_is_left_out() -> None:
    requests = trace.read(FIXTURES / "mooncake-fast25-conversation-50.jsonl")
    assert 0 < len(replayed(requests, 1.0, longest=8192)) < len(requests)
    assert replayed([], 1.0) == ()
