"""The proof writes values only to a tier that holds up to there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tier_sample

from g35ctl.engine import proof as proof_module
from g35ctl.validate import functional
from g35ctl.validate.verdict import Grade, Verdict


@pytest.mark.parametrize(("below", "probes"), [(Grade.PASS, 1), (Grade.WARN, 1), (Grade.FAIL, 0)])
def test_a_broken_tier_is_not_written_to(monkeypatch: pytest.MonkeyPatch, below: Grade, probes: int) -> None:
    plan = tier_sample.plan()
    probed: list[tuple[str, ...]] = []
    played = SimpleNamespace(
        events=(), executions={}, seconds=1.0, changed_tasks=0, controller_failure=lambda log: None
    )

    def probe(session, hosts):
        probed.append(hosts)
        return played, {}

    def judge(plan, states, findings, brought, evidence):
        return (Verdict("functional", "paths.live", below, "seen", "wanted"),)

    monkeypatch.setattr(proof_module, "probe", probe)
    monkeypatch.setattr(functional, "judge", judge)
    session = SimpleNamespace(
        plan=plan,
        states={},
        display=SimpleNamespace(stage_started=lambda *_: None),
        interrupt=SimpleNamespace(requested=lambda: False),
        folder=SimpleNamespace(log=lambda stage: stage),
        remember=lambda *_: None,
    )
    reading = SimpleNamespace(findings={host.name: () for host in plan.hosts}, failures=())
    proof = proof_module.prove(session, reading)
    assert len(probed) == probes
    skipped = [item for item in proof.verdicts if item.grade is Grade.SKIP]
    assert [item.check for item in skipped] == ([] if probes else ["flash.values"])
    assert proof.failed is (below is Grade.FAIL)
