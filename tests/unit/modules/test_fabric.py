"""The fabric stage against NICs that keep state, count what is written and refuse what drivers refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import dcb, rdma
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.fabric import boot_stage, build
from ansible.module_utils.g35.plans import FabricPlan, FabricPort
from ansible.module_utils.g35.schema import dump
from fabric_fakes import Fabric, Nic, plan
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture
def nics() -> dict[str, Nic]:
    return {"eth1": Nic(), "eth2": Nic()}


@pytest.fixture
def host(tmp_path: Path, nics: dict[str, Nic]) -> Fabric:
    return Fabric(tmp_path, nics)


def apply(host: Fabric, wanted: FabricPlan | None = None, *, consent: bool = False, check: bool = False) -> Outcome:
    return act(build(host, dump(wanted or plan())), "apply", allow_disruptive=consent, check=check)


def checks(outcome: Outcome) -> list[str]:
    return [item["check"] for item in outcome.findings]


def test_fresh_ports_get_the_contract(host: Fabric, nics: dict[str, Nic]) -> None:
    outcome = apply(host)
    assert (outcome.failed, outcome.message, outcome.changed) == (False, "", True)
    for name, nic in nics.items():
        assert [index for index, on in enumerate(nic.pfc) if on] == [3]
        assert sorted(nic.dscp) == [(26, 3), (48, 6)]
        assert nic.prio_tc == list(range(8))
        assert nic.tsa == ["ets"] * 6 + ["strict", "ets"]
        assert nic.bandwidth[3] == 50
        assert nic.bandwidth[6] == 0
        assert sum(nic.bandwidth) == 100
        assert host.read_value(f"/sys/class/net/{name}/mtu") == "4200"
        assert host.read_value(f"/sys/kernel/config/rdma_cm/rxe_{name}/ports/1/default_roce_tos") == "106"
    assert host.read_value("/proc/sys/vm/max_map_count") == "16777216"
    assert host.exists("/usr/lib/g35ctl/g35/fabric.py")


def test_second_apply_writes_nothing_and_no_link_flaps(host: Fabric, nics: dict[str, Nic]) -> None:
    apply(host)
    flaps = [nic.flaps for nic in nics.values()]
    host.writes.clear()
    outcome = apply(host)
    assert (outcome.failed, outcome.changed, list(outcome.changes)) == (False, False, [])
    assert host.writes == []
    assert [nic.flaps for nic in nics.values()] == flaps == [1, 1]


def test_check_mode_on_a_fresh_host_writes_nothing(host: Fabric) -> None:
    outcome = apply(host, check=True)
    assert (outcome.failed, outcome.changed) == (False, True)
    assert host.writes == []
    assert not host.exists("/etc/g35ctl/fabric.json")


def test_pfc_and_mtu_under_live_controllers_want_consent(host: Fabric, nics: dict[str, Nic]) -> None:
    apply(host)
    nics["eth1"].pfc[4] = True
    host.put("/sys/class/net/eth2/mtu", "1500")
    host.add_controller("192.0.2.21")
    host.writes.clear()
    refused = apply(host)
    assert refused.failed
    assert [(item["check"], item["subject"]) for item in refused.findings] == [("fabric.consent", "pfc of eth1")]
    assert "nvme0" in refused.findings[0]["observed"]
    asked = apply(host, check=True)
    assert asked.failed and {"pfc of eth1", "mtu of eth2"} <= {item["what"] for item in asked.changes}
    assert host.writes == []
    assert not apply(host, consent=True).failed
    assert sorted(host.writes) == ["dcb pfc set dev eth1 prio-pfc all:off 3:on", "ip link set dev eth2 mtu 4200"]


def test_a_controller_that_is_not_live_holds_nothing_up(host: Fabric) -> None:
    host.add_controller("192.0.2.21", state="connecting")
    assert not apply(host).failed


@pytest.mark.parametrize("one_priority", [False, True])
def test_contradicting_dscp_entries_go_and_others_stay(host: Fabric, nics: dict[str, Nic], one_priority: bool) -> None:
    nics["eth1"].one_priority = one_priority
    nics["eth1"].dscp = [(26, 0), (27, 3), (48, 7), (46, 5)]
    outcome = apply(host)
    assert (outcome.failed, outcome.message) == (False, "")
    assert sorted(nics["eth1"].dscp) == [(26, 3), (46, 5), (48, 6)]
    host.writes.clear()
    assert not apply(host).changed


def test_new_dscp_entries_are_added_before_old_ones_go(host: Fabric, nics: dict[str, Nic]) -> None:
    nics["eth1"].dscp = [(26, 0)]
    apply(host)
    lines = [line for line in host.writes if "app" in line and "eth1" in line]
    assert [line.split()[2] for line in lines] == ["add", "add", "del"]


def test_host_takes_over_from_firmware_first(host: Fabric, nics: dict[str, Nic]) -> None:
    nics["eth1"].dcbx = {"lld_managed": True, "ieee": True}
    assert not apply(host).failed
    first = next(line for line in host.writes if line.startswith("dcb") and "eth1" in line)
    assert first == "dcb dcbx set dev eth1 host ieee"


def test_global_pause_is_switched_off_where_there_is_one(host: Fabric, nics: dict[str, Nic]) -> None:
    nics["eth1"].pause = True
    assert not apply(host).failed
    assert [line for line in host.writes if line.startswith("ethtool")] == ["ethtool -A eth1 rx off tx off"]


def test_nic_without_dcb_is_an_error_unless_the_site_accepts_it(host: Fabric, nics: dict[str, Nic]) -> None:
    nics["eth2"].dcb = False
    refused = apply(host)
    assert (refused.failed, checks(refused)) == (True, ["fabric.lossless"])
    assert host.writes == []
    accepted = apply(host, plan(lossless="unavailable"))
    assert not accepted.failed
    assert [(item["check"], item["subject"], item["severity"]) for item in accepted.findings] == [
        ("fabric.lossless", "eth2", "info")
    ]


def test_malformed_dcb_output_is_a_finding_not_a_crash(host: Fabric) -> None:
    for text in ("not json", "[]", "{}", '{"prio_pfc": 3}'):
        host.broken_dcb = text
        outcome = apply(host)
        assert outcome.failed
        assert set(checks(outcome)) == {"fabric.dcb"}


def test_preflight_reports_every_problem_at_once(host: Fabric) -> None:
    host.lldpad = True
    host.addresses = {"eth1": "192.0.2.99"}
    wanted = plan(
        ports=(
            FabricPort("eth1", "a", "192.0.2.21", 24, 4200),
            FabricPort("eth9", "b", "198.51.100.21", 24, 4200),
        ),
        bandwidth_percent=95,
    )
    outcome = act(build(host, dump(wanted)), "preflight")
    assert checks(outcome) == ["fabric.address", "fabric.netdev", "fabric.ets", "fabric.lldpad"]
    assert [item["severity"] for item in outcome.findings] == ["error"] * 4
    assert all(item["remedy"] for item in outcome.findings)


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        (lambda h: h.put("/sys/class/net/eth1/mtu", "1500"), "fabric.mtu"),
        (lambda h: h.put("/sys/class/net/eth1/carrier", "0"), "fabric.carrier"),
        (lambda h: h.nics["eth1"].pfc.__setitem__(0, True), "fabric.pfc"),
        (lambda h: h.nics["eth1"].dscp.remove((26, 3)), "fabric.dscp"),
        (lambda h: h.nics["eth1"].tsa.__setitem__(6, "ets"), "fabric.ets"),
        (lambda h: h.put("/sys/kernel/config/rdma_cm/rxe_eth1/ports/1/default_roce_tos", "104"), "fabric.tos"),
        (lambda h: h.put("/sys/kernel/config/rdma_cm/rxe_eth1/ports/1/default_roce_mode", "IB/RoCE v1"),
         "fabric.roce_mode"),
        (lambda h: h.put("/proc/sys/vm/max_map_count", "65530"), "fabric.sysctl"),
    ],
)  # fmt: skip
def test_verify_names_what_is_off(host: Fabric, damage: Any, check: str) -> None:
    apply(host)
    damage(host)
    host.writes.clear()
    outcome = act(build(host, dump(plan())), "verify")
    assert outcome.failed
    assert checks(outcome) == [check]
    assert host.writes == []


def test_removal_undoes_the_contract_and_nothing_else(host: Fabric, nics: dict[str, Nic]) -> None:
    nics["eth1"].dscp = [(46, 5)]
    apply(host)
    outcome = act(build(host, dump(plan())), "remove")
    assert (outcome.failed, outcome.message) == (False, "")
    assert nics["eth1"].dscp == [(46, 5)]
    assert nics["eth1"].pfc == [False] * 8
    assert nics["eth1"].tsa == ["strict"] * 8
    assert host.list("/sys/kernel/config/rdma_cm") == []
    assert not host.exists("/etc/sysctl.d/60-g35.conf")
    assert not host.exists("/usr/lib/g35ctl/g35")
    assert host.read_value("/sys/class/net/eth1/mtu") == "4200"


def test_tcp_sets_mtu_and_leaves_dcb_alone(host: Fabric) -> None:
    assert not apply(host, plan(transport="tcp")).failed
    assert host.writes == ["ip link set dev eth1 mtu 4200", "ip link set dev eth2 mtu 4200"]


def test_boot_unit_handles_its_own_port(host: Fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("G35_PORT", "eth2")
    outcome = act(boot_stage(host, dump(plan(files=()))), "apply", allow_disruptive=True)
    assert not outcome.failed
    assert host.nics["eth1"].flaps == 0
    assert host.nics["eth2"].flaps == 1
    assert not host.exists("/etc/g35ctl/fabric.json")


def test_rdma_device_is_found_from_its_network_device(host: Fabric) -> None:
    assert rdma.device_of(host, "eth2") == "rxe_eth2"
    host.put("/sys/class/infiniband/rocep65s0f0/ports/1/gid_attrs/ndevs/0", "enp65s0f0np0")
    assert rdma.device_of(host, "enp65s0f0np0") == "rocep65s0f0"
    host.path("/sys/class/net/ens1/device/infiniband/mlx5_7").mkdir(parents=True)
    assert rdma.device_of(host, "ens1") == "mlx5_7"
    assert rdma.device_of(host, "lo") is None


@pytest.mark.parametrize(("mtu", "path"), [(9000, 4096), (4200, 4096), (4199, 2048), (1500, 1024), (1280, 1024)])
def test_path_mtu(mtu: int, path: int) -> None:
    assert rdma.path_mtu_of(mtu) == path


@given(st.integers(1, 94), st.permutations(range(8)), st.integers(3, 8))
def test_transmission_selection_always_adds_up(percent: int, priorities: list[int], classes: int) -> None:
    contract = dcb.Contract(26, priorities[0], 48, priorities[1], percent)
    ets = contract.ets(classes)
    assert ets is not None
    weighted = [ets.bandwidth[tc] for tc in range(classes) if ets.selection[tc] == "ets"]
    assert sum(weighted) == 100
    assert min(weighted) >= 1
    assert max(ets.priorities) < classes
    roce, cnp = ets.priorities[priorities[0]], ets.priorities[priorities[1]]
    assert ets.bandwidth[roce] == percent
    assert (ets.selection[cnp], ets.bandwidth[cnp]) == ("strict", 0)
    assert [ets.priorities.count(tc) for tc in (roce, cnp)] == [1, 1]
