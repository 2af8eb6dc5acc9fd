"""The target stage against a configfs with the kernel's rules."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible.module_utils.g35 import ssd
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import AnaState, ControllerIds, TargetPlan
from ansible.module_utils.g35.schema import dump
from ansible.module_utils.g35.target import TargetStage, boot_stage, build
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from target_fakes import ROOT, Target, host_nqn, namespace, plan, portal


@pytest.fixture
def box(tmp_path: Path) -> Target:
    host = Target(tmp_path)
    for number in range(8):
        host.add_device(namespace(number).device)
    return host


def apply(box: Target, wanted: TargetPlan, *, consent: bool = False, check: bool = False) -> Outcome:
    return act(build(box, dump(wanted)), "apply", allow_disruptive=consent, check=check)


def test_fresh_box_exports_each_ssd_to_its_owner_alone(box: Target) -> None:
    outcome = apply(box, plan([namespace(0), namespace(1)]))
    assert (outcome.failed, outcome.changed, outcome.message) == (False, True, "")
    seen = box.configured()
    for number in (0, 1):
        base = f"subsystems/{namespace(number).nqn}"
        assert seen[f"{base}/attr_serial"] == f"SSD{number:04d}\n"
        assert seen[f"{base}/attr_allow_any_host"] == "0\n"
        assert seen[f"{base}/namespaces/1/device_uuid"] == namespace(number).uuid + "\n"
        assert seen[f"{base}/namespaces/1/enable"] == "1\n"
        assert box.list(f"{ROOT}/{base}/allowed_hosts") == [host_nqn(1 + number)]
        for port in ("1", "2"):
            assert seen[f"ports/{port}/subsystems/{namespace(number).nqn}"] == namespace(number).nqn


def test_second_apply_changes_nothing(box: Target) -> None:
    wanted = plan([namespace(0), namespace(1)])
    apply(box, wanted)
    before = box.configured()
    outcome = apply(box, wanted)
    assert (outcome.failed, outcome.changed, list(outcome.changes)) == (False, False, [])
    assert box.configured() == before
    assert box.unlinked == []


def test_check_mode_on_a_fresh_box_succeeds_and_touches_nothing(box: Target) -> None:
    before = box.configured()
    outcome = apply(box, plan([namespace(0)]), check=True)
    assert (outcome.failed, outcome.changed) == (False, True)
    assert box.configured() == before
    assert not box.exists("/etc/g35ctl/target.json")


def test_another_serial_rebuilds_only_that_subsystem_and_wants_consent_when_live(box: Target) -> None:
    apply(box, plan([namespace(0), namespace(1)]))
    box.sessions = [("192.0.2.21", "192.0.2.11")]
    wanted = plan([namespace(0, serial="NEW"), namespace(1)])
    refused = apply(box, wanted)
    assert refused.failed
    assert refused.findings[0]["check"] == "target.consent"
    assert "192.0.2.21" in refused.findings[0]["observed"]
    assert box.unlinked == []
    assert not apply(box, wanted, consent=True).failed
    assert box.read_value(f"{ROOT}/subsystems/{namespace(0).nqn}/attr_serial") == "NEW"
    assert {nqn for _, nqn in box.unlinked} == {namespace(0).nqn}


def test_nothing_connected_needs_no_consent(box: Target) -> None:
    apply(box, plan([namespace(0)]))
    assert not apply(box, plan([namespace(0, model="OTHER")])).failed


def test_adding_an_ssd_leaves_live_controllers_alone(box: Target) -> None:
    apply(box, plan([namespace(0)]))
    box.sessions = [("192.0.2.21", "192.0.2.11")]
    outcome = apply(box, plan([namespace(0), namespace(1)]))
    assert not outcome.failed
    assert box.unlinked == []


def test_moved_owner_is_fenced_out_of_live_controllers(box: Target) -> None:
    apply(box, plan([namespace(0), namespace(1)]))
    outcome = apply(box, plan([namespace(0, allowed_hosts=(host_nqn(9),)), namespace(1)]))
    assert not outcome.failed
    nqn = namespace(0).nqn
    assert box.list(f"{ROOT}/subsystems/{nqn}/allowed_hosts") == [host_nqn(9)]
    # The kernel would keep the old owner's controllers: both ports must have dropped this subsystem, and no other.
    assert sorted(box.unlinked) == [("1", nqn), ("2", nqn)]
    assert not box.exists(f"{ROOT}/hosts/{host_nqn(1)}")


def test_port_with_another_address_is_unlinked_rewritten_and_linked_again(box: Target) -> None:
    apply(box, plan([namespace(0)]))
    box.addresses.append("192.0.2.99")
    outcome = apply(box, plan([namespace(0)], [portal(1, address="192.0.2.99"), portal(2)]))
    assert (outcome.failed, outcome.message) == (False, "")
    assert box.read_value(f"{ROOT}/ports/1/addr_traddr") == "192.0.2.99"
    assert box.list(f"{ROOT}/ports/1/subsystems") == [namespace(0).nqn]
    assert box.unlinked == [("1", namespace(0).nqn)]


def test_what_left_the_plan_is_removed_and_foreign_configuration_stays(box: Target) -> None:
    box.make_directory(f"{ROOT}/hosts/{host_nqn(1)}")
    box.make_directory(f"{ROOT}/subsystems/nqn.2020-01.org.other:data")
    box.make_link(
        f"{ROOT}/hosts/{host_nqn(1)}", f"{ROOT}/subsystems/nqn.2020-01.org.other:data/allowed_hosts/{host_nqn(1)}"
    )
    foreign = box.configured()
    apply(box, plan([namespace(0), namespace(1)]))
    assert not apply(box, plan([namespace(1)], [portal(1)])).failed
    assert box.list(f"{ROOT}/ports") == ["1"]
    assert namespace(0).nqn not in box.list(f"{ROOT}/subsystems")
    assert box.list(f"{ROOT}/ports/1/subsystems") == [namespace(1).nqn]
    removed = act(build(box, dump(plan([namespace(1)], [portal(1)]))), "remove")
    assert (removed.failed, removed.message) == (False, "")
    assert box.configured() == foreign
    assert not box.exists("/etc/g35ctl/target.json")
    assert not box.exists("/usr/lib/g35ctl/g35")


def test_interrupted_removal_is_finished_by_the_next_run(box: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(box, plan([namespace(0), namespace(1)]))
    original = Target.remove_directory

    def broken(self: Target, absolute: str) -> None:
        if absolute.endswith(namespace(0).nqn):
            raise OSError(5, "Input/output error", absolute)
        original(self, absolute)

    monkeypatch.setattr(Target, "remove_directory", broken)
    assert apply(box, plan([namespace(1)])).failed
    monkeypatch.setattr(Target, "remove_directory", original)
    assert not apply(box, plan([namespace(1)])).failed
    assert box.list(f"{ROOT}/subsystems") == [namespace(1).nqn]


def test_verify_names_each_difference(box: Target) -> None:
    wanted = plan([namespace(0)])
    apply(box, wanted)
    box.remove_file(f"{ROOT}/ports/2/subsystems/{namespace(0).nqn}")
    box.path(f"{ROOT}/subsystems/{namespace(0).nqn}/attr_serial").write_text("tampered\n")
    outcome = act(build(box, dump(wanted)), "verify")
    assert outcome.failed
    assert {item["check"] for item in outcome.findings} == {"target.subsystem", "target.link"}
    assert not outcome.changed


def test_a_raw_pool_admits_any_host_and_an_owner_closes_it_again(box: Target) -> None:
    raw = dataclasses.replace(namespace(0), allowed_hosts=("*",))
    attribute = f"subsystems/{raw.nqn}/attr_allow_any_host"
    assert not apply(box, plan([raw])).failed
    assert box.configured()[attribute] == "1\n"
    assert not apply(box, plan([raw])).changed
    assert not apply(box, plan([namespace(0)]), consent=True).failed
    assert box.configured()[attribute] == "0\n"
    assert box.list(f"{ROOT}/subsystems/{raw.nqn}/allowed_hosts") == list(namespace(0).allowed_hosts)
    assert not apply(box, plan([raw])).failed
    assert box.list(f"{ROOT}/subsystems/{raw.nqn}/allowed_hosts") == []


def test_any_host_is_never_left_on(box: Target) -> None:
    wanted = plan([namespace(0)])
    apply(box, wanted)
    for name in box.list(f"{ROOT}/subsystems/{namespace(0).nqn}/allowed_hosts"):
        box.remove_file(f"{ROOT}/subsystems/{namespace(0).nqn}/allowed_hosts/{name}")
    box.write_attribute(f"{ROOT}/subsystems/{namespace(0).nqn}/attr_allow_any_host", "1")
    assert act(build(box, dump(wanted)), "verify").failed
    assert not apply(box, wanted).failed
    assert box.read_value(f"{ROOT}/subsystems/{namespace(0).nqn}/attr_allow_any_host") == "0"


def test_drain_closes_the_portals_and_apply_opens_them(box: Target) -> None:
    wanted = plan([namespace(0)])
    apply(box, wanted)
    drained = act(build(box, dump(wanted)), "drain")
    assert not drained.failed
    assert box.list(f"{ROOT}/ports/1/subsystems") == []
    assert box.list(f"{ROOT}/subsystems") == [namespace(0).nqn]
    assert not apply(box, wanted).failed
    assert box.list(f"{ROOT}/ports/1/subsystems") == [namespace(0).nqn]


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"serial": "x" * 21}, "target.serial"),
        ({"serial": "é"}, "target.serial"),
        ({"model": ""}, "target.model"),
        ({"nqn": "nqn.2026-01.example:" + "x" * 220}, "target.nqn"),
        ({"allowed_hosts": ("gpu1",)}, "target.nqn"),
        ({"device": "/dev/disk/by-id/none"}, "target.device"),
    ],
)
def test_preflight_refuses_before_anything_is_touched(box: Target, changes: dict[str, object], check: str) -> None:
    before = box.configured()
    outcome = apply(box, plan([namespace(0, **changes)]))
    assert outcome.failed
    assert [item["check"] for item in outcome.findings] == [check]
    assert outcome.findings[0]["remedy"]
    assert box.configured() == before


def test_preflight_reports_every_problem_of_the_box_at_once(box: Target) -> None:
    box.addresses = ["192.0.2.11"]
    block = "/sys/class/block/nvme1n1"
    for path, text in ((f"{block}/size", "1000"), (f"{block}/dev", "259:1"), ("/dev/nvme1n1", "")):
        box.path(path).parent.mkdir(parents=True, exist_ok=True)
        box.path(path).write_text(text)
    box.path("/proc/self").mkdir(parents=True)
    box.path("/proc/self/mountinfo").write_text("22 1 259:1 / /data rw - ext4 /dev/nvme1n1 rw\n")
    outcome = act(build(box, dump(plan([namespace(0, device="/dev/nvme1n1")]))), "preflight")
    assert [(item["check"], item["observed"]) for item in outcome.findings] == [
        ("target.device", "mounted on /data"),
        ("target.address", "not on this host"),
    ]


def test_foreign_port_in_the_way_is_an_error_not_a_victim(box: Target) -> None:
    box.make_directory(f"{ROOT}/subsystems/nqn.2020-01.org.other:data")
    box.make_directory(f"{ROOT}/ports/1")
    box.write_attribute(f"{ROOT}/ports/1/addr_traddr", "192.0.2.11")
    box.make_link(
        f"{ROOT}/subsystems/nqn.2020-01.org.other:data", f"{ROOT}/ports/1/subsystems/nqn.2020-01.org.other:data"
    )
    before = box.configured()
    outcome = apply(box, plan([namespace(0)]), consent=True)
    assert outcome.findings[0]["check"] == "target.port"
    assert box.configured() == before


def test_boot_waits_for_a_late_ssd(tmp_path: Path) -> None:
    box = Target(tmp_path)
    seconds = [0.0]

    def sleep(duration: float) -> None:
        seconds[0] += duration
        if seconds[0] >= 30:
            box.add_device(namespace(0).device)

    box.sleep = sleep  # type: ignore[method-assign]
    box.clock = lambda: seconds[0]  # type: ignore[method-assign]
    outcome = act(boot_stage(box, dump(plan([namespace(0)]))), "apply", allow_disruptive=True)
    assert not outcome.failed
    assert 30 <= seconds[0] < 60
    assert not box.exists("/etc/g35ctl/target.json")


def test_boot_gives_up_on_an_absent_ssd(tmp_path: Path) -> None:
    box = Target(tmp_path)
    seconds = [0.0]
    box.sleep = lambda duration: seconds.__setitem__(0, seconds[0] + duration)  # type: ignore[method-assign]
    box.clock = lambda: seconds[0]  # type: ignore[method-assign]
    outcome = act(boot_stage(box, dump(plan([namespace(0)]))), "apply", allow_disruptive=True)
    assert outcome.failed
    assert 120 <= seconds[0] <= 121


_NAMESPACE = st.builds(
    lambda number, serial, owner, device, group, buffered: namespace(
        number, serial=serial, allowed_hosts=(host_nqn(owner),), device=namespace(device).device,
        ana_group=group, buffered_io=buffered,
    ),
    st.integers(0, 3), st.sampled_from(["S1", "S2"]), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3),
    st.booleans(),
)  # fmt: skip
_ANA = st.lists(
    st.builds(AnaState, st.integers(1, 4), st.sampled_from(["optimized", "non-optimized", "inaccessible"])),
    max_size=2, unique_by=lambda item: item.group,
)  # fmt: skip
_IDS = st.sampled_from([None, ControllerIds(1, 100), ControllerIds(200, 300), ControllerIds(50, 250)])


@st.composite
def _plans(draw: st.DrawFn) -> TargetPlan:
    chosen = draw(st.lists(_NAMESPACE, min_size=1, max_size=4, unique_by=(lambda n: n.nqn, lambda n: n.device)))
    ports = draw(st.sampled_from([[portal(1)], [portal(1), portal(2)], [portal(2)], [portal(1, address="192.0.2.99")]]))
    ports = [dataclasses.replace(item, ana=tuple(draw(_ANA))) for item in ports]
    return dataclasses.replace(
        plan(chosen, ports), controller_ids=draw(_IDS), firmware=draw(st.sampled_from(["1.0", "1.1"])),
        max_queue_size=draw(st.sampled_from([64, 128])),
    )  # fmt: skip


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_plans(), _plans(), st.booleans())
def test_any_edit_ends_as_planned_and_disturbs_only_what_it_concerns(
    first: TargetPlan, second: TargetPlan, newer: bool
) -> None:
    addresses = ("192.0.2.11", "198.51.100.11", "192.0.2.99")
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        edited, fresh = Target(Path(one), addresses), Target(Path(other), addresses)
        edited.newer = fresh.newer = newer
        for number in range(4):
            edited.add_device(namespace(number).device)
            fresh.add_device(namespace(number).device)
        assert not apply(edited, first).failed
        outcome = apply(edited, second, consent=True)
        assert (outcome.failed, outcome.message) == (False, "")
        assert not apply(fresh, second).failed
        assert edited.configured() == fresh.configured()
        assert not apply(edited, second).changed
        before = {item.nqn: dataclasses.replace(item, ana_group=1) for item in first.namespaces}
        after = {item.nqn: dataclasses.replace(item, ana_group=1) for item in second.namespaces}
        # Older kernels present no firmware revision and take no queue size: another one is no edit there.
        alike = not newer or (first.firmware, first.max_queue_size) == (second.firmware, second.max_queue_size)
        same = {nqn for nqn, item in after.items() if before.get(nqn) == item} if alike else set()
        kept = {
            item.port_id for item in first.portals
            if [1 for now in second.portals if dataclasses.replace(now, ana=item.ana) == item]
        }  # fmt: skip
        assert not [1 for port, nqn in edited.unlinked if nqn in same and int(port) in kept]
        closed = {(str(item.port_id), group.group) for item in second.portals for group in item.ana
                  if group.state == "inaccessible"}  # fmt: skip
        groups = {item.nqn: item.ana_group for item in second.namespaces}
        assert not [1 for port, nqn in edited.lost if (port, groups[nqn]) not in closed and int(port) in kept]


def test_boot_files_carry_the_plan_without_its_files() -> None:
    wanted = plan([namespace(0)])
    stage = TargetStage(Target(Path(tempfile.mkdtemp())), wanted)
    paths = {item.path for item in stage.files}
    assert "/usr/lib/g35ctl/g35/boot.py" in paths
    assert {f"/usr/lib/g35ctl/g35/{name}.py" for name in ("target", "nvmet", "ssd", "network")} <= paths
    assert dataclasses.replace(wanted, files=()) == wanted


@pytest.mark.parametrize(
    ("code", "filename", "description", "expected"),
    [
        (1, "", "", [("not available", "error")]),
        (0, "/lib/modules/6.1/updates/dkms/nvmet-rdma.ko", "dummy module", [
            ("a dummy of the NIC vendor's driver package", "error")]),
        (0, "/lib/modules/6.1/kernel/drivers/nvme/target/nvmet-rdma.ko", "NVMe target", []),
    ],
)  # fmt: skip
def test_kernel_modules_are_judged_before_loading(
    tmp_path: Path, code: int, filename: str, description: str, expected: list[tuple[str, str]]
) -> None:
    def answer(argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        return Result(argv, code, filename if "filename" in argv else description, "")

    found = ssd.module_findings(Host(str(tmp_path), runner=answer), ["nvmet_rdma"])
    assert [(item.observed, item.severity) for item in found] == expected


def test_modules_of_two_origins_are_a_warning(tmp_path: Path) -> None:
    def answer(argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        return Result(argv, 0, f"/lib/modules/6.1/{'kernel' if argv[-1] == 'nvmet' else 'updates'}/x.ko", "")

    found = ssd.module_findings(Host(str(tmp_path), runner=answer), ["nvmet", "nvmet_rdma"])
    assert [item.severity for item in found] == ["warning"]
