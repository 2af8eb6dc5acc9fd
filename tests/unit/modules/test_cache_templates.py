"""What the lab's cache stage renders: settings whose absence loses keys, and rules for every planned port."""

from __future__ import annotations

import re

import pytest
from ansible.module_utils.g35 import firewall
from ansible.module_utils.g35.plans import CachePlan

from g35ctl.content import content_root
from g35ctl.plan.build import build
from g35ctl.site.load import load


@pytest.fixture(scope="module")
def plans() -> dict[str, CachePlan]:
    plan = build(load(str(content_root() / "inventories" / "lab")))
    return {host.name: host.cache for host in plan.hosts if host.cache is not None}


def text(plan: CachePlan, ending: str) -> str:
    return next(item.content for item in plan.files if item.path.endswith(ending))


def test_a_store_never_restarts_within_the_clients_time_to_live(plans: dict[str, CachePlan]) -> None:
    ttl = int(re.findall(r"--client_ttl=(\d+)", text(plans["gpu1"], "g35-mooncake-master.service"))[0])
    for plan in plans.values():
        for store in plan.store.instances if plan.store else ():
            unit = text(plan, store.unit)
            assert int(re.findall(r"^RestartSec=(\d+)$", unit, re.MULTILINE)[0]) > ttl
            gate = re.findall(r"^ExecStartPre=.*storegate.py .*--segment (\S+) .*--seconds (\d+)$", unit, re.MULTILINE)
            assert gate[0][0] == f"{store.address}:{store.rpc_port}" and int(gate[0][1]) > ttl
            assert f"--host={gate[0][0]} " in unit


def test_the_capacity_the_master_counts_is_the_one_the_store_keeps_to(plans: dict[str, CachePlan]) -> None:
    for store in plans["gpu2"].store.instances:  # type: ignore[union-attr]
        settings = dict(
            line.split("=", 1) for line in text(plans["gpu2"], f"{store.name}.env").splitlines() if "=" in line
        )
        capacity = str(store.capacity)
        assert settings["MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES"] == capacity
        assert settings["MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE"] == capacity
        assert settings["MOONCAKE_OFFLOAD_FILE_STORAGE_PATH"] == store.directory
        assert settings["MC_FORCE_HCA"] == "1"
        assert settings["MC_IB_TC"] == "106"


def test_the_firewall_covers_every_port_that_is_planned(plans: dict[str, CachePlan]) -> None:
    for plan in plans.values():
        sets = firewall.planned(text(plan, "g35.nft"))["sets"]
        wanted = {"12300-14300", "15000-17000"}
        if plan.master:
            wanted |= {str(plan.master.rpc_port), str(plan.master.metrics_port)}
        for store in plan.store.instances if plan.store else ():
            wanted |= {str(store.rpc_port), str(store.http_port)}
        assert set(sets["mooncake_ports"]) == wanted
        assert sets["rails4"] == ["192.0.2.0/24", "198.51.100.0/24"]


def test_services_have_no_privileges_and_talk_to_the_rails_only(plans: dict[str, CachePlan]) -> None:
    for plan in plans.values():
        units = [item for item in plan.files if "/g35-mooncake" in item.path]
        assert units
        for unit in units:
            for line in ("User=g35", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "IPAddressDeny=any"):
                assert f"\n{line}\n" in unit.content
            assert "StartLimitIntervalSec=0" in unit.content
