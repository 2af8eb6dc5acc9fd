"""The report as one HTML page that needs nothing else: no script, no font, no image from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from g35ctl.report import tables
from g35ctl.report.charts.gallery import Picture, knee, pictures, seconds
from g35ctl.report.document import CheckPart, Document, FailurePart
from g35ctl.report.figures import PUBLISHED_CONTEXT, ServingPart
from g35ctl.report.strings import ENGLISH, Strings
from g35ctl.report.topology import lay_out
from g35ctl.site.sizes import format_size
from g35ctl.validate.serving_result import P99_SAMPLES

if TYPE_CHECKING:
    import jinja2


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


def moment(text: str) -> str:
    """An ISO time to the minute, as ``2026-12-01 12:00 UTC``; what is no time stays as it is."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{time:%Y-%m-%d %H:%M} {time.tzname() or ''}".strip()


@cache
def environment() -> jinja2.Environment:
    """Where the templates are. Everything from the outside is escaped; undefined names are errors, never blanks."""
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.PackageLoader("g35ctl.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters.update(duration=duration, knee=knee, moment=moment, size=format_size)
    return found


def render(document: Document, strings: Strings = ENGLISH, charts: Sequence[Picture] | None = None) -> str:
    """The page in the language of ``strings``. ``charts`` saves drawing the document's charts again."""
    drawn = pictures(document, strings) if charts is None else charts
    serving, bench = document.serving, document.bench
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            document=document,
            strings=strings,
            groups=group_checks(document.verdicts),
            failures=group_failures(document),
            mixed=len({check.emulated for check in document.verdicts}) > 1,
            stage_hosts=_stage_hosts(document),
            drawing=lay_out(document, owns=strings.owns, owns_none=strings.no_namespaces, master=strings.master),
            key_figures=tables.key_figures(document, strings),
            nothing=tables.NOTHING,
            commands=document.commands[: tables.MAX_COMMANDS],
            more_commands=max(0, len(document.commands) - tables.MAX_COMMANDS),
            p99_samples=P99_SAMPLES,
            published=f"{PUBLISHED_CONTEXT:,}",
            workload=_workload(serving, strings) if serving else "",
            cost=_cost(serving, strings) if serving else "",
            agreement=_agreement(serving, strings) if serving else "",
            paths=tables.three_paths(serving, strings) if serving else (),
            details=tables.details(serving, strings) if serving else (),
            few_samples=tables.few_samples(serving) if serving else False,
            bench_tables=tables.bench_tables(bench, strings) if bench else (),
            serving_charts=[item for item in drawn if item.group == "serving"],
            bench_charts=[item for item in drawn if item.group == "bench"],
        )
    )


def _workload(serving: ServingPart, strings: Strings) -> str:
    load = serving.workload
    if load.trace:
        return strings.serving.replayed.format(trace=load.trace, nodes=load.nodes, trials=load.trials)
    return strings.serving.workload.format(
        users=", ".join(map(str, load.users)),
        rate=f"{load.rate:g}",
        nodes=load.nodes,
        context=f"{load.context:,}",
        new_tokens=f"{load.new_tokens:,}",
        rounds=load.rounds,
        output_tokens=f"{load.output_tokens:,}",
        trials=load.trials,
        seed=load.seed,
    )


def _cost(serving: ServingPart, strings: Strings) -> str:
    cost = serving.cost
    if cost is None:
        return ""
    return strings.serving.cost.format(
        typical=f"{cost.ratio_typical:.3g}",
        low=f"{cost.ratio_low:.3g}",
        high=f"{cost.ratio_high:.3g}",
        memory=f"{cost.memory_gb:g}",
        flash=f"{cost.flash_gb:g}",
        currency=cost.currency,
        as_of=cost.as_of,
    )


def _agreement(serving: ServingPart, strings: Strings) -> str:
    found = serving.agreement
    if found is None:
        return ""
    return strings.serving.agreement.format(
        users=found.users,
        builtin=seconds(found.builtin_ttft_mean),
        builtin_hit=f"{100 * found.builtin_hit_rate:.2f}",
        version=found.aiperf_version,
        aiperf=seconds(found.aiperf_ttft_mean),
        aiperf_hit=f"{100 * found.aiperf_hit_rate:.2f}",
        tolerance=f"{100 * found.tolerance:g}",
    )


def _stage_hosts(document: Document) -> tuple[str, ...]:
    """Every host that occurs in a stage, in the topology's order first."""
    known = [box.name for box in document.topology.boxes] + [host.name for host in document.topology.hosts]
    seen = {host for stage in document.stages for host in stage.hosts}
    return tuple([name for name in known if name in seen] + sorted(seen - set(known)))
