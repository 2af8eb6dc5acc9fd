"""The report as a few lines on a terminal: verdict first, failures with remedies, then where the files are."""

from __future__ import annotations

import os
from typing import TextIO

from g35ctl.report.document import Document
from g35ctl.report.page import duration, group_failures
from g35ctl.report.strings import ENGLISH, Strings

MAX_FAILURES = 12
"""Failures told on the terminal; the rest is counted and in the files."""

_STYLES = {"PASS": "bold green", "WARN": "bold yellow", "FAIL": "bold red", "NONE": "bold"}


def summary_lines(document: Document, files: tuple[str, ...] = (), strings: Strings = ENGLISH) -> list[str]:
    """The summary as plain lines. ``files`` are the paths of the written report."""
    lines = []
    groups = group_failures(document)
    for item in groups[:MAX_FAILURES]:
        subject = f" {', '.join(item.subjects[:4])}" if item.subjects else ""
        subject += f" +{len(item.subjects) - 4}" if len(item.subjects) > 4 else ""
        hosts = ", ".join(item.hosts) or strings.checks_of_cluster
        lines.append(f"{strings.grades['FAIL'].upper()} {item.stage}: {item.check}{subject} ({hosts})")
        lines.append(f"  {strings.observed.lower()}: {item.observed}")
        lines.append(f"  {strings.expected.lower()}: {item.expected}")
        if item.remedy:
            lines.append(f"  {strings.remedy.lower()}: {item.remedy}")
    if len(groups) > MAX_FAILURES:
        lines.append(strings.more_failures.format(count=len(groups) - MAX_FAILURES))
    for check in document.verdicts:
        if check.grade == "WARN":
            place = f" ({check.host})" if check.host else ""
            lines.append(f"{strings.grades['WARN'].upper()} {check.check} {check.subject}{place}: {check.observed}")
    executions = document.module_executions
    if executions:
        told = ", ".join(f"{host} {count}" for host, count in executions.items())
        lines.append(f"{strings.module_executions}: {told}")
        lines.append(f"{strings.changed_tasks}: {document.run.changed}")
    if document.verdicts:
        lines.append(f"{strings.checks_heading}: {strings.counts.format(**document.counts())}")
    mark = f" [{strings.emulated}]" if document.emulated else ""
    lines.append(
        f"{strings.verdicts[document.verdict]}{mark}: {document.run.site}, {document.run.verb}, "
        f"{duration(document.run.seconds)}"
    )
    lines.extend(files)
    return lines


def print_summary(document: Document, stream: TextIO, files: tuple[str, ...] = (), strings: Strings = ENGLISH) -> None:
    """Write the summary to ``stream``: coloured on a terminal that wants it, plain otherwise."""
    lines = summary_lines(document, files, strings)
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        stream.write("".join(f"{line}\n" for line in lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream)
    verdict = strings.verdicts[document.verdict]
    for line in lines:
        style = ""
        if line.startswith(strings.grades["FAIL"].upper() + " "):
            style = "red"
        elif line.startswith(strings.grades["WARN"].upper() + " "):
            style = "yellow"
        elif line.startswith(verdict):
            style = _STYLES[document.verdict]
        console.print(Text(line, style=style), soft_wrap=True)
