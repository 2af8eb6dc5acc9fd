"""What many recorded requests amount to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.validate.serving.record import Record
from g35ctl.validate.serving_result import Distribution, ErrorCount, TurnResult


def read(path: Path) -> tuple[Record, ...]:
    """The records of a file. A last line that was cut off is left out: its generator was killed.

    Raises G35Error when any other line is damaged or the file is absent.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise _damaged(path, str(error)) from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(Record(**json.loads(line)))
        except (ValueError, TypeError) as error:
            if number == len(lines):
                break
            raise _damaged(path, f"line {number}: {error}") from error
    return tuple(found)


def _damaged(path: Path, why: str) -> G35Error:
    return G35Error(f"the records of a measurement cannot be read: {path.name}", why=f"{path}: {why}")


def turns(records: Iterable[Record]) -> tuple[TurnResult, ...]:
    """The answered requests by turn."""
    by_turn: dict[int, list[Record]] = {}
    for item in records:
        if item.answered:
            by_turn.setdefault(item.turn, []).append(item)
    return tuple(
        TurnResult(
            turn=turn,
            requests=len(items),
            ttft=ttft(items),
            prompt_tokens=sum(item.prompt_tokens for item in items),
            cached_tokens=sum(item.cached_tokens for item in items),
        )
        for turn, items in sorted(by_turn.items())
    )


def ttft(records: Iterable[Record]) -> Distribution | None:
    """Times to first token of the answered requests."""
    return Distribution.of([item.ttft for item in records if item.answered and item.ttft is not None])


def steady(records: Iterable[Record]) -> tuple[Record, ...]:
    """Turns 1 and later."""
    return tuple(item for item in records if item.turn > 0)


def errors(records: Iterable[Record]) -> tuple[ErrorCount, ...]:
    """Errors by kind, the most frequent first."""
    counted = Counter(item.error or "no token came" for item in records if not item.answered)
    return tuple(ErrorCount(kind, count) for kind, count in counted.most_common())


def span(records: Sequence[Record]) -> float:
    """Seconds from the first request to the end of the last."""
    if not records:
        return 0.0
    return max(item.start + item.seconds for item in records) - min(item.start for item in records)
