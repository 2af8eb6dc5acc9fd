"""Which diagnoses are causes and which only follow from another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from g35ctl.validate.doctor.model import SEVERITIES, Diagnosis


@dataclass(eq=False)
class _Cause:
    """A cause, its place among all, and the titles of everything that follows from it."""

    place: int
    diagnosis: Diagnosis
    follows: dict[str, None] = field(default_factory=dict)


class _Causes:
    """Causes found so far, and which of them accounts for a sign.

    Patterns are kept by the first two parts of what they match (``path/gpu1``), because a large site has thousands.
    """

    def __init__(self) -> None:
        self.found: list[_Cause] = []
        self._by_sign: dict[str, _Cause] = {}
        self._patterns: dict[tuple[str, str], list[tuple[str, _Cause]]] = {}

    def add(self, item: Diagnosis) -> None:
        """Take a diagnosis as a cause, or as what follows from one."""
        cause = self._root(item)
        if cause is None:
            cause = _Cause(len(self.found), item)
            self.found.append(cause)
        else:
            cause.follows[item.title] = None
        for pattern in item.explains:
            self._patterns.setdefault(_bucket(pattern), []).append((pattern, cause))
        for sign in item.about:
            self._by_sign.setdefault(sign, cause)

    def _root(self, item: Diagnosis) -> _Cause | None:
        """The first cause that explains a sign of this diagnosis, when together they explain all of its signs."""
        roots = [self._of(sign) for sign in item.about]
        known = [cause for cause in roots if cause is not None]
        return min(known, key=lambda cause: cause.place) if known and len(known) == len(roots) else None

    def _of(self, sign: str) -> _Cause | None:
        if sign in self._by_sign:
            return self._by_sign[sign]
        kind, host = _bucket(sign)
        nearby = (*self._patterns.get((kind, host), ()), *self._patterns.get((kind, "*"), ()))
        return next((cause for pattern, cause in nearby if fnmatchcase(sign, pattern)), None)


def _bucket(text: str) -> tuple[str, str]:
    """Kind and host of a sign or pattern; ``*`` where the second part is no literal."""
    kind, _, rest = text.partition("/")
    host = rest.partition("/")[0]
    return kind, "*" if any(character in host for character in "*?[") else host


def rank(found: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Causes, worst first, each with what follows from it. ``found`` is in order of depth: a cause comes before what
    it may explain. A diagnosis all of whose signs are explained is no cause of its own."""
    causes = _Causes()
    for item in found:
        causes.add(item)
    told = [replace(cause.diagnosis, follows=tuple(cause.follows)) for cause in causes.found]
    return tuple(sorted(told, key=lambda item: (SEVERITIES.index(item.severity), -len(item.follows))))
