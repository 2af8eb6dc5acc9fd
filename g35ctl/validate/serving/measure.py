"""One measurement: caches cleared, counters read, load, counters read again, and whether anything restarted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from g35ctl.engine.ssh import Target
from g35ctl.validate.serving import aiperf, load, records
from g35ctl.validate.serving.generator import Job, Replayed
from g35ctl.validate.serving.load import Loaded
from g35ctl.validate.serving.metrics import EngineCounters, tier_tokens
from g35ctl.validate.serving.services import Reach
from g35ctl.validate.serving.trace import Request, replayed
from g35ctl.validate.serving_result import CachePath, PointResult, TierTokens, Workload

FOLDER = "serving"


@dataclass(frozen=True)
class Method:
    """How points are measured. ``ratio`` is characters per token; ``lease`` how long the pool may keep what it is to
    forget, seconds; ``program`` is aiperf's when it is the generator."""

    workload: Workload
    folder: Path
    run: str
    ratio: float
    timeout: float
    lease: float
    program: str = ""
    tokenizer: Path = Path()
    trace: tuple[Request, ...] = ()
    trace_speed: float = 1.0
    longest: int = 0


@dataclass(frozen=True)
class Place:
    """Which point it is."""

    path: CachePath
    users: int
    trial: int
    order: int

    @property
    def name(self) -> str:
        """Name of its files."""
        return f"{self.order:03d}-{self.path}-{self.users}-{self.trial}"


def measure(reach: Reach, method: Method, place: Place, stopped: Callable[[], bool]) -> PointResult:
    """Measure one point. What went wrong is in its ``incomplete``; raises G35Error when aiperf has no tokenizer."""
    notes = []
    left = _clear(reach, method.lease, stopped)
    if left:
        notes.append(f"the pool still held {left} values when it began")
    units, before, marks = reach.incarnations(), reach.counters(), reach.log_marks()
    loaded = _load(reach, method, place, stopped)
    after, loads, units_after = reach.counters(), reach.loads(marks), reach.incarnations()
    rises, silent = rise(before, after)
    notes += [f"no counters of {target.host}:{target.port}: not reached, or started again" for target in silent]
    notes += [f"{name} was restarted or ended" for name in changed(units, units_after)]
    tokens = tier_tokens(rises, loads) if rises and not silent else None
    notes = [loaded.problem, *notes] if loaded.problem else notes
    return point(method, place, loaded, tokens, "; ".join(notes))


def point(method: Method, place: Place, loaded: Loaded, tokens: TierTokens | None, incomplete: str) -> PointResult:
    """The result of a measurement from its records. Pure."""
    found, workload = loaded.records, method.workload
    requested = len(_replay(method)) if method.trace else place.users * workload.rounds
    answered = [item for item in found if item.answered]
    if len(found) < requested and not incomplete:
        incomplete = f"the generator made {len(found)} of {requested} requests"
    span = records.span(found)
    offered = workload.rate * workload.nodes
    if method.trace:
        begun = [item.start for item in found]
        offered = len(found) / (max(begun) - min(begun)) if len(begun) > 1 and max(begun) > min(begun) else 0.0
    return PointResult(
        path=place.path,
        users=place.users,
        trial=place.trial,
        order=place.order,
        generator="aiperf" if method.program else "builtin",
        requested=requested,
        completed=len(answered),
        seconds=round(span, 3),
        offered_rate=offered,
        achieved_rate=len(answered) / span if span else 0.0,
        ttft=records.ttft(records.steady(found)),
        cold_ttft=records.ttft(item for item in found if item.turn == 0),
        turns=records.turns(found),
        tokens=tokens,
        errors=records.errors(found),
        incomplete=incomplete,
        evidence=f"{FOLDER}/{loaded.evidence}",
    )


def rise(
    before: Mapping[Target, EngineCounters | None], after: Mapping[Target, EngineCounters | None]
) -> tuple[list[EngineCounters], list[Target]]:
    """What each engine counted in between, and the engines of which that is not known."""
    rises, silent = [], []
    for target, now in after.items():
        then = before.get(target)
        found = now.since(then) if now is not None and then is not None else None
        if found is None:
            silent.append(target)
        else:
            rises.append(found)
    return rises, silent


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Units that were started or ended in between. One that cannot be asked any more counts: its host is gone."""
    return [name for name, told in before.items() if after.get(name) != told]


def _clear(reach: Reach, lease: float, stopped: Callable[[], bool]) -> int | None:
    """Empty the pool; values under lease are waited for."""
    deadline = time.monotonic() + lease + 5
    while (left := reach.clear()) and time.monotonic() < deadline and not stopped():
        time.sleep(min(1.0, lease / 4 + 0.1))
    return left


def _load(reach: Reach, method: Method, place: Place, stopped: Callable[[], bool]) -> Loaded:
    workload = method.workload
    front = reach.services.front
    if method.program and not method.trace:
        wanted = aiperf.Profile(
            url=reach.url(front),
            model=reach.services.model,
            users=place.users,
            rate=workload.rate * workload.nodes,
            context=workload.context,
            shared=workload.shared_prefix,
            new=workload.new_tokens,
            output_tokens=workload.output_tokens,
            rounds=workload.rounds,
            # Every point needs prompts of its own: what an earlier one left in a cache would be found.
            seed=workload.seed * 1000 + place.order,
            folder=method.folder / place.name,
        )
        return load.profile(method.program, wanted, method.tokenizer, method.folder, place.name, stopped)
    return load.builtin(_job(reach, method, place), method.folder, place.name, stopped)


def _job(reach: Reach, method: Method, place: Place) -> Job:
    workload, ratio = method.workload, method.ratio
    host, port = reach.ways[reach.services.front]
    return Job(
        host=host,
        port=port,
        model=reach.services.model,
        records=str(method.folder / f"{place.name}.jsonl"),
        users=place.users,
        rate=workload.rate * workload.nodes,
        rounds=workload.rounds,
        context=round(workload.context * ratio),
        shared=round(workload.shared_prefix * ratio),
        new=max(1, round(workload.new_tokens * ratio)),
        output_tokens=workload.output_tokens,
        seed=f"{workload.seed}/{method.run}/{place.name}",
        timeout=method.timeout,
        trace=_replay(method),
    )


def _replay(method: Method) -> tuple[Replayed, ...]:
    return replayed(method.trace, method.ratio, speed=method.trace_speed, longest=method.longest)
