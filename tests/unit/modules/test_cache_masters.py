"""Two masters and etcd on a host: etcd first, one of the two masters serves, and a standby is no failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import kvprobe, mooncake
from ansible.module_utils.g35.cache import ENVIRONMENT, CacheStage
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.plans import CachePlan, EtcdPlan, File, MasterPlan, Unit
from cache_fakes import MASTER_UNIT, RULES, Owner, plan

OWN, OTHER = "192.0.2.21:9003", "192.0.2.22:9003"
ETCD_UNIT = "g35-etcd.service"


def ha_plan(master: bool = True) -> CachePlan:
    files = (File("/etc/g35ctl/g35.nft", RULES, "0600"), File(f"/etc/systemd/system/{ETCD_UNIT}", "[Service]\n"))
    units = (
        Unit("g35-firewall.service", restart_on=("/etc/g35ctl/g35.nft",)),
        Unit(ETCD_UNIT, restart_on=(f"/etc/systemd/system/{ETCD_UNIT}",)),
    )
    masters = MasterPlan("lab", "192.0.2.21", 50051, 9003, "192.0.2.21:2379", "lab", f"{OWN},{OTHER}")
    if master:
        files += (File(f"/etc/systemd/system/{MASTER_UNIT}", "[Service]\n"),)
        units += (Unit(MASTER_UNIT, restart_on=(f"/etc/systemd/system/{MASTER_UNIT}",)),)
    members = tuple(f"h{number}=http://192.0.2.2{number}:2380" for number in (1, 2, 3))
    etcd = EtcdPlan("lab", "h1", "192.0.2.21", 2379, 2380, members, "/usr/bin/etcd")
    return plan(master=masters if master else None, store=None, etcd=etcd, files=files, units=units)


class Pair(Owner):
    """The first of two masters; ``roles`` are what the two say of themselves while they run."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.roles = {OWN: "leader", OTHER: "standby"}
        self.quorum = True
        self.put("/usr/bin/etcd", "")

    def ask(self, url: str, timeout: float) -> str | None:
        host = url.split("/")[2]
        if host == "192.0.2.21:2379":
            return json.dumps({"health": "true" if self.quorum else "false"}) if ETCD_UNIT in self.active else None
        if host == OWN and MASTER_UNIT not in self.active:
            return None
        if url.endswith("/health"):
            role = self.roles[host]
            return json.dumps({"role": role, "service_ready": role == "leader"}) if role else None
        return "{}"

    def deploy(self, **changes: Any) -> Outcome:
        self.push()
        return act(CacheStage(self, ha_plan(**changes), self.ask), "apply")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_etcd_serves_on_all_hosts_before_the_first_master_starts(pair: Pair) -> None:
    pair.push()
    first = act(CacheStage(pair, ha_plan(), pair.ask, ENVIRONMENT), "apply")
    assert first.message == "" and first.state["whole"] is False
    assert pair.active == {"g35-firewall.service", ETCD_UNIT}
    started = [words[2] for words in pair.writes if words[:2] == ["systemctl", "restart"]]
    assert started == ["g35-firewall.service", ETCD_UNIT]
    assert pair.deploy().message == ""
    assert MASTER_UNIT in pair.active
    assert not pair.deploy().changed


def test_a_member_without_a_majority_fails_the_first_part(pair: Pair) -> None:
    pair.quorum = False
    pair.push()
    outcome = act(CacheStage(pair, ha_plan(), pair.ask, ENVIRONMENT), "apply")
    assert outcome.failed and "no majority" in outcome.message


def test_a_standby_is_well_while_the_other_one_leads(pair: Pair) -> None:
    pair.roles = {OWN: "standby", OTHER: "leader"}
    outcome = pair.deploy()
    assert outcome.message == ""
    assert (outcome.state["master"]["admin"], outcome.state["master"]["role"]) == (OTHER, "leader")


@pytest.mark.parametrize(
    ("roles", "told"),
    [
        ({OWN: "standby", OTHER: "standby"}, "role standby"),
        ({OWN: "", OTHER: "leader"}, "no answer"),
        ({OWN: "standby", OTHER: ""}, "role standby"),
    ],
)
def test_two_standbys_and_a_silent_master_are_told(pair: Pair, roles: dict[str, str], told: str) -> None:
    pair.roles = roles
    outcome = pair.deploy()
    assert {finding["check"] for finding in outcome.findings} == {"cache.master"}
    assert told in outcome.message


def test_a_mere_member_of_etcd_needs_no_wheels(pair: Pair) -> None:
    outcome = act(CacheStage(pair, ha_plan(master=False), pair.ask), "apply")
    assert outcome.message == "" and not outcome.awaiting
    assert not pair.exists("/opt/g35/mooncake")


def test_a_missing_server_is_said_in_preflight(pair: Pair) -> None:
    pair.remove_file("/usr/bin/etcd")
    outcome = act(CacheStage(pair, ha_plan(), pair.ask), "preflight")
    assert [(f["check"], f["subject"]) for f in outcome.findings] == [("cache.etcd", "/usr/bin/etcd")]


def test_removal_takes_the_members_data_along(pair: Pair) -> None:
    pair.deploy()
    pair.put("/var/lib/g35/etcd/member", "")
    stage = CacheStage(pair, ha_plan(), pair.ask)
    assert not act(stage, "remove", allow_disruptive=True).failed
    assert pair.active == set() and not pair.exists("/var/lib/g35/etcd")


def test_the_leader_is_asked_wherever_it_is() -> None:
    answers = {OWN: "standby", OTHER: "leader"}

    def ask(url: str, timeout: float = 0.0) -> str:
        role = answers[url.split("/")[2]]
        return json.dumps({"role": role, "service_ready": role == "leader"})

    assert mooncake.read_master(f"{OWN},{OTHER}", ask).admin == OTHER
    assert kvprobe.leader(f"{OWN},{OTHER}", ask) == OTHER
    answers[OTHER] = "standby"
    assert mooncake.read_master(f"{OWN},{OTHER}", ask).admin == OWN
    assert kvprobe.leader(OWN, ask) == OWN
