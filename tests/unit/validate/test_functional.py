"""The functional suite: a healthy tier passes, and each single thing that is wrong fails exactly its own verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import tier_sample as tier
import tier_states

from g35ctl.validate.functional import judge
from g35ctl.verdict import Grade, Verdict


@dataclass
class Seen:
    """What verify and the probes brought; tests spoil it."""

    states: dict[str, dict[str, Any]]
    findings: dict[str, list[dict[str, Any]]]
    probes: dict[str, dict[str, Any]]

    def judge(self) -> tuple[Verdict, ...]:
        return judge(tier.plan(), self.states, self.findings, self.probes)


def healthy() -> Seen:
    return Seen(tier_states.states(), tier_states.findings(tier.plan()), tier_states.probes())


def failing(verdicts: tuple[Verdict, ...]) -> set[tuple[str, str, str]]:
    return {(item.host, item.check, item.subject) for item in verdicts if item.grade is Grade.FAIL}


def path(seen: Seen, host: str, index: int) -> dict[str, Any]:
    found: dict[str, Any] = seen.states[host]["connect"]["paths"][index]
    return found


def dcb(seen: Seen, host: str, netdev: str) -> dict[str, Any]:
    found: dict[str, Any] = seen.states[host]["fabric"]["ports"][netdev]["dcb"]
    return found


def everywhere(seen: Seen, key: str, value: Any) -> None:
    """What the master says is the same whoever asks."""
    for host in ("gpu1", "gpu2"):
        seen.states[host]["cache"]["master"][key] = value


def tcp_segment(seen: Seen) -> None:
    for host in ("gpu1", "gpu2"):
        segment = next(s for s in seen.states[host]["cache"]["master"]["segments"] if s["name"] == "192.0.2.22:50053")
        segment["protocol"] = "tcp"


def lost_segment(seen: Seen) -> None:
    for host in ("gpu1", "gpu2"):
        master = seen.states[host]["cache"]["master"]
        master["segments"] = [s for s in master["segments"] if s["name"] != "192.0.2.22:50053"]


def written(seen: Seen, writer: str, owner: str) -> dict[str, Any]:
    return next(item for item in seen.probes[writer]["write"]["values"] if item["owner"] == owner)


def back(seen: Seen, reader: str, writer: str, owner: str) -> dict[str, Any]:
    key = tier_states.keys(writer, owner)[0]
    return next(item for item in seen.probes[reader]["read"]["values"] if item["key"] == key)


SSD3 = ("gpu2", "paths.live", tier.nqn(3))
MOUNT3 = f"/var/lib/g35/flash/{tier.uuid(3)}"
PLACED = ("gpu1", "flash.placement", "to gpu2")

SPOILED: Mapping[str, tuple[Callable[[Seen], Any], set[tuple[str, str, str]]]] = {
    "a path is connecting": (lambda s: path(s, "gpu2", 1).update(state="connecting"), {SSD3}),
    "a path is gone": (lambda s: path(s, "gpu2", 1).update(state="absent", controller=""), {SSD3}),
    "both paths come from one port": (lambda s: path(s, "gpu2", 1).update(source_address="192.0.2.22"), {SSD3}),
    "a path runs over tcp": (lambda s: path(s, "gpu2", 1).update(transport="tcp"), {SSD3}),
    "a path is to another subsystem": (lambda s: path(s, "gpu2", 1).update(nqn="nqn.2014-08.org.example:x"), {SSD3}),
    "ANA forbids a path": (lambda s: path(s, "gpu2", 1).update(ana_states=["inaccessible"]), {SSD3}),
    "PFC on another priority too": (
        lambda s: dcb(s, "gpu1", "eth2").update(pfc=[3, 4]), {("gpu1", "fabric.pfc", "eth2")},
    ),
    "PFC off": (lambda s: dcb(s, "ebof1", "eth1").update(pfc=[]), {("ebof1", "fabric.pfc", "eth1")}),
    "DSCP unmapped": (lambda s: dcb(s, "gpu1", "eth1").update(dscp=[[48, 6]]), {("gpu1", "fabric.dscp", "eth1")}),
    "DSCP mapped twice": (
        lambda s: dcb(s, "gpu1", "eth1").update(dscp=[[26, 3], [26, 4], [48, 6]]), {("gpu1", "fabric.dscp", "eth1")},
    ),
    "CNP class not strict": (
        lambda s: dcb(s, "gpu1", "eth1")["ets"].update(selection=["ets"] * 8), {("gpu1", "fabric.ets", "eth1")},
    ),
    "no ETS": (lambda s: dcb(s, "gpu1", "eth1").update(ets=None), {("gpu1", "fabric.ets", "eth1")}),
    "MTU": (
        lambda s: s.states["gpu1"]["fabric"]["ports"]["eth1"].update(mtu=1500), {("gpu1", "fabric.mtu", "eth1")},
    ),
    "ToS": (lambda s: s.states["gpu1"]["fabric"]["ports"]["eth1"].update(tos=0), {("gpu1", "fabric.tos", "eth1")}),
    "full-size packets are lost": (
        lambda s: s.states["gpu1"]["portals"][0].update(full=False),
        {("gpu1", "paths.mtu", "192.0.2.11 on rail a")},
    ),
    "ping is missing": (
        lambda s: s.states["gpu1"]["portals"][1].update(full=None, answers=None),
        {("gpu1", "paths.mtu", "198.51.100.11 on rail b")},
    ),
    "no DCB": (
        lambda s: s.states["gpu1"]["fabric"]["ports"]["eth1"].update(dcb=None),
        {("gpu1", f"fabric.{name}", "eth1") for name in ("pfc", "dscp", "ets")},
    ),
    "a port is missing from the reading": (
        lambda s: s.states["gpu1"]["fabric"]["ports"].pop("eth1"),
        {("gpu1", f"fabric.{name}", "eth1") for name in ("mtu", "tos", "pfc", "dscp", "ets")},
    ),
    "another host is allowed": (
        lambda s: s.states["ebof1"]["target"]["subsystems"][tier.nqn(1)]["allowed_hosts"].append(tier.host_nqn("gpu2")),
        {("ebof1", "target.fence", tier.nqn(1))},
    ),
    "any host is allowed": (
        lambda s: s.states["ebof1"]["target"]["subsystems"][tier.nqn(1)].update(allow_any_host=True),
        {("ebof1", "target.fence", tier.nqn(1))},
    ),
    "a subsystem is not on a portal": (
        lambda s: s.states["ebof1"]["target"]["ports"]["2"]["links"].pop(tier.nqn(1)),
        {("ebof1", "target.export", tier.nqn(1))},
    ),
    "a subsystem is gone": (
        lambda s: s.states["ebof1"]["target"]["subsystems"].pop(tier.nqn(1)),
        {("ebof1", "target.export", tier.nqn(1))},
    ),
    "not mounted": (
        lambda s: s.states["gpu2"]["storage"]["mounts"][0].update(mounted=False), {("gpu2", "mount.namespace", MOUNT3)},
    ),
    "another namespace's device": (
        lambda s: s.states["gpu2"]["storage"]["mounts"][0].update(device_uuid=tier.uuid(4)),
        {("gpu2", "mount.namespace", MOUNT3)},
    ),
    "no multipath": (
        lambda s: s.states["gpu2"]["storage"]["mounts"][0].update(multipath=False),
        {("gpu2", "mount.namespace", MOUNT3)},
    ),
    "marked for another owner": (
        lambda s: s.states["gpu2"]["storage"]["mounts"][0]["marker"].update(owner="gpu1"),
        {("gpu2", "mount.marker", MOUNT3)},
    ),
    "no marker": (
        lambda s: s.states["gpu2"]["storage"]["mounts"][0].update(marker=None), {("gpu2", "mount.marker", MOUNT3)},
    ),
    "master is a standby": (lambda s: everywhere(s, "role", "standby"), {("gpu1", "master.serving", "")}),
    "a segment fell back to tcp": (tcp_segment, {("gpu2", "segment.protocol", "192.0.2.22:50053")}),
    "a segment is missing": (lost_segment, {("gpu2", "segment.protocol", "192.0.2.22:50053")}),
    "a store is unhealthy": (
        lambda s: s.states["gpu2"]["cache"]["stores"]["store-3"].update(healthy=False),
        {("gpu2", "store.health", "store-3")},
    ),
    "a store does not answer": (
        lambda s: s.states["gpu2"]["cache"]["stores"]["store-3"].update(healthy=None),
        {("gpu2", "store.health", "store-3")},
    ),
    "a healthy store cannot write": (
        lambda s: s.states["gpu2"]["cache"]["stores"]["store-3"].update(errors=["FILE_WRITE_FAIL"]),
        {("gpu2", "store.health", "store-3")},
    ),
    "capacity is off": (lambda s: everywhere(s, "metrics", {"file_capacity": 1}), {("", "pool.capacity", "")}),
    "capacity is not told": (lambda s: everywhere(s, "metrics", {}), {("", "pool.capacity", "")}),
    "bytes differ": (
        lambda s: back(s, "gpu2", "gpu1", "gpu2").update(equal=False), {("gpu2", "flash.read", "from gpu1 on gpu2")},
    ),
    "a value was not read": (
        lambda s: s.probes["gpu1"]["read"]["values"].remove(back(s, "gpu1", "gpu2", "gpu1")),
        {("gpu1", "flash.read", "from gpu2 on gpu1")},
    ),
    "a replica is left in memory": (
        lambda s: written(s, "gpu1", "gpu2")["replicas"].append({"kind": "MEMORY", "segment": "192.0.2.22:50052"}),
        {PLACED},
    ),
    "a value is on the other owner's flash": (
        lambda s: written(s, "gpu1", "gpu2")["replicas"][0].update(segment="192.0.2.21:50052"), {PLACED},
    ),
    "a value has no replica": (lambda s: written(s, "gpu1", "gpu2").update(replicas=[]), {PLACED}),
    "flash hits are flat": (
        lambda s: s.probes["gpu1"]["read"].update(hits_after=100), {("gpu1", "flash.hits", "")},
    ),
    "a store is not in the reading": (
        lambda s: s.states["gpu2"]["cache"]["stores"].pop("store-3"), {("gpu2", "store.health", "store-3")},
    ),
    "a stage's reading is malformed": (
        lambda s: s.states["gpu2"]["connect"].update(paths="none"), {("gpu2", "stage.read", "connect")},
    ),
    "a stage was not read": (lambda s: s.states["gpu2"].pop("storage"), {("gpu2", "stage.read", "storage")}),
}  # fmt: skip


def test_healthy_tier_passes_everything() -> None:
    verdicts = healthy().judge()
    assert {item.grade for item in verdicts} == {Grade.PASS}
    names = {item.check for item in verdicts}
    assert {"paths.live", "fabric.pfc", "segment.protocol", "pool.capacity", "flash.read", "flash.hits"} <= names
    assert len({(item.host, item.check, item.subject) for item in verdicts}) == len(verdicts)
    assert not any(item.remedy for item in verdicts)


@pytest.mark.parametrize("name", SPOILED)
def test_one_wrong_thing_fails_exactly_its_own_verdict(name: str) -> None:
    spoil, expected = SPOILED[name]
    seen = healthy()
    spoil(seen)
    verdicts = seen.judge()
    assert failing(verdicts) == expected
    for item in verdicts:
        if item.grade is Grade.FAIL:
            assert item.observed != item.expected
            assert item.remedy


def test_unreached_host_fails_by_name_and_passes_nothing_of_its_own() -> None:
    seen = healthy()
    del seen.findings["gpu2"]  # what an earlier stage read of it is old news
    del seen.probes["gpu2"]
    verdicts = seen.judge()
    failed = failing(verdicts)
    assert ("gpu2", "host.reached", "") in failed
    assert {check for host, check, _ in failed} == {"host.reached", "flash.placement", "flash.read", "flash.hits"}
    of_gpu2 = [item for item in verdicts if item.host == "gpu2"]
    # The master still lists its segments: that is the master's word, not the host's.
    assert {item.check for item in of_gpu2 if item.grade is Grade.PASS} == {"segment.protocol"}
    assert all(item.observed for item in of_gpu2 if item.grade is Grade.SKIP)


def test_nothing_read_at_all_fails() -> None:
    verdicts = judge(tier.plan(), {}, {}, {})
    assert {host for host, check, _ in failing(verdicts) if check == "host.reached"} == {"ebof1", "gpu1", "gpu2"}
    # What is planned covers every owner; nothing that was to be read passes.
    assert {item.check for item in verdicts if item.grade is Grade.PASS} == {"flash.coverage"}
    assert ("", "pool.capacity", "") in failing(verdicts)


def test_master_that_answers_nobody_fails_what_depends_on_it() -> None:
    seen = healthy()
    everywhere(seen, "reachable", False)
    checks = {check for _, check, _ in failing(seen.judge())}
    assert checks == {"master.serving", "segment.protocol", "pool.capacity"}


def test_status_needs_no_probe() -> None:
    seen = healthy()
    verdicts = judge(tier.plan(), seen.states, seen.findings, None)
    assert {item.grade for item in verdicts} == {Grade.PASS}
    assert not [item for item in verdicts if item.check.startswith("flash.")]


def test_findings_of_the_host_are_verdicts() -> None:
    seen = healthy()
    finding = {"check": "connect.unit", "subject": "g35-connect.service", "observed": "disabled",
               "expected": "enabled", "remedy": "run the deploy", "stage": "connect"}  # fmt: skip
    seen.findings["gpu1"] = [
        {**finding, "severity": "error"},
        {**finding, "severity": "warning", "subject": "w"},
        {**finding, "severity": "info", "subject": "i"},
    ]
    found = {item.subject: item.grade for item in seen.judge() if item.check == "finding.connect.unit"}
    assert found == {"g35-connect.service": Grade.FAIL, "w": Grade.WARN}


def test_accepted_lack_of_dcb_is_skipped_and_says_so() -> None:
    from dataclasses import replace

    plan = tier.plan()
    hosts = tuple(
        replace(host, fabric=replace(host.fabric, lossless="unavailable")) if host.fabric else host
        for host in plan.hosts
    )
    seen = healthy()
    seen.states["gpu1"]["fabric"]["ports"]["eth1"]["dcb"] = None
    verdicts = judge(replace(plan, hosts=hosts), seen.states, seen.findings, seen.probes)
    skipped = {item.check for item in verdicts if item.grade is Grade.SKIP}
    assert skipped == {"fabric.pfc", "fabric.dscp", "fabric.ets"}
    assert not failing(verdicts)


def test_software_rdma_marks_everything_as_emulated() -> None:
    seen = healthy()
    assert not any(item.emulated for item in seen.judge())
    seen.states["gpu1"]["fabric"]["ports"]["eth1"]["rdma_device"] = "rxe_eth1"
    assert all(item.emulated for item in seen.judge())


def test_planner_and_checks_name_segments_alike() -> None:
    from g35ctl.plan.build import build
    from g35ctl.validate.pool import segment_name

    plan = build(tier.site())
    hosts = [host for host in plan.hosts if host.cache is not None and host.cache.store is not None]
    assert len(hosts) == 2
    for host in hosts:
        assert host.cache is not None
        assert host.cache.store is not None
        named = tuple(segment_name(item) for item in host.cache.store.instances)
        assert all(other.probe is None or other.probe.segments[host.name] == named for other in plan.hosts)


def test_owner_that_no_probe_writes_to_fails() -> None:
    from dataclasses import replace

    plan = tier.plan()
    silent = replace(plan, hosts=tuple(replace(host, probe=None) for host in plan.hosts))
    seen = healthy()
    assert failing(judge(silent, seen.states, seen.findings, {})) == {("", "flash.coverage", "owners written to")}


def test_big_tier_gets_one_read_verdict_per_reader() -> None:
    from dataclasses import replace

    plan = tier.plan()
    copies = tuple(replace(plan.host("gpu1"), name=f"gpu{number}") for number in range(3, 12))
    seen = healthy()
    back(seen, "gpu2", "gpu1", "gpu2").update(equal=False)
    for host in copies:
        seen.states[host.name] = seen.states["gpu1"]
        seen.findings[host.name] = []
        seen.probes[host.name] = {"write": {"values": []}, "read": seen.probes["gpu1"]["read"]}
    verdicts = judge(replace(plan, hosts=plan.hosts + copies), seen.states, seen.findings, seen.probes)
    reads = [item for item in verdicts if item.check == "flash.read"]
    assert len(reads) == 11
    assert all(item.grade is Grade.FAIL for item in reads)  # the copies wrote nothing
    assert any("not equal" in item.observed for item in reads if item.host == "gpu2")


def test_silent_portal_is_left_to_its_paths_and_a_dumb_one_is_told() -> None:
    seen = healthy()
    seen.states["gpu2"]["portals"][1].update(full=False, answers=False)
    graded = {(v.host, v.subject): v.grade for v in seen.judge() if v.check == "paths.mtu"}
    assert graded["gpu2", "198.51.100.11 on rail b"] is Grade.WARN
    path(seen, "gpu2", 1).update(state="connecting")
    graded = {(v.host, v.subject): v.grade for v in seen.judge() if v.check == "paths.mtu"}
    assert graded["gpu2", "198.51.100.11 on rail b"] is Grade.SKIP


def test_the_remedy_for_a_box_names_the_stage_that_applies_its_settings() -> None:
    """A box gets its RoCE settings in stage target; no stage is called box or would apply fabric there."""
    seen = healthy()
    del seen.states["ebof1"]["fabric"]
    (verdict,) = [item for item in seen.judge() if item.check == "stage.read" and item.grade is Grade.FAIL]
    assert (verdict.host, verdict.subject) == ("ebof1", "fabric")
    assert "--only target --limit ebof1" in verdict.remedy
