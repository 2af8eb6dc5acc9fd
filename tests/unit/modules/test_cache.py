"""Stage cache: from nothing to a serving store, and everything that must not happen on the way."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import firewall, flash, runtime
from ansible.module_utils.g35.cache import ENVIRONMENT
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.plans import CachePlan
from cache_fakes import MASTER_UNIT, MOUNT, RULES, STORE_UNIT, UUID, Owner, plan


@pytest.fixture(autouse=True)
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of the fake host owns what is made, whoever runs the tests."""
    real = os.lstat

    def owned(path: str, **how: Any) -> os.stat_result:
        seen = list(real(path, **how))
        seen[4], seen[5] = 990, 989
        return os.stat_result(seen)

    monkeypatch.setattr(flash.os, "lstat", owned)
    monkeypatch.setattr(flash.os, "chown", lambda *_, **__: None)


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def deploy(owner: Owner) -> Outcome:
    owner.push()
    return act(owner.stage(), "apply")


def checks(outcome: Outcome) -> set[str]:
    return {finding["check"] for finding in outcome.findings}


def test_a_fresh_host_asks_for_the_wheels_before_it_changes_anything(owner: Owner) -> None:
    outcome = act(owner.stage(), "apply")
    assert len(outcome.awaiting) == 3
    assert (outcome.changed, outcome.failed, owner.writes) == (False, False, [])


def test_check_mode_on_a_fresh_host_shows_the_changes_and_makes_none(owner: Owner) -> None:
    outcome = act(owner.stage(), "apply", check=True)
    assert outcome.changed and not outcome.failed and not outcome.awaiting
    assert owner.writes == []
    assert not owner.exists(runtime.path_of(plan().runtime))


def test_apply_ends_with_a_serving_store_and_a_second_one_changes_nothing(owner: Owner) -> None:
    outcome = deploy(owner)
    assert outcome.message == ""
    assert {MASTER_UNIT, STORE_UNIT, "g35-firewall.service"} <= owner.active & owner.enabled
    assert owner.owned_by_service()
    assert owner.read(f"/etc/g35ctl/mooncake/{UUID}.env") == "G35_DEVICES=rxe_eth1\n"
    assert not owner.exists(runtime.ARCHIVE)
    before = list(owner.writes)
    again = act(owner.stage(), "apply")
    assert (again.changed, again.failed, again.awaiting) == (False, False, ())
    assert owner.writes == before


def test_the_firewall_is_up_before_anything_listens(owner: Owner) -> None:
    deploy(owner)
    started = [words[2] for words in owner.writes if words[:2] == ["systemctl", "restart"]]
    assert started == ["g35-firewall.service", MASTER_UNIT, STORE_UNIT]


@pytest.mark.parametrize("uuid", ["", "76579227-4b72-5832-b0e1-28618ad0ecfb"])
def test_a_store_never_starts_on_another_file_system(owner: Owner, uuid: str) -> None:
    if uuid:
        owner.mount(uuid)
    else:
        owner.unmount()
    outcome = deploy(owner)
    assert outcome.failed and "cache.mount" in checks(outcome)
    assert STORE_UNIT not in owner.active
    assert not owner.exists(f"{MOUNT}/store")
    assert MASTER_UNIT in owner.active


def test_a_store_does_not_start_without_its_rdma_device(owner: Owner) -> None:
    owner.remove_file("/sys/class/infiniband/rxe_eth1/parent")
    outcome = deploy(owner)
    assert outcome.failed and "cache.device" in checks(outcome)
    assert STORE_UNIT not in owner.active
    assert owner.read(f"/etc/g35ctl/mooncake/{UUID}.env") is None


def test_a_segment_over_tcp_is_an_error_even_when_everything_says_healthy(owner: Owner) -> None:
    owner.protocol = "tcp"
    outcome = deploy(owner)
    assert outcome.failed
    assert [(f["observed"], f["expected"]) for f in outcome.findings if f["check"] == "cache.segment"] == [
        ("tcp", "rdma")
    ]


def test_a_standby_master_is_not_a_serving_one(owner: Owner) -> None:
    deploy(owner)
    owner.serving = False
    assert "cache.master" in checks(act(owner.stage(), "verify"))


def test_lost_writes_are_told_although_the_store_says_it_is_healthy(owner: Owner) -> None:
    deploy(owner)
    owner.log = json.dumps({"_SYSTEMD_UNIT": STORE_UNIT, "MESSAGE": "error=FILE_WRITE_FAIL"}) + "\n"
    outcome = act(owner.stage(), "verify")
    told = [(f["check"], f["severity"], f["observed"]) for f in outcome.findings]
    assert told == [("cache.store_log", "warning", "error=FILE_WRITE_FAIL")]


def test_an_interrupted_installation_is_done_again(owner: Owner) -> None:
    owner.broken = True
    failed = deploy(owner)
    assert failed.failed and "libibverbs" in failed.message
    assert not owner.exists(f"{runtime.path_of(plan().runtime)}/{runtime.MARKER}")
    owner.broken = False
    assert not act(owner.stage(), "apply").failed


def test_an_altered_wheel_is_not_installed(owner: Owner) -> None:
    planned = plan()
    wheels = tuple(replace(wheel, sha256="0" * 64) for wheel in planned.runtime.wheels)
    owner.push()
    outcome = act(owner.stage(replace(planned, runtime=replace(planned.runtime, wheels=wheels))), "apply")
    assert outcome.failed and "digest" in outcome.message
    assert not owner.exists(runtime.path_of(replace(planned.runtime, wheels=wheels)))


def test_restarting_a_running_store_needs_consent(owner: Owner) -> None:
    deploy(owner)
    files = tuple(replace(f, content=f.content + "X=1\n") if f.path.endswith(".env") else f for f in plan().files)
    changed = replace(plan(), files=files)
    refused = act(owner.stage(changed), "apply")
    assert refused.failed and not refused.changed and checks(refused) == {"cache.consent"}
    assert owner.read(f"/etc/g35ctl/mooncake/{UUID}.env") == "G35_DEVICES=rxe_eth1\n"
    assert not act(owner.stage(changed), "apply", allow_disruptive=True).failed


def test_the_store_of_a_namespace_that_moved_away_is_stopped_with_consent(owner: Owner) -> None:
    deploy(owner)
    units = tuple(unit for unit in plan().units if unit.name != STORE_UNIT)
    files = tuple(item for item in plan().files if UUID not in item.path)
    moved = replace(plan(), store=None, units=units, files=files)
    assert checks(act(owner.stage(moved), "apply")) == {"cache.consent"}
    assert not act(owner.stage(moved), "apply", allow_disruptive=True).failed
    assert STORE_UNIT not in owner.active
    assert owner.exists(f"{MOUNT}/store")


def test_a_port_that_another_process_holds_is_named_before_anything_changes(owner: Owner) -> None:
    owner.put("/proc/net/tcp", "sl local rem st\n 0: 00000000:2454 00000000:0000 0A\n")  # 0x2454 is 9300
    outcome = deploy(owner)
    assert checks(outcome) == {"cache.port"} and "9300/tcp" in outcome.message
    assert owner.writes == []


def test_memory_that_does_not_suffice_is_said_in_preflight(owner: Owner) -> None:
    owner.put("/proc/meminfo", "MemTotal: 100000 kB\n")
    assert "cache.memory" in checks(act(owner.stage(), "preflight"))


def test_missing_wheels_and_python_are_said_in_preflight(owner: Owner) -> None:
    owner.remove_file("/usr/bin/python3.11")
    assert "cache.python" in checks(act(owner.stage(), "preflight"))
    empty = replace(plan(), runtime=replace(plan().runtime, wheels=()))
    assert "cache.wheels" in checks(act(owner.stage(empty), "preflight"))


def test_preflight_passes_before_fabric_and_storage_have_run(owner: Owner) -> None:
    owner.unmount()
    owner.remove_file("/sys/class/infiniband/rxe_eth1/parent")
    assert not act(owner.stage(), "preflight").failed


def test_drain_stops_the_stores_and_leaves_the_master(owner: Owner) -> None:
    deploy(owner)
    assert act(owner.stage(), "drain").changed
    assert STORE_UNIT not in owner.active and MASTER_UNIT in owner.active
    assert not act(owner.stage(), "drain").changed


def test_remove_undoes_everything_but_the_data(owner: Owner) -> None:
    deploy(owner)
    assert not act(owner.stage(), "remove", allow_disruptive=True).failed
    assert owner.active == set() and owner.enabled == set()
    assert owner.list("/opt/g35/mooncake") == []
    assert owner.exists(f"{MOUNT}/store")
    assert not act(owner.stage(), "remove", allow_disruptive=True).changed


def test_an_upgrade_builds_beside_the_old_environment_and_restarts(owner: Owner) -> None:
    deploy(owner)
    old = str(owner.path("/opt/g35/mooncake/current").readlink())
    newer = replace(plan().runtime, wheels=plan().runtime.wheels[:2])
    owner.push()
    outcome = act(owner.stage(replace(plan(), runtime=newer)), "apply", allow_disruptive=True)
    assert outcome.message == ""
    assert str(owner.path("/opt/g35/mooncake/current").readlink()) != old
    assert owner.exists(f"/opt/g35/mooncake/{old}")
    assert [words[2] for words in owner.writes if words[:2] == ["systemctl", "restart"]].count(STORE_UNIT) == 2


def test_a_kernel_table_that_differs_from_its_file_is_found() -> None:
    state = {"sets": {"rails4": ["192.0.2.0/24"]}, "rules": 2}
    found = firewall.finding(state, RULES)
    assert found is not None and "198.51.100.0/24" in found.expected
    whole = {"sets": {"rails4": ["192.0.2.0/24", "198.51.100.0/24"]}, "rules": 2}
    assert firewall.finding(whole, RULES) is None
    assert firewall.finding({**whole, "rules": 1}, RULES) is not None
    assert firewall.finding(None, RULES) is not None


def test_all_hosts_can_build_the_environment_before_a_service_is_touched(owner: Owner) -> None:
    owner.push()
    outcome = act(owner.stage(part=ENVIRONMENT), "apply")
    assert outcome.message == "" and outcome.state["whole"] is False
    assert owner.active == set() and not owner.exists("/opt/g35/mooncake/current")
    assert owner.exists(f"{runtime.path_of(plan().runtime)}/{runtime.MARKER}")
    assert act(owner.stage(), "apply").message == ""
    again = act(owner.stage(part=ENVIRONMENT), "apply")
    assert (again.changed, again.failed, again.state["whole"]) == (False, False, True)
    owner.serving = False
    unwell = act(owner.stage(part=ENVIRONMENT), "apply")
    assert (unwell.changed, unwell.failed, unwell.state["whole"]) == (False, False, False)


def test_an_apply_that_is_cut_off_before_the_restarts_is_finished_by_the_next(owner: Owner) -> None:
    deploy(owner)
    newer = replace(plan(), runtime=replace(plan().runtime, wheels=plan().runtime.wheels[:2]))
    owner.push()
    stage = owner.stage(newer)
    for change in stage.changes(stage.read()):
        change.do()
        if change.what == runtime.current_of(plan().runtime):
            break  # here the power fails
    owner.writes.clear()
    assert act(owner.stage(newer), "apply", allow_disruptive=True).message == ""
    restarted = [words[2] for words in owner.writes if words[:2] == ["systemctl", "restart"]]
    assert restarted == [MASTER_UNIT, STORE_UNIT]
    assert not act(owner.stage(newer), "apply").changed


def test_a_service_that_runs_another_wheel_is_told(owner: Owner) -> None:
    deploy(owner)
    owner.process(4711, STORE_UNIT, "/usr/local/lib/python3.11/site-packages/mooncake/mooncake_client")
    outcome = act(owner.stage(), "verify")
    assert checks(outcome) == {"cache.wheel"} and "/usr/local" in outcome.message
    owner.process(4711, STORE_UNIT, runtime.path_of(plan().runtime) + "/lib/mooncake/mooncake_client")
    assert not act(owner.stage(), "verify").failed


def test_a_second_variant_in_the_environment_is_told(owner: Owner) -> None:
    deploy(owner)
    packages = f"{runtime.path_of(plan().runtime)}/lib/python3.11/site-packages"
    metadata = "Metadata-Version: 2.1\nVersion: 0.3.14\n"
    owner.put(f"{packages}/mooncake_transfer_engine_cuda13-0.3.14.dist-info/METADATA", metadata)
    outcome = act(owner.stage(), "verify")
    assert checks(outcome) == {"cache.version"} and "mooncake-transfer-engine-cuda13 0.3.14" in outcome.message


def test_a_program_that_was_replaced_is_told(owner: Owner) -> None:
    deploy(owner)
    packages = f"{runtime.path_of(plan().runtime)}/lib/python3.11/site-packages"
    record = f"{packages}/mooncake_transfer_engine_non_cuda-0.3.13.post1.dist-info/RECORD"
    owner.put(record, "mooncake/mooncake_master,sha256=x,6\nmooncake/cli.py,sha256=x,0\n")
    assert not act(owner.stage(), "verify").failed
    owner.put(f"{packages}/mooncake/mooncake_master", "another one")
    assert checks(act(owner.stage(), "verify")) == {"cache.wheel"}


def test_writes_that_fail_at_present_are_an_error_and_old_ones_a_warning(owner: Owner) -> None:
    deploy(owner)
    owner.put("/proc/uptime", "1000.0 900.0\n")
    for second, severity in ((990, "error"), (900, "warning")):
        entry = {"_SYSTEMD_UNIT": STORE_UNIT, "MESSAGE": "No space left", "__MONOTONIC_TIMESTAMP": str(second * 10**6)}
        owner.log = json.dumps(entry) + "\n"
        outcome = act(owner.stage(), "verify")
        assert [(f["check"], f["severity"]) for f in outcome.findings] == [("cache.store_log", severity)]


def test_kernel_messages_of_the_device_are_told_and_those_of_one_path_are_not(owner: Owner) -> None:
    deploy(owner)
    owner.put("/sys/devices/virtual/nvme0n1/uuid", UUID + "\n")
    link = owner.path("/sys/dev/block/259:3")
    (link / "uuid").unlink()
    link.rmdir()
    link.symlink_to(owner.path("/sys/devices/virtual/nvme0n1"))
    owner.log = json.dumps({"MESSAGE": "I/O error, dev nvme0c1n1, sector 8"}) + "\n"
    assert act(owner.stage(), "verify").findings == []
    owner.log += json.dumps({"MESSAGE": "critical medium error, dev nvme0n1, sector 8"}) + "\n"
    told = [(f["check"], f["severity"], f["observed"]) for f in act(owner.stage(), "verify").findings]
    assert told == [("cache.disk", "warning", "critical medium error, dev nvme0n1, sector 8")]


@pytest.mark.parametrize(("free", "severity"), [(30, "error"), (200, "warning"), (300, "")])
def test_a_flash_directory_that_fills_up_is_told(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, free: int, severity: str
) -> None:
    deploy(owner)
    real = os.statvfs

    def measured(path: str) -> Any:
        seen = list(real(path))
        seen[0:5] = [2**20, 2**20, 1024, free, free]
        return os.statvfs_result(seen)

    monkeypatch.setattr(flash.os, "statvfs", measured)
    told = [(f["check"], f["severity"]) for f in act(owner.stage(), "verify").findings]
    assert told == ([("cache.space", severity)] if severity else [])


def test_a_file_system_that_lost_its_device_is_told(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(owner)

    def fails(path: str) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    stage = owner.stage()
    state = stage.read()
    with monkeypatch.context() as patched:
        patched.setattr(flash.os, "listdir", fails)
        seen = flash.read(owner, plan().store.instances[0], flash.mounts(owner))  # type: ignore[union-attr]
    state["stores"][UUID]["directory"] = seen
    assert {(f.check, f.observed) for f in stage.findings(state)} == {("cache.disk", "Input/output error")}


def with_store(**changes: Any) -> CachePlan:
    planned = plan()
    assert planned.store is not None
    instance = replace(planned.store.instances[0], **changes)
    return replace(planned, store=replace(planned.store, instances=(instance,)))


def test_too_few_huge_pages_are_said_in_preflight_and_those_in_use_count(owner: Owner) -> None:
    planned = with_store(huge_page_size=2 * 2**20)
    owner.put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "31\n")
    outcome = act(owner.stage(planned), "preflight")
    assert [(f["check"], f["expected"]) for f in outcome.findings] == [
        ("cache.huge_pages", "at least 32 for the stores of this host")
    ]
    assert "vm.nr_hugepages=32" in outcome.findings[0]["remedy"]
    owner.put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "32\n")
    assert act(owner.stage(planned), "preflight").findings == []
    deploy(owner)
    owner.put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n")
    owner.put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "32\n")
    assert act(owner.stage(planned), "preflight").findings == []


def test_a_cuda_wheel_without_its_libraries_is_said_in_preflight(owner: Owner) -> None:
    cuda = replace(plan(), runtime=replace(plan().runtime, distribution="mooncake-transfer-engine-cuda13"))
    told = [f["observed"] for f in act(owner.stage(cuda), "preflight").findings if f["check"] == "cache.library"]
    assert told == ["missing: libcuda.so.1, libmlx5.so.1"]
    for name in ("libcuda.so.1", "libmlx5.so.1"):
        owner.put(f"/usr/lib/x86_64-linux-gnu/{name}", "")
    assert "cache.library" not in checks(act(owner.stage(cuda), "preflight"))


def test_another_firewall_that_would_cut_stores_off_is_a_warning(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    chains: list[dict[str, Any]] = [
        {"chain": {"family": "inet", "table": "g35", "name": "mooncake", "hook": "input", "policy": "accept"}},
        {"chain": {"family": "inet", "table": "filter", "name": "input", "hook": "input", "policy": "drop"}},
        {"chain": {"family": "inet", "table": "filter", "name": "forward", "hook": "forward", "policy": "drop"}},
    ]
    answer = owner.answer

    def answered(argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        if list(argv) == ["nft", "--json", "list", "chains"]:
            return Result(argv, 0, json.dumps({"nftables": chains}), "")
        return answer(argv, stdin, timeout)

    monkeypatch.setattr(owner, "_runner", answered)
    told = act(owner.stage(), "preflight").findings
    assert [(f["check"], f["subject"], f["severity"]) for f in told] == [
        ("cache.other_firewall", "inet filter input", "warning")
    ]
    chains.append({"chain": {"family": "inet", "table": "firewalld", "name": "filter_INPUT", "hook": "input"}})
    assert "firewalld" in act(owner.stage(), "preflight").findings[0]["subject"]
