"""Striped sets in the plan: who forms one, that it stays one, and that nothing is ever regrouped without its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ansible.module_utils.g35.stripe import set_uuid
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import GIB, box_host, gpu_host, lab_site, namespace_uuid

from g35ctl.engine.ledger import save_ownership
from g35ctl.engine.lifecycle.record import load_custody
from g35ctl.plan.bench import storage_jobs
from g35ctl.plan.build import build
from g35ctl.plan.custody import Custody
from g35ctl.plan.files import render
from g35ctl.plan.model import Ownership, Plan
from g35ctl.plan.moves import away_from
from g35ctl.plan.ownership import Candidate, Claimable, assign
from g35ctl.site.model import Site, Storage

MASTER = ("gpu_hosts", "mooncake_masters")
BOTH = frozenset({"a", "b"})
SSD = [str(namespace_uuid(1, number)) for number in range(1, 9)]


def site(ssds: int = 4, hosts: int = 2, layout: str = "striped", destroy: tuple[str, ...] = (), **more: object) -> Site:
    storage = Storage.model_validate({"layout": layout, "destroy": destroy, **more})
    members = [gpu_host(n, groups=MASTER if n == 1 else ("gpu_hosts",), storage=storage) for n in range(1, hosts + 1)]
    return lab_site(box_host(1, ssds), *members)


def record(plan: Plan) -> Custody:
    """What a deploy of the plan leaves on record."""
    names = [host.name for host in plan.hosts]
    return Custody(
        {item.uuid: item.owner for item in plan.ownership},
        {item.uuid: item.slot for item in plan.ownership},
        sets=plan.striped_sets(names),
    )


def grouping(plan: Plan) -> dict[str, str]:
    return {item.uuid: item.stripe for item in plan.ownership}


def stores(plan: Plan, host: str) -> dict[str, tuple[str, ...]]:
    cache = plan.host(host).cache
    assert cache is not None
    return {item.name: item.members for item in cache.store.instances} if cache.store is not None else {}


def test_an_owner_has_one_file_system_and_one_store_over_all_its_namespaces() -> None:
    plan = build(site())
    for host in ("gpu1", "gpu2"):
        storage, cache, connect = plan.host(host).storage, plan.host(host).cache, plan.host(host).connect
        assert storage is not None and cache is not None and cache.store is not None and connect is not None
        (item,), (store,) = storage.sets, cache.store.instances
        members = tuple(found.uuid for found in plan.ownership if found.owner == host)
        assert item.uuid == set_uuid("test", members) and item.members == store.members == members
        assert {mount.mount_point for mount in storage.mounts} == {item.mount_point} == {store.mount_point}
        assert len(storage.mounts) == 2 and len(connect.paths) == 4
        assert GIB * 1.7 < store.capacity / 0.9 < GIB * 2
    assert plan.summary.namespaces == 4 and [item.stores for item in plan.summary.memory] == [1, 1]


def test_one_namespace_is_no_set_and_per_namespace_makes_none() -> None:
    assert set(grouping(build(site(2))).values()) == {""}
    assert set(grouping(build(site(layout="per_namespace"))).values()) == {""}
    assert build(site(2)).host("gpu1").storage == build(site(2, layout="per_namespace")).host("gpu1").storage


def test_one_host_may_stripe_while_another_does_not() -> None:
    mixed = lab_site(
        box_host(1, 4), gpu_host(1, groups=MASTER), gpu_host(2, storage=Storage.model_validate({"layout": "striped"}))
    )
    plan = build(mixed)
    assert len(stores(plan, "gpu1")) == 2 and len(stores(plan, "gpu2")) == 1


def test_what_comes_later_gets_a_store_of_its_own_and_the_set_stays_what_it_is() -> None:
    before = build(site())
    after = build(site(7), custody=record(before))
    assert {uuid: grouping(after)[uuid] for uuid in grouping(before)} == grouping(before)
    assert [item.stripe for item in after.ownership if item.uuid not in grouping(before)] == ["", "", ""]
    assert any("is to stripe" in text and "g35_storage.destroy" in text for text in after.warnings)
    # Ports of what runs stay; new stores get others.
    kept = {item.uuid: item.slot for item in before.ownership}
    assert {item.uuid: item.slot for item in after.ownership if item.uuid in kept} == kept
    for host in ("gpu1", "gpu2"):
        cache = after.host(host).cache
        assert cache is not None and cache.store is not None
        assert len({item.rpc_port for item in cache.store.instances}) == len(cache.store.instances)


def test_changing_the_layout_regroups_nothing_that_is_on_record() -> None:
    striped, single = build(site()), build(site(layout="per_namespace"))
    assert grouping(build(site(layout="per_namespace"), custody=record(striped))) == grouping(striped)
    assert grouping(build(site(), custody=record(single))) == grouping(single)
    told = build(site(layout="per_namespace"), custody=record(striped)).warnings
    assert any("keeps it" in text for text in told)


def test_only_an_owner_all_of_whose_namespaces_are_named_starts_anew() -> None:
    single = build(site(layout="per_namespace"))
    mine = tuple(item.uuid for item in single.ownership if item.owner == "gpu1")
    some = build(site(destroy=mine[:1]), custody=record(single))
    assert grouping(some) == grouping(single)
    named = build(site(destroy=mine), custody=record(single))
    assert {uuid for uuid, stripe in grouping(named).items() if stripe} == set(mine)
    assert any(step.stage == "storage" and "striped set" in step.what for step in named.disruptive)
    # Once it is made, a name that was left behind changes nothing, also when more comes.
    made = record(named)
    assert grouping(build(site(destroy=mine), custody=made)) == grouping(named)
    grown = build(site(6, destroy=mine), custody=made)
    assert {uuid: grouping(grown)[uuid] for uuid in SSD[:4]} == grouping(named)


def test_a_set_that_lacks_a_namespace_is_told_and_has_no_capacity() -> None:
    before = build(site(4, 1))
    after = build(site(3, 1), custody=record(before))
    assert any("lacks" in text and SSD[3] in text for text in after.warnings)
    assert {item.stripe for item in after.ownership} == set(grouping(before).values())
    cache, storage = after.host("gpu1").cache, after.host("gpu1").storage
    assert cache is not None and cache.store is not None and storage is not None
    assert [item.capacity for item in cache.store.instances] == [0]
    assert storage.sets[0].members == tuple(SSD[:4])


def test_the_order_of_an_array_is_that_of_the_record_whatever_the_names_say() -> None:
    plan = build(site(3, 1))
    turned = replace(record(plan), sets=((SSD[2], SSD[0], SSD[1]),))
    storage = build(site(3, 1), custody=turned).host("gpu1").storage
    assert storage is not None and storage.sets[0].members == (SSD[2], SSD[0], SSD[1])


def test_the_record_of_sets_survives_its_file_and_a_new_set_replaces_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "ownership.json"
    save_ownership(path, dict.fromkeys(SSD[:4], "gpu1"), {}, [SSD[:2], SSD[2:4]])
    assert set(load_custody(tmp_path).sets) == {tuple(SSD[:2]), tuple(SSD[2:4])}
    save_ownership(path, dict.fromkeys(SSD[:3], "gpu1"), {}, [SSD[:3]])
    assert load_custody(tmp_path).sets == (tuple(SSD[:3]),)
    save_ownership(path, {SSD[7]: "gpu2"})
    assert load_custody(tmp_path).sets == (tuple(SSD[:3]),)


def test_units_wait_for_all_members_and_the_mount_for_the_array() -> None:
    wanted = site()
    storage = build(wanted).host("gpu1").storage
    assert storage is not None
    files, units = render("storage", replace(storage, files=(), units=()), wanted, wanted.host("gpu1"))
    (item,) = storage.sets
    assert units[0].name == item.unit and units[1].name.endswith(".mount") and len(units) == 2
    by_path = {file.path: file.content for file in files}
    array = by_path[f"/etc/systemd/system/{item.unit}"]
    for uuid in item.members:
        device = f"dev-disk-by\\x2did-nvme\\x2duuid.{uuid}".replace("-", "\\x2d").replace(
            "dev\\x2ddisk\\x2dby", "dev-disk-by"
        )
        device = device.replace("\\x2did\\x2dnvme", "\\x2did-nvme") + ".device"
        assert f"BindsTo={device}" in array and f"After={device}" in array and f"WantedBy={device}" in array
    assert "_netdev,nofail" in by_path[f"/etc/systemd/system/{units[1].name}"]
    assert f"BindsTo={item.unit}" in by_path[f"/etc/systemd/system/{units[1].name}"]
    assert "linux_raid_member" in by_path["/etc/udev/rules.d/62-g35-striped.rules"]
    box = build(wanted).host("ebof1").target
    assert box is not None and box.striped
    plain = build(site(layout="per_namespace")).host("ebof1").target
    assert plain is not None and not plain.striped


def test_benchmarks_share_the_room_of_a_set_and_leave_its_extents_alone() -> None:
    wanted = site(4, 1)
    plan = build(wanted)
    job = storage_jobs(plan, wanted, "t")["gpu1"].storage
    assert job is not None
    targets = {target.uuid: target for item in job.rounds for target in item.targets}
    assert len(targets) == 4 and len({item.mount_point for item in targets.values()}) == 1
    size, cache = sum(item.size for item in plan.ownership), plan.host("gpu1").cache
    assert cache is not None and cache.store is not None
    assert sum(item.room for item in targets.values()) <= size - cache.store.instances[0].capacity
    assert not [item for item in job.rounds if item.test in ("remote", "local") and item.targets]


# properties


@st.composite
def a_tier(draw: st.DrawFn) -> tuple[list[Claimable], list[Candidate], tuple[tuple[str, ...], ...]]:
    """Boxes that every owner reaches, and sets over some of their namespaces, across subsystems and boxes."""
    wanted = [
        Claimable(f"nqn.2026-01.io.x:{box}:{draw(st.integers(0, ssd))}", ssd + 1, f"{box}-{ssd}", f"box{box}",
                  draw(st.integers(1, 9)), BOTH)
        for box in range(draw(st.integers(1, 3))) for ssd in range(draw(st.integers(1, 5)))
    ]  # fmt: skip
    left = draw(st.permutations([item.uuid for item in wanted]))
    sets = []
    while len(left) > 1 and draw(st.booleans()):
        size = draw(st.integers(2, len(left)))
        sets.append(tuple(left[:size]))
        left = left[size:]
    return wanted, [Candidate(f"gpu{n}", BOTH) for n in range(draw(st.integers(1, 5)))], tuple(sets)


@given(a_tier(), st.data())
def test_members_of_a_set_always_have_one_owner_and_it_is_sticky(tier, data) -> None:
    wanted, candidates, sets = tier
    known = {item.uuid: data.draw(st.sampled_from([*(c.name for c in candidates), "gone"])) for item in wanted}
    owner = {item.uuid: item.owner for item in assign(wanted, candidates, known, (), sets).ownership}
    assert all(len({owner[uuid] for uuid in members}) == 1 for members in sets)
    again = {item.uuid: item.owner for item in assign(wanted, candidates, owner, (), sets).ownership}
    assert again == owner
    more = [Candidate(f"new{n}", BOTH) for n in range(3)]
    further = [replace(item, uuid=f"new-{item.uuid}", nqn=f"{item.nqn}-new", box=f"new-{item.box}") for item in wanted]
    grown = {item.uuid: item.owner for item in assign(wanted + further, candidates + more, owner, (), sets).ownership}
    assert {uuid: grown[uuid] for uuid in owner} == owner


@settings(deadline=None, max_examples=30)  # each is several whole plans
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from(["striped", "per_namespace"]),
)
def test_growth_and_changes_of_the_layout_never_regroup(sizes: list[int], hosts: int, layout: str) -> None:
    """Deploy after deploy, with more SSDs and hosts and another layout each time: what has a place keeps it."""
    custody, seen, ssds = Custody(), {}, 0
    for step, more in enumerate(sizes):
        ssds += more
        plan = build(site(ssds, hosts + step, layout if step % 2 else "striped"), custody=custody)
        now = {item.uuid: (item.owner, item.slot, item.stripe) for item in plan.ownership}
        assert {uuid: now[uuid] for uuid in seen} == seen
        places = [(item.owner, item.slot, item.stripe or item.uuid) for item in plan.ownership]
        assert len({place[:2] for place in places}) == len(set(places))
        seen, custody = now, record(plan)


@given(a_tier())
def test_a_drained_host_gives_whole_sets_away(tier) -> None:
    wanted, candidates, sets = tier
    candidates = [*candidates, Candidate("spare", BOTH)]
    of = {uuid: set_uuid("test", [str(namespace_uuid(9, n)) for n in range(place + 1)])
          for place, members in enumerate(sets) for uuid in members}  # fmt: skip
    ownership: tuple[Ownership, ...] = tuple(
        replace(item, stripe=of.get(item.uuid, "")) for item in assign(wanted, candidates, {}, (), sets).ownership
    )
    moves = away_from("gpu0", ownership, candidates, {item.box: BOTH for item in wanted})
    for members in sets:
        going = [set(move.uuids) for move in moves if set(move.uuids) & set(members)]
        assert not going or (len(going) == 1 and set(members) <= going[0])
    taken = [door for move in moves for door in move.subsystems]
    assert len(taken) == len(set(taken))
