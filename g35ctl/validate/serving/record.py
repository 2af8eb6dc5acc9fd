"""One request as a generator recorded it. The standard library alone: the generator's process imports this."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Record:
    """One request. Times are seconds, ``start`` since the measurement began; ``ttft`` is None when no token came.
    ``error`` is empty for a request that was answered whole."""

    user: int
    turn: int
    start: float
    seconds: float
    ttft: float | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    error: str = ""

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @property
    def answered(self) -> bool:
        """True when it counts."""
        return not self.error and self.ttft is not None
