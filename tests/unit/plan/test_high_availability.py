"""Two masters with etcd: everybody is told the same members and the same cluster, and the flash tier stays in use."""

from __future__ import annotations

import re

import pytest
from sites import box_host, gpu_host, lab_site

from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.site.model import Inference, Mooncake

MEMBERS = "192.0.2.21:2379;192.0.2.22:2379;192.0.2.23:2379"


INFERENCE = Inference.model_validate(
    {
        "engine": "vllm",
        "model": {"path": "/srv/models/a", "name": "a"},
        "instances": [{"name": "one"}, {"name": "two", "engine": "sglang", "tiers": {"host_cache": "8GB"}}],
    }
)


def ha_plan(**master: object) -> Plan:
    settings = Mooncake.model_validate({"master": master})
    both = ("gpu_hosts", "mooncake_masters", "etcd")
    hosts = [gpu_host(number, groups=both, mooncake=settings, inference=INFERENCE) for number in (1, 2)]
    witness = gpu_host(3, groups=("etcd",), mooncake=settings)
    return build(lab_site(box_host(1, 4), *hosts, witness))


def text(plan: Plan, host: str, ending: str) -> str:
    files = plan.host(host).cache.files  # type: ignore[union-attr]
    return next(item.content for item in files if re.search(ending, item.path))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return ha_plan()


def test_masters_and_clients_name_the_same_cluster(plan: Plan) -> None:
    for host in ("gpu1", "gpu2"):
        master = text(plan, host, "mooncake-master.service")
        for flag in ("--enable_ha=true", "--ha_backend_type=etcd", f"--ha_backend_connstring={MEMBERS}"):
            assert f"    {flag} \\\n" in master
        cluster = re.findall(r"--cluster_id=(\S+)", master)
        assert re.findall(r"^MC_STORE_CLUSTER_ID=(\S+)$", text(plan, host, r"\.env$"), re.MULTILINE) == cluster
        assert plan.host(host).probe.cluster_id == cluster[0] == "test"  # type: ignore[union-attr]
        store = text(plan, host, r"g35-mooncake-store-.*\.service")
        assert f"--master_server_address=etcd://{MEMBERS} " in store
        assert "--admin 192.0.2.21:9003,192.0.2.22:9003 " in store


def test_each_master_is_known_by_its_own_address(plan: Plan) -> None:
    for host, address in (("gpu1", "192.0.2.21"), ("gpu2", "192.0.2.22")):
        assert f"--rpc_address={address} " in text(plan, host, "mooncake-master.service")


def test_eviction_writes_to_flash_which_the_log_of_operations_would_prevent(plan: Plan) -> None:
    master = text(plan, "gpu1", "mooncake-master.service")
    assert "--offload_on_evict=true" in master and "--enable_oplog=false" in master
    with_log = text(ha_plan(oplog=True), "gpu1", "mooncake-master.service")
    assert "--offload_on_evict=false" in with_log and "--enable_oplog=true" in with_log


def test_a_single_master_has_nothing_of_it() -> None:
    single = build(lab_site())
    assert "enable_ha" not in text(single, "gpu1", "mooncake-master.service")
    assert "MC_STORE_CLUSTER_ID" not in text(single, "gpu1", r"\.env$")
    assert single.host("gpu1").cache.etcd is None  # type: ignore[union-attr]


def test_the_witness_runs_etcd_and_nothing_else(plan: Plan) -> None:
    cache = plan.host("gpu3").cache
    assert cache is not None and cache.master is None and cache.store is None
    assert plan.host("gpu3").probe is None
    assert {unit.name for unit in cache.units} == {"g35-firewall.service", "g35-etcd.service"}
    unit = text(plan, "gpu3", "g35-etcd.service")
    assert (
        "--initial-cluster=gpu1=http://192.0.2.21:2380,gpu2=http://192.0.2.22:2380,gpu3=http://192.0.2.23:2380 " in unit
    )
    assert "--listen-client-urls=http://192.0.2.23:2379 " in unit
    assert "IPAddressDeny=any" in unit


def test_etcds_ports_are_closed_to_all_but_the_rails(plan: Plan) -> None:
    assert re.search(r"elements = \{ 2379, 2380, ", text(plan, "gpu3", "g35.nft"))


def test_the_lists_of_members_do_not_depend_on_who_is_asked(plan: Plan) -> None:
    found = {plan.host(name).cache.etcd.members for name in ("gpu1", "gpu2", "gpu3")}  # type: ignore[union-attr]
    assert len(found) == 1


def test_engines_find_the_masters_through_etcd_and_wait_for_either(plan: Plan) -> None:
    inference = plan.host("gpu1").inference
    assert inference is not None
    for engine in inference.engines:
        assert f'"master_server_address":"etcd://{MEMBERS}"' in engine.config
        assert "MC_STORE_CLUSTER_ID=test" in engine.environment
        unit = next(item.content for item in inference.files if item.path.endswith(engine.unit))
        assert "--admin 192.0.2.21:9003 --admin 192.0.2.22:9003 --seconds" in unit
    assert '"master_metrics_port":9003' in inference.engines[1].config
