"""The report as one HTML page that needs nothing else: no script, no font, no image from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from g35ctl.report.document import CheckPart, Document, FailurePart
from g35ctl.report.strings import ENGLISH, Strings
from g35ctl.report.topology import lay_out
from g35ctl.site.sizes import format_size


@dataclass(frozen=True)
class CheckGroup:
    """The checks of one suite on one host (``host`` is empty for the cluster's)."""

    suite: str
    host: str
    checks: tuple[CheckPart, ...]

    @property
    def worst(self) -> str:
        """The gravest grade in the group."""
        grades = {check.grade for check in self.checks}
        return next((grade for grade in ("FAIL", "WARN", "PASS", "SKIP") if grade in grades), "SKIP")


@dataclass(frozen=True)
class FailureGroup:
    """The same failure of one or more hosts and subjects, told once."""

    stage: str
    check: str
    observed: str
    expected: str
    remedy: str
    hosts: tuple[str, ...]
    subjects: tuple[str, ...]


def group_checks(checks: Sequence[CheckPart]) -> tuple[CheckGroup, ...]:
    """Checks by suite and host, in the order in which they first occur."""
    found: dict[tuple[str, str], list[CheckPart]] = {}
    for check in checks:
        found.setdefault((check.suite, check.host), []).append(check)
    return tuple(CheckGroup(suite, host, tuple(items)) for (suite, host), items in found.items())


def group_failures(document: Document) -> tuple[FailureGroup, ...]:
    """Failures that differ only in host and subject, grouped; in the order in which they first occur."""
    found: dict[tuple[str, str, str, str, str], list[FailurePart]] = {}
    for item in document.failures:
        found.setdefault((item.stage, item.check, item.observed, item.expected, item.remedy), []).append(item)
    return tuple(
        FailureGroup(
            *key,
            tuple(dict.fromkeys(item.host for item in items if item.host)),
            tuple(dict.fromkeys(item.subject for item in items if item.subject)),
        )
        for key, items in found.items()
    )


def duration(seconds: float) -> str:
    """``75.3`` -> ``1 min 15 s``; below a minute with one decimal."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min {rest:02d} s" if hours else f"{minutes} min {rest:02d} s"


def render(document: Document, strings: Strings = ENGLISH) -> str:
    """The page. Everything from the outside is escaped; undefined template names are errors, never blanks."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("g35ctl.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["duration"] = duration
    environment.filters["size"] = format_size
    template = environment.get_template("report.html.j2")
    return template.render(
        document=document,
        strings=strings,
        groups=group_checks(document.verdicts),
        failures=group_failures(document),
        mixed=len({check.emulated for check in document.verdicts}) > 1,
        stage_hosts=_stage_hosts(document),
        drawing=lay_out(document, owns=strings.owns, owns_none=strings.no_namespaces, master=strings.master),
    )


def _stage_hosts(document: Document) -> tuple[str, ...]:
    """Every host that occurs in a stage, in the topology's order first."""
    known = [box.name for box in document.topology.boxes] + [host.name for host in document.topology.hosts]
    seen = {host for stage in document.stages for host in stage.hosts}
    return tuple([name for name in known if name in seen] + sorted(seen - set(known)))
