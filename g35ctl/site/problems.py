"""What is wrong with a site: one object per problem, all of them at once, each with its position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from g35ctl.errors import G35Error
from g35ctl.exits import Exit

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Position:
    """A place in a file; ``line`` and ``column`` count from 1 and are absent when the source has none (a script)."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [shown_path(self.file)]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: in which variable (``where``), and which hosts it concerns."""

    what: str
    position: Position
    hint: str = ""
    where: str = ""
    hosts: tuple[str, ...] = ()
    severity: Severity = "error"

    def __str__(self) -> str:
        subject = f"{self.where}: " if self.where else ""
        return f"{self.position}: {self.severity}: {subject}{self.what}{_concerning(self.hosts)}"

    def to_json(self) -> dict[str, object]:
        """The JSON form of ``g35ctl -o json check``."""
        return {
            "severity": self.severity,
            "file": self.position.file,
            "line": self.position.line,
            "column": self.position.column,
            "where": self.where,
            "hosts": list(self.hosts),
            "what": self.what,
            "hint": self.hint,
        }

    def to_failure(self) -> dict[str, object]:
        """The form that ``failures`` has in every JSON document of the command line."""
        return {
            "host": ", ".join(self.hosts),
            "stage": "check",
            "check": self.where or "site",
            "observed": f"{self.position}: {self.what}",
            "expected": "a valid site",
            "remedy": self.hint,
        }


class SiteInvalid(G35Error):
    """The inventory does not describe a site; ``problems`` holds everything found, warnings included."""

    exit_code = Exit.SITE_INVALID

    def __init__(self, inventory: str, problems: Iterable[Problem]) -> None:
        self.inventory = inventory
        self.problems = tuple(problems)
        super().__init__(
            f"site {inventory} is not valid: {count(self.problems)}",
            why="\n".join(lines(self.problems)),
            next_command=f"correct the lines above, then g35ctl -i {inventory} check",
            exit_code=Exit.SITE_INVALID,
        )

    def failures(self) -> list[dict[str, object]]:
        """One for each error."""
        return [problem.to_failure() for problem in self.problems if problem.severity == "error"]


def lines(problems: Iterable[Problem]) -> list[str]:
    """The problems as lines for people: position and message, the hint indented below."""
    found: list[str] = []
    for problem in problems:
        found.append(str(problem))
        if problem.hint:
            found.append(f"  hint: {problem.hint}")
    return found


def count(problems: Iterable[Problem]) -> str:
    """``2 errors, 1 warning``."""
    severities = [problem.severity for problem in problems]
    parts = []
    for name in ("error", "warning"):
        number = severities.count(name)
        if number:
            parts.append(f"{number} {name}{'s' if number > 1 else ''}")
    return ", ".join(parts) or "no problems"


def merged(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each problem once, with all its hosts, errors before warnings and both in order of file and line."""
    found: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        key = (problem.position, problem.what, problem.where, problem.severity)
        known = found.get(key)
        hosts = problem.hosts if known is None else tuple(dict.fromkeys(known.hosts + problem.hosts))
        found[key] = replace(problem, hosts=hosts)
    return tuple(
        sorted(
            found.values(),
            key=lambda item: (
                item.severity != "error",
                item.position.file,
                item.position.line or 0,
                item.position.column or 0,
            ),
        )
    )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or else all of them."""
    choices = list(known)
    close = get_close_matches(str(word), choices, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known here: {', '.join(choices[:12])}{', ...' if len(choices) > 12 else ''}" if choices else ""


def shown_path(path: str) -> str:
    """The path as the user would type it: relative when it is below the working directory."""
    here = f"{Path.cwd()}/"
    return path.removeprefix(here)


def _concerning(hosts: tuple[str, ...]) -> str:
    if not hosts:
        return ""
    if len(hosts) <= 3:
        return f" ({', '.join(hosts)})"
    return f" ({hosts[0]}, {hosts[1]} and {len(hosts) - 2} more)"
