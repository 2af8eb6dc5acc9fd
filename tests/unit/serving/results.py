"""Results of the serving suite for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from g35ctl.validate.serving.judge import rows
from g35ctl.validate.serving_result import (
    CachePath,
    Distribution,
    Equality,
    ErrorCount,
    PointResult,
    ServingResult,
    TierTokens,
    TurnResult,
    Workload,
)

TOKENS = TierTokens(50, 0, 50, 50, 0, 50)


def workload(**changes: Any) -> Workload:
    fields: dict[str, Any] = {
        "users": (8, 48), "paths": tuple(CachePath), "rate": 8.0, "nodes": 2, "context": 4096, "shared_prefix": 0,
        "new_tokens": 64, "output_tokens": 4, "rounds": 4, "trials": 1, "seed": 7, "block": 128,
    }  # fmt: skip
    return Workload(**(fields | changes))


def point(path: CachePath, users: int, trial: int, order: int, **changes: Any) -> PointResult:
    """A point whose steady turns all took ``ttft`` seconds and hit ``hit`` of their tokens; cold ones took a second."""
    ttft, hit = changes.pop("ttft", 0.1), changes.pop("hit", workload().ceiling)
    samples, failed = changes.pop("samples", 120), changes.pop("failed", 0)
    steady = Distribution.of([ttft] * samples)
    turns = (
        TurnResult(0, 8, Distribution.of([1.0]), 10000, 0),
        TurnResult(1, samples, steady, 10000, round(10000 * hit)),
    )
    fields: dict[str, Any] = {
        "generator": "builtin", "requested": 200, "completed": 200 - failed, "seconds": 10.0, "offered_rate": 16.0,
        "achieved_rate": 15.0, "ttft": steady, "cold_ttft": Distribution.of([1.0] * 8), "turns": turns,
        "tokens": TOKENS, "errors": (ErrorCount("timeout", failed),) if failed else (), "incomplete": "",
        "evidence": "serving/x.jsonl",
    }  # fmt: skip
    return PointResult(path, users, trial, order, **(fields | changes))


def result(
    ttft: Mapping[tuple[CachePath, int], float],
    *,
    hit: Mapping[CachePath, float] | None = None,
    points: Sequence[PointResult] | None = None,
    equalities: tuple[Equality, ...] = (),
    emulated: bool = False,
    **changes: Any,
) -> ServingResult:
    """A result with one point for each path and number of users in ``ttft``."""
    made = list(points or ())
    for order, ((path, users), seconds) in enumerate(ttft.items()):
        own = {"hit": hit[path]} if hit and path in hit else {}
        made.append(point(path, users, 0, order, ttft=seconds, **own, **changes))
    samples = {item.order: ([item.ttft.mean] * item.ttft.samples if item.ttft else [], [1.0] * 8) for item in made}
    return ServingResult(workload(), (), tuple(made), rows(made, samples), equalities, emulated=emulated)
