"""Bytes per token of every model that a site is likely to run, from the facts of its config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.site.model_shape import HALF_BYTES, ModelShape, ShapeError, shape_of

MODELS = Path(__file__).resolve().parents[2] / "fixtures" / "models"
LENGTH = 163_840
GIB = 2**30


def config(name: str) -> dict[str, Any]:
    return json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8"))


# Bytes per token (bf16) and GiB of 163,840 tokens.
KNOWN = [
    ("deepseek-v3", 70_272, 10.72),
    ("deepseek-r1", 70_272, 10.72),
    ("kimi-k2.5", 70_272, 10.72),
    ("deepseek-v3.2", 85_888, 13.11),
    ("deepseek-v4-pro", 8_457, 1.29),
    ("kimi-k3", 27_648, 4.22),
    ("qwen3-235b-a22b", 192_512, 29.38),
    ("llama-3.1-70b", 327_680, 50.0),
    ("llama-3.1-405b", 516_096, 78.75),
    ("glm-4.6", 376_832, 57.5),
    ("glm-5", 109_824, 16.76),
    ("glm-5.2", 95_232, 14.53),
    ("minimax-m2", 253_952, 38.75),
    ("minimax-m3", 137_472, 20.98),
    ("qwen3.5-397b-a17b", 30_720, 4.69),
    ("qwen3.8-2.4t-a95b", 94_208, 14.38),
]


@pytest.mark.parametrize(("name", "per_token", "gib"), KNOWN)
def test_bytes_per_token(name: str, per_token: int, gib: float) -> None:
    shape = shape_of(config(name))
    assert round(shape.bytes_per_token(LENGTH)) == per_token
    assert shape.context_bytes(LENGTH) / GIB == pytest.approx(gib, abs=0.006)


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("deepseek-v3", 11.24), ("qwen3-235b-a22b", 30.80), ("glm-4.6", 60.29)]
)
def test_a_context_of_160_thousand_tokens(name: str, gigabytes: float) -> None:
    assert shape_of(config(name)).context_bytes(160_000) / 1e9 == pytest.approx(gigabytes, abs=0.005)


def test_eight_bit_elements_halve_the_cache_and_the_indexer_may_stay() -> None:
    assert shape_of(config("deepseek-v3")).bytes_per_token(LENGTH, "fp8") == 35_136
    shape = shape_of(config("deepseek-v3.2"))
    assert shape.bytes_per_token(LENGTH, "fp8") == 85_888 / 2
    assert shape.bytes_per_token(LENGTH, "fp8", "bf16") == 70_272 / 2 + 61 * 128 * 2


@pytest.mark.parametrize(
    ("name", "attention", "state"),
    [
        ("gpt-2", "MHA", False),
        ("llama-3.1-70b", "GQA", False),
        ("deepseek-v3", "MLA", False),
        ("glm-5.2", "MLA, indexer in 21 layers", False),
        ("kimi-k3", "MLA in 24 of 93 layers, linear attention in the others", True),
        ("qwen3.5-397b-a17b", "GQA hybrid, layers: 15 full, 45 linear", True),
        ("minimax-m3", "GQA, indexer in 57 layers", False),
    ],
)
def test_the_kind_of_attention_is_named(name: str, attention: str, state: bool) -> None:
    shape = shape_of(config(name))
    assert shape.attention == attention
    assert (shape.state_bytes > 0) is state


def test_the_state_of_linear_layers_is_fixed_per_sequence() -> None:
    # 45 layers: 3 inputs of 2 x 2048 + 8192 channels in two bytes, 64 matrices of 128 x 128 in four.
    assert shape_of(config("qwen3.5-397b-a17b")).state_bytes == 45 * (3 * (2 * 2048 + 8192) * 2 + 64 * 128 * 128 * 4)


def test_windows_and_shared_layers_keep_less() -> None:
    command = shape_of(config("command-a"))
    assert command.context_bytes(100_000) == 2 * 8 * 128 * 2 * (16 * 100_000 + 48 * 4096)
    gemma = shape_of(config("gemma-4-e2b"))  # the last 20 of 35 layers read what the first 15 keep
    assert gemma.context_bytes(100_000) == 2 * 2 * (3 * 512 * 100_000 + 12 * 256 * 512)


def test_a_sliding_window_that_is_switched_off_is_none() -> None:
    data = config("qwen3-235b-a22b") | {"sliding_window": 4096}
    assert shape_of(data).context_bytes(LENGTH) == shape_of(config("qwen3-235b-a22b")).context_bytes(LENGTH)
    assert shape_of(data | {"use_sliding_window": True, "max_window_layers": 94}).groups[0].window == 0


def test_indexers_by_list_pattern_and_schedule_agree() -> None:
    data = config("glm-5.2")
    schedule = [max(layer - 3 + 1, 0) % 4 == 0 for layer in range(78)]
    listed = data | {"indexer_types": ["full" if own else "shared" for own in schedule], "index_topk_freq": 1}
    pattern = data | {"index_topk_pattern": "".join("F" if own else "S" for own in schedule), "index_topk_freq": 1}
    assert shape_of(listed).groups == shape_of(pattern).groups == shape_of(data).groups


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("llama-3.1-70b", {"num_hidden_layers": None}, "num_hidden_layers"),
        ("llama-3.1-70b", {"num_hidden_layers": "80"}, "num_hidden_layers is '80'"),
        ("llama-3.1-70b", {"hidden_size": 8191}, "head_dim is missing"),
        ("llama-3.1-70b", {"layer_types": ["full_attention", "quantum_attention"]}, "quantum_attention"),
        ("deepseek-v3", {"qk_rope_head_dim": None}, "qk_rope_head_dim is missing"),
        ("deepseek-v4-pro", {"compress_ratios": [4, 128]}, "2 entries for 61 layers"),
        ("deepseek-v4-pro", {"kv_source_layer_ids": [2, 8]}, "kv_source_layer_ids"),
    ],
)
def test_what_the_config_does_not_tell_is_not_guessed(name: str, change: dict[str, Any], told: str) -> None:
    with pytest.raises(ShapeError, match=told):
        shape_of(config(name) | change)


@given(st.sampled_from([name for name, *_ in KNOWN]), st.sampled_from(sorted(HALF_BYTES)), st.integers(1, 400_000))
def test_longer_contexts_never_take_less(name: str, dtype: str, tokens: int) -> None:
    shape = shape_of(config(name))
    assert 0 < shape.context_bytes(tokens, dtype) <= shape.context_bytes(tokens + 1, dtype)
    assert shape.context_bytes(tokens, "fp8") * 2 <= shape.context_bytes(tokens, "bf16") * 2


def test_a_stated_size_is_taken_as_it_is() -> None:
    assert ModelShape.fixed(2048).context_bytes(100) == 204_800
