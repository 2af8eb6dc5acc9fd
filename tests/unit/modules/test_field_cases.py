"""What has gone wrong in the field, one case after the other, each with the end it must have here.

The names say the symptom. Cases that other files prove at length are proven here in their shortest form, so that this
list is whole; the firmware of NICs, switches and vendors' tools have their own tests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ansible.module_utils.g35 import rdma
from ansible.module_utils.g35.connect import ConnectStage
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.nvme import read_topology
from ansible.module_utils.g35.nvme_cli import parse_discovery, parse_subsystems
from ansible.module_utils.g35.plans import ConnectPlan
from nvme_kernel import HOST_NQN, HOST_UUID, Kernel, connect_plan, nqn

TEMPLATES = Path(__file__).parents[3] / "templates"


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def act_on(kernel: Kernel, action: str = "apply", plan: ConnectPlan | None = None) -> Outcome:
    return act(ConnectStage(kernel.host, plan or connect_plan()), action)


def findings(outcome: Outcome, check: str) -> list[dict[str, str]]:
    return [item for item in outcome.findings if item["check"] == check]


def failing(kernel: Kernel, kernel_line: str, tool: str = "failed to write to nvme-fabrics device") -> None:
    """Every connect fails, with this in the kernel's log."""

    def connect(words: Sequence[str]) -> Result:
        kernel.log.append(f"[   {100 + len(kernel.log)}.000000] {kernel_line}")
        return Result(words, 1, "", f"could not add new controller: {tool}\n")

    kernel.answers["nvme"] = connect


def only_finding(kernel: Kernel) -> dict[str, str]:
    outcome = act_on(kernel, plan=connect_plan([0]))
    assert outcome.failed
    return findings(outcome, "connect.path")[0]


@pytest.mark.parametrize("release", ["2.3", "2.11", "2.16", "3.0-rc1"])
def test_list_prints_a_tree_or_lacks_controllers_or_hangs_them_elsewhere(release: str) -> None:
    text = (Path(__file__).parents[2] / "fixtures" / "nvme_cli" / release / "list-v.json").read_text()
    (found,) = parse_subsystems(text)
    assert [path.controller for path in found.paths] == ["nvme0", "nvme1"]


def test_connect_exits_0_though_nothing_connected(kernel: Kernel) -> None:
    kernel.answers["nvme"] = lambda words: Result(words, 0, "", "")
    outcome = act_on(kernel)
    assert outcome.failed and findings(outcome, "connect.path")


def test_a_lost_path_is_tried_again_by_a_unit_of_ours() -> None:
    heal = (TEMPLATES / "connect" / "g35-connect-heal.service.j2").read_text()
    assert "Restart=on-failure" in heal and "boot.py connect" in heal


@pytest.mark.parametrize("code", [1, 114])
def test_already_connected_is_no_failure(kernel: Kernel, code: int) -> None:
    connect = kernel._nvme

    def twice(words: list[str]) -> Result:
        connect(words)
        return Result(words, code, "", "already connected\n")

    kernel.answers["nvme"] = twice
    assert not act_on(kernel).failed


def test_same_hostid_with_another_hostnqn_shows_the_kernels_own_words(kernel: Kernel) -> None:
    failing(kernel, f"nvme_fabrics: found same hostid {HOST_UUID} but different hostnqn nqn.other")
    finding = only_finding(kernel)
    assert "found same hostid" in finding["observed"]
    assert "one hostnqn per hostid" in finding["remedy"]


def test_the_identity_is_given_with_each_connect_and_in_both_files(kernel: Kernel) -> None:
    assert not act_on(kernel).failed
    for words in kernel.ran("nvme", "connect"):
        assert words[words.index("-q") + 1] == HOST_NQN and words[words.index("-I") + 1] == HOST_UUID
    assert kernel.host.read_value("/etc/nvme/hostnqn") == HOST_NQN
    assert kernel.host.read_value("/etc/nvme/hostid") == HOST_UUID


def test_a_vendors_dummy_module_is_named_with_what_to_install(kernel: Kernel) -> None:
    kernel.answers["modinfo"] = lambda w: Result(
        w, 0, "filename: /x.ko\ndescription: nvme-rdma dummy kernel module", ""
    )
    assert "--with-nvmf" in findings(act_on(kernel, "preflight"), "connect.module")[0]["remedy"]


def test_modules_of_two_origins_are_named_before_they_are_loaded(kernel: Kernel) -> None:
    trees = {"nvme-fabrics": "kernel/drivers/nvme/host", "nvme-rdma": "updates/dkms"}
    kernel.answers["modinfo"] = lambda w: Result(w, 0, f"filename:  /lib/modules/6.1/{trees[w[1]]}/{w[1]}.ko\n", "")
    assert findings(act_on(kernel, "preflight"), "connect.module")[0]["severity"] == "warning"
    kernel.path("/sys/module/nvme_rdma").rmdir()
    (finding,) = findings(act_on(kernel, "preflight"), "connect.module")
    assert finding["severity"] == "error" and "two origins" in finding["observed"]
    assert "initramfs" in finding["remedy"]


def test_a_module_that_does_not_fit_the_kernel_is_told_with_its_symbol(kernel: Kernel) -> None:
    failing(kernel, "nvme_rdma: disagrees about version of symbol nvme_init_ctrl")
    finding = only_finding(kernel)
    assert "disagrees about version of symbol" in finding["observed"] and "--with-nvmf" in finding["remedy"]


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("infiniband mlx5_0: create_mkey: bad parameter; failed to initialize pi mr pool (-22)", "firmware"),
        ("nvme nvme3: failed to initialize MR pool sized 128 for QID 31, ret -12", "queue_pair_budget"),
        ("nvme nvme3: Connection reset by peer (-104)", "RoCE"),
        ("nvme nvme3: Identify Controller failed (881)", "MTU on rail"),
        ("nvme nvme3: I/O 26 QID 0 timeout", "ping -M do -s 4150 -I 192.0.2.21 192.0.2.11"),
    ],
)
def test_what_the_nic_could_not_do_is_told_with_the_remedy(kernel: Kernel, line: str, remedy: str) -> None:
    failing(kernel, line)
    finding = only_finding(kernel)
    assert line.partition(": ")[2] in finding["observed"] and remedy in finding["remedy"]


def test_a_target_that_gives_shorter_queues_is_a_warning(kernel: Kernel) -> None:
    act_on(kernel)
    kernel.put("/sys/class/nvme/nvme0/sqsize", "14")
    (finding,) = findings(act_on(kernel, "verify"), "connect.queues")
    assert finding["severity"] == "warning" and "queue size 15" in finding["observed"]


def test_the_service_port_and_the_source_are_always_given(kernel: Kernel) -> None:
    act_on(kernel)
    for words in kernel.ran("nvme", "connect"):
        assert words[words.index("-s") + 1] == "4420" and words[words.index("-w") + 1]


def test_no_discovery_is_needed_to_connect(kernel: Kernel) -> None:
    act_on(kernel)
    assert not kernel.ran("nvme", "discover") and not kernel.ran("nvme", "connect-all")


def test_global_ipv6_portals_are_matched_however_the_kernel_writes_them(kernel: Kernel) -> None:
    one = connect_plan([0])
    paths = tuple(
        replace(path, address=f"2001:db8:{rail}::11", source_address=f"2001:db8:{rail}::21")
        for rail, path in enumerate(one.paths, 1)
    )
    kernel.answers["ip"] = lambda w: Result(
        w, 0, json.dumps([{"dev": {"2001:db8:1::11": "eth1", "2001:db8:2::11": "eth2"}[w[4]]}]), ""
    )
    for rail in (1, 2):
        kernel.add_controller(nqn(0), f"2001:0db8:{rail}::0011", f"2001:db8:{rail}:0:0:0:0:21")
    outcome = act_on(kernel, plan=replace(one, paths=paths))
    assert not outcome.failed and not kernel.ran("nvme"), outcome.message


@pytest.mark.parametrize("rails", range(2, 9))
def test_two_to_eight_paths_become_one_device(kernel: Kernel, rails: int) -> None:
    one = connect_plan([0]).paths[0]
    paths = tuple(
        replace(
            one, address=f"192.0.2.{rail}", source_address=f"192.0.2.{100 + rail}", netdev=f"eth{rail}", rail=f"{rail}"
        )
        for rail in range(1, rails + 1)
    )
    for path in paths:
        kernel.path(f"/sys/class/net/{path.netdev}").mkdir(parents=True, exist_ok=True)
        kernel.put(f"/sys/class/infiniband/rxe_{path.netdev}/parent", path.netdev)
    kernel.answers["ip"] = lambda w: Result(w, 0, json.dumps([{"dev": f"eth{w[4].rpartition('.')[2]}"}]), "")
    outcome = act_on(kernel, plan=replace(connect_plan([0]), paths=paths))
    assert not outcome.failed, outcome.message
    (subsystem,) = read_topology(kernel.host).subsystem_of(nqn(0))
    assert len(subsystem.controllers) == rails and len(subsystem.namespaces) == 1


def test_a_port_without_roce_is_found_before_anything_is_connected(kernel: Kernel) -> None:
    kernel.path("/sys/class/infiniband/rxe_eth2/parent").unlink()
    outcome = act_on(kernel)
    assert findings(outcome, "connect.rdma_device") and not kernel.ran("nvme")


def test_device_numbers_move_and_nothing_depends_on_them(kernel: Kernel) -> None:
    kernel.add_controller("nqn.other", "192.0.2.99", host_nqn="nqn.x", host_id="x")
    act_on(kernel)
    found = read_topology(kernel.host).namespace(nqn(1), 1)
    assert found is not None and found.uuid.endswith("000000000001") and found.name == "nvme2n1"


def test_the_time_after_which_a_path_is_given_up_is_always_stated(kernel: Kernel) -> None:
    act_on(kernel, plan=connect_plan(controller_loss_timeout=-1))
    for words in kernel.ran("nvme", "connect"):
        assert words[words.index("-l") + 1] == "-1"


def test_a_reboot_disconnects_before_the_network_goes() -> None:
    unit = (TEMPLATES / "connect" / "g35-connect.service.j2").read_text()
    assert "After=network-online.target" in unit and "ExecStop=" in unit and "connect drain" in unit


@pytest.mark.parametrize("family", [("eth1", "rocep1s0"), ("eth1", "mlx5_0"), ("eth1", "rocex0c42a1fffe")])
def test_rdma_devices_are_found_whatever_they_are_called(kernel: Kernel, family: tuple[str, str]) -> None:
    netdev, name = family
    kernel.path("/sys/class/infiniband/rxe_eth1/parent").unlink()
    kernel.path(f"/sys/class/net/{netdev}/device/infiniband/{name}").mkdir(parents=True)
    kernel.put(f"/sys/class/infiniband/{name}/ports/1/gid_attrs/ndevs/0", netdev)
    assert rdma.device_of(kernel.host, netdev) == name


def test_no_unit_or_handler_ever_restarts_the_network() -> None:
    root = TEMPLATES.parent
    for path in [*root.glob("roles/**/*.yml"), *root.glob("templates/**/*.j2"), *root.glob("playbooks/*.yml")]:
        text = path.read_text()
        assert "restart network" not in text.lower(), path
        assert "networkctl reload" not in text and "systemctl restart systemd-networkd" not in text, path


def test_log_lines_on_stdout_do_not_spoil_the_json() -> None:
    polluted = "Failed to open /dev/nvme-fabrics: No such file or directory\n" + json.dumps(
        {"genctr": 1, "records": []}
    )
    assert parse_discovery(polluted) == ()
