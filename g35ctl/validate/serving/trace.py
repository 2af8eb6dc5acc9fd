"""Real traffic: traces of ``timestamp`` (ms), ``input_length``, ``output_length`` and ``hash_ids``.

One JSON object a line, as the Mooncake project publishes them: equal ids at equal places are equal blocks of 512
tokens; the last block of a prompt may be partial. Timestamps of neighbours are often equal, so a rate is never taken
from their differences.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.validate.serving.generator import Replayed

BLOCK = 512
DEFAULT_OUTPUT = 1
"""Answer length of a request whose trace does not say: enough for its first token."""


@dataclass(frozen=True)
class Request:
    """One request of a trace; ``timestamp`` in milliseconds."""

    timestamp: float
    input_length: int
    output_length: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Totals:
    """A trace under a cache that never forgets: blocks and tokens that were there before."""

    requests: int
    input_tokens: int
    output_tokens: int
    blocks: int
    hit_blocks: int
    hit_tokens: int

    @property
    def ceiling(self) -> float:
        """The highest hit rate any cache can have on it."""
        return self.hit_tokens / self.input_tokens if self.input_tokens else 0.0


def read(path: Path) -> tuple[Request, ...]:
    """A trace in the order of its timestamps. Raises G35Error (usage) that names every unusable line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise _unusable(path, [str(error)]) from error
    found, problems = [], []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_request(json.loads(line)))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                problems.append(f"line {number}: {error}")
    if problems or not found:
        raise _unusable(path, problems or ["it holds no request"])
    return tuple(sorted(found, key=lambda item: item.timestamp))


def _request(data: dict[str, object]) -> Request:
    blocks = data["hash_ids"]
    length = _whole(data, "input_length")
    if not isinstance(blocks, list) or not all(isinstance(item, int) for item in blocks):
        raise ValueError("hash_ids is not a list of numbers")
    if len(blocks) != ceil(length / BLOCK):
        raise ValueError(f"{len(blocks)} hash_ids for {length} tokens, expected {ceil(length / BLOCK)}")
    timestamp = data["timestamp"]
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float) or timestamp < 0:
        raise ValueError("timestamp is not a number of milliseconds")
    output = _whole(data, "output_length") if "output_length" in data else DEFAULT_OUTPUT
    return Request(float(timestamp), length, output, tuple(blocks))


def _whole(data: dict[str, object], name: str) -> int:
    value = data[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is not a positive whole number")
    return value


def _unusable(path: Path, problems: Sequence[str]) -> G35Error:
    more = len(problems) - 5
    shown = "; ".join(problems[:5]) + (f"; and {more} more" if more > 0 else "")
    return G35Error(f"{path} is not a usable trace", why=shown, exit_code=Exit.USAGE)


def totals(requests: Sequence[Request]) -> Totals:
    """What a cache without limits would find. A hit ends at the first block that is new, and at the prompt's end."""
    seen: set[int] = set()
    hit_blocks = hit_tokens = 0
    for item in requests:
        known = 0
        for block in item.blocks:
            if block not in seen:
                break
            known += 1
        seen.update(item.blocks)
        hit_blocks += known
        hit_tokens += min(known * BLOCK, item.input_length)
    return Totals(
        len(requests),
        sum(item.input_length for item in requests),
        sum(item.output_length for item in requests),
        sum(len(item.blocks) for item in requests),
        hit_blocks,
        hit_tokens,
    )


def replayed(
    requests: Sequence[Request], characters_per_token: float, *, speed: float = 1.0, longest: int = 0
) -> tuple[Replayed, ...]:
    """The trace as the generator replays it, ``speed`` times as fast, from its first request on.

    Requests longer than ``longest`` tokens (the model's limit; 0 for none) are left out.
    """
    if not requests:
        return ()
    start = requests[0].timestamp
    return tuple(
        Replayed(
            (item.timestamp - start) / 1000 / speed,
            tuple(_pieces(item, characters_per_token)),
            item.output_length,
        )
        for item in requests
        if not longest or item.input_length + item.output_length <= longest
    )


def _pieces(item: Request, ratio: float) -> list[tuple[str, int]]:
    pieces = []
    for place, block in enumerate(item.blocks):
        tokens = min(BLOCK, item.input_length - place * BLOCK)
        pieces.append((f"block-{block}", max(1, round(tokens * ratio))))
    return pieces
