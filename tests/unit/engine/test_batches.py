"""Rolling deploys: a canary, then batches; the first bad one stops; everybody is asked before anybody is touched."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tier_sample
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.engine import batches as module
from g35ctl.engine import deploy as deploy_module
from g35ctl.engine import folder
from g35ctl.engine.batches import RollingDeployment, batch_size, batches, raised, run_deploy
from g35ctl.engine.deploy import DeployOptions
from g35ctl.engine.events import TaskEvent
from g35ctl.engine.lifecycle import hands
from g35ctl.engine.proof import Proof
from g35ctl.engine.run import StageResult
from g35ctl.engine.runner import Play, Played
from g35ctl.engine.session import Session
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.verdict import Grade, Verdict


class Quiet:
    def __init__(self) -> None:
        self.said: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.said.append(str(given[0])) if name == "say" else None


class Never:
    def requested(self) -> bool:
        return False


class Tier:
    """The sample tier: which stage fails where, what verify finds after it was touched, what counters say."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.plays: list[tuple[str, tuple[str, ...]]] = []
        self.broken: set[tuple[str, str]] = set()
        self.sick: set[str] = set()
        self.counters: dict[str, int] = {}
        self.rising: set[str] = set()
        self.values: dict[str, Any] = {"different": [], "unreadable": [], "read": 2}
        self.touched: set[str] = set()

    def session(self) -> Session:
        made = Session(
            "inventory", "deploy", tier_sample.site(), tier_sample.plan(), self.state,
            folder.create(self.state, "deploy"), Quiet(), Never(), datetime.now(UTC),
        )  # fmt: skip
        made.play = self.play
        return made

    def play(self, play: Play) -> Played:
        self.plays.append((play.stage, play.hosts))
        played = Played(play.stage, play.hosts)
        for host in play.hosts:
            bad = (play.stage, host) in self.broken
            state: dict[str, Any] = {"system": {}}
            if play.stage == "pool":
                note = play.variables["g35_pool_action"] == "note"
                state = (
                    {"keys": 3, "digests": {"k1": "d1", "k2": "d2"}} if note else {"action": "compare", **self.values}
                )
            found: tuple[dict[str, str], ...] = ()
            if play.stage == "verify":
                state["counters"] = {"eth1": {"rdma": {"out_of_sequence": self.counters.get(host, 0)}}}
                if host in self.sick & self.touched:
                    found = ({"stage": "connect", "check": "connect.path", "severity": "error"},)
            elif play.stage not in ("preflight", "pool"):
                self.touched.add(host)
                if host in self.rising:
                    self.counters[host] = 7
            how = "failed" if bad or found else "ok"
            changed = how == "ok" and play.stage not in ("verify", "preflight", "pool")
            action = f"g35_{play.stage}"
            played.take(TaskEvent(play.stage, host, "t", action, how, changed, 1, findings=found, state=state))
        return played

    def hosts_of(self, stage: str) -> list[tuple[str, ...]]:
        return [hosts for name, hosts in self.plays if name == stage]


@pytest.fixture
def tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tier:
    result = StageResult("validate", {"gpu1": "ok"}, 0.0)
    verdict = Verdict("functional", "x", Grade.PASS, "o", "e")
    monkeypatch.setattr(deploy_module, "prove", lambda *given: Proof((verdict,), (), (result,)))
    monkeypatch.setattr(deploy_module, "content_digest", lambda: "content")
    monkeypatch.setattr(hands, "content_digest", lambda: "content")
    return Tier(tmp_path / ".g35")


def roll(tier: Tier, spec: str = "1", **options: Any):
    return RollingDeployment(tier.session(), DeployOptions(**options), spec).run()


@given(st.integers(1, 40), st.integers(0, 5), st.integers(1, 50))
def test_everybody_comes_once_and_the_first_of_each_kind_alone(hosts, boxes, size):
    names, ebofs = [f"gpu{n}" for n in range(hosts)], [f"ebof{n}" for n in range(boxes)]
    found = batches(ebofs, names, str(size))
    assert [name for batch in found for name in batch] == ebofs + names
    assert found[0] == (tuple(ebofs) or tuple(names))[:1]
    assert (names[0],) in found
    assert max(map(len, found)) <= size


def test_a_batch_is_a_number_or_a_share():
    assert (batch_size("3", 200), batch_size("20%", 200), batch_size("1%", 20)) == (3, 40, 1)
    for wrong in ("0", "-1", "x", "120%", "", "1.5"):
        with pytest.raises(G35Error):
            batch_size(wrong, 10)


def test_everybody_is_asked_before_the_first_is_touched_and_the_site_is_proven_at_the_end(tier: Tier) -> None:
    done = roll(tier)
    assert tier.plays[0] == ("preflight", ("ebof1", "gpu1", "gpu2"))
    assert tier.hosts_of("target") == [("ebof1",)]
    assert tier.hosts_of("connect") == tier.hosts_of("cache") == [("gpu1",), ("gpu2",)]
    assert done.run.exit_code is Exit.OK and done.proof is not None
    stages = {stage.stage: stage for stage in done.run.stages}
    assert set(stages["cache"].hosts) == {"gpu1", "gpu2"}
    assert len(stages) == len(done.run.stages)


def test_a_problem_of_the_last_host_stops_before_the_canary(tier: Tier) -> None:
    tier.broken.add(("preflight", "gpu2"))
    done = roll(tier)
    assert [stage for stage, _ in tier.plays] == ["preflight"]
    assert done.run.exit_code is Exit.PREFLIGHT_FAILED


def test_a_canary_that_fails_is_the_only_one_touched(tier: Tier) -> None:
    tier.broken.add(("storage", "gpu1"))
    done = roll(tier)
    assert tier.hosts_of("connect") == [("gpu1",)]
    assert done.run.exit_code in (Exit.PARTIAL, Exit.DEPLOY_FAILED) and done.proof is None


@pytest.mark.parametrize("how", ["verify", "counters", "values"])
def test_a_batch_that_ends_well_and_is_not_well_stops_the_rest(tier: Tier, how: str) -> None:
    roll(tier)
    tier.plays.clear()
    tier.touched.clear()
    if how == "verify":
        tier.sick.add("gpu1")
    elif how == "counters":
        tier.rising.add("gpu1")
    else:
        tier.values["different"] = ["k1"]
    done = roll(tier, resume=how == "counters", first="" if how == "counters" else "connect")
    if how == "counters":
        # Nothing to do: nothing was touched, so nothing can have been harmed.
        assert done.run.exit_code is Exit.OK and not tier.hosts_of("connect")
        return
    assert tier.hosts_of("connect") == [("gpu1",)]
    assert done.run.exit_code is Exit.PARTIAL
    assert done.run.failures[-1].check in ("connect.path", "gate.values")


def test_new_errors_on_the_wire_are_told_by_name():
    before = {"eth1": {"ethtool": {"rx_discards_phy": 5}, "rdma": {"np_cnp_sent": 1}, "link": {"rx_crc_errors": 1}}}
    after = {"eth1": {"ethtool": {"rx_discards_phy": 9}, "rdma": {"np_cnp_sent": 99}, "link": {"rx_crc_errors": 1}}}
    assert raised(before, after) == ["eth1 rx_discards_phy +4"]
    assert raised({}, after) and raised(after, after) == []


def test_a_bad_batch_size_is_refused_before_anything_is_done(tier: Tier) -> None:
    with pytest.raises(G35Error):
        run_deploy(tier.session(), DeployOptions(), "many")
    assert tier.plays == []


def test_what_settling_did_is_part_of_the_run_and_stops_it_when_it_fails(tier: Tier, monkeypatch) -> None:
    first = StageResult("release", {"gpu2": "changed"}, 1.0)
    monkeypatch.setattr(module, "settle", lambda session, check, partial: ((first,), ()))
    assert run_deploy(tier.session(), DeployOptions()).run.stages[0] == first
    failure = tier_sample.Failure("gpu2", "release", "c", "o", "e", "r")
    monkeypatch.setattr(module, "settle", lambda session, check, partial: ((first,), (failure,)))
    tier.plays.clear()
    done = run_deploy(tier.session(), DeployOptions())
    assert done.run.failures == (failure,) and tier.plays == []
