"""The built-in load generator: N users who each wait for their answer, think, and ask again.

Run as ``python -m g35ctl.validate.serving.generator JOB.json``: a process of its own, so that nothing else of the
controller delays its clock. Each request becomes one line of the records file as it ends, so that what was measured
before it was killed is not lost. The standard library alone.

The same arrivals as aiperf's ``--user-centric-rate``: a user's turns begin ``users / rate`` seconds apart, later when
the answer took longer; users begin ``1 / rate`` seconds apart.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from g35ctl.validate.serving.prompts import Conversation, text
from g35ctl.validate.serving.record import Record
from g35ctl.validate.serving.streaming import Answer, BadAnswer, ask


@dataclass(frozen=True)
class Replayed:
    """One request of a trace: when it begins (seconds), and its prompt in pieces: seed and length in characters."""

    at: float
    pieces: tuple[tuple[str, int], ...]
    output_tokens: int


@dataclass(frozen=True)
class Job:
    """What to do. Lengths are characters; ``rate`` is requests per second over all users."""

    host: str
    port: int
    model: str
    records: str
    users: int = 0
    rate: float = 1.0
    rounds: int = 1
    context: int = 0
    shared: int = 0
    new: int = 0
    output_tokens: int = 1
    seed: str = ""
    timeout: float = 600.0
    chat: bool = False
    trace: tuple[Replayed, ...] = field(default=())

    def write(self, path: Path) -> None:
        """Write it where :func:`main` reads it."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Job:
        """Raises OSError, ValueError, TypeError."""
        data = json.loads(path.read_text(encoding="utf-8"))
        trace = tuple(
            Replayed(item["at"], tuple((seed, size) for seed, size in item["pieces"]), item["output_tokens"])
            for item in data.pop("trace")
        )
        return Job(**data, trace=trace)


def body(job: Job, prompt: str, output_tokens: int) -> tuple[str, Mapping[str, Any]]:
    """Path and content of a request: greedy, of exactly the wanted length, with the counts of tokens at the end."""
    common: dict[str, Any] = {
        "model": job.model,
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if job.chat:
        return "/v1/chat/completions", {**common, "messages": [{"role": "user", "content": prompt}]}
    return "/v1/completions", {**common, "prompt": prompt}


class Generator:
    """One measurement."""

    def __init__(self, job: Job, sink: TextIO) -> None:
        self.job = job
        self._sink = sink
        self._began = 0.0

    async def run(self) -> None:
        """Do it all."""
        self._began = time.monotonic()
        if self.job.trace:
            await asyncio.gather(*(self._replay(number, item) for number, item in enumerate(self.job.trace)))
        else:
            await asyncio.gather(*(self._user(number) for number in range(self.job.users)))

    async def _user(self, user: int) -> None:
        job = self.job
        talk = Conversation(job.seed, user, job.context, job.new, job.shared)
        due = user / job.rate
        for turn in range(job.rounds):
            await self._until(due)
            await self._request(user, turn, talk.prompt, job.output_tokens)
            talk.proceed()
            due = max(due + job.users / job.rate, self._now())

    async def _replay(self, number: int, item: Replayed) -> None:
        await self._until(item.at)
        prompt = "".join(text(f"{self.job.seed}/{seed}", size) for seed, size in item.pieces)
        # Turn 1: what a trace repeats is expected in the cache, so none of its requests is cold by definition.
        await self._request(number, 1, prompt, item.output_tokens)

    async def _request(self, user: int, turn: int, prompt: str, output_tokens: int) -> None:
        path, content = body(self.job, prompt, output_tokens)
        start = self._now()
        try:
            answer = await ask(self.job.host, self.job.port, path, content, timeout=self.job.timeout)
        except (OSError, TimeoutError, BadAnswer) as error:
            record = Record(user, turn, start, self._now() - start, None, 0, 0, 0, told(error))
        else:
            record = made(user, turn, start, answer)
        self._sink.write(record.line() + "\n")
        self._sink.flush()

    async def _until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self._now()))

    def _now(self) -> float:
        return time.monotonic() - self._began


def made(user: int, turn: int, start: float, answer: Answer) -> Record:
    """The record of an answered request."""
    return Record(
        user, turn, start, answer.seconds, answer.ttft, answer.prompt_tokens, answer.cached_tokens, answer.output_tokens
    )


def told(error: BaseException) -> str:
    """An error in few words, the same for equal causes."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionError):
        return "connection lost"
    return str(error)[:160] or type(error).__name__


def main(path: str) -> int:
    """Read the job, run it, and say nothing; 2 for a job that cannot be read."""
    try:
        job = Job.read(Path(path))
    except (OSError, ValueError, TypeError, KeyError) as error:
        sys.stderr.write(f"{path}: {error}\n")
        return 2
    with Path(job.records).open("w", encoding="utf-8") as sink:
        asyncio.run(Generator(job, sink).run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
