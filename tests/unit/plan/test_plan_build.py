"""The plan of a site: every host's part, consistent with every other host's."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from ansible.module_utils.g35.plans import Wheel
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import GIB, WIDE_RAILS, box_host, gpu_host, lab_site, namespace_uuid

from g35ctl.plan.build import build
from g35ctl.plan.cache import wheel_set
from g35ctl.plan.context import Paths
from g35ctl.plan.digest import stage_digest
from g35ctl.plan.disruptive import disruptive_steps
from g35ctl.plan.identity import port_id, serial
from g35ctl.plan.model import Plan
from g35ctl.plan.storage import capacity, file_system_bytes
from g35ctl.site.model import BoxPortal, Fabric, HostPort, Mooncake, Nvme, Site, Storage

MASTER = ("gpu_hosts", "mooncake_masters")


def test_a_box_admits_exactly_the_owner_that_connects():
    plan = build(lab_site())
    target = plan.host("ebof1").target
    assert target is not None
    connected = {
        path.nqn: host.connect.host_nqn
        for host in plan.hosts
        if host.connect is not None
        for path in host.connect.paths
    }
    assert {item.nqn: item.allowed_hosts for item in target.namespaces} == {
        nqn: (host,) for nqn, host in connected.items()
    }


def test_every_owner_reaches_every_namespace_once_per_rail_and_only_along_a_rail():
    plan = build(lab_site())
    for name in ("gpu1", "gpu2"):
        host = plan.host(name)
        assert host.connect is not None
        assert host.storage is not None
        for mount in host.storage.mounts:
            paths = [path for path in host.connect.paths if path.nqn == mount.nqn]
            assert [(p.rail, p.netdev, p.address[:8], p.source_address[:8]) for p in paths] == [
                ("a", "eth1", "192.0.2.", "192.0.2."),
                ("b", "eth2", "198.51.1", "198.51.1"),
            ]


def test_several_portals_on_a_rail_are_all_used():
    portals = [{"address": "192.0.2.11", "rail": "a"}, {"address": "192.0.2.12", "rail": "a"}]
    plan = build(lab_site(box_host(1, 1, portals=portals), gpu_host(1, groups=MASTER)))
    connect = plan.host("gpu1").connect
    assert connect is not None
    assert [path.address for path in connect.paths] == ["192.0.2.11", "192.0.2.12"]
    assert any("one rail only" in warning for warning in plan.warnings)


def test_namespaces_of_one_subsystem_share_owner_and_paths():
    nqn = "nqn.2026-01.io.g35ctl:test:shared"
    namespaces = [
        {"nqn": nqn, "nsid": n, "uuid": namespace_uuid(1, n), "size": GIB, "device": f"/dev/disk/by-id/d{n}"}
        for n in (1, 2)
    ]
    plan = build(lab_site(box_host(1, 0, namespaces=namespaces), gpu_host(1, groups=MASTER), gpu_host(2)))
    owner = plan.host(plan.ownership[0].owner)
    assert owner.connect is not None
    assert owner.storage is not None
    assert len(owner.storage.mounts) == 2
    assert len(owner.connect.paths) == 2


def test_stores_have_their_own_ports_and_fit_their_file_systems():
    plan = build(lab_site())
    cache = plan.host("gpu1").cache
    storage = plan.host("gpu1").storage
    assert cache is not None and cache.store is not None and storage is not None
    assert [(s.rpc_port, s.http_port) for s in cache.store.instances] == [(50052, 9300), (50053, 9301)]
    assert [s.directory for s in cache.store.instances] == [f"{m.mount_point}/store" for m in storage.mounts]
    assert all(
        s.capacity < file_system_bytes(m.size) for s, m in zip(cache.store.instances, storage.mounts, strict=True)
    )
    assert all(s.devices == ("eth1", "eth2") for s in cache.store.instances)
    assert plan.summary.capacity == 4 * capacity(GIB, 10)


@pytest.mark.parametrize("size", [300 * 2**20, GIB, 7_680_000_000_000, 61_440_000_000_000])
def test_capacity_leaves_the_reserve_and_what_xfs_needs(size: int):
    assert 0 < capacity(size, 10) <= file_system_bytes(size) * 0.9
    assert capacity(size, 10) < size * 0.9
    assert capacity(size, 10) % 2**20 == 0


def test_everyone_is_told_the_same_master():
    plan = build(lab_site())
    for name in ("gpu1", "gpu2"):
        host = plan.host(name)
        assert host.cache is not None and host.cache.store is not None and host.probe is not None
        assert host.cache.store.master_address == host.probe.master_rpc == "192.0.2.21:50051"
        assert host.cache.store.master_admin == host.probe.master_admin == "192.0.2.21:9003"
    assert plan.host("gpu2").cache.master is None
    assert plan.host("gpu1").cache.master.address == "192.0.2.21"


def test_a_probe_knows_the_segments_of_every_store():
    plan = build(lab_site())
    probe = plan.host("gpu2").probe
    assert probe is not None
    assert probe.segments == {
        "gpu1": ("192.0.2.21:50052", "192.0.2.21:50053"),
        "gpu2": ("192.0.2.22:50052", "192.0.2.22:50053"),
    }
    assert probe.total_capacity == plan.summary.capacity


def test_a_probe_reckons_with_the_largest_bucket_it_writes_to():
    large = Mooncake.model_validate({"store": {"bucket_size": "16MiB", "segment_size": "256MiB"}})
    site = lab_site(box_host(1, 2), gpu_host(1, groups=MASTER), gpu_host(2, mooncake=large))
    probe = build(site).host("gpu1").probe
    assert (probe.bucket_size, probe.segment_size) == (16 * 2**20, 256 * 2**20)


def test_in_a_larger_site_a_probe_writes_to_its_neighbours_and_everyone_is_written_to():
    hosts = [gpu_host(n, wide=True, groups=MASTER if n == 1 else ("gpu_hosts",)) for n in range(1, 21)]
    site = lab_site(box_host(1, 20, wide=True), *hosts, rails=WIDE_RAILS)
    plan = build(site)
    written = [name for host in plan.hosts if host.probe is not None for name in host.probe.segments]
    assert {name: written.count(name) for name in written} == {f"gpu{n}": 8 for n in range(1, 21)}
    assert all(host.name not in host.probe.segments for host in plan.hosts if host.probe is not None)


def test_tcp_has_no_tos_and_no_rdma_devices():
    plan = build(lab_site(transport="tcp"))
    host = plan.host("gpu1")
    assert host.connect is not None and host.cache is not None and host.cache.store is not None
    assert host.connect.tos == 0
    assert {path.transport for path in host.connect.paths} == {"tcp"}
    assert all(store.devices == () and store.protocol == "tcp" for store in host.cache.store.instances)


def test_rdma_carries_the_contract_everywhere():
    plan = build(lab_site(traffic={"dscp": 24, "priority": 4}))
    host = plan.host("gpu1")
    assert host.connect is not None and host.fabric is not None
    assert host.connect.tos == host.fabric.tos == 24 << 2 | 2
    assert host.fabric.priority == 4
    assert [(port.prefix_length, port.mtu) for port in host.fabric.ports] == [(24, 4200), (24, 4200)]


def test_a_host_identity_is_stated_or_stays_the_same():
    first = build(lab_site())
    second = build(lab_site(box_host(1, 4), gpu_host(2, groups=MASTER)))
    assert first.host("gpu2").connect.host_uuid == second.host("gpu2").connect.host_uuid
    stated = gpu_host(2, groups=MASTER, nvme=Nvme(host_uuid=namespace_uuid(9, 9)))
    connect = build(lab_site(box_host(1, 4), stated)).host("gpu2").connect
    assert connect.host_nqn == f"nqn.2014-08.org.nvmexpress:uuid:{namespace_uuid(9, 9)}"


def test_port_numbers_do_not_depend_on_other_portals():
    portals = [BoxPortal(address=f"192.0.2.{n}", rail="a") for n in range(1, 255)]
    alone = {str(portal.address): port_id(portal, ()) for portal in portals}
    taken: set[int] = set()
    for portal in portals:
        taken.add(port_id(portal, taken))
    assert len(taken) == len(portals)
    assert all(1000 <= number < 65000 for number in taken)
    assert len(taken & set(alone.values())) >= len(portals) - 4


def test_serials_fit_and_differ():
    made = {serial(namespace_uuid(1, n)) for n in range(500)}
    assert len(made) == 500
    assert all(len(item) == 20 and item.isascii() for item in made)


def test_a_static_box_is_left_alone_and_its_access_list_spelled_out():
    plan = build(lab_site(box_host(1, 2, driver="static"), gpu_host(1, groups=MASTER)))
    assert plan.host("ebof1").stages() == ()
    assert plan.stage_hosts["target"] == ()
    assert any("not configured by g35ctl: ebof1" in warning for warning in plan.warnings)


def test_stages_list_their_hosts():
    assert build(lab_site()).stage_hosts == {
        "preflight": ("ebof1", "gpu1", "gpu2"),
        "target": ("ebof1",),
        "fabric": ("gpu1", "gpu2"),
        "connect": ("gpu1", "gpu2"),
        "storage": ("gpu1", "gpu2"),
        "cache": ("gpu1", "gpu2"),
        "inference": (),
        "validate": ("gpu1", "gpu2"),
    }


def test_gateways_own_instead_of_gpu_hosts_when_the_site_names_them():
    gateway = gpu_host(3, groups=("cache_owners",))
    plan = build(lab_site(box_host(1, 4), gpu_host(1, groups=MASTER), gateway))
    assert {item.owner for item in plan.ownership} == {"gpu3"}
    assert plan.host("gpu1").connect is None
    assert plan.host("gpu1").cache.master is not None


def test_the_json_form_reads_back_equal():
    plan = build(lab_site())
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_the_same_site_gives_the_same_plan_whatever_the_order_of_hosts():
    site = lab_site()
    mixed = list(site.hosts)
    random.Random(5).shuffle(mixed)
    again = build(Site(**{**dict(site), "hosts": tuple(mixed)}))
    first = build(site)
    assert again.digest == first.digest
    assert again.ownership == first.ownership


def test_digests_change_where_something_must_be_done_and_nowhere_else():
    before = build(lab_site())
    known = {item.uuid: item.owner for item in before.ownership}
    grown = build(lab_site(box_host(1, 4), box_host(2, 1), gpu_host(1, groups=MASTER), gpu_host(2)), known)
    moved = [item.owner for item in grown.ownership if item.box == "ebof2"]
    other = ({"gpu1", "gpu2"} - set(moved)).pop()
    for stage in ("fabric", "connect", "storage", "cache"):
        assert stage_digest(before, other, stage) == stage_digest(grown, other, stage)
        if stage != "fabric":
            assert stage_digest(before, moved[0], stage) != stage_digest(grown, moved[0], stage)
    assert stage_digest(before, "ebof1", "target") == stage_digest(grown, "ebof1", "target")
    assert stage_digest(before, "ebof1", "fabric") == ""
    assert before.digest != grown.digest


def test_a_box_reacts_to_its_roce_settings_in_stage_target():
    before, after = build(lab_site()), build(lab_site(mtu=9000))
    assert stage_digest(before, "ebof1", "target") != stage_digest(after, "ebof1", "target")


def test_disruptive_steps_follow_what_was_applied():
    plan = build(lab_site())
    assert {(step.host, step.stage) for step in plan.disruptive} == {
        ("ebof1", "target"), ("gpu1", "fabric"), ("gpu2", "fabric"),
    }  # fmt: skip
    stages = ("target", "fabric", "connect", "storage", "cache")
    holding = {host.name: dict.fromkeys(stages, True) for host in plan.hosts}
    assert disruptive_steps(plan.hosts, holding) == ()
    holding["gpu1"]["cache"] = False
    (step,) = disruptive_steps(plan.hosts, holding)
    assert (step.host, step.what) == ("gpu1", "restart of the master and 2 stores")


def test_destroying_is_always_named():
    doomed = namespace_uuid(1, 1)
    host = gpu_host(1, groups=MASTER, storage=Storage(destroy=(doomed, namespace_uuid(7, 7))))
    plan = build(lab_site(box_host(1, 1), host))
    assert plan.host("gpu1").storage.destroy == (str(doomed),)
    assert [step.interrupts for step in plan.disruptive if step.stage == "storage"] == [
        "whatever it holds is destroyed"
    ]
    assert any(str(namespace_uuid(7, 7)) in warning for warning in plan.warnings)


def test_wheels_are_found_beside_the_inventory_or_in_the_cache():
    paths = Paths("/sites/x", "/cache")
    default = gpu_host(1)
    assert wheel_set(paths, default).directory == "/cache/mooncake-transfer-engine-non-cuda-0.3.13.post1"
    named = gpu_host(1, mooncake=Mooncake(wheelhouse="../wheels"))
    assert wheel_set(paths, named).directory == "/sites/wheels"
    wheels = {wheel_set(paths, default): (Wheel("mooncake.whl", "0" * 64),)}
    plan = build(lab_site(), wheels=wheels, paths=paths)
    assert plan.host("gpu1").cache.runtime.wheels == (Wheel("mooncake.whl", "0" * 64),)
    assert not any("lacks" in warning for warning in plan.warnings)
    assert any("lacks mooncake-transfer-engine-non-cuda" in warning for warning in build(lab_site()).warnings)


def test_ipv6_rails_work_end_to_end():
    rails = [{"name": "a", "subnet": "2001:db8:a::/64"}]
    box = box_host(1, 1, portals=[{"address": "2001:db8:a::11", "rail": "a"}])
    host = gpu_host(1, groups=MASTER, ports=(HostPort(netdev="eth1", rail="a", address="2001:db8:a::21"),))
    site = replace_fabric(lab_site(box, host), rails)
    plan = build(site)
    assert plan.host("ebof1").target.portals[0].family == "ipv6"
    assert plan.host("gpu1").cache.store.master_address == "[2001:db8:a::21]:50051"


def replace_fabric(site: Site, rails: list[dict[str, str]]) -> Site:
    return site.model_copy(update={"fabric": Fabric.model_validate({"rails": rails})})


def test_a_site_without_a_master_still_plans_its_flash():
    plan = build(lab_site(box_host(1, 2), gpu_host(1)))
    assert plan.host("gpu1").cache is None
    assert plan.host("gpu1").storage is not None
    assert any("mooncake_masters" in warning for warning in plan.warnings)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 6), st.randoms(use_true_random=False))
def test_all_parts_of_a_plan_agree(hosts: int, boxes: int, ssds: int, chance: random.Random):
    members = [gpu_host(n, wide=True, groups=MASTER if n == 1 else ("gpu_hosts",)) for n in range(1, hosts + 1)]
    members += [box_host(n, ssds, wide=True) for n in range(1, boxes + 1)]
    chance.shuffle(members)
    plan = build(lab_site(*members, rails=WIDE_RAILS))
    admitted = {item.uuid: item.allowed_hosts for host in plan.hosts if host.target for item in host.target.namespaces}
    mounted = [(mount.uuid, host) for host in plan.hosts if host.storage for mount in host.storage.mounts]
    assert len(mounted) == len(admitted) == boxes * ssds
    for uuid, host in mounted:
        assert host.connect is not None and host.cache is not None and host.cache.store is not None
        assert admitted[uuid] == (host.connect.host_nqn,)
        assert [item.namespace_uuid for item in host.cache.store.instances].count(uuid) == 1
    for host in plan.hosts:
        if host.cache is not None and host.cache.store is not None:
            ports = [port for item in host.cache.store.instances for port in (item.rpc_port, item.http_port)]
            assert len(set(ports)) == len(ports)
    segments = {name for host in plan.hosts if host.probe for names in host.probe.segments.values() for name in names}
    assert len(segments) == boxes * ssds


def test_a_plan_is_frozen():
    plan = build(lab_site())
    with pytest.raises(AttributeError):
        plan.site = "other"  # type: ignore[misc]
    assert replace(plan, site="other").site == "other"
