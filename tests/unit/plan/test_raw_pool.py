"""Profile nof-experimental: nobody owns, connects or mounts; the master's host registers, and says what it is."""

from __future__ import annotations

import json

import pytest
from sites import box_host, gpu_host, lab_site

from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site, SiteIdentity


def raw_site(**changes: object) -> Site:
    master = gpu_host(1, groups=("gpu_hosts", "mooncake_masters"))
    site = lab_site(box_host(1, 2), master, gpu_host(2), **changes)
    return site.model_copy(update={"identity": SiteIdentity(name="test", profile="nof-experimental")})


@pytest.fixture(scope="module")
def plan() -> Plan:
    return build(raw_site())


def test_no_host_connects_mounts_or_stores(plan: Plan) -> None:
    assert plan.ownership == ()
    assert {stage for stage, hosts in plan.stage_hosts.items() if hosts} >= {"target", "fabric", "cache"}
    assert plan.stage_hosts["connect"] == plan.stage_hosts["storage"] == ()
    assert all(host.cache is None or host.cache.store is None for host in plan.hosts)
    assert all(host.probe is None for host in plan.hosts)


def test_any_host_is_admitted_because_clients_draw_their_names(plan: Plan) -> None:
    assert {item.allowed_hosts for item in plan.host("ebof1").target.namespaces} == {("*",)}  # type: ignore[union-attr]


def test_the_masters_host_registers_every_namespace_through_the_first_rail(plan: Plan) -> None:
    cache = plan.host("gpu1").cache
    assert cache is not None and cache.nof is not None and cache.nof.registers
    text = next(item.content for item in cache.files if item.path.endswith("nof.json"))
    job = json.loads(text)
    assert (job["master"], job["transport"]) == ("192.0.2.21:50051", "RDMA")
    assert [(item["address"], item["port"], item["size"]) for item in job["namespaces"]] == [
        ("192.0.2.11", 4420, 2**30)
    ] * 2
    assert "g35-mooncake-nof.service" in {unit.name for unit in cache.units}


def test_the_others_only_watch_that_none_is_connected(plan: Plan) -> None:
    cache = plan.host("gpu2").cache
    assert cache is not None and cache.nof is not None and not cache.nof.registers
    assert not any(unit.name.startswith("g35-mooncake") for unit in cache.units)


def test_the_plan_says_what_is_experimental(plan: Plan) -> None:
    assert any("experimental" in warning for warning in plan.warnings)


def test_the_other_profile_has_nothing_of_it() -> None:
    plan = build(lab_site())
    assert all(host.cache is None or host.cache.nof is None for host in plan.hosts)
