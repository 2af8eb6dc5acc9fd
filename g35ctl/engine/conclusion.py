"""How a run is closed: report written, folder finished, and the one JSON object that tells it all."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from g35ctl.engine.run import Run
from g35ctl.engine.session import Session
from g35ctl.exits import Exit
from g35ctl.report import writer
from g35ctl.report.strings import ENGLISH, Strings
from g35ctl.verdict import Grade, Verdict

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Conclusion:
    """A closed run with its report. ``problems`` says what of it could not be written; the run ended as it ended."""

    run: Run
    verdicts: tuple[Verdict, ...]
    report: writer.Paths
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object that ``-o json`` ends with (DESIGN: ok, changed, module_executions, stages, failures, run)."""
        run = self.run
        return {
            "schema_version": SCHEMA_VERSION,
            "ok": run.exit_code in (Exit.OK, Exit.CHANGES_PENDING),
            "exit_code": int(run.exit_code),
            "verb": run.verb,
            "site": run.site,
            "check": run.check,
            "changed": run.changed,
            "module_executions": run.module_executions,
            "seconds": run.seconds,
            "stages": [asdict(stage) for stage in run.stages],
            "failures": [
                *(asdict(failure) for failure in run.failures),
                *(_failure(item) for item in self.verdicts if item.grade is Grade.FAIL),
            ],
            "verdicts": grades(self.verdicts),
            "run": run.identifier,
            "folder": run.folder,
            "report": str(self.report.html),
            "report_problems": list(self.problems),
        }  # fmt: skip


def conclude(session: Session, run: Run, verdicts: Sequence[Verdict] = (), strings: Strings = ENGLISH) -> Conclusion:
    """Write the report and mark the run folder finished. A full or read-only disk changes nothing about how the run
    ended: what could not be written is in ``problems``."""
    report = writer.write(
        session.folder.path, run, verdicts, session.plan, session.site,
        strings=strings, command=shlex.join(["g35ctl", *sys.argv[1:]]),
    )  # fmt: skip
    closed = Conclusion(run, tuple(verdicts), report, report.problems)
    summary = closed.to_json()
    del summary["stages"], summary["failures"]
    status = "interrupted" if run.exit_code is Exit.INTERRUPTED else "finished"
    try:
        session.folder.finish({**summary, "status": status, "started": run.started, "plan_digest": run.plan_digest})
    except OSError as error:
        told = f"{session.folder.path / 'run.json'} could not be written: {error}"
        closed = replace(closed, problems=(*closed.problems, told))
    return closed


def grades(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many verdicts of each grade."""
    return {grade.value: sum(1 for item in verdicts if item.grade is grade) for grade in Grade}


def _failure(verdict: Verdict) -> dict[str, str]:
    return {
        "host": verdict.host, "stage": "validate", "check": verdict.check, "observed": verdict.observed,
        "expected": verdict.expected, "remedy": verdict.remedy, "subject": verdict.subject,
    }  # fmt: skip
