"""Driver spdk against a target that keeps SPDK's rules, spoken to by the published client."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils.g35 import box
from ansible.module_utils.g35.box_drivers import build
from ansible.module_utils.g35.box_spdk import SpdkDriver
from ansible.module_utils.g35.host import Host
from ansible.module_utils.g35.plans import BoxPlan, Portal, SpdkAccess, TargetNamespace
from ansible.module_utils.g35.schema import dump
from box_plans import PORTALS, host_nqn, namespace, nqn, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from spdk_fake import SpdkTarget


@pytest.fixture
def target() -> Iterator[SpdkTarget]:
    # Not tmp_path: the path of a Unix socket is limited to 108 bytes.
    with tempfile.TemporaryDirectory(prefix="g35-") as directory, SpdkTarget(Path(directory)) as found:
        yield found


def wanted(target: SpdkTarget, *items: TargetNamespace, portals: tuple[Portal, ...] = PORTALS,
           **access: object) -> BoxPlan:  # fmt: skip
    return plan("spdk", items, portals=portals, spdk=SpdkAccess(target.socket, **access))  # type: ignore[arg-type]


def act(asked: BoxPlan, action: str = "apply", **options: bool) -> dict[str, object]:
    return box.act(lambda: build(Host(), dump(asked)), action, **options)


def test_a_fresh_target_exports_each_bdev_to_its_owner_alone(target: SpdkTarget) -> None:
    done = act(wanted(target, namespace(0), namespace(1)))
    assert (done["failed"], done["changed"], done["msg"]) == (False, True, "")
    sub = target.subsystems[nqn(0)]
    assert [item["nqn"] for item in sub["hosts"]] == [host_nqn(1)]
    assert sub["allow_any_host"] is False
    assert sub["namespaces"] == [
        {"name": "Nvme0n1", "bdev_name": "Nvme0n1", "nsid": 1, "uuid": namespace(0).uuid,
         "nguid": namespace(0).nguid.upper()}
    ]  # fmt: skip
    assert [item["traddr"] for item in sub["listen_addresses"]] == ["192.0.2.11", "198.51.100.11"]
    assert target.transports == [{"trtype": "RDMA", "max_queue_depth": 128, "max_io_qpairs_per_ctrlr": 127}]
    # The door opens last: hosts and namespaces were there before the first listener.
    first = target.changed.index("nvmf_subsystem_add_listener")
    assert target.changed[:first] == [
        "nvmf_create_transport", "nvmf_create_subsystem", "nvmf_subsystem_add_ns", "nvmf_subsystem_add_host",
    ]  # fmt: skip


def test_a_second_apply_only_asks(target: SpdkTarget) -> None:
    asked = wanted(target, namespace(0), namespace(1))
    act(asked)
    target.changed.clear()
    done = act(asked)
    assert (done["failed"], done["changed"], target.changed) == (False, False, [])
    assert act(asked, "verify")["findings"] == []


def test_a_bdev_may_be_named_by_an_alias(target: SpdkTarget) -> None:
    asked = wanted(target, namespace(0, device="alias-0"))
    assert act(asked)["changed"] and target.subsystems[nqn(0)]["namespaces"][0]["bdev_name"] == "Nvme0n1"
    assert act(asked)["changed"] is False


def test_check_mode_only_asks(target: SpdkTarget) -> None:
    done = act(wanted(target, namespace(0)), check=True)
    assert (done["failed"], done["changed"], target.changed) == (False, True, [])


def test_an_unknown_bdev_stops_before_anything_is_made(target: SpdkTarget) -> None:
    done = act(wanted(target, namespace(0), namespace(1, device="Nvme99n1")))
    assert done["failed"] and target.changed == []
    assert "Nvme99n1" in str(done["msg"])


def test_a_foreign_subsystem_is_left_alone(target: SpdkTarget) -> None:
    target.call("nvmf_create_subsystem", {"nqn": "nqn.2020-01.com.example:other", "allow_any_host": True})
    before = dict(target.subsystems["nqn.2020-01.com.example:other"])
    done = act(wanted(target, namespace(0)))
    assert not done["failed"]
    assert target.subsystems["nqn.2020-01.com.example:other"] == before
    assert act(wanted(target, namespace(0)), "remove")["changed"]
    assert list(target.subsystems) == ["nqn.2020-01.com.example:other"]


def test_a_stranger_loses_access_only_with_consent_while_connected(target: SpdkTarget) -> None:
    asked = wanted(target, namespace(0), namespace(1))
    act(asked)
    target.call("nvmf_subsystem_add_host", {"nqn": nqn(0), "host": host_nqn(9)})
    target.controllers = {nqn(0): [host_nqn(1), host_nqn(9)], nqn(1): [host_nqn(2)]}
    refused = act(asked)
    assert refused["failed"] and "consent" in str(refused["msg"])
    assert not act(asked, allow_disruptive=True)["failed"]
    assert target.dropped == [(nqn(0), host_nqn(9))]
    assert target.controllers == {nqn(0): [host_nqn(1)], nqn(1): [host_nqn(2)]}


def test_a_door_open_to_all_is_closed_after_the_owner_is_listed(target: SpdkTarget) -> None:
    asked = wanted(target, namespace(0))
    act(asked)
    target.call("nvmf_subsystem_remove_host", {"nqn": nqn(0), "host": host_nqn(1)})
    target.call("nvmf_subsystem_allow_any_host", {"nqn": nqn(0), "allow_any_host": True})
    target.controllers = {nqn(0): [host_nqn(1)]}
    assert not act(asked)["failed"]
    assert target.dropped == []


def test_another_serial_makes_the_subsystem_anew_with_consent(target: SpdkTarget) -> None:
    act(wanted(target, namespace(0)))
    target.controllers = {nqn(0): [host_nqn(1)]}
    asked = wanted(target, namespace(0, serial="OTHER"))
    assert act(asked)["failed"]
    assert not act(asked, allow_disruptive=True)["failed"]
    assert target.subsystems[nqn(0)]["serial_number"] == "OTHER"


def test_controller_identifiers_of_two_heads_are_disjoint_as_planned(target: SpdkTarget) -> None:
    asked = wanted(target, namespace(0), min_cntlid=2000, max_cntlid=2999)
    act(asked)
    assert (target.subsystems[nqn(0)]["min_cntlid"], target.subsystems[nqn(0)]["max_cntlid"]) == (2000, 2999)
    assert act(asked)["changed"] is False


def test_keys_are_named_by_owner_and_rotated_in_place(target: SpdkTarget) -> None:
    act(wanted(target, namespace(0), dhchap_key="{host}.1"))
    assert target.subsystems[nqn(0)]["hosts"] == [{"nqn": host_nqn(1), "dhchap_key": "gpu1.1"}]
    target.controllers = {nqn(0): [host_nqn(1)]}
    rotated = wanted(target, namespace(0), dhchap_key="{host}.2")
    assert not act(rotated)["failed"]
    assert target.subsystems[nqn(0)]["hosts"] == [{"nqn": host_nqn(1), "dhchap_key": "gpu1.2"}]
    assert target.dropped == [] and act(rotated)["changed"] is False


def test_grant_and_revoke_are_idempotent(target: SpdkTarget) -> None:
    asked = wanted(target, namespace(0))
    act(asked)
    driver = SpdkDriver(Host(), asked)
    for _ in range(2):
        driver.grant(nqn(0), host_nqn(5))
    assert [item["nqn"] for item in target.subsystems[nqn(0)]["hosts"]] == [host_nqn(1), host_nqn(5)]
    for _ in range(2):
        driver.revoke(nqn(0), host_nqn(5))
    assert [item["nqn"] for item in target.subsystems[nqn(0)]["hosts"]] == [host_nqn(1)]


def test_drain_takes_the_owners_permission_and_keeps_the_namespace(target: SpdkTarget) -> None:
    asked = wanted(target, namespace(0))
    act(asked)
    assert not act(asked, "drain")["failed"]
    assert target.subsystems[nqn(0)]["hosts"] == []
    assert target.subsystems[nqn(0)]["namespaces"]


def test_no_target_says_how_to_reach_one(tmp_path: Path) -> None:
    asked = plan("spdk", [namespace(0)], spdk=SpdkAccess(str(tmp_path / "none.sock")))
    done = act(asked, "verify")
    assert done["failed"] and "ssh -N -L" in str(done["findings"])


def test_discovery_tells_sizes_and_free_bdevs(target: SpdkTarget) -> None:
    act(wanted(target, namespace(0)))
    seen = SpdkDriver(Host(), wanted(target, namespace(0))).discover()
    assert [(item.nqn, item.namespaces[0].size) for item in seen.subsystems] == [(nqn(0), 2**30)]
    assert "Nvme0n1" not in [item.device for item in seen.free_devices]
    assert "Nvme1n1" in [item.device for item in seen.free_devices]


EDITS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 3), st.sampled_from(["", "B"]), st.booleans()),
    min_size=1, max_size=4, unique_by=lambda item: item[0],
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(st.lists(EDITS, min_size=2, max_size=4))
def test_any_edits_end_as_planned_and_hold(history: list[list[tuple[int, int, str, bool]]]) -> None:
    with tempfile.TemporaryDirectory(prefix="g35-") as directory, SpdkTarget(Path(directory)) as target:
        for edit in history:
            items = [namespace(number, owner, serial=f"S{number}{mark}") for number, owner, mark, _ in edit]
            asked = wanted(target, *items, portals=PORTALS if edit[0][3] else PORTALS[:1])
            done = act(asked, allow_disruptive=True)
            assert not done["failed"], done["msg"]
            target.changed.clear()
            assert act(asked)["changed"] is False and target.changed == []
            for item in items:
                sub = target.subsystems[item.nqn]
                assert [host["nqn"] for host in sub["hosts"]] == list(item.allowed_hosts)
                assert sub["serial_number"] == item.serial
                assert len(sub["listen_addresses"]) == len(asked.portals)
