"""What a prefill costs: a part in proportion to the tokens, and attention in proportion to the pairs of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from g35ctl.site.workload_model import Workload


@dataclass(frozen=True)
class Prefill:
    """Cost of prefill on one group of accelerators, from one measured time: ``cold_seconds`` for ``tokens`` tokens from
    nothing, of which ``attention_share`` grows with the square."""

    tokens: int
    cold_seconds: float
    attention_share: float

    def seconds(self, computed: int, cached: int) -> float:
        """Seconds for ``computed`` tokens that follow ``cached`` ones found in a cache."""
        per_token = (1 - self.attention_share) * self.cold_seconds / self.tokens
        per_pair = self.attention_share * self.cold_seconds / (self.tokens * self.tokens / 2)
        return computed * (per_token + per_pair * (cached + computed / 2))

    @staticmethod
    def of(workload: Workload) -> Prefill:
        """That of a workload: its time is for the longest prompt."""
        return Prefill(longest(workload), workload.timing.cold_seconds, workload.timing.attention_share)


def longest(workload: Workload) -> int:
    """Tokens of a user's last prompt."""
    return workload.context_tokens + (workload.rounds - 1) * workload.new_tokens


def prompt(workload: Workload, turn: int) -> int:
    """Tokens of a user's prompt in a turn, which count from 0."""
    return workload.context_tokens + turn * workload.new_tokens


def findable(workload: Workload, turn: int) -> int:
    """Tokens of a turn's prompt that a cache can hold: what was sent before, whole pages, never the last token."""
    if turn == 0:
        return 0
    known = min(prompt(workload, turn - 1), prompt(workload, turn) - 1)
    return known // workload.block_tokens * workload.block_tokens


def ceiling(workload: Workload) -> float:
    """The highest hit rate that the turns after the first can have."""
    turns = range(1, workload.rounds)
    return sum(findable(workload, turn) for turn in turns) / sum(prompt(workload, turn) for turn in turns)


def groups(workload: Workload) -> int:
    """Prefills that a host computes at a time."""
    return workload.groups or 1


def hit_seconds(workload: Workload) -> float:
    """Prefill of the last prompt when everything that can be found is."""
    found = findable(workload, workload.rounds - 1)
    return Prefill.of(workload).seconds(longest(workload) - found, found)


def expected_rate(workload: Workload) -> float:
    """Requests per second that one host lets through when every context is found: the least of what is offered, what
    its groups can compute, and what fits into the requests that may be under way."""
    compute = hit_seconds(workload)
    whole = compute + workload.timing.overhead_seconds + workload.timing.answer_seconds
    return min(workload.rate, groups(workload) / compute, workload.parallel / whole)
