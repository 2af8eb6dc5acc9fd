"""Sizes in each tool's own grammar, and the names under which engines share what they cached.

Every tool reads sizes differently, and most take what they cannot read for something else without a word: vLLM's
``gb`` is 1024**3 and it knows no ``GiB``; SGLang's store knows ``gb`` or a bare number, and its --hicache-size counts
decimal gigabytes for each rank; LMCache counts binary gigabytes as a fraction for each rank, and the pool's sizes
as bytes. Bytes as an integer are read right by all that take them.
"""

from __future__ import annotations

import hashlib
import json
import re

from g35ctl.site.engines import Engine

GIB = 2**30
GB = 10**9


def whole_gigabytes(size: int) -> int:
    """Decimal gigabytes, rounded down: SGLang's --hicache-size. 0 there silently means another size."""
    return size // GB


def gibibytes(size: int) -> float:
    """Binary gigabytes to three places, rounded down: LMCache's sizes."""
    return size * 1000 // GIB / 1000


def whole_gibibytes(size: int) -> int:
    """Binary gigabytes, rounded down: VLLM_CPU_KVCACHE_SPACE, which takes an integer."""
    return size // GIB


def compact(value: object) -> str:
    """JSON in one line, the same for equal values."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def sharing(engine: Engine) -> str:
    """The name space of an engine's keys in the pool: readable in front, and a digest over all that must agree.

    Keys hold the last part of the model's path and the rank, and neither how many ranks there are nor the type or the
    layout of what is stored: without this, engines that differ in one of them would take each other's bytes for theirs.
    """
    model = engine.model
    spread = engine.parallelism
    parts = {
        "engine": engine.engine,
        "model": model.path if model else "",
        "revision": model.revision if model else "",
        "dtype": model.dtype if model else "",
        "tensor": spread.tensor,
        "pipeline": spread.pipeline,
        "kv_dtype": engine.settings.kv_dtype,
        "page": engine.page_size,
        "layout": engine.settings.layout if engine.engine == "sglang" else "",
        "lmcache": engine.lmcache.chunk_size if engine.lmcache.enabled else 0,
    }
    digest = hashlib.sha256(compact(parts).encode()).hexdigest()[:12]
    name = re.sub(r"[^a-z0-9]+", "-", (model.name if model else engine.engine).lower()).strip("-")[:32]
    return f"{name}-tp{spread.tensor}-pp{spread.pipeline}-{digest}"
