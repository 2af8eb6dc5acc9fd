"""What the prediction hangs on: one input at a time is changed, all else stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible.module_utils.g35.schema import dump

from g35ctl.simulation.point import Point
from g35ctl.simulation.run import SEED, Inputs, knee
from g35ctl.site.workload_model import Workload
from g35ctl.validate.serving_result import CachePath

#: what is changed, by which factors; the first two names of an entry are the mapping and the key in it
_FACTORS: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("timing", "cold_seconds", (0.75, 1.25)),
    ("timing", "overhead_seconds", (0.5, 1.5)),
    ("timing", "answer_seconds", (0.0, 3.0)),
    ("", "parallel", (0.5, 2.0)),
    ("", "rate", (0.5, 2.0)),
    ("", "new_tokens", (0.5, 2.0)),
    ("tiers", "memory", (0.8, 1.2)),
    ("links", "port_gbps", (0.25, 0.5)),
)
#: and what is set to other values
_VALUES: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("timing", "attention_share", (0.6, 1.0)),
    ("", "affinity", (0.9,)),
    ("", "order", ("cyclic",)),
    ("", "kv_dtype", ("fp8",)),
)


@dataclass(frozen=True)
class Case:
    """One change and what came of it. ``knee`` is the largest number of users that path local serves without losing
    hits, None when that is more than was tried. ``ttft`` and ``hit_rate`` are means at ``users`` users, by path."""

    what: str
    knee: int | None
    users: int
    ttft: Mapping[str, float]
    hit_rate: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dump(self)


def sensitivity(inputs: Inputs, seed: int = SEED) -> tuple[Case, ...]:
    """The prediction as it is, then with each change on its own."""
    return tuple(_case(what, replace(inputs, workload=workload), seed) for what, workload in _changes(inputs.workload))


def _changes(workload: Workload) -> Iterator[tuple[str, Workload]]:
    yield "as it is", workload
    for part, key, factors in _FACTORS:
        holder = getattr(workload, part) if part else workload
        value = getattr(holder, key)
        for factor in factors:
            changed = type(value)(value * factor)
            if changed != value and (changed or key == "answer_seconds"):
                yield f"{key} x {factor:g} ({_shown(key, changed)})", _with(workload, part, key, changed)
    for part, key, values in _VALUES:
        holder = getattr(workload, part) if part else workload
        for value in values:
            if value != getattr(holder, key):
                yield f"{key} {value}", _with(workload, part, key, value)


def _with(workload: Workload, part: str, key: str, value: Any) -> Workload:
    if not part:
        return workload.model_copy(update={key: value})
    return workload.model_copy(update={part: getattr(workload, part).model_copy(update={key: value})})


def _shown(key: str, value: float) -> str:
    return f"{value / 1e9:g} GB" if key == "memory" else f"{value:g}"


def _case(what: str, inputs: Inputs, seed: int) -> Case:
    users = max(inputs.workload.users)
    ttft, hits = {}, {}
    for path in CachePath:
        runs = [Point(inputs.setting, path, users, seed + trial).run() for trial in range(inputs.workload.trials)]
        means = [item.ttft.mean for item in runs if item.ttft is not None]
        rates = [item.hit_rate or 0.0 for item in runs]
        ttft[path.value] = sum(means) / len(means)
        hits[path.value] = sum(rates) / len(rates)
    return Case(what, knee(inputs, CachePath.LOCAL, seed), users, ttft, hits)
