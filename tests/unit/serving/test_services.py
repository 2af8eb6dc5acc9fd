"""What the suite talks to, read from a plan; the three paths as plans; logins read from an inventory's variables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from results import workload

from g35ctl.content import content_root
from g35ctl.engine.ssh import Target, login
from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.site.load import load
from g35ctl.site.model import Site
from g35ctl.validate.serving import services as services_module
from g35ctl.validate.serving.measure import changed, rise
from g35ctl.validate.serving.metrics import EngineCounters
from g35ctl.validate.serving.services import Reach, services
from g35ctl.validate.serving.variants import memory_needed, sizes_of, variants
from g35ctl.validate.serving_result import CachePath


@pytest.fixture(scope="module")
def planned() -> tuple[Site, Plan]:
    site = load(str(content_root() / "inventories" / "serving"))
    return site, build(site)


def test_the_router_is_the_front_and_every_unit_is_watched(planned: tuple[Site, Plan]) -> None:
    found = services(planned[1])
    assert found.model == "tiny"
    assert (found.front.host, found.front.port) == ("head1", 8000)
    assert found.front.address != "0.0.0.0"
    assert [item.target.host for item in found.engines] == ["gpu1", "gpu2"]
    assert [(item.address, item.port) for item in found.masters] == [("192.0.2.11", 9003)]
    assert "g35-mooncake-master.service" in found.units["head1"]
    assert any("store" in unit for unit in found.units["gpu1"])
    assert any("vllm" in unit for unit in found.units["gpu2"])
    assert len(found.targets()) == 4


def test_a_site_without_engines_has_nothing_to_measure() -> None:
    with pytest.raises(ValueError, match="no engine"):
        services(build(load(str(content_root() / "inventories" / "lab"))))


def test_paths_differ_in_their_stores_alone(planned: tuple[Site, Plan]) -> None:
    site, plan = planned
    found = {item.path: item for item in variants(site, plan, workload(users=(4, 16)))}
    assert found[CachePath.G35].site is site
    for path in (CachePath.LOCAL, CachePath.MEMORY):
        other = build(found[path].site)
        for host in plan.hosts:
            assert other.host(host.name).inference == host.inference
        units = [
            item.content for host in other.hosts if host.cache for item in host.cache.files if "--host=" in item.content
        ]
        assert len(units) == 2
        assert all("--enable_offload=false" in unit for unit in units)
        masters = [
            item.content
            for host in other.hosts
            if host.cache
            for item in host.cache.files
            if "client_ttl=" in item.content
        ]
        assert all("--enable_offload=false" in item and "--offload_on_evict=false" in item for item in masters)
    segment = plan.host("gpu1").cache.store.instances[0].segment_size  # type: ignore[union-attr]
    assert found[CachePath.LOCAL].setting.memory == 2 * segment
    assert found[CachePath.LOCAL].setting.flash == found[CachePath.MEMORY].setting.flash == 0
    assert found[CachePath.G35].setting.flash > 0
    contexts = {path: item.setting.contexts for path, item in found.items()}
    assert contexts[CachePath.LOCAL] < 16 < contexts[CachePath.MEMORY] < contexts[CachePath.G35]  # type: ignore[operator]


def test_memory_holds_every_context_below_the_watermark(planned: tuple[Site, Plan]) -> None:
    site, plan = planned
    sizes = sizes_of(site, plan)
    assert sizes.token_bytes == 2048
    for users in (1, 16, 48):
        wanted = workload(users=(users,))
        room = memory_needed(wanted, sizes) * sizes.stores * sizes.watermark
        assert room >= users * wanted.prompt_tokens(wanted.rounds - 1) * sizes.token_bytes


def test_an_unknown_model_needs_the_memory_stated(planned: tuple[Site, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    site, plan = planned
    monkeypatch.setattr("g35ctl.validate.serving.variants.engines", lambda _: ())
    with pytest.raises(ValueError, match="memory_memory"):
        variants(site, plan, workload())


def test_restarts_void_a_measurement() -> None:
    one, two = Target("gpu1", "a", 1), Target("gpu2", "b", 1)
    low, high = EngineCounters(1, 0, 0, 0, 1), EngineCounters(5, 0, 0, 2, 3)
    rises, silent = rise({one: low, two: high}, {one: high, two: low})
    assert rises == [EngineCounters(4, 0, 0, 2, 2)]
    assert silent == [two]
    assert rise({one: None}, {one: high})[1] == [one]
    assert changed({"a on x": "active 1", "b on x": "active 2"}, {"a on x": "active 1"}) == ["b on x"]
    assert changed({"a on x": "active 1"}, {"a on x": "failed 1"}) == ["a on x"]


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"ansible_connection": "local"}, ()),
        (
            {"ansible_host": "192.0.2.1", "ansible_user": "admin", "ansible_port": 2222},
            ("-p", "2222", "admin@192.0.2.1"),
        ),
        ({"ansible_ssh_common_args": "-o 'ProxyCommand=ssh -W %h:%p jump'"}, ("-o", "ProxyCommand=ssh -W %h:%p jump")),
        ({"ansible_ssh_private_key_file": "/k"}, ("-i", "/k")),
    ],
)
def test_logins_are_what_the_inventory_says(variables: dict[str, Any], told: tuple[str, ...]) -> None:
    found = login("gpu1", variables, Path("/state"))
    assert all(word in found.argv for word in told)
    if found.argv:
        assert "StrictHostKeyChecking=yes" in found.argv
        assert any("/state/known_hosts" in word for word in found.argv)
    assert found.root is ("local" in variables.values())


def test_commands_need_root_and_are_quoted() -> None:
    found = login("gpu1", {"ansible_user": "admin"}, Path("/s"))
    assert found.command(["echo", "a b"])[-1] == "sudo -n echo 'a b'"
    assert login("c", {"ansible_connection": "local"}, Path("/s")).command(["id"]) == ["id"]


def test_units_are_told_apart_by_invocation(planned: tuple[Site, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Id=a.service\nActiveState=active\nInvocationID=1\n\nId=b.service\nActiveState=failed\nInvocationID=2\n"
    monkeypatch.setattr(services_module, "output", lambda *_, **__: said)
    reach = Reach(services(planned[1]), {}, {"gpu1": SimpleNamespace()})  # type: ignore[dict-item]
    assert reach.incarnations() == {"a.service on gpu1": "active 1", "b.service on gpu1": "failed 2"}
