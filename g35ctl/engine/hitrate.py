"""Hit rate against capacity on a recorded trace, by ``kvcache-simulator`` (KVCache.AI, on PyPI): driven, not rewritten.

Its model catalogue is not used: it is given one model whose bytes per token are this site's.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.module_utils.g35.schema import dump

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site
from g35ctl.site.model_config import site_shape
from g35ctl.site.model_shape import ModelShape

PACKAGE = "kvcache_sim"
INSTALL = "pip install 'g35ctl[planning]'"
GIB = 2**30
#: tokens of a block in the traces that Mooncake published
BLOCK = 512
_TIMEOUT = 900


@dataclass(frozen=True)
class HitPoint:
    """Hit rates with so many bytes of cache; ``full`` is False where the whole trace fits and nothing is evicted."""

    name: str
    size: int
    lru: float
    optimal: float
    full: bool


@dataclass(frozen=True)
class HitCurve:
    """What a cache of each size finds of a trace. Rates are measured over its second half; ``ceiling`` is what an
    unlimited cache finds."""

    trace: str
    requests: int
    mean_tokens: float
    block_tokens: int
    bytes_per_token: float
    ceiling: float
    points: tuple[HitPoint, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dump(self)


def site_curve(site: Site, plan: Plan, trace: Path, block_tokens: int = BLOCK) -> HitCurve:
    """The curve of a trace for the tiers of a site. Raises G35Error, also for a site that states no workload."""
    workload, found = site.validation.workload, plan.workload
    if workload is None or found is None:
        raise G35Error(
            f"site {site.identity.name} states no workload", why="g35_validate.workload is not set",
            next_command="set g35_validate.workload (docs/simulate.md)", exit_code=Exit.SITE_INVALID,
        )  # fmt: skip
    sizes: dict[str, int] = {}
    for tier in found.tiers:
        if not tier.shared:
            sizes[f"{tier.name} of one host"] = tier.per_host
        sizes[f"{tier.name} of all hosts" if not tier.shared else tier.name] = tier.total
    return hit_curve(trace, site_shape(site.inventory, workload), found.kv_dtype, sizes, block_tokens)


def hit_curve(
    trace: Path, shape: ModelShape, dtype: str, sizes: Mapping[str, int], block_tokens: int = BLOCK
) -> HitCurve:
    """The curve of a trace (JSONL with ``hash_ids`` and ``input_length``) for caches of these bytes, by name.

    Raises G35Error when the package is not installed, the trace is not one, or the simulator fails.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise G35Error(
            "kvcache-simulator is not installed", why="it computes hit rates on traces", next_command=INSTALL,
            exit_code=Exit.USAGE,
        )  # fmt: skip
    requests, mean = _check(trace)
    per_token = shape.bytes_per_token(max(1, round(mean)), dtype)
    wanted = {name: size for name, size in sizes.items() if size > 0}
    if not wanted:
        raise G35Error(
            "no tier to compute hit rates for",
            next_command="set g35_validate.workload.tiers",
            exit_code=Exit.SITE_INVALID,
        )
    with tempfile.TemporaryDirectory(prefix="g35-trace-") as folder:
        data = _run(trace, Path(folder), per_token, sorted(set(wanted.values())), block_tokens)
    return _curve(data, trace, (requests, mean, per_token, block_tokens), wanted)


def _check(trace: Path) -> tuple[int, float]:
    """Requests and mean input length. The simulator skips lines it cannot read; here they are errors."""
    count, tokens, before = 0, 0, float("-inf")
    try:
        lines = trace.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(trace, str(error)) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            length, ids = record["input_length"], record["hash_ids"]
            when = float(record.get("timestamp", before))
        except (ValueError, TypeError, KeyError) as error:
            raise _bad(trace, f"line {number} is no request: {error!r}") from error
        if not isinstance(length, int) or length < 1 or not isinstance(ids, list) or not ids:
            raise _bad(trace, f"line {number} has no input_length or hash_ids")
        if when < before:
            raise _bad(trace, f"line {number} is earlier than the line before it: requests must be in order of time")
        count, tokens, before = count + 1, tokens + length, when
    if not count:
        raise _bad(trace, "it has no requests")
    return count, tokens / count


def _bad(trace: Path, why: str) -> G35Error:
    return G35Error(
        f"{trace} is not a trace", why=why, exit_code=Exit.USAGE,
        next_command="JSONL in order of time: {timestamp, input_length, output_length, hash_ids} (docs/simulate.md)",
    )  # fmt: skip


def _run(trace: Path, folder: Path, per_token: float, sizes: Sequence[int], block_tokens: int) -> dict[str, Any]:
    # Keys and values of one head in one layer, two bytes each: four bytes per element of the head.
    fields = {"num_hidden_layers": 1, "num_key_value_heads": 1, "head_dim": per_token / 4}
    model = {"id": "site", "label": "site", "formula": "standard_gqa", "default_tokens": 1024, "fields": fields}
    models, result = folder / "models.yaml", folder / "result.json"
    models.write_text(json.dumps({"models": [model]}), encoding="utf-8")  # JSON is YAML
    budgets = ",".join(repr(size / GIB) for size in sizes)
    command = [
        sys.executable, "-m", PACKAGE, "run", "--trace", str(trace), "--model", "site", "--models-yaml", str(models),
        "--kv-precision", "bf16_fp16", "--block-size", str(block_tokens), "--budgets-gib", budgets,
        "--policies", "lru,optimal", "--backend", "python", "--no-progress", "--format", "json",
        "--output", str(result),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise _failed(f"no end after {_TIMEOUT} s") from error
    if done.returncode:
        raise _failed(done.stderr.strip()[-2000:])
    try:
        data = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _failed(f"its result cannot be read: {error}") from error
    return data if isinstance(data, dict) else {}


def _failed(why: str) -> G35Error:
    return G35Error("kvcache-simulator failed", why=why, next_command=f"{INSTALL} (tested with 0.1.3), then again")


def _curve(
    data: Mapping[str, Any], trace: Path, facts: tuple[int, float, float, int], sizes: Mapping[str, int]
) -> HitCurve:
    requests, mean, per_token, block_tokens = facts
    try:
        ceiling = float(data["hitRateCeiling"])
        read = int(data["metadata"]["requestCount"])
        points = {
            round(float(point["gib"]) * GIB): (_rate(point, "lru"), _rate(point, "optimal")) for point in data["points"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise _failed(f"its result has another form: {error!r}") from error
    if read != requests:
        raise _failed(f"it read {read} of {requests} requests")
    # It leaves sizes out that never fill: there nothing is evicted, and what can be found is.
    found = []
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        lru, optimal = points.get(size, (ceiling, ceiling))
        found.append(HitPoint(name, size, lru, optimal, size in points))
    return HitCurve(trace.name, requests, mean, block_tokens, per_token, ceiling, tuple(found))


def _rate(point: Mapping[str, Any], policy: str) -> float:
    return float(point["results"][policy]["hitRate"])
