"""The three paths at every number of users, in the form the serving suite measures them in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible.module_utils.g35.schema import dump

from g35ctl.plan.workload.figures import context_of, figures, paths
from g35ctl.plan.workload.hardware import Hardware
from g35ctl.plan.workload.model import WorkloadFigures
from g35ctl.plan.workload.prefill import ceiling
from g35ctl.simulation.point import Point, Setting
from g35ctl.site.model_shape import ModelShape
from g35ctl.site.workload_model import Prices, Workload
from g35ctl.validate.serving_result import (
    CachePath,
    Distribution,
    PathSetting,
    PointResult,
    Row,
    ServingResult,
    TierTokens,
)
from g35ctl.validate.serving_result import Workload as Method

SEED = 1
#: a path has fallen off when this much of its hits is gone
FALLEN = 0.01


@dataclass(frozen=True)
class Inputs:
    """What is simulated: a workload, the model it runs, what it runs on, and what the media cost."""

    workload: Workload
    shape: ModelShape
    hardware: Hardware
    prices: Prices

    @property
    def setting(self) -> Setting:
        """The form that single points take."""
        return Setting(self.workload, context_of(self.workload, self.shape), self.hardware)

    def with_users(self, users: Sequence[int]) -> Inputs:
        """The same for other numbers of users."""
        return replace(self, workload=self.workload.model_copy(update={"users": tuple(users)}))


@dataclass(frozen=True)
class Simulation:
    """A predicted table. ``result`` has the form of a measurement; ``figures`` are what can be computed without running
    the model. ``rounds`` are the lowest and highest mean time to first token of a single round, by path and users."""

    name: str
    seed: int
    result: ServingResult
    figures: WorkloadFigures
    rounds: Mapping[tuple[CachePath, int], tuple[float, float]]

    def fallen(self, path: CachePath) -> int | None:
        """The lowest of the simulated numbers of users at which a path has lost hits, None when it loses none."""
        lost = [
            row.users
            for row in self.result.rows
            if row.path is path and row.hit_rate is not None and row.hit_rate < self.figures.ceiling - FALLEN
        ]
        return min(lost, default=None)

    def to_json(self) -> dict[str, Any]:
        """Plain data, marked as predicted."""
        return {
            "predicted": True,
            "name": self.name,
            "seed": self.seed,
            "figures": dump(self.figures),
            "fallen": {path.value: self.fallen(path) for path in CachePath},
            "rounds": [
                {"path": path.value, "users": users, "mean_low": low, "mean_high": high}
                for (path, users), (low, high) in self.rounds.items()
            ],
            "result": self.result.to_json(),
        }


def simulate(inputs: Inputs, name: str, seed: int = SEED) -> Simulation:
    """All paths, users and trials, trials interleaved as they are measured."""
    workload = inputs.workload
    found: dict[tuple[CachePath, int], list[tuple[Point, PointResult]]] = {}
    order = 0
    for trial in range(workload.trials):
        for users in workload.users:
            for path in CachePath:
                point = Point(inputs.setting, path, users, seed + trial)
                found.setdefault((path, users), []).append((point, point.run(trial, order)))
                order += 1
    points = tuple(sorted((result for runs in found.values() for _, result in runs), key=lambda item: item.order))
    result = ServingResult(
        workload=_method(inputs, seed),
        settings=tuple(_settings(inputs)),
        points=points,
        rows=tuple(_row(path, users, runs) for (path, users), runs in found.items()),
    )
    return Simulation(
        name, seed, result,
        figures(workload, inputs.prices, inputs.shape, inputs.hardware),
        {key: _rounds(runs) for key, runs in found.items()},
    )  # fmt: skip


def _method(inputs: Inputs, seed: int) -> Method:
    workload = inputs.workload
    return Method(
        users=workload.users,
        paths=tuple(CachePath),
        rate=workload.rate,
        nodes=inputs.hardware.hosts,
        context=workload.context_tokens,
        shared_prefix=0,
        new_tokens=workload.new_tokens,
        output_tokens=1,
        rounds=workload.rounds,
        trials=workload.trials,
        seed=seed,
        block=workload.block_tokens,
    )


def _settings(inputs: Inputs) -> Iterator[PathSetting]:
    tiers, hosts = inputs.workload.tiers, inputs.hardware.hosts
    sizes = {
        "local": (tiers.memory * hosts, tiers.local_flash * hosts),
        "memory": (tiers.memory_path * hosts, 0),
        "g35": (tiers.memory * hosts, inputs.hardware.pool),
    }
    for item in paths(inputs.workload, inputs.hardware, context_of(inputs.workload, inputs.shape)):
        memory, flash = sizes[item.path]
        yield PathSetting(CachePath(item.path), memory, flash, item.contexts, f"simulated; {item.tier} decides")


def _row(path: CachePath, users: int, runs: Sequence[tuple[Point, PointResult]]) -> Row:
    results = [result for _, result in runs]
    means = [item.ttft.mean for item in results if item.ttft is not None]
    cached = sum(turn.cached_tokens for item in results for turn in item.turns[1:])
    prompts = sum(turn.prompt_tokens for item in results for turn in item.turns[1:])
    tokens = [item.tokens for item in results if item.tokens is not None]
    names = TierTokens.__dataclass_fields__
    return Row(
        path=path,
        users=users,
        trials=len(results),
        ttft=Distribution.of([value for point, _ in runs for turn in point.turns[1:] for value in turn.ttft]),
        cold_ttft=None,
        mean_low=min(means, default=None),
        mean_high=max(means, default=None),
        hit_rate=cached / prompts if prompts else None,
        tokens=TierTokens(**{name: sum(getattr(item, name) for item in tokens) for name in names}),
        offered_rate=results[0].offered_rate,
        achieved_rate=sum(item.achieved_rate for item in results) / len(results),
        errors=0,
        complete=all(item.completed == item.requested for item in results),
    )


def _rounds(runs: Sequence[tuple[Point, PointResult]]) -> tuple[float, float]:
    means = [turn.ttft.mean for _, item in runs for turn in item.turns[1:] if turn.ttft is not None]
    return min(means), max(means)


def knee(inputs: Inputs, path: CachePath, seed: int = SEED) -> int | None:
    """The largest number of users that a path still serves without losing hits, found by trying; None when it holds
    twice as many as the largest number asked for."""
    limit = ceiling(inputs.workload) - FALLEN

    def holds(users: int) -> bool:
        runs = [Point(inputs.setting, path, users, seed + trial).run() for trial in range(inputs.workload.trials)]
        rates = [item.hit_rate or 0.0 for item in runs]
        return sum(rates) / len(rates) >= limit

    low, high = 0, 2 * max(inputs.workload.users)
    if holds(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
