"""How a benchmark suite ends: its figures kept in the run folder, its verdicts and what could not be run told."""

from __future__ import annotations

from collections.abc import Sequence

from g35ctl.engine.bench import Measured
from g35ctl.engine.proof import Proof
from g35ctl.engine.run import Failure
from g35ctl.engine.session import Session
from g35ctl.validate import bench_result
from g35ctl.validate.bench_result import BenchResult
from g35ctl.verdict import Verdict


def versions(measured: Measured) -> dict[str, str]:
    """Tool to version; where hosts differ, each version with its hosts."""
    told: dict[str, dict[str, list[str]]] = {}
    for host, state in measured.states.items():
        for tool, version in (state.get("versions") or {}).items():
            told.setdefault(str(tool), {}).setdefault(str(version), []).append(host)
    return {
        tool: next(iter(found)) if len(found) == 1 else "; ".join(f"{v} ({', '.join(h)})" for v, h in found.items())
        for tool, found in told.items()
    }


def conclude(
    session: Session, suite: str, result: BenchResult, verdicts: Sequence[Verdict], measured: Measured
) -> Proof:
    """Add the figures to bench.json and make the proof.

    A measurement that came to nothing is a failure to run (exit code 1), not a missed threshold (7). When the whole
    suite could not run on a host, that one failure is told and not each figure that is missing because of it. An
    interrupted suite keeps its figures and judges nothing.
    """
    folder = session.folder.path
    before = bench_result.read(folder) or BenchResult()
    bench_result.write(folder, before.together(result))
    if measured.interrupted:
        return Proof((), measured.failures, (measured.stage,))
    lost = [
        Failure(
            item.host, "validate", f"{suite}.{item.test}", item.problem, "a figure",
            f"see {item.evidence or 'the log of stage validate'} in the run folder; docs/validate.md", item.subject,
        )
        for item in result.measurements
        if item.problem
    ]  # fmt: skip
    failures = measured.failures or tuple(lost)
    return Proof(tuple(verdicts), failures, (measured.stage,))
