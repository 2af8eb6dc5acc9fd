"""What every functional check needs: the plan, the readings, and one way to state a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from g35ctl.observe.model import Pool
from g35ctl.observe.readings import Readings
from g35ctl.plan.model import Plan
from g35ctl.verdict import Grade, Verdict

SUITE = "functional"


@dataclass(frozen=True)
class Judging:
    """The plan and what was read. Builds verdicts of the functional suite; ``evidence`` names the file of readings."""

    plan: Plan
    readings: Readings
    evidence: str = ""

    def verdict(
        self, check: str, holds: bool, observed: str, expected: str, *, host: str = "", subject: str = "", remedy: str
    ) -> Verdict:
        """PASS or FAIL; a PASS carries no remedy."""
        grade = Grade.PASS if holds else Grade.FAIL
        return self._make(check, grade, observed, expected, host, subject, "" if holds else remedy)

    def skip(self, check: str, reason: str, expected: str, *, host: str = "", subject: str = "") -> Verdict:
        """SKIP, which always says why; only used where another verdict already fails for that reason or where the
        site consented."""
        return self._make(check, Grade.SKIP, reason, expected, host, subject, "")

    def warn(
        self, check: str, observed: str, expected: str, *, host: str = "", subject: str = "", remedy: str
    ) -> Verdict:
        """WARN: it holds, but."""
        return self._make(check, Grade.WARN, observed, expected, host, subject, remedy)

    def missing(self, stage: str, host: str) -> str:
        """Why the reading of a stage is missing, or "" when it is there."""
        return self.readings.problems.get((host, stage), "")

    def pool(self) -> Pool | None:
        """The pool as the master's own host sees it, else as any host does; None when the master answers nobody."""
        caches = self.readings.caches
        first = [host.name for host in self.plan.hosts if host.cache is not None and host.cache.master is not None]
        return next((caches[name].pool for name in (*first, *caches) if name in caches and caches[name].pool), None)

    def _make(
        self, check: str, grade: Grade, observed: str, expected: str, host: str, subject: str, remedy: str
    ) -> Verdict:
        return Verdict(
            SUITE, check, grade, observed, expected, host, subject, remedy, self.evidence, self.readings.emulated
        )


def listed(items: Iterable[object]) -> str:
    """``a, b``, or ``none``."""
    return ", ".join(str(item) for item in items) or "none"
