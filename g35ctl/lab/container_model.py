"""A small language model with random weights, made here: enough for an engine to prefill, cache and answer greedily.

One character is one token (a byte-level tokenizer without merges), so that lengths can be stated exactly. Formats:
``config.json`` and ``tokenizer.json`` as Hugging Face transformers read them, and safetensors (eight bytes of header
length, a JSON header, the tensors).
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

MARKER = ".g35-complete"
SPECIAL = ("<s>", "</s>", "<pad>")
_CHAT = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}<assistant>"
#: exponent of a weight's bfloat16: magnitudes from 1/64 to 1/32, near the usual initial spread of 0.02
_EXPONENT = 121
#: eight times that for attention: otherwise it takes the mean of thousands of tokens, an answer depends on the last
#: token alone, and one from a wrong cache looks right
_ATTENTION = 124
#: an answer is made of these tokens alone: single bytes beyond ASCII would all be shown as the same replacement
_SPOKEN = 128


@dataclass(frozen=True)
class Shape:
    """The model's dimensions. KV cache takes 2 x layers x kv_heads x head_dim x 2 bytes for each token."""

    hidden: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    vocabulary: int = 512
    max_length: int = 262144
    seed: int = 35

    @property
    def kv_bytes(self) -> int:
        """Bytes of KV cache for each token, in bfloat16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2


def make_model(directory: Path, shape: Shape = Shape()) -> bool:
    """Make the model's directory unless it is complete for this shape; True when it was made."""
    made_of = [asdict(shape), _EXPONENT, _ATTENTION, _SPOKEN]
    wanted = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest() + "\n"
    marker = directory / MARKER
    if marker.exists() and marker.read_text() == wanted:
        return False
    directory.mkdir(parents=True, exist_ok=True)
    marker.unlink(missing_ok=True)
    documents = {
        "config.json": config(shape),
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": SPECIAL[0],
            "eos_token": SPECIAL[1],
            "pad_token": SPECIAL[2],
            "model_max_length": shape.max_length,
            "chat_template": _CHAT,
        },
    }
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document, indent=1) + "\n")
    (directory / "model.safetensors").write_bytes(b"".join(weights(shape)))
    marker.write_text(wanted)
    return True


def config(shape: Shape) -> dict[str, object]:
    """``config.json`` of a Llama of this shape."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": 3 * shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.max_length,
        "rope_theta": 5000000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 256,
        "eos_token_id": 257,
        "pad_token_id": 258,
    }


def alphabet() -> list[str]:
    """The printable stand-in of each byte value in byte-level BPE, in the order of the bytes."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    found, following = [], 0
    for byte in range(256):
        if byte in printable:
            found.append(chr(byte))
        else:
            found.append(chr(256 + following))
            following += 1
    return found


def tokenizer() -> dict[str, object]:
    """``tokenizer.json``: bytes are tokens 0 to 255, the special tokens follow."""
    vocabulary = {character: number for number, character in enumerate(alphabet())}
    added = [
        {
            "id": 256 + number,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, text in enumerate(SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary | {text: 256 + number for number, text in enumerate(SPECIAL)},
            "merges": [],
        },
    }


def tensors(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Name to dimensions of every tensor of the model. The output head is its own: with the embedding in its place a
    random model repeats its last token for ever."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (shape.vocabulary, shape.hidden)}
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for layer in range(shape.layers):
        base = f"model.layers.{layer}"
        found |= {
            f"{base}.input_layernorm.weight": (shape.hidden,),
            f"{base}.self_attn.q_proj.weight": (wide, shape.hidden),
            f"{base}.self_attn.k_proj.weight": (narrow, shape.hidden),
            f"{base}.self_attn.v_proj.weight": (narrow, shape.hidden),
            f"{base}.self_attn.o_proj.weight": (shape.hidden, wide),
            f"{base}.post_attention_layernorm.weight": (shape.hidden,),
            f"{base}.mlp.gate_proj.weight": (3 * shape.hidden, shape.hidden),
            f"{base}.mlp.up_proj.weight": (3 * shape.hidden, shape.hidden),
            f"{base}.mlp.down_proj.weight": (shape.hidden, 3 * shape.hidden),
        }
    return found | {"model.norm.weight": (shape.hidden,), "lm_head.weight": (shape.vocabulary, shape.hidden)}


def weights(shape: Shape) -> Iterator[bytes]:
    """``model.safetensors`` in pieces; the same shape gives the same bytes."""
    wanted = tensors(shape)
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, dimensions in wanted.items():
        end = offset + 2 * math.prod(dimensions)
        header[name] = {"dtype": "BF16", "shape": list(dimensions), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text))
    yield text
    source = random.Random(shape.seed)  # noqa: S311 - weights, not secrets
    for name, dimensions in wanted.items():
        count = math.prod(dimensions)
        exponent = _ATTENTION if ".self_attn." in name else _EXPONENT
        if name == "lm_head.weight":
            spoken = _SPOKEN * shape.hidden
            yield _random(source, spoken, exponent) + bytes(2 * (count - spoken))
        else:
            yield _ones(count) if len(dimensions) == 1 else _random(source, count, exponent)


def _ones(count: int) -> bytes:
    return b"\x80\x3f" * count


def _random(source: random.Random, count: int, exponent: int) -> bytes:
    """``count`` bfloat16 values of random sign and fraction."""
    # The upper byte holds the sign and the exponent without its last bit, the lower that bit and the fraction.
    upper = bytes(value & 0x80 | exponent >> 1 for value in range(256))
    lower = bytes((exponent & 1) << 7 | value & 0x7F for value in range(256))
    out = bytearray(2 * count)
    out[0::2] = source.randbytes(count).translate(lower)
    out[1::2] = source.randbytes(count).translate(upper)
    return bytes(out)
