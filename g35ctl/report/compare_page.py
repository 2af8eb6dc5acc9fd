"""A comparison of two runs as a page, as lines for a terminal, and as files in the later run's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from g35ctl.report import page
from g35ctl.report.charts.gallery import line_name, pairs, seconds, users_group
from g35ctl.report.compare import BETTER, SAME, STATES, WORSE, CheckChange, Comparison, FigureChange, compare
from g35ctl.report.document import Document
from g35ctl.report.figures import LinePart
from g35ctl.report.strings import ENGLISH, Strings
from g35ctl.report.writer import store
from g35ctl.site.sizes import format_size
from g35ctl.validate.serving_result import P99_SAMPLES


@dataclass(frozen=True)
class Files:
    """Where a comparison was written, and what it says."""

    html: Path
    json: Path
    comparison: Comparison


def write(folder: Path, before: Document, after: Document, strings: Strings = ENGLISH) -> Files:
    """Write ``compare-<earlier run>`` as HTML and JSON into the later run's folder. Raises OSError."""
    comparison = compare(before, after)
    name = f"compare-{before.run.identifier.replace('/', '_')}"
    suffix = "" if strings is ENGLISH else f".{strings.language}"
    files = Files(folder / f"{name}{suffix}.html", folder / f"{name}.json", comparison)
    store(files.json, json.dumps(comparison.to_json(), indent=2, ensure_ascii=False) + "\n")
    store(files.html, render(before, after, comparison, strings))
    return files


def render(before: Document, after: Document, comparison: Comparison, strings: Strings = ENGLISH) -> str:
    """The page: like a report's it needs nothing but itself."""
    rows = [(item, figure_name(item, strings), *figure_cells(item)) for item in comparison.figures]
    template = page.environment().get_template("compare.html.j2")
    return template.render(
        strings=strings,
        words=strings.compare,
        comparison=comparison,
        counts=comparison.counts(),
        sides=(before, after),
        charts=pairs(before, after, strings),
        moved=[row for row in rows if row[0].state != SAME],
        unchanged=[row for row in rows if row[0].state == SAME],
        checks=[item for item in comparison.checks if item.state != SAME],
        cautions=_cautions(comparison, strings),
        samples=P99_SAMPLES,
    )


def _cautions(comparison: Comparison, strings: Strings) -> list[str]:
    words = strings.compare.cautions
    return [
        words[item.kind].format(before=item.before, after=item.after, fields=item.before)
        for item in comparison.cautions
    ]


def figure_name(item: FigureChange, strings: Strings) -> str:
    """What a figure is, in the language: quantity, path and users, or test, sizes and ends."""
    words = strings.compare.figures[item.figure]
    if item.path:
        return f"{words}: {strings.paths[item.path]}, {users_group(item.users, strings)}"
    if item.figure == "bandwidth":
        name = line_name(LinePart(item.suite, item.test, (), item.tier, item.queue_depth), strings)
    else:
        name = strings.bench.tests.get(item.test, item.test)
    parts = [f"{strings.bench.suites.get(item.suite, item.suite)}, {name}"]
    parts += [format_size(item.block_size)] if item.block_size else []
    parts += [f"{item.host} - {item.peer}"] if item.host and item.peer else []
    parts += [item.subject] if item.subject else []
    return f"{words}: {', '.join(parts)}"


def figure_cells(item: FigureChange) -> tuple[str, str, str]:
    """Before, after and difference as they are shown."""
    unit = f" {item.unit.replace('us', chr(0xB5) + 's')}" if item.unit else ""

    def told(value: float) -> str:
        number = seconds(value) if item.unit == "s" else f"{value:.2f}" if item.unit in ("%", "1/s") else f"{value:.4g}"
        return number + unit

    if item.change is None:
        change = f"{item.after - item.before:+.3g}"
    else:
        change = f"{item.change:+.2f} pp" if item.unit == "%" else f"{100 * item.change:+.1f} %"
    return told(item.before), told(item.after), change.replace("-", "\N{MINUS SIGN}")


def summary_lines(files: Files, strings: Strings = ENGLISH) -> list[str]:
    """The comparison on a terminal: cautions, what got worse, what got better, the tally, the files."""
    comparison, words = files.comparison, strings.compare
    lines = _cautions(comparison, strings)
    for state in (WORSE, BETTER):
        lines += [_check_line(item, strings) for item in comparison.checks if item.state == state]
        lines += list(_figure_lines(comparison, state, strings))
    lines.append(words.summary.format(**comparison.counts()))
    told = words.regressions["yes" if comparison.regressions else "no"]
    told += f" [{strings.emulated}]" if comparison.before.emulated or comparison.after.emulated else ""
    lines.append(f"{told}: {comparison.before.run} -> {comparison.after.run}")
    return [*lines, str(files.html), str(files.json)]


def _check_line(item: CheckChange, strings: Strings) -> str:
    words = strings.compare
    place = " ".join(filter(None, (item.suite, item.check, item.subject, item.host)))
    grades = [strings.grades[grade] if grade else words.absent for grade in (item.before, item.after)]
    told = f"{words.states[item.state].upper()} {place}: {grades[0]} -> {grades[1]}"
    if item.state == WORSE:
        told += f": {item.observed_after}" + (f"; {item.remedy}" if item.remedy else "")
    return told


def _figure_lines(comparison: Comparison, state: str, strings: Strings) -> Iterator[str]:
    for item in comparison.figures:
        if item.state == state:
            before, after, change = figure_cells(item)
            name = figure_name(item, strings)
            yield f"{strings.compare.states[state].upper()} {name}: {before} -> {after} ({change})"


assert set(ENGLISH.compare.states) == set(STATES)
