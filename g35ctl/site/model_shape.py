"""Bytes of KV cache that a model keeps, from its ``config.json``.

Only what is kept for every token of a context counts: no weights, no activations, no draft (MTP) layers. The fields and
what they mean for the cache follow the models' own configuration classes (transformers) and how vLLM and SGLang lay the
cache out; the results agree with ``kvcache-simulator`` 0.1.3 for the models it knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: element type to half bytes per element
HALF_BYTES: Mapping[str, int] = {"fp32": 8, "bf16": 4, "fp16": 4, "fp8": 2, "int8": 2, "fp4": 1}
#: mappings of a multimodal config that hold the language model
_NESTED = ("text_config", "language_config", "llm_config", "thinker_config")
_FULL = ("full_attention", "attention", "global_attention")
_WINDOWED = ("sliding_attention", "chunked_attention", "local_attention")
_LINEAR = ("linear_attention", "mamba", "recurrent", "conv", "moe", "mlp")
#: fields that change what is cached in a way not known here; a guess would be off by a factor
_UNKNOWN = ("kv_source_layer_ids", "hybrid_layer_pattern", "index_kpool", "swa_kv_lora_rank")
#: DeepSeek V4 indexes what it compresses four to one (its own inference code)
_INDEXED_RATIO = 4


class ShapeError(ValueError):
    """A ``config.json`` that does not tell what the cache holds; the message says which field and why."""


@dataclass(frozen=True)
class CacheGroup:
    """Layers that keep the same for a context: ``elements`` per layer and entry, one entry for ``stride`` tokens, and
    only the last ``window`` tokens (0: all). ``role`` is ``kv`` or ``indexer``, which may be of different types, or
    ``bytes``: the elements are bytes."""

    role: str
    layers: int
    elements: int
    stride: int = 1
    window: int = 0

    def entries(self, tokens: int) -> int:
        """Entries that each layer keeps of a context."""
        return (min(tokens, self.window) if self.window else tokens) // self.stride


@dataclass(frozen=True)
class ModelShape:
    """What a model caches. ``attention`` names the kind for people. ``state_bytes`` is the fixed recurrent state of a
    sequence in linear attention layers. ``indexer_dtype`` is the model's own choice, empty when it follows the KV
    cache's. ``max_context`` is 0 when the config does not say."""

    name: str
    attention: str
    layers: int
    groups: tuple[CacheGroup, ...]
    state_bytes: int = 0
    max_context: int = 0
    indexer_dtype: str = ""

    def context_bytes(self, tokens: int, dtype: str = "bf16", indexer_dtype: str = "") -> int:
        """Bytes of KV cache of a context of so many tokens, without the fixed state. Raises KeyError for an unknown
        element type."""
        indexer = HALF_BYTES[indexer_dtype or self.indexer_dtype or dtype]
        types = {"kv": HALF_BYTES[dtype], "indexer": indexer, "bytes": HALF_BYTES["int8"]}
        halves = sum(item.layers * item.elements * item.entries(tokens) * types[item.role] for item in self.groups)
        return -(-halves // 2)

    def bytes_per_token(self, tokens: int, dtype: str = "bf16", indexer_dtype: str = "") -> float:
        """Mean bytes per token of a context; the same for every length unless the model has windows or strides."""
        return self.context_bytes(tokens, dtype, indexer_dtype) / tokens

    @staticmethod
    def fixed(bytes_per_token: int) -> ModelShape:
        """A shape that is only known by its bytes per token, whatever the element type says."""
        return ModelShape("stated", "stated", 0, (CacheGroup("bytes", 1, bytes_per_token),))


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """The shape of the model that a ``config.json`` describes. Raises ShapeError."""
    text = _language_model(config)
    for name in _UNKNOWN:
        if text.get(name) not in (None, 1, []):
            raise ShapeError(f"{name} is set: how this model shares or pools its cache is not known here")
    name = str(text.get("model_type") or config.get("model_type") or "model")
    longest = _whole(text, "max_position_embeddings", "n_positions", "seq_length", default=0)
    layers = _whole(text, "num_hidden_layers", "n_layer", "num_layers")
    if text.get("compress_ratios"):
        return _compressed(text, name, layers, longest)
    if text.get("kv_lora_rank"):
        return _latent(text, name, layers, longest)
    return _heads(text, name, layers, longest)


def _language_model(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in _NESTED:
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return _language_model(inner)
    return config


def _whole(config: Mapping[str, Any], *names: str, default: int | None = None) -> int:
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ShapeError(f"{name} is {value!r}, expected a whole number")
        return value
    if default is None:
        raise ShapeError(f"{' or '.join(names)} is missing")
    return default


def _list(config: Mapping[str, Any], name: str) -> Sequence[Any] | None:
    value = config.get(name)
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ShapeError(f"{name} is {value!r}, expected a list")
    return value


# --- MLA: one latent vector per token and layer, the same for all heads ---------------------------------------------


def _latent(config: Mapping[str, Any], name: str, layers: int, longest: int) -> ModelShape:
    elements = _whole(config, "kv_lora_rank") + _whole(config, "qk_rope_head_dim")
    linear = config.get("linear_attn_config")
    caching, state = layers, 0
    if isinstance(linear, Mapping):
        full = _list(linear, "full_attn_layers")
        if full is None:
            raise ShapeError("linear_attn_config.full_attn_layers is missing")
        caching = len(full)
        state = _delta_state(linear, layers - caching)
    groups = [CacheGroup("kv", caching, elements)]
    indexed = 0
    if config.get("index_head_dim"):
        indexed = sum(_is_indexed(config, layer) for layer in range(layers))
        groups.append(CacheGroup("indexer", indexed, _whole(config, "index_head_dim")))
    kind = "MLA"
    if caching != layers:
        kind = f"MLA in {caching} of {layers} layers, linear attention in the others"
    if indexed:
        kind += f", indexer in {indexed} layers"
    return ModelShape(name, kind, layers, tuple(groups), state, longest)


def _is_indexed(config: Mapping[str, Any], layer: int) -> bool:
    """Whether a layer runs an indexer of its own, rather than sharing the choice of an earlier layer (GLM-5.2)."""
    types = _list(config, "indexer_types")
    if types is not None and layer < len(types):
        return str(types[layer]) != "shared"
    pattern = config.get("index_topk_pattern")
    if pattern:
        return layer >= len(pattern) or pattern[layer] != "S"
    every = _whole(config, "index_topk_freq", default=1) or 1
    offset = _whole(config, "index_skip_topk_offset", default=2)
    return max(layer - offset + 1, 0) % every == 0


def _delta_state(linear: Mapping[str, Any], layers: int) -> int:
    """Bytes of state of Kimi delta attention: convolution inputs in two bytes, the recurrent matrix in four."""
    heads, width = _whole(linear, "num_heads"), _whole(linear, "head_dim")
    kernel = _whole(linear, "short_conv_kernel_size", default=4)
    return layers * ((kernel - 1) * 3 * heads * width * 2 + heads * width * width * 4)


# --- DeepSeek V4: a window, and the rest compressed by a ratio per layer --------------------------------------------


def _compressed(config: Mapping[str, Any], name: str, layers: int, longest: int) -> ModelShape:
    ratios = [int(ratio) for ratio in (_list(config, "compress_ratios") or ())[:layers]]
    if len(ratios) < layers:
        raise ShapeError(f"compress_ratios has {len(ratios)} entries for {layers} layers")
    width = _whole(config, "head_dim")
    groups = [CacheGroup("kv", layers, width, window=_whole(config, "sliding_window"))]
    counts = Counter(ratio for ratio in ratios if ratio > 0)
    groups += [CacheGroup("kv", count, width, stride=ratio) for ratio, count in sorted(counts.items())]
    if counts[_INDEXED_RATIO]:
        index = _whole(config, "index_head_dim")
        groups.append(CacheGroup("indexer", counts[_INDEXED_RATIO], index, stride=_INDEXED_RATIO))
    told = ", ".join(f"{count} layers {ratio}:1" for ratio, count in sorted(counts.items()))
    return ModelShape(name, f"window and compressed ({told})", layers, tuple(groups), 0, longest, "fp4")


# --- MHA, GQA, MQA, and hybrids of them with windows or linear attention --------------------------------------------


def _heads(config: Mapping[str, Any], name: str, layers: int, longest: int) -> ModelShape:
    queries = _whole(config, "num_attention_heads", "n_head")
    heads = 1 if config.get("multi_query") is True else _whole(
        config, "num_key_value_heads", "num_kv_heads", "multi_query_group_num", default=queries
    )  # fmt: skip
    width = _whole(config, "head_dim", default=0)
    if not width:
        hidden = _whole(config, "hidden_size", "n_embd")
        if not queries or hidden % queries:
            raise ShapeError(f"head_dim is missing and hidden_size {hidden} is no multiple of {queries} heads")
        width = hidden // queries
    full, windowed, linear = _layer_kinds(config, layers)
    groups = []
    if full:
        own = _whole(config, "num_global_key_value_heads", default=heads)
        key = _whole(config, "global_head_dim", default=width)
        value = _whole(config, "global_v_head_dim", "v_head_dim", default=key)
        groups.append(CacheGroup("kv", full, own * (key + value)))
    if windowed:
        own = _whole(config, "swa_num_key_value_heads", default=heads)
        key = _whole(config, "swa_head_dim", default=width)
        value = _whole(config, "swa_v_head_dim", "v_head_dim", default=key)
        window = _whole(config, "sliding_window", "sliding_window_size", "attention_chunk_size")
        groups.append(CacheGroup("kv", windowed, own * (key + value), window=window))
    kind = "MHA" if heads == queries else "MQA" if heads == 1 else "GQA"
    if windowed or linear:
        parts = [
            f"{full} full",
            *([f"{windowed} windowed"] if windowed else []),
            *([f"{linear} linear"] if linear else []),
        ]
        kind = f"{kind} hybrid, layers: {', '.join(parts)}"
    sparse, indexer = _block_sparse(config, layers, width)
    if indexer is not None:
        groups.append(indexer)
        kind += f", indexer in {sparse} layers"
    state = _linear_state(config, linear) if linear else 0
    return ModelShape(name, kind, layers, tuple(groups), state, longest, "bf16" if indexer is not None else "")


def _layer_kinds(config: Mapping[str, Any], layers: int) -> tuple[int, int, int]:
    """Layers with a cache of every token, with a window, and with none."""
    # Gemma: the last layers read the cache of earlier ones.
    stored = layers - _whole(config, "num_kv_shared_layers", default=0)
    types = _list(config, "layer_types")
    if types is not None:
        counts = Counter(str(item) for item in types[:stored])
        strange = sorted(set(counts) - {*_FULL, *_WINDOWED, *_LINEAR})
        if strange:
            raise ShapeError(f"layer_types holds {', '.join(strange)}: what such a layer caches is not known here")
        return tuple(sum(counts[kind] for kind in kinds) for kinds in (_FULL, _WINDOWED, _LINEAR))  # type: ignore[return-value]
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str):  # Nemotron-H: * attention, M Mamba, - feed-forward
        return pattern.count("*"), 0, pattern.count("M")
    flags = _list(config, "attn_type_list")
    if flags is not None:
        full = sum(1 for flag in flags[:stored] if flag == 1)
        return full, 0, stored - full
    every = _whole(config, "full_attention_interval", default=0)
    if every:
        return stored // every, 0, stored - stored // every
    return _windows(config, stored)


def _windows(config: Mapping[str, Any], layers: int) -> tuple[int, int, int]:
    if not config.get("sliding_window") or config.get("use_sliding_window") is False:
        return layers, 0, 0
    every = _whole(config, "sliding_window_pattern", default=0)
    if every:
        return layers // every, layers - layers // every, 0
    full = min(_whole(config, "max_window_layers", default=0), layers)
    return full, layers - full, 0


def _block_sparse(config: Mapping[str, Any], layers: int, width: int) -> tuple[int, CacheGroup | None]:
    """MiniMax M3: layers that choose blocks by an index key of their own."""
    sparse = config.get("sparse_attention_config")
    if not isinstance(sparse, Mapping) or sparse.get("use_sparse_attention") is not True:
        return 0, None
    flags = _list(sparse, "sparse_attention_freq")
    count = layers if flags is None else sum(1 for flag in flags[:layers] if flag)
    return count, CacheGroup("indexer", count, _whole(sparse, "sparse_index_dim", default=width))


def _linear_state(config: Mapping[str, Any], layers: int) -> int:
    """Bytes of state of gated delta networks (Qwen3-Next and later); 0 for kinds whose fields are others."""
    if not config.get("linear_num_value_heads"):
        return 0
    key = _whole(config, "linear_num_key_heads") * _whole(config, "linear_key_head_dim")
    heads, value = _whole(config, "linear_num_value_heads"), _whole(config, "linear_value_head_dim")
    kernel = _whole(config, "linear_conv_kernel_dim", default=4)
    recurrent = heads * _whole(config, "linear_key_head_dim") * value
    return layers * ((kernel - 1) * (2 * key + heads * value) * 2 + recurrent * 4)
