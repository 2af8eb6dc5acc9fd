"""The words of the doctor: a case that is looked at, signs that are seen, and diagnoses that explain them.

A sign is a line of text with slashes, such as ``path/gpu1/b/198.51.100.11/nqn...``. A diagnosis is about signs and
explains more of them by patterns (``*`` matches anything): what a deeper cause explains is told with it, not again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from g35ctl.engine.run import Failure
from g35ctl.observe.details import Details
from g35ctl.observe.readings import Readings
from g35ctl.plan.model import HostPlan, Plan

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)


@dataclass(frozen=True)
class Note:
    """A finding that a host made about itself while it was read."""

    host: str
    stage: str
    check: str
    subject: str
    observed: str
    expected: str
    remedy: str
    severity: str

    @property
    def sign(self) -> str:
        return f"finding/{self.host}/{self.check}/{self.subject}"


@dataclass(frozen=True)
class Sample:
    """A site at one moment."""

    readings: Readings
    details: Details
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Case:
    """Everything a rule may look at. ``first`` and ``second`` are ``seconds`` apart; ``recorded`` is what the ledger
    knows, host to stage to whether it is what is planned now; ``unread`` are hosts that could not be read."""

    plan: Plan
    first: Sample
    second: Sample
    seconds: float
    recorded: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    unread: tuple[Failure, ...] = ()

    @property
    def now(self) -> Sample:
        """The newer sample."""
        return self.second

    def reached(self) -> tuple[HostPlan, ...]:
        """Hosts of the plan that brought readings."""
        missing = set(self.now.readings.unreached)
        return tuple(host for host in self.plan.hosts if host.stages() and host.name not in missing)

    def notes(self, check: str, host: str = "") -> tuple[Note, ...]:
        """Findings of a check, of one host or of all."""
        return tuple(item for item in self.now.notes if item.check == check and host in ("", item.host))


@dataclass(frozen=True)
class Diagnosis:
    """One cause. ``cause`` is a stable dotted name, ``evidence`` quotes what was read, ``remedy`` is what to do.

    ``about`` are the signs that led to it, ``explains`` patterns of signs that follow from it; ``follows`` are the
    titles of other diagnoses that it explains.
    """

    cause: str
    severity: str
    title: str
    evidence: tuple[str, ...]
    remedy: str
    hosts: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The part people and programs read."""
        return {
            "cause": self.cause,
            "severity": self.severity,
            "title": self.title,
            "hosts": list(self.hosts),
            "evidence": list(self.evidence),
            "remedy": self.remedy,
            "explains": list(self.follows),
        }


def path_sign(host: str, rail: str, address: str, nqn: str) -> str:
    """The sign of a path that does not serve."""
    return f"path/{host}/{rail}/{address}/{nqn}"


def listed(items: Iterable[object], most: int = 6) -> str:
    """``a, b and 3 more``."""
    found = [str(item) for item in items]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return (", ".join(found[:most]) or "none") + more
