"""Raw namespaces: registered again after a restart of the master, never while a kernel has them or without a wheel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import nofregister, runtime
from ansible.module_utils.g35.cache import CacheStage
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.plans import CachePlan, NofNamespace, NofPlan
from cache_fakes import MASTER_UNIT, Owner, plan

GIB = 2**30
NAMES = ("nqn.2026-01.io.g35ctl:test:ssd1", "nqn.2026-01.io.g35ctl:test:ssd2")
JOB: Mapping[str, Any] = {
    "master": "m:50051",
    "admin": "m:9003",
    "transport": "RDMA",
    "namespaces": [{"nqn": nqn, "nsid": 1, "address": "192.0.2.11", "port": 4420, "size": GIB} for nqn in NAMES],
}


class Master:
    """A master that knows registrations until it is restarted."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.calls = 0
        self.serving = True
        self.refuses = False

    def ask(self, url: str) -> str:
        if url.endswith("/health"):
            return json.dumps({"role": "leader" if self.serving else "standby", "service_ready": self.serving})
        return f"# TYPE x gauge\n{nofregister.METRIC} {len(self.known) * GIB}\n"

    def register(self, item: Mapping[str, Any]) -> int:
        self.calls += 1
        if not self.refuses:
            self.known.add(item["nqn"])
        return -1 if self.refuses else 0

    def look(self, *busy: str) -> list[str]:
        return nofregister.register_missing(JOB, self.register, self.ask, list(busy))


def test_everything_is_registered_once_and_again_after_a_restart_of_the_master() -> None:
    master = Master()
    assert master.look() == [] and master.known == set(NAMES)
    assert master.look() == [] and master.calls == 2
    master.known.clear()
    assert master.look() == [] and master.known == set(NAMES)


def test_a_namespace_that_the_kernel_has_connected_is_not_registered() -> None:
    master = Master()
    assert "not registered" in master.look(NAMES[0])[0]
    assert master.known == {NAMES[1]}


def test_a_master_that_does_not_serve_or_refuses_is_told() -> None:
    master = Master()
    master.serving = False
    assert "not serving" in master.look()[0] and master.calls == 0
    master.serving, master.refuses = True, True
    assert [problem.endswith("the master refused it (-1)") for problem in master.look()] == [True, True]


def test_connected_subsystems_are_read_from_sysfs(tmp_path: Path) -> None:
    assert nofregister.connected(str(tmp_path / "none")) == []
    (tmp_path / "nvme-subsys0").mkdir()
    (tmp_path / "nvme-subsys0/subsysnqn").write_text(NAMES[0] + "\n")
    assert nofregister.connected(str(tmp_path)) == [NAMES[0]]


def raw_plan() -> CachePlan:
    spaces = tuple(NofNamespace(nqn, 1, "192.0.2.11", 4420, GIB) for nqn in NAMES)
    nof = NofPlan("lab", "RDMA", "192.0.2.21:50051", "192.0.2.21:9003", spaces, True)
    units = tuple(unit for unit in plan().units if "store" not in unit.name)
    files = tuple(item for item in plan().files if "store" not in item.path and not item.path.endswith(".env"))
    return plan(store=None, nof=nof, units=units, files=files)


class RawOwner(Owner):
    registered = 2 * GIB

    def ask(self, url: str, timeout: float) -> str | None:
        answer = super().ask(url, timeout)
        return f"{answer}{nofregister.METRIC} {self.registered}\n" if answer and url.endswith("/metrics") else answer

    def go(self, action: str, planned: CachePlan | None = None) -> Outcome:
        self.push()
        return act(CacheStage(self, planned or raw_plan(), self.ask), action)


@pytest.fixture
def owner(tmp_path: Path) -> RawOwner:
    return RawOwner(tmp_path)


def test_a_connected_namespace_stops_the_deploy_before_anything_is_changed(owner: RawOwner) -> None:
    owner.put("/sys/class/nvme-subsystem/nvme-subsys0/subsysnqn", NAMES[1] + "\n")
    outcome = owner.go("apply")
    assert outcome.failed and not outcome.changed and owner.writes == []
    assert [(f["check"], f["subject"]) for f in outcome.findings if f["severity"] == "error"] == [
        ("cache.nof_mounted", NAMES[1])
    ]


def test_a_wheel_without_the_feature_is_refused(owner: RawOwner) -> None:
    assert owner.go("apply").message == ""
    library = f"{runtime.path_of(raw_plan().runtime)}/lib/python3.11/site-packages/mooncake/store.so"
    owner.put(library, "NoF transfer requested while USE_NOF is disabled")
    outcome = owner.go("verify")
    assert outcome.failed and "USE_NOF" in outcome.message
    assert MASTER_UNIT in owner.active


def test_registrations_that_are_missing_are_told(owner: RawOwner) -> None:
    assert owner.go("apply").message == ""
    owner.registered = GIB
    outcome = owner.go("verify")
    assert [f["check"] for f in outcome.findings if f["severity"] == "error"] == ["cache.nof"]


def test_a_host_that_only_watches_gets_no_script(owner: RawOwner) -> None:
    nof = raw_plan().nof
    assert nof is not None
    watching = replace(raw_plan(), master=None, nof=replace(nof, registers=False), units=(), files=())
    assert owner.go("apply", watching).message == ""
    assert not owner.exists("/usr/lib/g35ctl/nofregister.py")
