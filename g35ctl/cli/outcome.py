"""How verbs print a closed run: failures once, verdict, figures, paths; or one JSON object."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from g35ctl.exits import Exit

if TYPE_CHECKING:
    from g35ctl.engine.conclusion import Conclusion
    from g35ctl.engine.folder import RunFolder


def report_conclusion(conclusion: Conclusion, output: str, command: str) -> None:
    """Print the end of a run: text for people, one object for ``json`` and (as the last line) ``jsonl``."""
    run = conclusion.run
    for problem in conclusion.problems:
        sys.stderr.write(f"warning: the report is not complete: {problem}\n")
    if conclusion.problems:
        sys.stderr.write(f"next: free the disk or mend what is named, then: g35ctl report {run.identifier}\n")
    if output != "text":
        data = conclusion.to_json()
        text = json.dumps(data, indent=2) if output == "json" else json.dumps({"event": "end", **data})
        sys.stdout.write(text + "\n")
        return
    from g35ctl.engine import failures

    for line in failures.lines(run.failures, f"{run.folder}/logs"):
        sys.stderr.write(line + "\n")
    for line in summary(conclusion):
        sys.stdout.write(line + "\n")
    follow_up = next_step(run.exit_code, command)
    if follow_up:
        sys.stderr.write(f"next: {follow_up}\n")


def summary(conclusion: Conclusion) -> list[str]:
    """Verdict lines, changes, module executions per host, and where the report is."""
    from g35ctl.engine.conclusion import grades
    from g35ctl.engine.progress import counts
    from g35ctl.verdict import Grade

    run = conclusion.run
    lines = [
        f"{item.grade} {' '.join(filter(None, (item.check, item.subject, item.host)))}: {item.observed},"
        f" expected {item.expected}" + (f"; {item.remedy}" if item.remedy else "")
        for item in conclusion.verdicts
        if item.grade is not Grade.PASS
    ]
    lines += [f"{stage.stage:<10} {stage.seconds:7.1f} s  {counts(stage.hosts)}" for stage in run.stages]
    executions = run.module_executions
    if executions:
        most = max(executions.values())
        listed = ", ".join(f"{host} {count}" for host, count in sorted(executions.items())[:12])
        lines.append(f"module executions: {listed} (at most {most} per host)")
    lines.append(f"{'would change' if run.check else 'changed'}: {run.changed} tasks")
    if conclusion.verdicts:
        told = ", ".join(f"{count} {grade}" for grade, count in grades(conclusion.verdicts).items() if count)
        lines.append(f"checks: {told}{' (emulated fabric)' if any(v.emulated for v in conclusion.verdicts) else ''}")
    lines.append(f"{headline(run.exit_code)}: site {run.site}, {run.verb}, {run.seconds:.0f} s")
    if conclusion.report.html.exists():
        lines.append(f"report: {conclusion.report.html}")
    return lines


def headline(code: Exit) -> str:
    """The exit code in words."""
    return {
        Exit.OK: "DONE",
        Exit.CHANGES_PENDING: "CHANGES PENDING",
        Exit.INTERRUPTED: "INTERRUPTED",
        Exit.PREFLIGHT_FAILED: "PREFLIGHT FAILED, nothing was changed",
        Exit.UNREACHABLE: "HOSTS UNREACHABLE",
        Exit.PARTIAL: "PARTLY DONE",
        Exit.THRESHOLDS_MISSED: "VALIDATION FAILED",
    }.get(code, "FAILED")


def next_step(code: Exit, command: str) -> str:
    """The command to run after this exit code; empty when there is nothing to do."""
    if code is Exit.INTERRUPTED:
        return f"{command}  (continues where this run stopped)"
    if code is Exit.CHANGES_PENDING:
        return command
    if code is Exit.THRESHOLDS_MISSED:
        return "g35ctl status, then the remedies above"
    return "" if code is Exit.OK else f"the remedies above, then again: {command}"


def show_changes(folder: RunFolder) -> None:
    """Print what was (or would be) changed, host by host, from the run's events."""
    if not folder.events.exists():
        return
    for line in folder.events.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        for change in event.get("changes", ()):
            sys.stdout.write(f"{event['host']}: {event['stage']}: {change['what']}\n")
            sys.stdout.write(f"  - {change['before']}\n  + {change['after']}\n")
