"""The proof writes values only to a tier that holds up to there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tier_sample

from g35ctl.engine import proof as proof_module
from g35ctl.validate import functional
from g35ctl.verdict import Grade, Verdict


def session_of(plan):
    return SimpleNamespace(
        plan=plan,
        states={},
        display=SimpleNamespace(stage_started=lambda *_: None),
        interrupt=SimpleNamespace(requested=lambda: False),
        folder=SimpleNamespace(log=lambda stage: stage),
        remember=lambda *_: None,
    )


def played_of(executions):
    return SimpleNamespace(
        events=(),
        executions={"gpu1": executions},
        seconds=1.0,
        changed_tasks=0,
        controller_failure=lambda log: None,
    )


def reading_of(plan, executions=0):
    return SimpleNamespace(findings={host.name: () for host in plan.hosts}, failures=(), played=played_of(executions))


@pytest.mark.parametrize(("below", "probes"), [(Grade.PASS, 1), (Grade.WARN, 1), (Grade.FAIL, 0)])
def test_a_broken_tier_is_not_written_to(monkeypatch: pytest.MonkeyPatch, below: Grade, probes: int) -> None:
    plan = tier_sample.plan()
    probed: list[tuple[str, ...]] = []

    def probe(session, hosts):
        probed.append(hosts)
        return played_of(1), {}

    def judge(plan, states, findings, brought, evidence):
        return (Verdict("functional", "paths.live", below, "seen", "wanted"),)

    monkeypatch.setattr(proof_module, "probe", probe)
    monkeypatch.setattr(proof_module, "read_back", lambda *_, **__: reading_of(plan))
    monkeypatch.setattr(functional, "judge", judge)
    proof = proof_module.prove(session_of(plan), reading_of(plan))
    assert len(probed) == probes
    skipped = [item for item in proof.verdicts if item.grade is Grade.SKIP]
    assert [item.check for item in skipped] == ([] if probes else ["flash.values"])
    assert proof.failed is (below is Grade.FAIL)


@pytest.mark.parametrize("later", [Grade.PASS, Grade.FAIL])
def test_what_failed_in_an_older_reading_is_read_once_more(monkeypatch: pytest.MonkeyPatch, later: Grade) -> None:
    plan = tier_sample.plan()
    grades = [Grade.FAIL, later, later]
    reads: list[tuple[str, ...]] = []

    def read_back(session, hosts, stage):
        reads.append(hosts)
        return reading_of(plan, executions=1)

    def judge(plan, states, findings, brought, evidence):
        return (Verdict("functional", "segment.protocol", grades.pop(0), "not listed", "rdma"),)

    monkeypatch.setattr(proof_module, "read_back", read_back)
    monkeypatch.setattr(proof_module, "probe", lambda session, hosts: (played_of(1), {}))
    monkeypatch.setattr(functional, "judge", judge)
    proof = proof_module.prove(session_of(plan), reading_of(plan))
    assert len(reads) == 1
    assert proof.failed is (later is Grade.FAIL)
    assert proof.stages[0].module_executions["gpu1"] == (2 if later is Grade.PASS else 1)
