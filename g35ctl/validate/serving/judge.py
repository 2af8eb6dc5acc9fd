"""From points to rows, and from rows to verdicts. Pure.

Thresholds compare path g35 with path memory, and hit rates with what the workload allows. On emulated hardware times
are shown and never failed; hit rates, errors and the equality of answers count everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import pstdev

from g35ctl.site.serving_model import ServingThresholds
from g35ctl.validate.serving_result import (
    P99_SAMPLES,
    CachePath,
    Distribution,
    PointResult,
    Row,
    ServingResult,
    TierTokens,
)
from g35ctl.verdict import Grade, Verdict

SUITE = "serving"
#: a claimed hit rate above which the times must be those of hits
CLAIMED = 0.5


def rows(points: Sequence[PointResult], samples: dict[int, tuple[Sequence[float], Sequence[float]]]) -> tuple[Row, ...]:
    """One row for each path and number of users. ``samples`` are a point's TTFTs by its order: steady and cold ones."""
    groups: dict[tuple[CachePath, int], list[PointResult]] = {}
    for item in sorted(points, key=lambda item: (item.users, list(CachePath).index(item.path), item.trial)):
        groups.setdefault((item.path, item.users), []).append(item)
    return tuple(_row(path, users, own, samples) for (path, users), own in groups.items())


def _row(
    path: CachePath,
    users: int,
    own: Sequence[PointResult],
    samples: dict[int, tuple[Sequence[float], Sequence[float]]],
) -> Row:
    means = [item.ttft.mean for item in own if item.ttft is not None]
    prompt = sum(turn.prompt_tokens for item in own for turn in item.turns if turn.turn > 0)
    cached = sum(turn.cached_tokens for item in own for turn in item.turns if turn.turn > 0)
    told = [item.tokens for item in own if item.tokens is not None]
    names = ("device", "host", "memory", "flash", "store", "computed")
    seconds = sum(item.seconds for item in own)
    return Row(
        path=path,
        users=users,
        trials=len(own),
        ttft=Distribution.of([value for item in own for value in samples.get(item.order, ((), ()))[0]]),
        cold_ttft=Distribution.of([value for item in own for value in samples.get(item.order, ((), ()))[1]]),
        mean_low=min(means, default=None),
        mean_high=max(means, default=None),
        hit_rate=cached / prompt if prompt else None,
        tokens=TierTokens(*(sum(getattr(item, name) for item in told) for name in names))
        if told and len(told) == len(own)
        else None,
        offered_rate=own[0].offered_rate,
        achieved_rate=sum(item.completed for item in own) / seconds if seconds else 0.0,
        errors=sum(item.failed for item in own),
        complete=all(not item.incomplete for item in own),
    )


def judge(result: ServingResult, thresholds: ServingThresholds, evidence: str = "") -> tuple[Verdict, ...]:
    """Every verdict of the suite, in a stable order."""
    return tuple(_Judge(result, thresholds, evidence).all())


@dataclass(frozen=True)
class _Judge:
    result: ServingResult
    limits: ServingThresholds
    evidence: str

    def all(self) -> Iterator[Verdict]:
        """In the order in which a reader asks."""
        for row in self.result.rows:
            yield self._errors(row)
        for item in self.result.equalities:
            yield self._verdict(
                "serving.answers", Grade.PASS if item.equal == item.asked else Grade.FAIL,
                f"{item.equal} of {item.asked} answers equal" + (f"; {item.differing}" if item.differing else ""),
                f"{item.asked} of {item.asked} greedy answers with the cache equal cold ones", f"path {item.path}",
                "what comes from the cache is not what was computed: stop using the pool, then g35ctl doctor",
            )  # fmt: skip
        for row in self.result.rows:
            yield from self._plausible(row)
        for row in self.result.rows:
            if row.path is CachePath.G35:
                yield from self._g35(row)
        yield from self._growth()
        if self.limits.ttft_bound:
            yield self._bound()

    def _g35(self, row: Row) -> Iterator[Verdict]:
        yield self._ceiling(row)
        memory = self.result.row(CachePath.MEMORY, row.users)
        if memory is not None:
            yield self._deficit(row, memory)
            yield self._ratio("serving.ttft_mean", row, memory)
            yield self._p99(row, memory)
        yield self._tail(row)
        if row.trials >= 3:
            yield self._variation(row)

    def _errors(self, row: Row) -> Verdict:
        total = sum(item.requested for item in self._points(row))
        share = row.errors / total if total else 0.0
        grade = Grade.PASS if not row.errors else Grade.WARN if share <= 0.001 else Grade.FAIL
        kinds = dict.fromkeys(error.kind for item in self._points(row) for error in item.errors)
        told = f"{row.errors} of {total} requests failed" + (f": {', '.join(kinds)}" if kinds else "")
        return self._verdict(
            "serving.errors", grade, told, "no request fails", _named(row), "the engines' logs of that time tell why"
        )

    def _plausible(self, row: Row) -> Iterator[Verdict]:
        """A hit that takes as long as a computation is none, whatever the engine counts."""
        if row.ttft is None or row.cold_ttft is None or (row.hit_rate or 0.0) < CLAIMED:
            return
        ratio = row.ttft.mean / row.cold_ttft.mean if row.cold_ttft.mean else 0.0
        yield self._verdict(
            "serving.hits_are_hits", Grade.PASS if ratio <= self.limits.hit_ttft else Grade.FAIL,
            f"hit rate {_percent(row.hit_rate)} with {ratio:.2f} x the TTFT of cold prompts",
            f"hits take at most {self.limits.hit_ttft:g} x the TTFT of cold prompts", _named(row),
            "the engine claims hits and computes all the same: compare serving.json with the engines' logs",
        )  # fmt: skip

    def _ceiling(self, row: Row) -> Verdict:
        ceiling = self.result.workload.ceiling
        wanted = f"at least {self.limits.hit_of_ceiling:.0%} of the workload's ceiling {_percent(ceiling)}"
        if row.hit_rate is None or not ceiling:
            return self._skip("serving.hit_rate", "no turn was answered", wanted, row)
        share = row.hit_rate / ceiling
        told = f"{_percent(row.hit_rate)}, {share:.1%} of the ceiling"
        grade = _low(share, self.limits.hit_of_ceiling, self.limits.hit_of_ceiling_warn)
        remedy = "see hit rates per turn in serving.json: values may not have reached flash before they were wanted"
        return self._verdict("serving.hit_rate", grade, told, wanted, _named(row), remedy)

    def _deficit(self, row: Row, memory: Row) -> Verdict:
        wanted = f"at most {self.limits.hit_deficit * 100:g} points below path memory"
        if row.hit_rate is None or memory.hit_rate is None:
            return self._skip("serving.hit_deficit", "no turn was answered", wanted, row)
        lost = memory.hit_rate - row.hit_rate
        grade = _high(lost, self.limits.hit_deficit, self.limits.hit_deficit_warn)
        told = f"{_percent(row.hit_rate)} against {_percent(memory.hit_rate)}"
        remedy = "the stores' memory is too small for the burst, or flash too slow to take it"
        return self._verdict("serving.hit_deficit", grade, told, wanted, _named(row), remedy)

    def _ratio(self, check: str, row: Row, memory: Row) -> Verdict:
        wanted = f"at most {self.limits.mean_ratio:g} x path memory"
        if row.ttft is None or memory.ttft is None:
            return self._skip(check, "no turn was answered", wanted, row)
        ratio = row.ttft.mean / memory.ttft.mean
        told = f"{row.ttft.mean:.3f} s against {memory.ttft.mean:.3f} s, {ratio:.2f} x"
        return self._time(check, ratio, self.limits.mean_ratio, self.limits.mean_ratio_warn, told, wanted, row)

    def _p99(self, row: Row, memory: Row) -> Verdict:
        check, wanted = "serving.ttft_p99", f"at most {self.limits.p99_ratio:g} x path memory"
        few = _few(row) or _few(memory)
        if few or row.ttft is None or memory.ttft is None:
            return self._skip(check, few or "no turn was answered", wanted, row)
        ratio = row.ttft.p99 / memory.ttft.p99
        told = f"{row.ttft.p99:.3f} s against {memory.ttft.p99:.3f} s, {ratio:.2f} x"
        return self._time(check, ratio, self.limits.p99_ratio, self.limits.p99_ratio_warn, told, wanted, row)

    def _tail(self, row: Row) -> Verdict:
        check, wanted = "serving.ttft_tail", f"P99 at most {self.limits.tail:g} x the mean"
        few = _few(row)
        if few or row.ttft is None:
            return self._skip(check, few or "no turn was answered", wanted, row)
        told = f"P99 {row.ttft.p99:.3f} s, {row.ttft.tail:.2f} x the mean"
        return self._time(check, row.ttft.tail, self.limits.tail, self.limits.tail_warn, told, wanted, row)

    def _variation(self, row: Row) -> Verdict:
        check = "serving.variation"
        wanted = f"coefficient of variation of the mean at most {self.limits.variation:.0%}"
        means = [item.ttft.mean for item in self._points(row) if item.ttft is not None]
        if len(means) < row.trials:
            return self._skip(check, "a trial has no answered turn", wanted, row)
        share = pstdev(means) / (sum(means) / len(means))
        told = f"{share:.1%} over {len(means)} trials ({min(means):.3f} to {max(means):.3f} s)"
        return self._time(check, share, self.limits.variation, self.limits.variation_warn, told, wanted, row)

    def _growth(self) -> Iterator[Verdict]:
        own = [row for row in self.result.rows if row.path is CachePath.G35 and row.ttft is not None]
        if len(own) < 2:
            return
        first, last = own[0], own[-1]
        assert first.ttft is not None and last.ttft is not None
        ratio = last.ttft.mean / first.ttft.mean
        told = f"{last.ttft.mean:.3f} s against {first.ttft.mean:.3f} s with {first.users} users, {ratio:.2f} x"
        wanted = f"at most {self.limits.growth:g} x the mean TTFT with {first.users} users"
        yield self._time("serving.growth", ratio, self.limits.growth, self.limits.growth_warn, told, wanted, last)

    def _bound(self) -> Verdict:
        """The most users that each path serves within the bound; g35 should serve as many as memory."""
        bound = self.limits.ttft_bound
        most = {
            path: max((row.users for row in rows if row.ttft is not None and row.ttft.mean <= bound), default=0)
            for path in CachePath
            if (rows := [row for row in self.result.rows if row.path is path])
        }
        holds = CachePath.MEMORY not in most or most.get(CachePath.G35, 0) >= most[CachePath.MEMORY]
        grade = Grade.PASS if holds else Grade.WARN if self.result.emulated else Grade.FAIL
        told = ", ".join(f"{path} {users}" for path, users in most.items()) or "nothing was measured"
        wanted = f"g35 serves as many users as memory with a mean TTFT within {bound:g} s"
        return self._verdict("serving.users_at_bound", grade, told, wanted, "", "see serving.ttft_mean above")

    def _time(self, check: str, value: float, limit: float, warn: float, told: str, wanted: str, row: Row) -> Verdict:
        grade = _high(value, limit, warn)
        if self.result.emulated and grade is Grade.FAIL:
            grade = Grade.WARN
        remedy = "compare hit rates per tier and turn in serving.json, then g35ctl validate --suite store"
        return self._verdict(check, grade, told, wanted, _named(row), remedy)

    def _points(self, row: Row) -> list[PointResult]:
        return [item for item in self.result.points if (item.path, item.users) == (row.path, row.users)]

    def _skip(self, check: str, why: str, wanted: str, row: Row) -> Verdict:
        return self._verdict(check, Grade.SKIP, why, wanted, _named(row), "")

    def _verdict(self, check: str, grade: Grade, told: str, wanted: str, subject: str, remedy: str) -> Verdict:
        return Verdict(
            SUITE, check, grade, told, wanted, "", subject, remedy if grade in (Grade.FAIL, Grade.WARN) else "",
            self.evidence, self.result.emulated,
        )  # fmt: skip


def _named(row: Row) -> str:
    return f"path {row.path}, {row.users} users" if row.users else f"path {row.path}, trace"


def _few(row: Row) -> str:
    """Why the P99 of a row is not judged; empty when it is."""
    samples = row.ttft.samples if row.ttft is not None else 0
    return "" if samples >= P99_SAMPLES else f"{samples} samples, and a P99 needs {P99_SAMPLES}: more trials or rounds"


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.2%}"


def _low(value: float, limit: float, warn: float) -> Grade:
    return Grade.PASS if value >= limit else Grade.WARN if value >= warn else Grade.FAIL


def _high(value: float, limit: float, warn: float) -> Grade:
    return Grade.PASS if value <= limit else Grade.WARN if value <= warn else Grade.FAIL
