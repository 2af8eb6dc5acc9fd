"""What the record changes in a plan: explicit acts outweigh pins, stores keep their ports, absent hosts get nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sites import box_host, gpu_host, lab_site, namespace_uuid

from g35ctl.plan.build import build
from g35ctl.plan.custody import Absence, Custody, CustodyError, allot
from g35ctl.plan.digest import stage_digest
from g35ctl.plan.model import Plan

MASTER = ("gpu_hosts", "mooncake_masters")
SSD = [str(namespace_uuid(1, number)) for number in range(1, 6)]
STAGES = ("target", "fabric", "connect", "storage", "cache")


def site(ssds: int = 4, hosts: int = 3, boxes: int = 1, **box: object):
    members = [box_host(number, ssds, **box) for number in range(1, boxes + 1)]
    members += [gpu_host(number, groups=MASTER if number == 1 else ("gpu_hosts",)) for number in range(1, hosts + 1)]
    return lab_site(*members)


def record(plan: Plan) -> Custody:
    return Custody(
        {item.uuid: item.owner for item in plan.ownership}, {item.uuid: item.slot for item in plan.ownership}
    )


def owners(plan: Plan) -> dict[str, str]:
    return {item.uuid: item.owner for item in plan.ownership}


def ports(plan: Plan, host: str) -> dict[str, int]:
    cache = plan.host(host).cache
    assert cache is not None and cache.store is not None
    return {item.namespace_uuid: item.rpc_port for item in cache.store.instances}


def touched(before: Plan, after: Plan) -> set[tuple[str, str]]:
    """(host, stage) that a deploy of ``after`` would apply where ``before`` is deployed."""
    known = {host.name for host in before.hosts}
    return {
        (host.name, stage)
        for host in after.hosts
        for stage in STAGES
        if stage_digest(after, host.name, stage)
        and (host.name not in known or stage_digest(after, host.name, stage) != stage_digest(before, host.name, stage))
    }


def test_a_record_survives_its_file():
    custody = Custody({"u1": "gpu1"}, {"u1": 3}, frozenset({"u1"}), {"gpu2": Absence("drain", "now", ("u2",))})
    assert Custody.from_json(json.loads(json.dumps(custody.to_json()))) == custody
    assert Custody.from_json({"namespaces": {"u": "gpu1"}}) == Custody({"u": "gpu1"})
    for broken in ({"namespaces": 1}, {"slots": {"u": "x"}}, {"away": {"gpu1": {"why": "holiday"}}}):
        with pytest.raises(CustodyError):
            Custody.from_json(broken)


def test_what_was_moved_on_purpose_outweighs_a_pin_until_it_is_home_again():
    namespaces = [
        {"nqn": f"nqn.2026-01.io.g35ctl:test:ebof1:ssd{n}", "uuid": SSD[n - 1], "size": "1GiB",
         "device": f"/dev/disk/by-id/nvme-{n}", "owner": "gpu2"} for n in (1, 2)
    ]  # fmt: skip
    wanted = site(hosts=3, namespaces=namespaces)
    assert set(owners(build(wanted)).values()) == {"gpu2"}
    away = Custody(dict.fromkeys(SSD[:2], "gpu2")).without("gpu2", Absence("drain", "t", tuple(SSD[:2])))
    drained = away.moved((SSD[0],), "gpu1").moved((SSD[1],), "gpu3")
    assert owners(build(wanted, custody=drained)) == {SSD[0]: "gpu1", SSD[1]: "gpu3"}
    home = drained.moved((SSD[0], SSD[1]), "gpu2").back("gpu2")
    assert home.settled == frozenset() and not home.away
    assert {item.since for item in build(wanted, custody=home).ownership} == {"pinned"}


def test_a_host_on_its_way_out_keeps_what_it_has_and_gets_nothing_new():
    before = build(site(4, 2))
    custody = record(before).without("gpu2", Absence("drain", "t"))
    after = build(site(5, 2), custody=custody)
    assert {uuid: owner for uuid, owner in owners(after).items() if uuid in owners(before)} == owners(before)
    assert owners(after)[SSD[4]] == "gpu1"
    assert after.host("gpu2").connect is not None


def test_a_host_that_is_out_of_service_is_asked_nothing_and_one_that_lets_go_holds_nothing():
    plan = build(site(4, 2))
    mine = tuple(uuid for uuid, owner in owners(plan).items() if owner == "gpu2")
    gone = record(plan).without("gpu2", Absence("drain", "t", mine)).moved(mine, "gpu1")
    drained = build(site(4, 2), custody=gone)
    assert drained.host("gpu2").stages() == ()
    letting_go = build(site(4, 2), custody=replace(gone, letting_go=frozenset({"gpu2"}))).host("gpu2")
    assert letting_go.connect is not None and letting_go.connect.paths == ()
    assert set(letting_go.connect.managed_nqns) == {item.nqn for item in plan.ownership}
    assert letting_go.storage is not None and letting_go.storage.mounts == ()
    assert letting_go.cache is not None and letting_go.cache.store is None
    # The master's host is needed, whoever owns the flash.
    master = record(plan).without("gpu1", Absence("drain", "t"))
    master = master.moved(master.owned_by("gpu1"), "gpu2")
    assert build(site(4, 2), custody=master).host("gpu1").cache.master is not None


def test_a_namespace_on_its_way_is_exported_to_nobody_and_its_mark_may_be_replaced():
    plan = build(site(2, 2))
    custody = replace(record(plan), fenced=frozenset({SSD[0]}), taken={SSD[1]: ("gpu9",)})
    after = build(site(2, 2), custody=custody)
    allowed = {item.uuid: item.allowed_hosts for item in after.host("ebof1").target.namespaces}
    assert allowed[SSD[0]] == () and len(allowed[SSD[1]]) == 1
    mounts = {item.uuid: item.previous_owners for host in ("gpu1", "gpu2") for item in after.host(host).storage.mounts}
    assert mounts == {SSD[0]: (), SSD[1]: ("gpu9",)}
    assert stage_digest(after, "gpu2", "storage") == stage_digest(plan, "gpu2", "storage")


def test_stores_keep_their_ports_when_others_come_and_go():
    before = build(site(4, 2))
    had = ports(before, "gpu1")
    one, other = sorted(had, key=had.__getitem__)
    # Without the first, the second stays where it is; what comes next fills the gap.
    custody = record(before).moved((one,), "gpu2")
    after = build(site(4, 2), custody=custody)
    assert ports(after, "gpu1") == {other: had[other]}
    assert len(set(ports(after, "gpu2").values())) == 3
    again = build(site(4, 2), custody=record(after).moved((one,), "gpu1"))
    assert ports(again, "gpu1") == had


def test_a_record_without_places_gives_the_places_that_were_in_use():
    before = build(site(4, 2))
    old = Custody({item.uuid: item.owner for item in before.ownership})
    assert ports(build(site(5, 2), custody=old), "gpu1")[SSD[0]] == ports(before, "gpu1")[SSD[0]]


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.sampled_from(["x", "y"]), max_size=9), st.data())
def test_places_are_unique_and_recorded_ones_stay(owned, data):
    slots = data.draw(st.dictionaries(st.sampled_from(sorted(owned) or ["-"]), st.integers(0, 5)))
    known = {uuid: owned[uuid] for uuid in slots if uuid in owned}
    found = allot(owned, Custody(known, slots))
    places = [(owned[uuid], slot) for uuid, slot in found.items()]
    assert len(set(places)) == len(places) == len(owned)
    for uuid, slot in slots.items():
        if uuid in known and sum(1 for u, s in slots.items() if (s, owned.get(u)) == (slot, owned[uuid])) == 1:
            assert found[uuid] == slot


# Growing: what a deploy would touch when something is added.


def test_a_new_ssd_touches_its_box_and_its_owner_alone():
    before = build(site(4, 2))
    after = build(site(5, 2), custody=record(before))
    owner = owners(after)[SSD[4]]
    assert touched(before, after) == {("ebof1", "target"), *((owner, s) for s in ("connect", "storage", "cache"))}
    kept = ports(before, owner)
    assert {uuid: port for uuid, port in ports(after, owner).items() if uuid in kept} == kept


def test_a_new_box_touches_nothing_of_the_old_one():
    before = build(site(4, 2))
    after = build(site(4, 2, boxes=2), custody=record(before))
    assert {uuid: owner for uuid, owner in owners(after).items() if uuid in owners(before)} == owners(before)
    changed = touched(before, after)
    assert ("ebof1", "target") not in changed and ("ebof2", "target") in changed
    assert {stage for host, stage in changed if host.startswith("gpu")} == {"connect", "storage", "cache"}


def test_a_new_host_touches_itself_alone():
    before = build(site(4, 2))
    after = build(site(4, 3), custody=record(before))
    assert owners(after) == owners(before)
    assert {host for host, _ in touched(before, after)} == {"gpu3"}


def test_a_second_master_touches_the_central_services_alone():
    before = build(site(4, 2))
    hosts = [box_host(1, 4), gpu_host(1, groups=MASTER), gpu_host(2), gpu_host(3, groups=("mooncake_masters",))]
    after = build(lab_site(*hosts), custody=record(before))
    assert {stage for host, stage in touched(before, after) if host != "gpu3"} <= {"cache"}
    assert owners(after) == owners(before) and ports(after, "gpu2") == ports(before, "gpu2")
