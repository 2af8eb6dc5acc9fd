"""The jobs of the benchmark suites: who measures what with whom, and that nothing disturbs anything else."""

from __future__ import annotations

from typing import Any

import pytest
import sites
from ansible.module_utils.g35.bench_jobs import BenchJob, FabricJob, StorageJob, StoreJob
from ansible.module_utils.g35.schema import dump, load
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.plan import bench
from g35ctl.plan.bench import Pair
from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site, Validation


def lab(**settings: Any) -> tuple[Plan, Site]:
    site = sites.lab_site().model_copy(update={"validation": Validation.model_validate(settings)})
    return build(site), site


def fabric(**settings: Any) -> dict[str, FabricJob]:
    plan, site = lab(**settings)
    return {host: job.fabric for host, job in bench.fabric_jobs(plan, site, "t").items() if job.fabric}


def storage(**settings: Any) -> dict[str, StorageJob]:
    plan, site = lab(**settings)
    return {host: job.storage for host, job in bench.storage_jobs(plan, site, "t").items() if job.storage}


def store(**settings: Any) -> dict[str, StoreJob]:
    plan, site = lab(**settings)
    return {host: job.store for host, job in bench.store_jobs(plan, site, "t").items() if job.store}


@given(hosts=st.integers(0, 40), boxes=st.integers(0, 8))
def test_every_host_is_measured_and_nobody_twice_at_once(hosts: int, boxes: int) -> None:
    names, targets = [f"h{n}" for n in range(hosts)], [f"b{n}" for n in range(boxes)]
    wanted = bench.pairs(names, targets)
    assert len(set(wanted)) == len(wanted)
    assert all(pair.client != pair.server and pair.client in names for pair in wanted)
    if hosts > 1:
        assert {name for pair in wanted for name in (pair.client, pair.server)} >= set(names)
    if hosts:
        assert {pair.server for pair in wanted} >= set(targets)
    rounds = bench.rounds_of(wanted)
    assert sorted(map(str, wanted)) == sorted(str(pair) for group in rounds for pair in group)
    for group in rounds:
        ends = [name for pair in group for name in (pair.client, pair.server)]
        assert len(set(ends)) == len(ends)


def test_two_hosts_are_one_pair() -> None:
    assert bench.pairs(["a", "b"], ["box"]) == (Pair("a", "b"), Pair("a", "box"), Pair("b", "box"))


def test_jobs_travel_as_json() -> None:
    plan, site = lab()
    for jobs in (bench.fabric_jobs(plan, site, "t"), bench.storage_jobs(plan, site, "t")):
        for job in jobs.values():
            assert load(BenchJob, dump(job)) == job
    assert [len(bench.fabric_jobs(plan, site, "t")), len(bench.storage_jobs(plan, site, "t"))] == [3, 3]


def test_the_rounds_are_the_same_for_everybody_and_each_has_its_own_steps() -> None:
    jobs = fabric()
    names = [item.name for item in jobs["gpu1"].rounds]
    assert all([item.name for item in job.rounds] == names for job in jobs.values())
    assert len(set(names)) == len(names)
    for host, job in jobs.items():
        steps = [step for item in job.rounds for step in item.steps]
        assert steps
        assert all(host in (step.client, step.server) for step in steps)
    both = [{s.key for r in jobs[h].rounds for s in r.steps} for h in ("gpu1", "gpu2")]
    assert {key for key in both[0] & both[1] if key.endswith("gpu1-gpu2")}


def test_servers_and_clients_are_on_one_rail() -> None:
    for job in fabric().values():
        for item in job.rounds:
            for step in item.steps:
                prefix = {"a": "192.0.2.", "b": "198.51.100."}[step.rail]
                assert step.server_address.startswith(prefix)
                assert step.client_address.startswith(prefix)


def test_incast_has_as_many_senders_as_there_are_up_to_the_limit() -> None:
    rounds = [item for item in fabric()["gpu1"].rounds if "incast" in item.name]
    assert {(len(item.steps), item.steps[0].server) for item in rounds} == {(2, "gpu1"), (1, "ebof1")}
    assert not [item for item in fabric(fabric={"incast": 1})["gpu1"].rounds if "incast" in item.name]


def test_a_site_may_leave_rails_out() -> None:
    rounds = fabric(fabric={"rails": ["b"]})["gpu1"].rounds
    assert {item.name.split()[0] for item in rounds} == {"b"}
    assert len(rounds) * 2 == len(fabric()["gpu1"].rounds)


def test_a_site_without_rdma_has_no_fabric_suite() -> None:
    site = sites.lab_site(transport="tcp")
    assert bench.fabric_jobs(build(site), site, "t") == {}


def test_every_namespace_is_measured_alone_at_every_setting_and_then_all_at_once() -> None:
    jobs = storage(storage={"block_sizes": ["128KiB", "1MiB"], "queue_depths": [1, 32]})
    plan, _ = lab()
    everything = {item.uuid for item in plan.ownership}
    alone = [item for item in jobs["gpu1"].rounds if item.test == "namespace"]
    seen: list[str] = []
    for place, item in enumerate(alone):
        assert [(point.block_size, point.queue_depth) for point in item.points] == [
            (131072, 1), (131072, 32), (1048576, 1), (1048576, 32)]  # fmt: skip
        now = [t.uuid for job in jobs.values() for t in [r for r in job.rounds if r.test == "namespace"][place].targets]
        assert len(now) == 1  # one box: one of its SSDs at a time
        seen += now
    assert sorted(seen) == sorted(everything)
    for item in (item for item in range(2)):
        together = [
            target.uuid
            for job in jobs.values()
            for target in [r for r in job.rounds if r.test == "aggregate"][item].targets
        ]
        assert sorted(together) == sorted(everything)


def test_nothing_is_written_unless_a_namespace_is_named() -> None:
    plan, _ = lab()
    assert not [item for job in storage().values() for item in job.rounds if item.test == "write"]
    named = plan.ownership[0]
    jobs = storage(storage={"write_namespaces": [named.uuid]})
    writing = {(host, t.uuid) for host, job in jobs.items() for r in job.rounds if r.test == "write" for t in r.targets}
    assert writing == {(named.owner, named.uuid)}


def test_only_the_box_reads_its_own_ssd_and_only_owners_read_namespaces() -> None:
    for host, job in storage().items():
        for item in job.rounds:
            for target in item.targets:
                assert host == (target.box if item.test == "local" else target.owner)


def test_the_file_must_fit_beside_the_store() -> None:
    plan, _ = lab()
    owner = plan.host("gpu1")
    assert owner.storage is not None
    size = owner.storage.mounts[0].size
    for job in storage().values():
        for item in job.rounds:
            assert all(0 < target.room < size // 5 for target in item.targets)


def test_raw_mode_lays_nothing_out() -> None:
    tests = {item.test for item in storage(storage={"mode": "raw"})["gpu1"].rounds}
    assert "layout" not in tests
    assert "namespace" in tests


def test_boxes_nobody_logs_in_to_are_not_members() -> None:
    site = sites.lab_site(
        sites.box_host(1, 4, driver="static"), sites.gpu_host(1, groups=("gpu_hosts", "mooncake_masters")),
        sites.gpu_host(2),
    )  # fmt: skip
    jobs = bench.storage_jobs(build(site), site, "t")
    assert set(jobs) == {"gpu1", "gpu2"}
    assert "local" not in {item.test for job in jobs.values() if job.storage for item in job.storage.rounds}


def test_each_host_reads_what_another_wrote_and_fills_no_more_than_a_quarter() -> None:
    jobs = store()
    assert {host: job.source for host, job in jobs.items()} == {"gpu1": "gpu2", "gpu2": "gpu1"}
    for job in jobs.values():
        assert len(job.segments) == 2
        assert job.budget == 2 * 64 * 2**20 // 4


def test_values_that_do_not_fit_are_left_out() -> None:
    job = store(store={"sizes": ["1MiB", "8MiB", "15MiB"], "flash_sizes": ["1MiB", "8MiB", "15MiB"]})["gpu1"]
    assert job.sizes == (2**20, 8 * 2**20, 15 * 2**20)  # an eighth of 128 MiB
    assert job.flash_sizes == (2**20, 8 * 2**20)  # a bucket of 8 MiB
    assert store(store={"sizes": ["15MiB"]})["gpu1"].sizes == (15 * 2**20,)


def test_the_first_member_keeps_the_gate_on_its_rail_address() -> None:
    job = fabric(ports=19000)["gpu2"]
    assert job.gate.conductor == job.gate.members[0]
    assert (job.gate.address, job.gate.port) == ("192.0.2.11", 19000)
    assert len(job.gate.addresses) == 6


@pytest.mark.parametrize("boxes", [1, 4])
def test_a_fleet_is_planned_in_a_moment(boxes: int) -> None:
    site = sites.large_site(64, boxes, 24)
    plan = build(site)
    jobs = bench.storage_jobs(plan, site, "t")
    assert len([item for item in jobs["gpu1"].storage.rounds if item.test == "namespace"]) >= 24  # type: ignore[union-attr]
