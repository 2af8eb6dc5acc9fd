"""A measured run beside its prediction. Two measured times calibrate the model; everything else is predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ansible.module_utils.g35.schema import dump

from g35ctl.plan.workload.figures import context_of
from g35ctl.plan.workload.prefill import Prefill, findable, longest
from g35ctl.simulation.run import SEED, Inputs, simulate
from g35ctl.site.workload_model import Workload
from g35ctl.validate.serving_result import CachePath, PathSetting, Row, ServingResult


@dataclass(frozen=True)
class Compared:
    """One row of both tables. Times to first token are means, seconds; hit rates shares. ``calibrated``: the measured
    time went into the prediction, so that it agrees says nothing."""

    path: CachePath
    users: int
    measured_ttft: float
    predicted_ttft: float
    measured_hits: float
    predicted_hits: float
    calibrated: bool

    @property
    def ttft_error(self) -> float:
        """Of the predicted time, as a share of the measured one; signed."""
        return self.predicted_ttft / self.measured_ttft - 1 if self.measured_ttft else 0.0

    @property
    def hits_error(self) -> float:
        """Of the predicted hit rate, as a difference; signed."""
        return self.predicted_hits - self.measured_hits

    def to_json(self) -> dict[str, Any]:
        """Plain data, with both errors."""
        return {**dump(self), "ttft_error": self.ttft_error, "hits_error": self.hits_error}


def as_measured(inputs: Inputs, measured: ServingResult) -> Inputs:
    """The inputs with the method, the capacities and the two calibrating times of a measured run.

    Load generators send each user's turns at fixed times, so users come in turn and as many at a time as there are.
    """
    method, hosts = measured.workload, measured.workload.nodes
    sizes = {item.path: item for item in measured.settings}
    workload = inputs.workload.model_copy(update={
        "users": method.users, "rate": method.rate, "context_tokens": method.context, "new_tokens": method.new_tokens,
        "rounds": method.rounds, "trials": method.trials, "block_tokens": method.block, "order": "cyclic",
        "parallel": max(method.users),
    })  # fmt: skip
    context = context_of(workload, inputs.shape).size
    tiers = {
        name: size
        for name, path in (("memory", CachePath.LOCAL), ("memory_path", CachePath.MEMORY))
        if path in sizes and (size := _room(sizes[path], context) // hosts)
    }
    workload = workload.model_copy(update={"tiers": workload.tiers.model_copy(update=tiers)})
    pool = sizes[CachePath.G35].flash if CachePath.G35 in sizes else 0
    hardware = replace(inputs.hardware, hosts=hosts, pool=pool or inputs.hardware.pool)
    return replace(inputs, workload=_calibrated(workload, measured), hardware=hardware)


def _room(setting: PathSetting, context: int) -> int:
    """Bytes of memory that hold contexts: less than all of it where a store evicts before it is full."""
    return setting.memory if setting.contexts is None else int(setting.contexts * context)


def compare(inputs: Inputs, measured: ServingResult, seed: int = SEED) -> tuple[Compared, ...]:
    """Every measured row that has figures, beside what is predicted for it. ``inputs`` as :func:`as_measured` gives
    them."""
    predicted = simulate(inputs, "", seed).result
    reference = _reference(measured)

    def rows() -> Iterator[Compared]:
        for row in measured.rows:
            other = predicted.row(row.path, row.users)
            if other is None or other.ttft is None or row.ttft is None or row.hit_rate is None:
                continue
            calibrated = reference is not None and (row.path, row.users) == (reference.path, reference.users)
            yield Compared(
                row.path, row.users, row.ttft.mean, other.ttft.mean, row.hit_rate, other.hit_rate or 0.0, calibrated
            )

    return tuple(rows())


def _reference(measured: ServingResult) -> Row | None:
    """The row that calibrates: path memory with the fewest users, where nobody waits and everything is found."""
    rows = [row for row in measured.rows if row.path is CachePath.MEMORY and row.ttft and row.cold_ttft]
    return min(rows, key=lambda row: row.users, default=None)


def _calibrated(workload: Workload, measured: ServingResult) -> Workload:
    """Prefill and overhead from a cold time and the time of a hit; as they were when the run has neither."""
    row = _reference(measured)
    if row is None or row.ttft is None or row.cold_ttft is None:
        return workload
    cold, hit = row.cold_ttft.p50, row.ttft.p50
    found = findable(workload, workload.rounds - 1)
    share = Prefill(longest(workload), 1.0, workload.timing.attention_share).seconds(longest(workload) - found, found)
    seconds = max((cold - hit) / (1 - share), 1e-6)
    timing = {"cold_seconds": seconds, "overhead_seconds": max(hit - share * seconds, 0.0)}
    return workload.model_copy(update={"timing": workload.timing.model_copy(update=timing)})
