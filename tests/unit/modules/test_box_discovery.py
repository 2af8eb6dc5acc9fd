"""Drivers discovery, static and nvmet: what they can see, and what they say has to be done by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import box
from ansible.module_utils.g35.box import BoxStage, ByHand
from ansible.module_utils.g35.box_discovery import DiscoveryDriver
from ansible.module_utils.g35.box_drivers import NvmetDriver, StaticDriver, driver
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import BoxPlan
from box_plans import PORTALS, host_nqn, namespace, nqn, plan


class Heads:
    """A box with two heads whose discovery logs show each host what it may see; answers ``nvme discover``."""

    def __init__(self) -> None:
        self.allowed: dict[str, set[str]] = {}
        self.open: set[str] = set()
        self.down: set[str] = set()
        self.only: dict[str, set[str]] = {}
        self.noise = ""
        self.stumbles = 0
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        words = list(argv)
        self.asked.append(words)
        given = dict(zip(words[2::2], words[3::2], strict=False))
        address, host = given["-a"], given["-q"]
        if self.stumbles:
            self.stumbles -= 1
            return Result(argv, 1, "", "failed to get discovery log: Cannot allocate memory")
        if address in self.down:
            return Result(argv, 1, "", "failed to add controller, error connection timed out")
        shown = sorted(self.open | {name for name, hosts in self.allowed.items() if host in hosts})
        shown = [name for name in shown if address in self.only.get(name, {address})]
        records = [self._record(name, address, "nvme subsystem") for name in shown]
        service = "nqn.2014-08.org.nvmexpress.discovery"
        records.append(self._record(service, address, "current discovery subsystem"))
        records.append(self._record(service, "203.0.113.9", "discovery subsystem referral"))
        return Result(argv, 0, self.noise + json.dumps({"genctr": 3, "records": records}), "")

    @staticmethod
    def _record(name: str, address: str, subtype: str) -> dict[str, Any]:
        return {"trtype": "rdma", "adrfam": "ipv4", "subtype": subtype, "treq": "not specified", "portid": 1,
                "trsvcid": "4420", "subnqn": name, "traddr": address, "eflags": "none"}  # fmt: skip


@pytest.fixture
def heads() -> Heads:
    found = Heads()
    found.allowed = {nqn(number): set(namespace(number).allowed_hosts) for number in range(3)}
    return found


def act(tmp_path: Path, heads: Heads, asked: BoxPlan, action: str = "apply") -> dict[str, Any]:
    (tmp_path / "usr/sbin").mkdir(parents=True, exist_ok=True)
    (tmp_path / "usr/sbin/nvme").touch()
    host = Host(str(tmp_path), heads, sleep=lambda _: None)
    return box.act(lambda: BoxStage(host, DiscoveryDriver(host, asked)), action)


def wanted(count: int = 3) -> BoxPlan:
    return plan("discovery", [namespace(number) for number in range(count)])


def test_both_heads_are_united_and_nothing_is_found(tmp_path: Path, heads: Heads) -> None:
    done = act(tmp_path, heads, wanted())
    assert (done["failed"], done["changed"], done["findings"]) == (False, False, [])
    (first, *_) = done["state"]["subsystems"]
    assert [item["address"] for item in first["portals"]] == ["192.0.2.11", "198.51.100.11"]
    assert first["allowed_hosts"] == [host_nqn(1)]


def test_each_owner_is_asked_for_with_its_own_identifier(tmp_path: Path, heads: Heads) -> None:
    act(tmp_path, heads, wanted())
    pairs = {(words[words.index("-q") + 1], words[words.index("-I") + 1]) for words in heads.asked}
    assert all(name.endswith(identifier) for name, identifier in pairs)
    assert {host_nqn(1), host_nqn(2)} < {name for name, _ in pairs}


def test_an_owner_that_is_refused_is_told_with_the_instruction(tmp_path: Path, heads: Heads) -> None:
    heads.allowed[nqn(1)] = set()
    (finding,) = act(tmp_path, heads, wanted())["findings"]
    assert (finding["check"], finding["subject"], finding["severity"]) == ("box.subsystem", nqn(1), "error")
    assert f"allow host NQN {host_nqn(2)} (gpu2)" in finding["remedy"]


def test_a_second_owner_is_an_error_and_an_open_door_a_warning(tmp_path: Path, heads: Heads) -> None:
    heads.allowed[nqn(0)].add(host_nqn(2))
    heads.open.add(nqn(1))
    found = {item["subject"]: item for item in act(tmp_path, heads, wanted(), "verify")["findings"]}
    assert found[nqn(0)]["severity"] == "error" and "gpu2" in found[nqn(0)]["observed"]
    assert found[nqn(1)]["severity"] == "warning" and found[nqn(1)]["observed"] == "any host"


def test_a_silent_head_is_a_warning_and_not_taken_for_missing_portals(tmp_path: Path, heads: Heads) -> None:
    heads.down.add("198.51.100.11")
    done = act(tmp_path, heads, wanted())
    assert not done["failed"]
    assert [(item["check"], item["severity"]) for item in done["findings"]] == [("box.read", "warning")]


def test_a_subsystem_on_one_head_only_is_found(tmp_path: Path, heads: Heads) -> None:
    heads.only[nqn(0)] = {"192.0.2.11"}
    (finding,) = act(tmp_path, heads, wanted())["findings"]
    assert (finding["check"], finding["expected"]) == ("box.portal", "198.51.100.11:4420")


def test_what_the_inventory_does_not_know_is_told(tmp_path: Path, heads: Heads) -> None:
    (finding,) = act(tmp_path, heads, wanted(2))["findings"]
    assert finding["check"] == "box.extra" and nqn(2) in finding["observed"] and finding["severity"] == "info"


@pytest.mark.parametrize("noise", ["", "warning: something\n", "[libnvme] note\n"])
def test_output_with_log_lines_reads_the_same(tmp_path: Path, heads: Heads, noise: str) -> None:
    heads.noise = noise
    assert act(tmp_path, heads, wanted())["findings"] == []


@pytest.mark.parametrize("output", ["", "No discovery log entries to fetch.\n"])
def test_an_empty_log_is_no_subsystem(tmp_path: Path, output: str) -> None:
    host = Host(str(tmp_path), lambda argv, stdin, timeout: Result(argv, 0, output, ""))
    seen = DiscoveryDriver(host, wanted()).discover()
    assert seen.subsystems == () and seen.problems == () and len(seen.portals) == 2


@pytest.mark.parametrize("output", ["Segmentation fault\n", '{"genctr": 1', '{"error": "no such device"}'])
def test_unusable_output_is_that_portals_problem(tmp_path: Path, output: str) -> None:
    host = Host(str(tmp_path), lambda argv, stdin, timeout: Result(argv, 0, output, ""))
    assert len(DiscoveryDriver(host, wanted()).discover().problems) == 2


def test_nvme_cli_is_asked_for_before_anything_else(tmp_path: Path, heads: Heads) -> None:
    host = Host(str(tmp_path), heads)
    done = box.act(lambda: BoxStage(host, DiscoveryDriver(host, wanted())), "preflight")
    assert done["failed"] and "nvme-cli" in done["msg"] and heads.asked == []


@pytest.mark.parametrize("name", ["static", "discovery"])
def test_grant_and_revoke_give_the_operator_one_exact_sentence(name: str) -> None:
    found = driver(Host(), plan(name, [namespace(0)]))
    with pytest.raises(ByHand) as caught:
        found.grant(nqn(0), host_nqn(1))
    assert caught.value.instruction == (
        f"on ebof1, allow host NQN {host_nqn(1)} (gpu1) on subsystem {nqn(0)}, and no other host"
    )
    with pytest.raises(ByHand) as caught:
        found.revoke(nqn(0), host_nqn(1))
    assert caught.value.instruction == (
        f"on ebof1, remove host NQN {host_nqn(1)} (gpu1) from the hosts allowed on subsystem {nqn(0)}"
    )


def test_static_is_what_the_inventory_says() -> None:
    seen = StaticDriver(Host(), plan("static", [namespace(0)])).discover()
    assert [item.nqn for item in seen.subsystems] == [nqn(0)]
    assert [item.address for item in seen.portals] == [item.address for item in PORTALS]


def test_nvmet_is_read_from_configfs_with_the_ssds_that_are_free(tmp_path: Path) -> None:
    base = tmp_path / "sys/kernel/config/nvmet"
    values = {
        f"subsystems/{nqn(0)}/attr_serial": "SSD0\n",
        f"subsystems/{nqn(0)}/attr_model": "Linux\n",
        f"subsystems/{nqn(0)}/attr_allow_any_host": "0\n",
        f"subsystems/{nqn(0)}/namespaces/1/device_path": "/dev/disk/by-id/nvme-MODEL_SSD0\n",
        f"subsystems/{nqn(0)}/namespaces/1/device_uuid": namespace(0).uuid + "\n",
        f"subsystems/{nqn(0)}/namespaces/1/device_nguid": namespace(0).uuid + "\n",
        f"subsystems/{nqn(0)}/namespaces/1/enable": "1\n",
        "ports/7/addr_traddr": "192.0.2.11\n",
        "ports/7/addr_trsvcid": "4420\n",
        "ports/7/addr_trtype": "rdma\n",
        "ports/7/addr_adrfam": "ipv4\n",
    }
    for name, value in values.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(value)
    (base / "ports/7/subsystems").mkdir()
    (base / f"ports/7/subsystems/{nqn(0)}").symlink_to(base / "subsystems" / nqn(0))
    by_id = tmp_path / "dev/disk/by-id"
    by_id.mkdir(parents=True)
    for number in range(4):
        (tmp_path / f"dev/nvme{number}n1").touch()
        (by_id / f"nvme-MODEL_SSD{number}").symlink_to(f"../../nvme{number}n1")
        (by_id / f"nvme-eui.000{number}").symlink_to(f"../../nvme{number}n1")
        block = tmp_path / f"sys/class/block/nvme{number}n1"
        block.mkdir(parents=True)
        (block / "size").write_text("2097152\n")
    (tmp_path / "sys/class/block/nvme2n1/nvme2n1p1").mkdir()  # partitioned: the system disk
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mounts").write_text("/dev/nvme3n1 /data xfs rw 0 0\n")
    seen = NvmetDriver(Host(str(tmp_path)), plan("nvmet", [])).discover()
    (found,) = seen.subsystems
    assert found.namespaces[0].uuid == namespace(0).uuid and found.namespaces[0].size == 2**30
    assert [str(item) for item in found.portals] == ["192.0.2.11:4420"]
    assert [item.device for item in seen.free_devices] == ["/dev/disk/by-id/nvme-MODEL_SSD1"]


def test_a_log_that_could_not_be_allocated_is_asked_for_again(tmp_path: Path, heads: Heads) -> None:
    heads.stumbles = 1
    done = act(tmp_path, heads, plan("discovery", [namespace(number) for number in range(3)]), "verify")
    assert (done["failed"], done["findings"]) == (False, []), done["msg"]
    heads.stumbles = 99
    done = act(tmp_path, heads, plan("discovery", [namespace(number) for number in range(3)]), "verify")
    assert any("Cannot allocate memory" in item["observed"] for item in done["findings"]), done["findings"]
