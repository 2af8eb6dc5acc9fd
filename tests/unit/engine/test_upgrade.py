"""Upgrades: tested paths only, consent, what was there on record first, one host at a time, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tier_sample

from g35ctl.engine import folder, upgrade
from g35ctl.engine.deploy import Deployed, DeployOptions
from g35ctl.engine.reading import Reading
from g35ctl.engine.runner import Played
from g35ctl.engine.session import Session
from g35ctl.engine.upgrade import Step, Upgrade, UpgradePath, known_paths, steps, untested
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

OLD, NEW = "0.3.12.post1", "0.3.13.post1"


class Quiet:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@dataclass
class Tier:
    """Hosts with environments; ``rolled`` are the rolling deployments that were asked for."""

    state: Path
    current: dict[str, str] = field(default_factory=lambda: {"gpu1": f"{OLD}-aaa", "gpu2": f"{OLD}-aaa"})
    silent: set[str] = field(default_factory=set)
    code: Exit = Exit.OK
    comes_to: tuple[str, ...] = ("gpu1", "gpu2")
    rolled: list[DeployOptions] = field(default_factory=list)
    seen_record: list[Any] = field(default_factory=list)
    session: Session | None = None

    def upgrade(self, **how: Any) -> Deployed | None:
        run = folder.create(self.state, "upgrade")
        self.session = Session(
            "inventory", "upgrade", tier_sample.site(), tier_sample.plan(), self.state, run, Quiet(), None,  # type: ignore[arg-type]
            datetime.now(UTC),
        )  # fmt: skip
        return Upgrade(self.session, **{"consent": True, "allow_untested": True, **how}).run()

    def wanted(self) -> str:
        assert self.session is not None
        return f"{self.session.site.host('gpu1').mooncake.version}-ddd"

    def read_back(self, session: Session, hosts: tuple[str, ...]) -> Reading:
        for host in set(hosts) - self.silent:
            runtime = {"current": self.current.get(host), "path": f"/opt/g35/mooncake/{self.wanted()}"}
            session.remember(host, "cache", {"runtime": runtime})
        return Reading(Played("verify", hosts), {host: () for host in hosts if host not in self.silent})

    def roll(self, session: Session, options: DeployOptions, spec: str) -> Any:
        assert spec == "1"
        self.rolled.append(options)
        self.seen_record.append(json.loads((self.state / "upgrade.json").read_text()))
        tier = self

        class Rolling:
            def run(self) -> Deployed:
                for host in tier.comes_to:
                    tier.current[host] = tier.wanted()
                return Deployed(tier_sample.run(tier.code), None)

        return Rolling()


@pytest.fixture
def tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tier:
    tier = Tier(tmp_path / ".g35")
    monkeypatch.setattr(upgrade, "read_back", tier.read_back)
    monkeypatch.setattr(upgrade, "RollingDeployment", tier.roll)
    monkeypatch.setattr(upgrade, "plan_again", lambda inventory, site: tier_sample.plan())
    return tier


def record(tier: Tier) -> dict[str, Any]:
    return dict(json.loads((tier.state / "upgrade.json").read_text()))


def test_only_hosts_that_differ_are_touched_and_what_they_had_is_on_record_first(tier: Tier) -> None:
    tier.current["gpu2"] = f"{NEW}-ddd"
    done = tier.upgrade()
    assert done is not None and done.run.exit_code is Exit.OK
    (options,) = tier.rolled
    assert options.limit == "gpu1" and options.only == ("cache",) and options.allow_disruptive
    assert tier.seen_record[0]["before"] == {"gpu1": OLD} and "ended" not in tier.seen_record[0]
    assert record(tier)["ended"]
    assert tier.upgrade() is None and len(tier.rolled) == 1


def test_the_same_release_from_other_wheels_is_an_upgrade_too(tier: Tier) -> None:
    tier.current = {"gpu1": f"{NEW}-other", "gpu2": f"{NEW}-other"}
    assert tier.upgrade(allow_untested=False) is not None
    assert record(tier)["before"] == {"gpu1": NEW, "gpu2": NEW}


def test_a_path_that_nothing_tried_needs_to_be_named(tier: Tier) -> None:
    with pytest.raises(G35Error) as caught:
        tier.upgrade(allow_untested=False)
    assert caught.value.exit_code is Exit.USAGE and f"{OLD} to {NEW}" in caught.value.why
    assert tier.rolled == [] and not (tier.state / "upgrade.json").exists()


def test_restarts_need_consent(tier: Tier) -> None:
    with pytest.raises(G35Error, match="restarts stores"):
        tier.upgrade(consent=False)
    assert tier.rolled == []


def test_a_silent_host_stops_it_before_it_begins(tier: Tier) -> None:
    tier.silent.add("gpu2")
    with pytest.raises(G35Error) as caught:
        tier.upgrade()
    assert caught.value.exit_code is Exit.UNREACHABLE and "gpu2" in caught.value.why and tier.rolled == []


def test_one_that_stopped_is_continued_and_still_knows_where_it_began(tier: Tier) -> None:
    tier.code, tier.comes_to = Exit.PARTIAL, ("gpu1",)
    done = tier.upgrade()
    assert done is not None and done.run.exit_code is Exit.PARTIAL
    tier.code, tier.comes_to = Exit.OK, ("gpu1", "gpu2")
    tier.upgrade()
    assert tier.rolled[1].limit == "gpu2"
    assert record(tier)["before"] == {"gpu1": OLD, "gpu2": OLD}


def test_going_back_plans_what_was_there_for_those_that_left_it(tier: Tier) -> None:
    tier.code, tier.comes_to = Exit.PARTIAL, ("gpu1",)
    tier.upgrade()
    tier.code, tier.comes_to = Exit.OK, ("gpu1",)
    tier.current["gpu2"] = f"{OLD}-ddd"  # never left its environment
    done = tier.upgrade(back=True, allow_untested=False)
    assert done is not None and tier.rolled[1].limit == "gpu1"
    assert tier.session is not None
    assert {host.mooncake.version for host in tier.session.site.hosts if host.name.startswith("gpu")} == {OLD}
    assert not (tier.state / "upgrade.json").exists()
    with pytest.raises(G35Error, match="no upgrade to go back from"):
        tier.upgrade(back=True)


def test_the_table_of_paths_says_what_tried_each() -> None:
    table = known_paths()
    assert table and all(path.before and path.after for path in table)
    found = (Step("gpu1", OLD, NEW), Step("gpu2", "", NEW), Step("gpu3", "0.1", NEW))
    assert untested(found, (UpgradePath(OLD, NEW, "a test"),)) == (f"0.1 to {NEW}",)
    assert untested(found[:1], (UpgradePath(OLD, NEW, note="mind"),)) == (f"{OLD} to {NEW} (mind)",)


def test_a_host_that_was_not_read_is_no_step() -> None:
    assert steps(tier_sample.plan(), {"gpu1": {"cache": {"runtime": {}}}}) == ()
