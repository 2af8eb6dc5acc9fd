"""Which diagnoses are causes and which only follow from another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase

from g35ctl.validate.doctor.model import SEVERITIES, Diagnosis


def rank(found: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Causes, worst first, each with what follows from it. ``found`` is in order of depth: a cause comes before what
    it may explain. A diagnosis all of whose signs are explained is no cause of its own."""
    causes: list[Diagnosis] = []
    follows: list[list[str]] = []
    for item in found:
        root = _explained_by(item, causes)
        if root is None:
            causes.append(item)
            follows.append([])
        elif item.title not in follows[root]:
            follows[root].append(item.title)
    ranked = [replace(item, follows=tuple(titles)) for item, titles in zip(causes, follows, strict=True)]
    return tuple(sorted(ranked, key=lambda item: (SEVERITIES.index(item.severity), -len(item.follows))))


def _explained_by(item: Diagnosis, causes: list[Diagnosis]) -> int | None:
    """The first cause that explains a sign of this diagnosis, when together the causes explain all of its signs."""
    first: int | None = None
    for sign in item.about:
        place = next((index for index, cause in enumerate(causes) if _explains(cause, sign)), None)
        if place is None:
            return None
        first = place if first is None else min(first, place)
    return first


def _explains(cause: Diagnosis, sign: str) -> bool:
    return sign in cause.about or any(fnmatchcase(sign, pattern) for pattern in cause.explains)
