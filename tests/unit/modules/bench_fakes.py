"""Programs and a gate for tests of the benchmark suites: nothing is started, nobody is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ansible.module_utils.g35.bench_jobs import GatePlan
from ansible.module_utils.g35.host import Result

GATE = GatePlan("192.0.2.21", 18500, "t", "gpu1", ("gpu1", "gpu2"), ("192.0.2.21", "192.0.2.22"))


class Programs:
    """Starts nothing: remembers command lines, and answers with what ``answer`` says."""

    def __init__(self, answer: Callable[[list[str]], Result] | None = None) -> None:
        self.answer = answer or (lambda argv: Result(argv, 0, "", ""))
        self.started: list[Program] = []

    def __call__(self, argv: Sequence[str], talking: bool = False) -> Program:
        self.started.append(Program(list(argv), self))
        return self.started[-1]

    @property
    def left(self) -> list[list[str]]:
        """What was started and neither waited for nor ended."""
        return [item.argv for item in self.started if not item.over]


class Program:
    def __init__(self, argv: list[str], programs: Programs) -> None:
        self.argv = argv
        self.programs = programs
        self.over = False

    def running(self) -> bool:
        return not self.over

    def wait(self, seconds: float, stopped: Callable[[], bool]) -> Result:
        self.over = True
        return self.programs.answer(self.argv)

    def end(self) -> Result:
        self.over = True
        return Result(self.argv, 143, "", "ended")


class Meetings:
    """A gate at which the others always are already; ``others`` are their payloads, by meeting or for all."""

    def __init__(self, others: dict[str, dict[str, Any]] | None = None, lost: Exception | None = None) -> None:
        self.others = others or {}
        self.lost = lost
        self.names: list[str] = []
        self.payloads: list[dict[str, Any]] = []

    def meet(self, name: str, payload: dict[str, Any] | None = None, seconds: float = 0.0) -> dict[str, Any]:
        self.names.append(name)
        self.payloads.append(payload or {})
        if self.lost is not None:
            raise self.lost
        return {**self.others, "me": payload or {}}
