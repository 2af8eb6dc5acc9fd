"""The life of a deploy, with the playbooks answered by a script instead of hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tier_sample

from g35ctl.engine import deploy as deploy_module
from g35ctl.engine import folder
from g35ctl.engine.deploy import Deployed, Deployment, DeployOptions
from g35ctl.engine.events import TaskEvent
from g35ctl.engine.ledger import Ledger, read_json
from g35ctl.engine.proof import Proof
from g35ctl.engine.run import StageResult
from g35ctl.engine.runner import Play, Played
from g35ctl.engine.session import Session
from g35ctl.exits import Exit
from g35ctl.verdict import Grade, Verdict

ACTIONS = {"target": "g35_target", "fabric": "g35_fabric", "verify": "g35_verify", "preflight": "g35_preflight"}


class Quiet:
    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, title, stages, hosts) -> None: ...
    def stage_started(self, stage, hosts) -> None: ...
    def task(self, event) -> None: ...
    def stage_ended(self, result) -> None: ...
    def end(self) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


class Never:
    asked = False

    def requested(self) -> bool:
        return self.asked


@dataclass
class Tier:
    """Hosts as a script: which stage fails on which host, what verify finds, what was run."""

    state: Path
    broken: dict[tuple[str, str], str] = field(default_factory=dict)
    found: dict[str, list[dict]] = field(default_factory=dict)
    plays: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    before_play: Callable[[Play], None] = lambda play: None
    interrupt: Never = field(default_factory=Never)
    changed: bool = True
    proofs: list[str] = field(default_factory=list)
    grade: Grade = Grade.PASS

    def deploy(self, **options: object) -> Deployed:
        self.plays.clear()
        run = folder.create(self.state, "deploy")
        plan, site = tier_sample.plan(), tier_sample.site()
        session = Session(
            "inventory", "deploy", site, plan, self.state, run, Quiet(), self.interrupt, datetime.now(UTC)
        )
        session.play = self.play
        return Deployment(session, DeployOptions(**options)).run()

    def play(self, play: Play) -> Played:
        self.before_play(play)
        self.plays.append((play.stage, play.hosts))
        played = Played(play.stage, play.hosts, cancelled=self.interrupt.asked)
        for host in play.hosts:
            if self.interrupt.asked:
                continue
            how = self.broken.get((play.stage, host), "ok")
            played.take(
                TaskEvent(
                    play.stage, host, "task", ACTIONS.get(play.stage, f"g35_{play.stage}"),
                    "failed" if play.stage == "verify" and self.found.get(host) else how,
                    self.changed and how == "ok" and play.stage not in ("verify", "preflight"), 1,
                    findings=tuple(self.found.get(host, ())) if play.stage == "verify" else (),
                    state={"system": {}},
                )
            )  # fmt: skip
        return played

    def stages(self) -> list[str]:
        return [stage for stage, _hosts in self.plays]


@pytest.fixture
def tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tier:
    result = StageResult("validate", {"gpu1": "ok", "gpu2": "ok"}, 0.0)
    tier = Tier(tmp_path / ".g35")

    def prove(session, reading, standing) -> Proof:
        tier.proofs.append("standing" if standing else "read" if reading else "whole")
        verdict = Verdict("functional", "x", tier.grade, "o", "e")
        return Proof((verdict,), (), (result,))

    monkeypatch.setattr(deploy_module, "prove", prove)
    monkeypatch.setattr(deploy_module, "content_digest", lambda: "content")
    return tier


def error(stage: str) -> dict:
    return {"stage": stage, "check": f"{stage}.x", "severity": "error", "observed": "o", "expected": "e", "remedy": "r"}


def test_a_first_deploy_runs_every_stage_in_order(tier: Tier) -> None:
    done = tier.deploy()
    assert done.run.exit_code is Exit.OK
    assert tier.stages()[0] == "preflight"
    assert set(tier.stages()[1:3]) == {"target", "fabric"}
    assert tier.stages()[3:] == ["connect", "storage", "cache"]
    assert dict(tier.plays)["fabric"] == ("gpu1", "gpu2")
    assert done.run.changed == 9


def test_a_second_deploy_verifies_and_applies_nothing(tier: Tier) -> None:
    tier.deploy()
    done = tier.deploy()
    assert tier.plays == [("verify", ("ebof1", "gpu1", "gpu2"))]
    assert done.run.exit_code is Exit.OK
    assert done.run.changed == 0
    assert {how for stage in done.run.stages if stage.stage in ("target", "cache") for how in stage.hosts.values()} == {
        "held"
    }
    assert max(done.run.module_executions.values()) == 1


def test_no_resume_applies_everything_again(tier: Tier) -> None:
    tier.deploy()
    tier.changed = False
    done = tier.deploy(resume=False)
    assert "verify" not in tier.stages()
    assert len(tier.plays) == 6
    assert done.run.changed == 0


def test_a_host_continues_from_the_first_stage_that_does_not_hold(tier: Tier) -> None:
    tier.deploy()
    tier.found["gpu2"] = [error("storage"), {**error("fabric"), "severity": "warning"}]
    tier.deploy()
    assert tier.plays == [
        ("verify", ("ebof1", "gpu1", "gpu2")),
        ("preflight", ("gpu2",)),
        ("storage", ("gpu2",)),
        ("cache", ("gpu2",)),
    ]


def test_a_failed_host_is_left_out_later_and_the_rest_goes_on(tier: Tier) -> None:
    tier.broken["connect", "gpu1"] = "failed"
    done = tier.deploy()
    assert dict(tier.plays)["storage"] == ("gpu2",)
    assert done.run.exit_code is Exit.PARTIAL
    assert [failure.host for failure in done.run.failures] == ["gpu1"]
    ledger = Ledger(tier.state / "ledger.json")
    assert ledger.entry("gpu1", "fabric") is not None
    assert ledger.entry("gpu1", "connect") is None
    assert done.proof is None

    tier.broken.clear()
    assert tier.deploy().run.exit_code is Exit.OK
    assert dict(tier.plays)["connect"] == ("gpu1",)


def test_hosts_do_not_try_to_connect_to_a_box_that_failed(tier: Tier) -> None:
    tier.broken["target", "ebof1"] = "unreachable"
    done = tier.deploy()
    assert sorted(tier.stages()) == ["fabric", "preflight", "target"]
    assert done.run.exit_code is Exit.UNREACHABLE
    assert {failure.host for failure in done.run.failures} == {"ebof1"}


def test_preflight_stops_everybody_before_anything_is_touched(tier: Tier) -> None:
    tier.broken["preflight", "gpu2"] = "failed"
    done = tier.deploy()
    assert tier.stages() == ["preflight"]
    assert done.run.exit_code is Exit.PREFLIGHT_FAILED


def test_a_check_changes_no_record_and_says_that_changes_are_pending(tier: Tier) -> None:
    done = tier.deploy(check=True)
    assert done.run.exit_code is Exit.CHANGES_PENDING
    assert not (tier.state / "ledger.json").exists()
    assert not (tier.state / "ownership.json").exists()
    assert done.proof is None


def test_owners_are_on_record_before_their_namespaces_are_written(tier: Tier) -> None:
    seen: list[dict] = []

    def look(play: Play) -> None:
        if play.stage == "storage":
            seen.append(read_json(tier.state / "ownership.json", "record"))

    tier.before_play = look
    tier.deploy()
    assert sorted(seen[0]["namespaces"].values()) == ["gpu1", "gpu1", "gpu2", "gpu2"]


def test_an_interrupt_ends_the_run_and_the_next_one_continues(tier: Tier) -> None:
    def stop(play: Play) -> None:
        tier.interrupt.asked = play.stage == "connect"

    tier.before_play = stop
    done = tier.deploy()
    assert done.run.exit_code is Exit.INTERRUPTED
    assert "storage" not in tier.stages()
    connect = next(stage for stage in done.run.stages if stage.stage == "connect")
    assert set(connect.hosts.values()) == {"interrupted"}

    tier.before_play = lambda play: None
    tier.interrupt.asked = False
    assert tier.deploy().run.exit_code is Exit.OK
    assert tier.stages() == ["verify", "preflight", "connect", "storage", "cache"]


def test_a_limited_deploy_touches_its_hosts_and_proves_nothing(tier: Tier) -> None:
    done = tier.deploy(limit="gpu1")
    assert {host for _stage, hosts in tier.plays for host in hosts} == {"gpu1"}
    assert done.proof is None
    assert next(stage for stage in done.run.stages if stage.stage == "validate").hosts == {"gpu1": "skipped"}


def test_from_applies_whatever_the_ledger_says(tier: Tier) -> None:
    tier.deploy()
    tier.deploy(first="storage")
    assert tier.stages() == ["preflight", "storage", "cache"]


def test_only_keeps_what_is_known_of_other_stages(tier: Tier) -> None:
    tier.deploy()
    tier.deploy(only=("fabric",))
    assert tier.plays == [("fabric", ("gpu1", "gpu2"))]
    tier.deploy()
    assert tier.stages() == ["verify"]


def test_a_passed_validation_stands_until_something_is_applied(tier: Tier) -> None:
    tier.deploy()
    tier.deploy()
    tier.deploy(only=("cache",))
    tier.deploy()
    tier.deploy()
    tier.deploy(resume=False)
    assert tier.proofs == ["whole", "standing", "read", "standing", "whole"]


def test_a_failed_validation_is_exit_7_and_is_made_again(tier: Tier) -> None:
    tier.grade = Grade.FAIL
    assert tier.deploy().run.exit_code is Exit.THRESHOLDS_MISSED
    tier.grade = Grade.PASS
    assert tier.deploy().run.exit_code is Exit.OK
    assert tier.proofs == ["whole", "read"]


def test_a_stage_that_skipped_its_host_has_failed_and_is_not_recorded(tier: Tier) -> None:
    """A role skips when its plan does not reach it: that must never pass for done."""
    tier.broken["connect", "gpu1"] = "skipped"
    done = tier.deploy()
    assert done.run.exit_code is Exit.PARTIAL
    assert [(item.host, item.stage, item.observed) for item in done.run.failures] == [
        ("gpu1", "connect", "no task ran")
    ]
    assert Ledger(tier.state / "ledger.json").entry("gpu1", "connect") is None
