"""Running a suite: all hosts at once, figures kept, nothing left running, and failures told apart from thresholds."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tier_sample

from g35ctl.engine import bench
from g35ctl.engine.events import TaskEvent
from g35ctl.engine.run import Failure
from g35ctl.engine.runner import Play, Played
from g35ctl.exits import Exit
from g35ctl.plan.bench import fabric_jobs
from g35ctl.validate import bench_fabric, bench_report, bench_result
from g35ctl.validate.bench_result import BenchResult, Measurement
from g35ctl.validate.verb import exit_code

STATE = {"suite": "fabric", "host": "x", "steps": [], "versions": {"perftest": "6.06"}}


class Session:
    """A session whose playbooks are answered by ``outcomes``: host to ok, failed or unreachable."""

    def __init__(self, folder: Path, outcomes: dict[str, str] | None = None, stopped: bool = False) -> None:
        self.plan, self.site = tier_sample.plan(), tier_sample.site()
        self.outcomes = outcomes or {}
        self.said: list[str] = []
        self.plays: list[tuple[Play, bool]] = []
        self.folder = SimpleNamespace(path=folder, identifier="20261201T181500.000Z-validate", log=lambda stage: stage)
        self.display = SimpleNamespace(stage_started=lambda *_: None, say=self.said.append)
        self.interrupt = SimpleNamespace(requested=lambda: stopped)
        self.forks = 2

    def play(self, play: Play, *, to_the_end: bool = False) -> Played:
        self.plays.append((play, to_the_end))
        played = Played(play.stage, play.hosts, seconds=1.0)
        if "g35_bench_jobs" in play.variables:
            for host in play.hosts:
                how = self.outcomes.get(host, "ok")
                state = STATE if how == "ok" else {}
                played.take(TaskEvent("validate", host, "t", "g35_bench", how, False, 1, message="broke", state=state))
        return played


def measured(session: Session) -> bench.Measured:
    jobs = fabric_jobs(session.plan, session.site, bench.token(session))  # type: ignore[arg-type]
    return bench.measure(session, "fabric", jobs)  # type: ignore[arg-type]


def test_every_host_has_a_fork_and_its_own_job(tmp_path: Path) -> None:
    session = Session(tmp_path)
    found = measured(session)
    assert session.said == ["fabric: 3 hosts measure together, for at least 3 minutes"]
    ((play, _),) = session.plays
    assert play.forks == len(play.hosts) == 3
    assert set(play.variables["g35_bench_jobs"]) == set(play.hosts)
    assert found.failures == ()
    assert json.loads((tmp_path / found.evidence["gpu1"]).read_text()) == STATE
    assert (tmp_path / "bench/fabric/gpu1.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("outcomes", "stopped"), [({"gpu2": "failed"}, False), ({"gpu2": "unreachable"}, False), ({}, True)]
)
def test_what_did_not_end_well_is_ended_on_every_host(tmp_path: Path, outcomes: dict[str, str], stopped: bool) -> None:
    session = Session(tmp_path, outcomes, stopped)
    found = measured(session)
    play, to_the_end = session.plays[-1]
    assert play.variables == {"g35_bench_action": "end"}
    assert to_the_end
    assert set(play.hosts) == {"ebof1", "gpu1", "gpu2"}
    assert found.interrupted is stopped
    assert [item.host for item in found.failures] == sorted(outcomes)


def proof(tmp_path: Path, result: BenchResult, failures: tuple[Failure, ...] = (), stopped: bool = False) -> Any:
    session = Session(tmp_path)
    found = bench.Measured({}, failures, bench.StageResult("validate", {}, 1.0), {}, stopped)
    return bench_report.conclude(session, "fabric", result, (), found)  # type: ignore[arg-type]


def test_a_figure_that_is_missing_is_a_failure_to_run(tmp_path: Path) -> None:
    good = Measurement("fabric", "write", "ib_write_bw", "gpu1", bytes_per_second=1.0)
    bad = Measurement("fabric", "read", "ib_read_bw", "gpu2", problem="ended with 1")
    done = proof(tmp_path, BenchResult((good, bad)))
    assert [(item.host, item.check, item.observed) for item in done.failures] == [
        ("gpu2", "fabric.read", "ended with 1")
    ]
    assert exit_code(done, False) is Exit.DEPLOY_FAILED


def test_a_host_that_failed_is_told_once(tmp_path: Path) -> None:
    bad = Measurement("fabric", "read", "ib_read_bw", "gpu2", problem="gpu2 brought no result")
    failure = Failure("gpu2", "validate", "validate.bench", "perftest is not installed", "e", "install it")
    assert proof(tmp_path, BenchResult((bad, bad)), (failure,)).failures == (failure,)


def test_suites_of_one_run_share_a_file_and_an_interrupted_one_keeps_its_figures(tmp_path: Path) -> None:
    first = Measurement("fabric", "write", "ib_write_bw", "gpu1", bytes_per_second=1.0)
    second = Measurement("storage", "namespace", "fio", "gpu1", bytes_per_second=2.0)
    proof(tmp_path, BenchResult((first,)))
    interrupted = proof(tmp_path, BenchResult((second,)), stopped=True)
    assert interrupted.verdicts == ()
    kept = bench_result.read(tmp_path)
    assert kept is not None
    assert kept.measurements == (first, second)


def test_the_fabric_suite_goes_from_jobs_to_a_proof(tmp_path: Path) -> None:
    session = Session(tmp_path, {"gpu2": "failed"})
    done = bench_fabric.run(session)  # type: ignore[arg-type]
    assert [item.host for item in done.failures] == ["gpu2"]
    assert done.stages[0].hosts == {"ebof1": "ok", "gpu1": "ok", "gpu2": "failed"}
    assert not done.failed
