"""Verdicts: one judgement each, with what was seen and what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How a check ended. SKIP always carries its reason in ``observed``."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    SKIP = "SKIP"


@dataclass(frozen=True)
class Verdict:
    """One judged check. ``evidence`` names a file in the run folder or quotes the reading; ``host`` is empty for
    cluster-wide checks; ``emulated`` marks figures that say nothing about real hardware."""

    suite: str
    check: str
    grade: Grade
    observed: str
    expected: str
    host: str = ""
    subject: str = ""
    remedy: str = ""
    evidence: str = ""
    emulated: bool = False
