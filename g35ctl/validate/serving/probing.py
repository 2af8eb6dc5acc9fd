"""Single questions to single engines: do they find the pool, and are their answers the same with it as without."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from g35ctl.engine.ssh import Target
from g35ctl.validate.serving.generator import Job, body, told
from g35ctl.validate.serving.prompts import text
from g35ctl.validate.serving.services import Reach
from g35ctl.validate.serving.streaming import Answer, BadAnswer, ask
from g35ctl.validate.serving_result import CachePath, Equality

QUESTIONS = 3
ANSWER_TOKENS = 16
_SAMPLE = 4000


@dataclass(frozen=True)
class Prober:
    """Asks greedily, one question at a time. ``timeout`` in seconds."""

    reach: Reach
    timeout: float

    def ask(self, target: Target, prompt: str, tokens: int) -> Answer:
        """Raises OSError, TimeoutError or BadAnswer."""
        host, port = self.reach.ways[target]
        job = Job(host, port, self.reach.services.model, "")
        path, content = body(job, prompt, tokens)
        return asyncio.run(ask(host, port, path, content, timeout=self.timeout))


def characters_per_token(prober: Prober, seed: str) -> float:
    """How long the generator's text must be for a token. Raises OSError, TimeoutError or BadAnswer."""
    answer = prober.ask(prober.reach.services.front, text(f"{seed}/measure", _SAMPLE), 1)
    if not answer.prompt_tokens:
        raise BadAnswer("the answer does not say how many tokens its prompt had")
    return _SAMPLE / answer.prompt_tokens


def wait_ready(prober: Prober, seed: str, characters: int, seconds: float, stopped: Callable[[], bool]) -> str:
    """Wait until every engine answers and finds in the pool what the first one put there; empty, or what still fails.

    After the pool was restarted, engines need a moment to notice. Each try uses a prompt that nobody has seen.
    """
    deadline = time.monotonic() + seconds
    number = 0
    while True:
        problem = _found(prober, text(f"{seed}/ready/{number}", characters))
        number += 1
        if not problem or time.monotonic() > deadline or stopped():
            return problem
        time.sleep(1)


def _found(prober: Prober, prompt: str) -> str:
    first, *others = [item.target for item in prober.reach.services.engines]
    target = first
    try:
        prober.ask(first, prompt, 1)
        for target in others:
            time.sleep(0.5)  # values are put into the pool beside the answer
            answer = prober.ask(target, prompt, 1)
            if not answer.cached_tokens:
                return f"{target.host}:{target.port} finds nothing in the pool of what {first.host} put there"
    except (OSError, TimeoutError, BadAnswer) as error:
        return f"{target.host}:{target.port}: {told(error)}"
    return ""


def equality(prober: Prober, path: CachePath, seed: str, characters: int) -> Equality:
    """Ask cold, then the same again at the next engine (the same one where there is no other), and compare.

    Raises OSError, TimeoutError or BadAnswer.
    """
    engines = [item.target for item in prober.reach.services.engines]
    equal, differing = 0, ""
    for number in range(QUESTIONS):
        prompt = text(f"{seed}/equal/{number}", characters)
        cold = prober.ask(engines[number % len(engines)], prompt, ANSWER_TOKENS)
        time.sleep(0.5)
        again = prober.ask(engines[(number + 1) % len(engines)], prompt, ANSWER_TOKENS)
        if cold.text == again.text:
            equal += 1
        elif not differing:
            differing = (
                f"question {number + 1}: cold {cold.text[:60]!r}, with {again.cached_tokens} of {again.prompt_tokens}"
                f" tokens from the cache {again.text[:60]!r}"
            )
    return Equality(path, QUESTIONS, equal, differing)
