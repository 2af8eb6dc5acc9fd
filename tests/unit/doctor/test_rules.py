"""Every fault leads to its own cause and to no other; the deeper cause takes what follows from it along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import tier_sample as tier
from sick import Sick, finding

from g35ctl.validate.doctor.model import SEVERITIES

STORE3 = "g35-mooncake-store-3.service"


def causes(sick: Sick) -> set[tuple[str, tuple[str, ...]]]:
    return {(item.cause, item.hosts) for item in sick.diagnose()}


def port(sick: Sick, host: str, netdev: str) -> dict[str, Any]:
    found: dict[str, Any] = sick.after[host]["fabric"]["ports"][netdev]
    return found


def without_carrier(sick: Sick, host: str, netdev: str, rail: str) -> None:
    port(sick, host, netdev)["carrier"] = False
    sick.findings[host].append(finding("fabric.carrier", netdev))
    for other in ("gpu1", "gpu2") if host == "ebof1" else (host,):
        sick.cut(other, rail)


def small_mtu(sick: Sick, host: str) -> None:
    port(sick, host, "eth1")["mtu"] = 1500
    sick.findings[host] += [finding("fabric.mtu", "eth1"), finding("fabric.path_mtu", "eth1")]
    for other in ("gpu1", "gpu2") if host == "ebof1" else (host,):
        sick.way(other, "a", full=False, words="ping: local error: message too long, mtu=1500")
        sick.findings[other].append(finding("connect.path_mtu", "portal 192.0.2.11 on rail a"))


def wrong_priority(sick: Sick) -> None:
    counters = sick.after["gpu1"]["counters"]["eth1"]
    counters["roce_bytes"] += 10**8
    counters["ethtool"]["rx_prio0_bytes"] = 10**8


def fence(sick: Sick, **values: Any) -> None:
    sick.after["ebof1"]["target"]["subsystems"][tier.nqn(1)].update(values)
    sick.findings["ebof1"].append(finding("target.host", f"host x of {tier.nqn(1)}"))


def not_on_portal(sick: Sick) -> None:
    sick.after["ebof1"]["target"]["ports"]["2"]["links"].pop(tier.nqn(1))
    sick.findings["ebof1"].append(finding("target.link", f"link of {tier.nqn(1)} to port 2"))
    for path in sick.after["gpu1"]["connect"]["paths"]:
        if path["nqn"] == tier.nqn(1) and path["rail"] == "b":
            path.update(state="connecting")


def shared_identity(sick: Sick) -> None:
    sick.after["gpu2"]["connect"]["identity"]["host_nqn"] = tier.host_nqn("gpu1")
    sick.findings["gpu2"].append(finding("connect.identity", "/etc/nvme/hostnqn"))


def foreign_mount(sick: Sick) -> None:
    use = {"nqn": tier.nqn(3), "nsid": 1, "uuid": tier.uuid(3), "device": "/dev/nvme9n1", "used_by": ["/mnt"]}
    sick.after["gpu1"]["uses"].append({**use, "owned": False})


def store_down(sick: Sick) -> None:
    sick.after["gpu2"]["cache"]["stores"]["store-3"]["healthy"] = False
    sick.findings["gpu2"].append(finding("cache.store", STORE3))
    lost_segment(sick)


def lost_segment(sick: Sick) -> None:
    for host in ("gpu1", "gpu2"):
        master = sick.after[host]["cache"]["master"]
        master["segments"] = [item for item in master["segments"] if item["name"] != "192.0.2.22:50052"]
    sick.findings["gpu2"].append(finding("cache.segment", "192.0.2.22:50052"))


def tcp_segment(sick: Sick) -> None:
    for host in ("gpu1", "gpu2"):
        segments = sick.after[host]["cache"]["master"]["segments"]
        next(item for item in segments if item["name"] == "192.0.2.22:50052")["protocol"] = "tcp"


def no_master(sick: Sick, *deaf: str) -> None:
    for host in deaf:
        sick.after[host]["cache"]["master"] = {"reachable": False}
        sick.findings[host].append(finding("cache.master", "192.0.2.21:9003"))


def unmounted(sick: Sick) -> None:
    sick.after["gpu2"]["storage"]["mounts"][0]["mounted"] = False
    sick.findings["gpu2"].append(finding("storage.mount", f"/var/lib/g35/flash/{tier.uuid(3)}"))
    store_down(sick)


FAULTS: Mapping[str, tuple[Callable[[Sick], Any], set[tuple[str, tuple[str, ...]]]]] = {
    "nothing": (lambda s: None, set()),
    "a host is silent": (lambda s: s.lose("gpu2"), {("host.unreachable", ("gpu2",))}),
    "the box is silent and takes its portals along": (
        lambda s: (s.lose("ebof1"), *(s.cut(host, rail) for host in ("gpu1", "gpu2") for rail in ("a", "b"))),
        {("host.unreachable", ("ebof1",))},
    ),
    "a link is down": (lambda s: without_carrier(s, "gpu1", "eth2", "b"), {("link.down", ("gpu1",))}),
    "the box's link is down": (lambda s: without_carrier(s, "ebof1", "eth2", "b"), {("link.down", ("ebof1",))}),
    "one rail of one host is cut": (lambda s: s.cut("gpu1", "b"), {("rail.cut", ("gpu1",))}),
    "a rail is down for all": (
        lambda s: (s.cut("gpu1", "b"), s.cut("gpu2", "b")), {("rail.down", ("gpu1", "gpu2"))},
    ),
    "a controller reconnects": (lambda s: s.paths("gpu2", "b", state="connecting"), {("path.reconnecting", ("gpu2",))}),
    "a path is missing": (
        lambda s: s.paths("gpu2", "b", state="absent", controller=""), {("path.missing", ("gpu2",))},
    ),
    "PFC on another priority": (
        lambda s: port(s, "gpu2", "eth1")["dcb"].update(pfc=[4]), {("pfc.priority", ("gpu2",))},
    ),
    "DSCP unmapped": (lambda s: port(s, "gpu1", "eth1")["dcb"].update(dscp=[[48, 6]]), {("dscp.map", ("gpu1",))}),
    "ETS": (
        lambda s: port(s, "gpu1", "eth1")["dcb"]["ets"].update(selection=["ets"] * 8), {("ets.bandwidth", ("gpu1",))},
    ),
    "ToS": (lambda s: port(s, "gpu1", "eth1").update(tos=0), {("tos.default", ("gpu1",))}),
    "MTU of a host": (lambda s: small_mtu(s, "gpu1"), {("mtu.port", ("gpu1",))}),
    "MTU of the box": (lambda s: small_mtu(s, "ebof1"), {("mtu.port", ("ebof1",))}),
    "MTU in the middle": (lambda s: s.way("gpu1", "a", full=False, words="loss"), {("mtu.way", ("gpu1",))}),
    "traffic in the wrong priority": (wrong_priority, {("traffic.priority", ("gpu1",))}),
    "sequence errors": (
        lambda s: s.raise_counter("gpu1", "eth1", "rdma", "packet_seq_err", 3), {("sequence.errors", ("gpu1",))},
    ),
    "discards": (
        lambda s: s.raise_counter("gpu1", "eth1", "ethtool", "rx_prio3_discards", 3),
        {("packets.discarded", ("gpu1",))},
    ),
    "a pause storm": (
        lambda s: s.raise_counter("gpu1", "eth1", "ethtool", "tx_pause_storm_error_events", 1),
        {("pause.storm", ("gpu1",))},
    ),
    "a link flaps": (
        lambda s: s.raise_counter("gpu1", "eth1", "link", "carrier_changes", 2), {("link.flapping", ("gpu1",))},
    ),
    "pause alone is no fault": (lambda s: s.raise_counter("gpu1", "eth1", "ethtool", "rx_prio3_pause", 99), set()),
    "a counter that was reset": (
        lambda s: s.before["gpu1"]["counters"]["eth1"]["rdma"].update(packet_seq_err=9), set(),
    ),
    "short queues": (lambda s: s.paths("gpu1", "a", sqsize=14), {("queue.short", ("gpu1",))}),
    "two hosts with one host NQN": (shared_identity, {("identity.shared", ("gpu1", "gpu2"))}),
    "any host may connect": (lambda s: fence(s, allow_any_host=True), {("fence.open", ("ebof1",))}),
    "a foreign host may connect": (
        lambda s: fence(s, allowed_hosts=[tier.host_nqn("gpu1"), "nqn.2014-08.org.example:stranger"]),
        {("fence.open", ("ebof1",))},
    ),
    "the owner may not connect": (lambda s: fence(s, allowed_hosts=[]), {("fence.closed", ("ebof1", "gpu1"))}),
    "a subsystem is not on a portal": (not_on_portal, {("export.missing", ("ebof1",))}),
    "a namespace is used by another host": (foreign_mount, {("namespace.foreign_use", ("gpu1", "gpu2"))}),
    "a file system of another owner": (
        lambda s: s.after["gpu2"]["storage"]["mounts"][0]["marker"].update(owner="gpu1"),
        {("namespace.marker", ("gpu2", "gpu1"))},
    ),
    "not mounted": (unmounted, {("namespace.unmounted", ("gpu2",))}),
    "a store is down": (store_down, {("store.down", ("gpu2",))}),
    "a segment is missing": (lost_segment, {("segment.missing", ("gpu2",))}),
    "a segment over tcp": (tcp_segment, {("segment.protocol", ("gpu2",))}),
    "the master answers nobody": (
        lambda s: no_master(s, "gpu1", "gpu2"), {("master.unreachable", ("gpu1", "gpu2"))},
    ),
    "the master does not answer one host": (
        lambda s: no_master(s, "gpu2"), {("master.unreachable", ("gpu1", "gpu2"))},
    ),
    "another plan": (lambda s: s.recorded["gpu1"].update(fabric=False), {("drift.plan", ("gpu1",))}),
    "a stage that failed": (lambda s: s.recorded["gpu2"].pop("cache"), {("drift.never_applied", ("gpu2",))}),
    "no ledger": (lambda s: s.recorded.clear(), {("drift.unknown", ())}),
    "a file was edited": (
        lambda s: s.findings["gpu1"].append(finding("connect.file", "/etc/x")),
        {("finding.connect.file", ("gpu1",))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_leads_to_exactly_its_cause(fault: str) -> None:
    sick = Sick()
    spoil, expected = FAULTS[fault]
    spoil(sick)
    assert causes(sick) == expected
    for item in sick.diagnose():
        assert item.evidence
        assert item.remedy
        assert item.title


def test_one_host_of_many_names_the_majority() -> None:
    sick = Sick()
    port(sick, "gpu2", "eth1")["dcb"]["pfc"] = [4]
    (found,) = sick.diagnose()
    assert "gpu2 eth1: priority 4, expected priority 3" in found.evidence
    assert "5 of 6 ports have priority 3; 1 of 6 have priority 4" in found.evidence
    assert "g35ctl deploy --only fabric --limit gpu2 --allow-disruptive" in found.remedy


def test_two_faults_are_two_causes() -> None:
    sick = Sick()
    sick.cut("gpu1", "b")
    port(sick, "gpu2", "eth1")["tos"] = 0
    assert causes(sick) == {("rail.cut", ("gpu1",)), ("tos.default", ("gpu2",))}


def test_host_without_any_path_is_one_cause_for_each_rail_and_nothing_above() -> None:
    sick = Sick()
    for rail in ("a", "b"):
        sick.cut("gpu2", rail)
    for mount in sick.after["gpu2"]["storage"]["mounts"]:
        mount.update(device="", mounted=False)
        sick.findings["gpu2"].append(finding("storage.device", mount["mount_point"]))
    sick.after["gpu2"]["cache"]["stores"]["store-3"]["healthy"] = False
    found = sick.diagnose()
    assert {(item.cause, item.hosts) for item in found} == {("rail.cut", ("gpu2",))}
    assert len(found) == 2
    follows = [title for item in found for title in item.follows]
    assert any("does not mount 2" in title for title in follows)
    assert any("store store-3" in title for title in follows)


def test_a_box_that_drops_pings_but_serves_is_not_silent() -> None:
    sick = Sick()
    sick.way("gpu1", "b", full=False, answers=False, neighbour="02:00:00:00:00:01", words="100% packet loss")
    assert causes(sick) == set()


def test_without_ping_the_paths_decide() -> None:
    sick = Sick()
    sick.way("gpu1", "b", full=None, answers=None)
    sick.paths("gpu1", "b", state="connecting")
    assert causes(sick) == {("rail.cut", ("gpu1",))}


def test_soft_roce_that_sends_again_is_no_alarm() -> None:
    sick = Sick()
    for sample in (sick.before, sick.after):
        sample["gpu1"]["counters"]["eth1"]["device"] = "rxe_eth1"
    sick.raise_counter("gpu1", "eth1", "rdma", "duplicate_request", 40)
    (found,) = sick.diagnose()
    assert (found.cause, found.severity) == ("sequence.errors", "info")


def test_worst_first_then_the_cause_that_explains_most() -> None:
    sick = Sick()
    sick.recorded["gpu1"]["fabric"] = False
    port(sick, "gpu2", "eth1")["tos"] = 0
    unmounted(sick)
    found = sick.diagnose()
    assert [item.cause for item in found] == ["namespace.unmounted", "tos.default", "drift.plan"]
    places = [SEVERITIES.index(item.severity) for item in found]
    assert places == sorted(places)


def with_engine(sick: Sick, before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    for state, numbers in ((sick.before, before), (sick.after, after)):
        work = dict(zip(("running", "waiting", "tokens"), numbers, strict=True))
        state["gpu1"]["inference"] = {"engines": {"main": {"unit": "g35-vllm-main.service", "work": work}}}


def test_an_engine_that_lets_requests_wait_and_does_nothing_is_named() -> None:
    sick = Sick()
    with_engine(sick, (0, 8, 1000), (0, 9, 1000))
    (found,) = sick.diagnose()
    assert (found.cause, found.hosts) == ("engine.standing", ("gpu1",))
    assert "systemctl restart g35-vllm-main.service" in found.remedy


@pytest.mark.parametrize(
    ("before", "after"),
    [((0, 8, 1000), (0, 8, 1001)), ((1, 8, 1000), (0, 8, 1000)), ((0, 8, 1000), (1, 8, 1000)),
     ((0, 0, 1000), (0, 8, 1000)), ((0, 8, 1000), (0, 0, 1000))],
)  # fmt: skip
def test_an_engine_that_works_or_has_nothing_to_do_is_fine(
    before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    sick = Sick()
    with_engine(sick, before, after)
    assert sick.diagnose() == ()
