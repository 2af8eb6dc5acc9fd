"""What else knows of striped sets: the store's directory, metrics, tools, kernels, and boxes that keep off them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ansible.module_utils.g35 import aggregate, cache_checks, exporter, flash, kernelconfig, target_stripes
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.marker import Marker, read_marker, write_marker
from ansible.module_utils.g35.plans import StoreInstance, TargetNamespace, TargetPlan
from ansible.module_utils.g35.schema import dump
from md_kernel import StripedFlash, md_superblock, striped_plan, striped_set
from nvme_kernel import SITE, namespace_uuid, nqn

SET = striped_set()
MEMBERS = (namespace_uuid(0), namespace_uuid(1))
STORE = StoreInstance(
    SET.uuid, "192.0.2.21", 50052, 9300, "rdma", ("eth1",), 2**26, f"{SET.mount_point}/store", SET.uuid, 2**29,
    f"g35-mooncake-store-{SET.uuid}.service", SET.mount_point, stripe=MEMBERS,
)  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Host:
    """A host with the set's array mounted, as sysfs and mountinfo have it."""
    host = Host(str(tmp_path), lambda argv, stdin, timeout: Result(argv, 0, "", ""))
    for number, uuid in enumerate(MEMBERS):
        host.path(f"/sys/dev/block/9:127/slaves/nvme{number}n1").mkdir(parents=True)
        host.path(f"/sys/dev/block/9:127/slaves/nvme{number}n1/uuid").write_text(uuid + "\n")
    host.path("/proc/self").mkdir(parents=True)
    host.path("/proc/self/mountinfo").write_text(f"91 22 9:127 / {SET.mount_point} rw - xfs /dev/md127 rw\n")
    host.path(STORE.directory).mkdir(parents=True)
    return host


def test_a_store_lies_on_its_set_only_when_the_array_has_exactly_its_members(machine: Host) -> None:
    state = flash.read(machine, STORE, flash.mounts(machine))
    assert state["namespaces"] == sorted(MEMBERS)
    assert flash.on_its_namespace(STORE, state) and flash.finding(STORE, state) is None
    assert not flash.on_its_namespace(replace(STORE, stripe=(*MEMBERS, namespace_uuid(2))), state)
    machine.path("/sys/dev/block/9:127/slaves/sda").mkdir()
    other = flash.read(machine, STORE, flash.mounts(machine))
    found = flash.finding(STORE, other)
    assert found is not None and found.check == "cache.mount" and "not NVMe" in found.observed


def test_kernel_errors_of_any_member_are_the_stores(machine: Host) -> None:
    devices = cache_checks.block_devices(machine, flash.mounts(machine), STORE)
    assert set(devices[1:]) == {"nvme0n1", "nvme1n1"}


def test_every_namespace_of_a_set_has_its_metric(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    host.path(SET.mount_point).mkdir(parents=True)
    host.path("/proc/self").mkdir(parents=True)
    host.path("/proc/self/mountinfo").write_text(f"91 22 9:127 / {SET.mount_point} rw - xfs /dev/md127 rw\n")
    marker = Marker(SITE, "gpu1", SET.uuid, nqn(0), namespaces=MEMBERS)
    write_marker(host, SET.mount_point, marker)
    assert read_marker(host, SET.mount_point) == replace(marker, created=read_marker(host, SET.mount_point).created)
    settings = exporter.Settings(SITE, "gpu1", "/m", "/flash", 300)
    found = list(exporter.namespaces(host, settings))
    assert [(item.value, item.labels) for item in found] == [
        (1, (uuid, SET.mount_point, "gpu1")) for uuid in MEMBERS
    ]  # fmt: skip


def test_mdadm_and_raid0_are_asked_for_only_where_there_is_a_set(tmp_path: Path) -> None:
    striped = dump(striped_plan())
    host = Host(str(tmp_path), lambda argv, stdin, timeout: Result(argv, 1, "", ""))
    host.path("/proc/sys/kernel").mkdir(parents=True)
    host.path("/proc/sys/kernel/osrelease").write_text("6.1.0\n")
    host.path("/boot").mkdir()
    host.path("/boot/config-6.1.0").write_text("CONFIG_XFS_FS=m\n")
    for plan, wanted in ((striped, True), ({**striped, "sets": []}, False)):
        (missing,) = aggregate._missing_tools(host, "debian", {"storage": plan})
        assert ("mdadm" in missing.observed) is wanted and ("mdadm" in missing.remedy) is wanted
        options = {item.subject for _, item in kernelconfig.kernel_findings(host, {"storage": plan})}
        assert ("CONFIG_MD_RAID0" in options) is wanted


def box_plan(striped: bool = True) -> TargetPlan:
    namespaces = tuple(
        TargetNamespace(nqn(n), 1, namespace_uuid(n), "x", f"/dev/nvme{n}n1", f"S{n}", "m") for n in (0, 1)
    )
    return TargetPlan(SITE, (), namespaces, striped=striped)


def test_a_box_takes_an_owners_array_apart_and_no_other(tmp_path: Path) -> None:
    """mdadm in a box's initramfs assembles what it finds on its SSDs."""
    box = StripedFlash(tmp_path)
    box.write_set(SET)
    assert target_stripes.changes(box.host, box_plan()) == []
    box.assemble(["/dev/nvme0n1", "/dev/nvme1n1"])
    assert target_stripes.assembled_here(box.host, box_plan()) == ("md127",)
    assert target_stripes.assembled_here(box.host, box_plan(striped=False)) == ()
    (change,) = target_stripes.changes(box.host, box_plan())
    change.do()
    assert box.path("/sys/block/md127/md/array_state").read_text() == "clear"
    # An array of the box's own is left alone, and its SSD is refused as ever.
    with box.device(1).open("r+b") as handle:
        handle.seek(4096)
        handle.write(md_superblock(SET.uuid, "box:root", 2, 1))
    assert target_stripes.assembled_here(box.host, box_plan()) == ()
