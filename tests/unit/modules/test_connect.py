"""Stage connect: from any state to exactly the planned paths, judged by sysfs."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from ansible.module_utils.g35.connect import ConnectStage, boot_stage
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.nvme import read_topology
from ansible.module_utils.g35.plans import ConnectPlan
from ansible.module_utils.g35.schema import dump
from hypothesis import given, settings
from hypothesis import strategies as st
from nvme_kernel import HOST_NQN, HOST_UUID, RAILS, Kernel, connect_plan, nqn

EVERY_PATH = sorted((nqn(number), portal, source) for number in (0, 1) for portal, source, _ in RAILS.values())


def apply(kernel: Kernel, plan: ConnectPlan | None = None, **options: bool) -> Outcome:
    return act(ConnectStage(kernel.host, plan or connect_plan()), "apply", **options)


def checks(outcome: Outcome, severity: str = "error") -> set[str]:
    return {item["check"] for item in outcome.findings if item["severity"] == severity}


def test_a_fresh_host_gets_every_path_and_a_second_apply_changes_nothing(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    first = apply(kernel)
    assert not first.failed and first.changed, first.message
    assert kernel.live() == EVERY_PATH
    assert {path["state"] for path in first.state["paths"]} == {"live"}
    second = apply(kernel)
    assert not second.failed and not second.changed and second.changes == []


def test_check_mode_on_a_fresh_host_shows_every_path_and_touches_nothing(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    outcome = apply(kernel, check=True)
    assert not outcome.failed and outcome.changed
    assert sum(change["after"] == "live" for change in outcome.changes) == len(EVERY_PATH)
    assert kernel.live() == [] and not kernel.ran("nvme") and not kernel.path("/etc/nvme/hostnqn").exists()


def test_each_connect_states_both_ends_and_the_identity(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    apply(kernel, connect_plan([0], controller_loss_timeout=-1))
    words = kernel.ran("nvme", "connect")[0]
    option = dict(zip(words[2::2], words[3::2], strict=True))
    portal, source, _ = RAILS["a"]
    assert option == {
        "-t": "rdma", "-a": portal, "-s": "4420", "-w": source, "-n": nqn(0), "-q": HOST_NQN, "-I": HOST_UUID,
        "-i": "8", "-Q": "128", "-k": "5", "-c": "2", "-l": "-1", "-T": "106",
    }  # fmt: skip


def test_hostnqn_and_hostid_are_written_from_one_uuid_before_the_first_connect(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.put("/etc/nvme/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:ffffffff-ffff-4fff-8fff-ffffffffffff")
    seen = []

    def connect(words: list[str]) -> Result:
        seen.append((kernel.host.read_value("/etc/nvme/hostnqn"), kernel.host.read_value("/etc/nvme/hostid")))
        return kernel._nvme(words)

    kernel.answers["nvme"] = connect  # type: ignore[assignment]
    apply(kernel)
    assert set(seen) == {(HOST_NQN, HOST_UUID)}


@pytest.mark.parametrize("subsystem", [nqn(0), nqn(3)])
def test_a_live_controller_under_another_identity_is_named_and_nothing_is_done(tmp_path, subsystem: str) -> None:
    kernel = Kernel(tmp_path)
    kernel.add_controller(subsystem, "192.0.2.11", "192.0.2.21", host_nqn="nqn.2014-08.org.nvmexpress:uuid:other")
    outcome = apply(kernel)
    assert outcome.failed and checks(outcome) == {"connect.identity"}
    assert "nvme disconnect -d nvme0" in outcome.findings[0]["remedy"]
    assert not kernel.ran("nvme") and not kernel.path("/etc/nvme/hostnqn").exists()


def test_a_foreign_controller_with_a_wholly_other_identity_is_no_conflict(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.add_controller("nqn.2026-01.com.example:other", "203.0.113.1", host_nqn="nqn.other", host_id="another")
    assert not apply(kernel).failed


def test_one_rail_down_connects_the_other_and_fails_naming_rail_and_portal(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.down = {"198.51.100.11"}
    outcome = apply(kernel)
    assert outcome.failed
    assert kernel.live() == [path for path in EVERY_PATH if path[1] == "192.0.2.11"]
    (finding,) = [item for item in outcome.findings if item["check"] == "connect.path"]
    assert finding["subject"] == "rail b: portal 198.51.100.11:4420 from 198.51.100.21, eth2"
    assert "none of 2 paths live" in finding["observed"]
    assert "rdma connection establishment failed (-110)" in finding["observed"]
    assert "old news" not in finding["observed"]
    assert "connect.read_back" not in checks(outcome)


def test_a_portal_that_never_answers_is_not_tried_for_every_subsystem(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.down = {"198.51.100.11"}
    apply(kernel, connect_plan([0, 1, 2, 3]))
    assert len([words for words in kernel.ran("nvme", "connect") if "198.51.100.11" in words]) == 2


def test_a_refusal_is_an_answer_so_the_other_subsystems_are_still_connected(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.refused = {nqn(0), nqn(1), nqn(2)}
    outcome = apply(kernel, connect_plan([0, 1, 2, 3]))
    assert {path[0] for path in kernel.live()} == {nqn(3)}
    observed = [item for item in outcome.findings if item["check"] == "connect.path"]
    assert len(observed) == 6
    assert all(
        "is not allowed, hostnqn" in item["observed"] and "allow this host" in item["remedy"] for item in observed
    )


def test_a_connecting_controller_is_a_path_that_is_down(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    apply(kernel)
    kernel.put("/sys/class/nvme/nvme0/state", "connecting")
    verified = act(ConnectStage(kernel.host, connect_plan()), "verify")
    assert verified.failed and "nvme0 is connecting" in verified.message
    assert act(ConnectStage(kernel.host, connect_plan()), "apply").failed


def test_nothing_connected_is_never_a_success(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.answers["nvme"] = lambda words: Result(words, 0, "", "")
    outcome = apply(kernel)
    assert outcome.failed and len([item for item in outcome.findings if item["check"] == "connect.path"]) == 2
    assert act(ConnectStage(Kernel(tmp_path / "other").host, connect_plan()), "verify").failed


def test_already_connected_is_fine_whatever_the_tool_exits_with(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    tool = kernel._nvme

    def racing(words: list[str]) -> Result:
        tool(words)
        return Result(words, 114, "", "already connected\n")

    kernel.answers["nvme"] = racing  # type: ignore[assignment]
    assert not apply(kernel).failed


def test_stale_controllers_go_and_foreign_ones_stay(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    foreign = "nqn.2026-01.com.example:other"
    kernel.add_controller(nqn(3), "192.0.2.11", "192.0.2.21")
    kernel.add_controller(nqn(0), "192.0.2.11")
    kernel.add_controller(foreign, "192.0.2.11", "192.0.2.21", host_nqn="nqn.foreign", host_id="foreign")
    outcome = apply(kernel)
    assert not outcome.failed, outcome.message
    assert kernel.live() == sorted([*EVERY_PATH, (foreign, "192.0.2.11", "192.0.2.21")])


def test_a_second_controller_on_the_same_path_goes(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    apply(kernel)
    twin = kernel.add_controller(nqn(0), "192.0.2.11", "192.0.2.21")
    assert not apply(kernel).failed
    assert twin not in {item.name for item in read_topology(kernel.host).controllers}
    assert kernel.live() == EVERY_PATH


def test_a_stale_controller_under_a_mount_needs_consent(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.add_controller(nqn(3), "192.0.2.11", "192.0.2.21")
    kernel.mount("nvme0n1", "/flash/three")
    refused = apply(kernel)
    assert refused.failed and checks(refused) == {"connect.consent"} and "/flash/three" in refused.message
    assert not kernel.ran("nvme")
    assert not apply(kernel, allow_disruptive=True).failed
    assert kernel.live() == EVERY_PATH


@settings(max_examples=40, deadline=None)
@given(
    live=st.sets(st.sampled_from(EVERY_PATH)),
    stale=st.sets(st.sampled_from(list(product((nqn(2), nqn(3)), ("192.0.2.11", "198.51.100.11"))))),
    unbound=st.sets(st.sampled_from((nqn(0), nqn(1)))),
)
def test_any_state_ends_with_exactly_the_plan(live, stale, unbound) -> None:
    with TemporaryDirectory() as folder:
        kernel = Kernel(Path(folder))
        for subsystem, portal, source in sorted(live):
            kernel.add_controller(subsystem, portal, source)
        for subsystem, portal in sorted(stale):
            kernel.add_controller(subsystem, portal, "192.0.2.21")
        for subsystem in sorted(unbound):
            kernel.add_controller(subsystem, "192.0.2.11")
        outcome = apply(kernel)
        assert not outcome.failed, outcome.message
        assert kernel.live() == EVERY_PATH
        connected = {
            (w[w.index("-n") + 1], w[w.index("-a") + 1], w[w.index("-w") + 1]) for w in kernel.ran("nvme", "connect")
        }
        assert connected == set(EVERY_PATH) - live
        assert not apply(kernel).changed


def test_the_multipath_policy_is_set_and_read_back(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    outcome = apply(kernel)
    assert {item["io_policy"] for item in outcome.state["subsystems"]} == {"round-robin"}


def test_a_policy_the_kernel_refuses_is_a_finding_with_what_is_in_force(tmp_path, monkeypatch) -> None:
    kernel = Kernel(tmp_path)
    write = kernel.host.write_attribute

    def refusing(path: str, value: str) -> None:
        if path.endswith("iopolicy"):
            raise OSError(22, "Invalid argument", path)
        write(path, value)

    monkeypatch.setattr(kernel.host, "write_attribute", refusing)
    outcome = apply(kernel, connect_plan(io_policy="queue-depth"))
    assert checks(outcome) == {"connect.io_policy"}
    assert "numa (kernel 6.1.0-57-amd64)" in outcome.message


def test_reconnect_settings_follow_the_plan_on_live_controllers(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    apply(kernel)
    outcome = apply(kernel, connect_plan(reconnect_delay=10, controller_loss_timeout=-1))
    # The simulated kernel stores what is written; "off" reads back as never.
    assert not outcome.failed, outcome.message
    assert {path["controller_loss_timeout"] for path in outcome.state["paths"]} == {-1}
    assert {path["reconnect_delay"] for path in outcome.state["paths"]} == {10}


def test_fewer_queues_than_planned_is_a_warning(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    apply(kernel)
    kernel.put("/sys/class/nvme/nvme0/sqsize", "14")
    outcome = act(ConnectStage(kernel.host, connect_plan()), "verify")
    assert not outcome.failed and checks(outcome, "warning") == {"connect.queues"}
    assert "queue size 15" in str(outcome.findings)


@pytest.mark.parametrize(
    ("spoil", "check", "word"),
    [
        (lambda k: k.put("/sys/module/nvme_core/parameters/multipath", "N"), "connect.multipath", "multipath=Y"),
        (lambda k: k.path("/usr/sbin/nvme").unlink(), "connect.tool", "nvme-cli"),
        (lambda k: k.path("/sys/class/infiniband/rxe_eth2/parent").unlink(), "connect.rdma_device", "rxe"),
        (lambda k: k.path("/sys/class/net/eth2").rmdir(), "connect.port", "g35_ports"),
        (
            lambda k: k.answers.update(ip=lambda w: Result(w, 0, '[{"dev": "eth0"}]', "")),
            "connect.route",
            "leaves through eth0",
        ),
        (
            lambda k: k.answers.update(ip=lambda w: Result(w, 2, "", "RTNETLINK answers: Network is unreachable\n")),
            "connect.route",
            "Network is unreachable",
        ),
        (
            lambda k: k.answers.update(
                modinfo=lambda w: Result(
                    w, 0, "filename: /x/nvme-rdma.ko\ndescription: nvme-rdma dummy kernel module", ""
                )
            ),
            "connect.module",
            "--with-nvmf",
        ),
    ],
)
def test_preflight_names_what_is_missing_and_stops_an_apply(tmp_path, spoil, check: str, word: str) -> None:
    kernel = Kernel(tmp_path)
    spoil(kernel)
    outcome = act(ConnectStage(kernel.host, connect_plan()), "preflight")
    assert outcome.failed and check in checks(outcome)
    assert word in json.dumps([item for item in outcome.findings if item["check"] == check])
    assert apply(kernel).failed and not kernel.ran("nvme", "connect")


def test_preflight_does_not_need_the_target(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.down = {portal for portal, _, _ in RAILS.values()}
    assert not act(ConnectStage(kernel.host, connect_plan()), "preflight").failed


def test_the_distributions_autoconnect_is_reported_when_it_names_our_portals(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.put("/etc/nvme/discovery.conf", "# -t rdma -a 198.51.100.11\n-t rdma -a 192.0.2.11 -s 4420\n")
    outcome = act(ConnectStage(kernel.host, connect_plan()), "preflight")
    assert not outcome.failed
    (finding,) = outcome.findings
    assert finding["check"] == "connect.autoconnect" and finding["observed"] == "names 192.0.2.11"


def test_missing_modules_are_loaded_before_anything_is_connected(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.path("/sys/module/nvme_rdma").rmdir()
    kernel.answers["modprobe"] = lambda words: (
        kernel.path("/sys/module/" + words[1].replace("-", "_")).mkdir(exist_ok=True) or Result(words, 0, "", "")
    )
    assert not apply(kernel).failed
    order = [words[0] for words in kernel.commands if words[0] == "modprobe" or words[:2] == ["nvme", "connect"]]
    assert order.index("modprobe") < order.index("nvme")


def test_at_boot_whatever_answers_is_connected_and_the_rest_is_told(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.down = {"198.51.100.11"}
    kernel.path("/sys/class/infiniband/rxe_eth2/parent").unlink()
    plan = dump(connect_plan(units=()))
    outcome = act(boot_stage(kernel.host, plan), "apply", allow_disruptive=True)
    assert outcome.failed and "rail b" in outcome.message
    assert {path[1] for path in kernel.live()} == {"192.0.2.11"}
    kernel.down = set()
    assert not act(boot_stage(kernel.host, plan), "apply", allow_disruptive=True).failed
    assert kernel.live() == EVERY_PATH


def test_drain_disconnects_ours_only_and_not_under_a_mount(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    apply(kernel)
    foreign = kernel.add_controller("nqn.foreign", "192.0.2.99", host_nqn="nqn.foreign", host_id="foreign")
    kernel.mount("nvme0n1", "/flash/zero")
    assert act(ConnectStage(kernel.host, connect_plan()), "drain").failed
    assert len(kernel.live()) == len(EVERY_PATH) + 1
    kernel.put("/proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw")
    outcome = act(ConnectStage(kernel.host, connect_plan()), "drain")
    assert not outcome.failed and [item.name for item in read_topology(kernel.host).controllers] == [foreign]
    assert ["systemctl", "stop", "g35-connect-heal.timer", "g35-connect-heal.service"] in kernel.commands


def test_remove_takes_back_what_was_made_but_keeps_an_identity(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    apply(kernel)
    assert kernel.path("/usr/lib/g35ctl/g35/connect.py").exists()
    outcome = act(ConnectStage(kernel.host, connect_plan()), "remove")
    assert not outcome.failed, outcome.message
    assert kernel.live() == [] and not kernel.path("/usr/lib/g35ctl/g35").exists()
    assert kernel.path("/etc/nvme/hostnqn").exists() and not kernel.path("/etc/g35ctl/connect.json").exists()
    assert not act(ConnectStage(kernel.host, connect_plan()), "remove").changed
