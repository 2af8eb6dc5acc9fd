"""A site without a box whose owners state local directories as flash: stages of the network are absent, not skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import flash, storegate
from ansible.module_utils.g35.host import Host
from sites import GIB, box_host, gpu_host, lab_site

from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.site.lints import flash as lints
from g35ctl.site.lints.context import Context
from g35ctl.site.model import Storage
from g35ctl.site.positions import SourceIndex


def storage(*paths: str) -> Storage:
    return Storage.model_validate({"directories": [{"path": path, "size": GIB} for path in paths]})


def local_plan(**changes: Any) -> Plan:
    first = gpu_host(1, groups=("gpu_hosts", "mooncake_masters"), storage=storage("/srv/flash1", "/srv/flash2"))
    return build(lab_site(first, gpu_host(2, storage=storage("/srv/flash1")), **{"transport": "tcp"} | changes))


def test_only_the_cache_is_planned() -> None:
    plan = local_plan()
    assert {stage for stage, hosts in plan.stage_hosts.items() if hosts} == {"preflight", "cache", "validate"}
    assert plan.ownership == ()
    assert any("local directory, no shared box: " in warning for warning in plan.warnings)
    assert not any("own nothing" in warning for warning in plan.warnings)


def test_one_store_for_each_directory() -> None:
    plan = local_plan()
    stores = plan.host("gpu1").cache.store.instances  # type: ignore[union-attr]
    assert [(item.name, item.directory, item.rpc_port) for item in stores] == [
        ("srv-flash1", "/srv/flash1/store", 50052),
        ("srv-flash2", "/srv/flash2/store", 50053),
    ]
    assert {item.capacity for item in stores} == {GIB * 90 // 100}
    assert {item.namespace_uuid for item in stores} == {""}


def test_its_unit_waits_for_no_mount() -> None:
    files = local_plan().host("gpu2").cache.files  # type: ignore[union-attr]
    unit = next(item.content for item in files if item.path.endswith("g35-mooncake-store-srv-flash1.service"))
    assert "--mount" not in unit
    assert ".mount" not in unit
    assert "WantedBy=multi-user.target\n" in unit
    assert "ReadWritePaths=-/srv/flash1\n" in unit


def test_rdma_still_gets_its_fabric() -> None:
    assert local_plan(transport="rdma").stage_hosts["fabric"] == ("gpu1", "gpu2")


def test_directories_give_way_to_a_box() -> None:
    first = gpu_host(1, groups=("gpu_hosts", "mooncake_masters"), storage=storage("/srv/flash1"))
    plan = build(lab_site(box_host(1, 2), first, gpu_host(2)))
    stores = plan.host("gpu1").cache.store.instances  # type: ignore[union-attr]
    assert all(item.namespace_uuid for item in stores)


def test_the_directory_is_made_wherever_it_lies_and_a_namespace_never_is(tmp_path: Path) -> None:
    store = local_plan().host("gpu2").cache.store.instances[0]  # type: ignore[union-attr]
    host = Host(root=str(tmp_path))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("g35:x:0:0::/:/bin/false\n")
    seen = flash.read(host, store, {})
    assert flash.finding(store, seen) is None
    change = flash.change(host, store, seen, "g35")
    assert change is not None
    change.do()
    assert (tmp_path / "srv/flash1/store").is_dir()


def test_the_gate_asks_for_no_mount() -> None:
    health = '{"role": "leader", "service_ready": true}'
    assert storegate.obstacle("m:9003", "a:1", "", lambda url: health if "health" in url else "") == ""


@pytest.mark.parametrize(
    ("paths", "box", "told"),
    [
        (("/srv/a",), True, "no effect on a site with a box"),
        (("/srv/a", "/srv/a/b"), False, "lie in one another"),
        (("/srv/a", "/srv/a"), False, "lie in one another"),
        (("/srv/a/b", "/srv/a-b"), False, "would give their stores one name"),
    ],
)
def test_lints(paths: tuple[str, ...], box: bool, told: str) -> None:
    hosts = (*((box_host(1, 1),) if box else ()), gpu_host(1, storage=storage(*paths)))
    found = lints.directories(Context(lab_site(*hosts), {}, SourceIndex("/nowhere")))
    assert [told in problem.what for problem in found] == [True]


def test_a_host_that_may_not_own_has_no_use_for_a_directory() -> None:
    site = lab_site(gpu_host(1, groups=("mooncake_masters",), storage=storage("/srv/a")), gpu_host(2))
    found = lints.directories(Context(site, {}, SourceIndex("/nowhere")))
    assert ["not a cache owner" in problem.what for problem in found] == [True]
