"""Striped sets: made of what is empty, known by their superblocks, taken apart and assembled; never made twice."""

from __future__ import annotations

import pytest
from ansible.module_utils.g35 import stripe, wipe, xfs
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.plans import StoragePlan
from ansible.module_utils.g35.storage import StorageStage
from md_kernel import CHUNK, DATA_OFFSET, StripedFlash, mount_unit, striped_plan, striped_set
from nvme_kernel import MIB, SITE, namespace_uuid, storage_plan
from test_storage import FOREIGN, superblock

SET = striped_set()


@pytest.fixture
def flash(tmp_path) -> StripedFlash:
    return StripedFlash(tmp_path)


def run(kernel: StripedFlash, action: str = "apply", plan: StoragePlan | None = None, **options: bool) -> Outcome:
    return act(StorageStage(kernel.host, plan or striped_plan()), action, **options)


def checks(outcome: Outcome) -> set[str]:
    return {item["check"] for item in outcome.findings if item["severity"] == "error"}


def created(flash: StripedFlash) -> list[list[str]]:
    return flash.ran("mdadm", "--create")


def test_a_set_is_made_over_empty_namespaces_mounted_and_marked_once(flash) -> None:
    outcome = run(flash)
    assert not outcome.failed and outcome.changed, outcome.message
    (words,) = created(flash)
    assert words[2] == f"/dev/md/g35-{SET.uuid[:8]}" and words[-2:] == ["/dev/nvme0n1", "/dev/nvme1n1"]
    assert {"--metadata=1.2", "--level=0", "--raid-devices=2", "--chunk=512K", "--homehost=any", "--run"} <= set(words)
    (mkfs,) = flash.ran("mkfs.xfs")
    assert f"uuid={xfs.file_system_uuid(SITE, SET.uuid)}" in mkfs[mkfs.index("-m") + 1]
    marker = flash.marked()
    assert (marker["owner"], marker["namespace"]) == ("gpu1", SET.uuid)
    assert marker["namespaces"] == [namespace_uuid(0), namespace_uuid(1)]
    first, second = outcome.state["mounts"]
    assert first["mounted"] and second["mounted"] and second["device_uuid"] == namespace_uuid(1)
    assert len(first["live_paths"]) == len(second["live_paths"]) == 2
    (state,) = outcome.state["sets"]
    assert state["array"]["level"] == "raid0" and state["array"]["chunk_size"] == CHUNK
    again = run(flash)
    assert not again.failed and not again.changed, (again.message, again.changes)
    assert not run(flash, "verify").failed


def test_mdadm_is_kept_off_the_members_before_there_are_any(flash) -> None:
    told = [change["what"] for change in run(flash, check=True).changes]
    assert told.index("/etc/udev/rules.d/62-g35-striped.rules") < told.index(f"striped set {SET.uuid}")
    run(flash)
    create = flash.commands.index(created(flash)[0])
    # The unit assembles it, so that stopping the unit takes it apart.
    stopped = flash.commands.index(["mdadm", "--stop", SET.device])
    assert create < stopped < flash.commands.index(["systemctl", "restart", SET.unit])
    assert flash.commands.index(["systemctl", "restart", SET.unit]) < flash.commands.index(
        ["systemctl", "restart", mount_unit(SET)]
    )


def test_a_check_writes_nothing_and_says_everything(flash) -> None:
    outcome = run(flash, check=True)
    assert outcome.changed and not outcome.failed
    (change,) = [item for item in outcome.changes if item["what"] == f"striped set {SET.uuid}"]
    assert (change["before"], change["after"]) == ("empty", f"RAID 0 of 2 namespaces, XFS g35-{SET.uuid[:8]}")
    assert not created(flash) and not flash.ran("mkfs.xfs") and not flash.assembled


def test_the_uuid_is_that_of_the_site_and_all_members_in_any_order() -> None:
    members = [namespace_uuid(0), namespace_uuid(1)]
    assert stripe.set_uuid(SITE, members) == stripe.set_uuid(SITE, members[::-1]) == SET.uuid
    assert stripe.set_uuid("other", members) != SET.uuid != stripe.set_uuid(SITE, [*members, namespace_uuid(2)])


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("number", [0, 1])
def test_one_member_with_foreign_contents_stops_the_set(flash, name: str, number: int) -> None:
    flash.content(FOREIGN[name], number)
    outcome = run(flash)
    assert checks(outcome) == {"storage.content"} and namespace_uuid(number) in outcome.message
    assert f"g35_storage.destroy: [{namespace_uuid(number)}]" in outcome.findings[0]["remedy"]
    assert not created(flash) and not flash.ran("wipefs")
    # Naming the other one is no consent.
    assert run(flash, plan=striped_plan(destroy=[namespace_uuid(1 - number)])).failed and not created(flash)
    consent = striped_plan(destroy=[namespace_uuid(number)])
    assert not run(flash, plan=consent).failed
    assert flash.ran("wipefs") == [["wipefs", "--all", "--force", f"/dev/nvme{number}n1"]]
    assert not run(flash, plan=consent).changed and len(created(flash)) == 1


def test_a_store_of_its_own_is_foreign_to_a_set_and_a_set_to_it(flash, tmp_path) -> None:
    flash.content(superblock())
    assert checks(run(flash)) == {"storage.content"} and not created(flash)
    other = StripedFlash(tmp_path / "other")
    other.write_set(SET)
    outcome = run(other, plan=storage_plan())
    assert checks(outcome) == {"storage.content"} and "linux_raid_member" in outcome.message
    assert not other.ran("mkfs.xfs")


def test_a_member_of_another_set_is_named_as_such(tmp_path) -> None:
    flash = StripedFlash(tmp_path, (0, 1, 2))
    flash.write_set(SET)
    outcome = run(flash, plan=striped_plan((0, 1, 2)))
    assert checks(outcome) == {"storage.content"}
    assert f"a member of striped set {SET.name} of 2 namespaces" in outcome.message and not created(flash)
    # All of the old set have to be named before a larger one takes its place.
    assert run(flash, plan=striped_plan((0, 1, 2), destroy=[namespace_uuid(0)])).failed
    named = striped_plan((0, 1, 2), destroy=[namespace_uuid(0), namespace_uuid(1)])
    assert not run(flash, plan=named).failed and len(created(flash)) == 1


def test_a_set_that_is_taken_apart_is_looked_into_without_a_write_and_assembled(flash) -> None:
    flash.write_set(SET)
    flash.set_marker(SET, "gpu1")
    before = flash.head("/dev/nvme0n1", 2 * MIB)
    outcome = run(flash, "verify")
    assert checks(outcome) >= {"storage.stripe", "storage.mount"} and "storage.owner" not in checks(outcome)
    (look,) = flash.ran("mdadm", "--assemble")
    assert "--readonly" in look and not flash.assembled and flash.head("/dev/nvme0n1", 2 * MIB) == before
    assert not run(flash).failed and not created(flash)


def test_a_set_marked_for_another_owner_is_refused_unless_it_comes_from_there(flash) -> None:
    flash.write_set(SET)
    flash.set_marker(SET, "gpu2")
    assert checks(run(flash)) == {"storage.owner"} and not flash.ran("systemctl", "restart")
    moved = run(flash, plan=striped_plan(previous=("gpu2",)))
    assert not moved.failed, moved.message
    assert flash.marked()["owner"] == "gpu1" and not created(flash)


def test_an_array_without_a_file_system_is_made_again(flash) -> None:
    """Cut off between mdadm and mkfs, or during either: nothing was ever stored."""
    for role in (0, 1):
        flash.write_member(role, SET, role)
    outcome = run(flash)
    assert not outcome.failed and len(created(flash)) == 1


def test_superblocks_that_were_written_in_part_are_written_again(flash) -> None:
    flash.write_member(0, SET, 0)
    assert not run(flash).failed and len(created(flash)) == 1


def test_an_interrupted_mkfs_of_ours_is_made_again(flash) -> None:
    flash.write_set(SET, in_progress=True)
    assert not run(flash).failed and len(flash.ran("mkfs.xfs")) == 1


def test_a_set_with_an_empty_member_is_never_made_anew_by_itself(flash) -> None:
    """Another SSD under the name of the right one: what is on the others may still be wanted."""
    flash.write_set(SET)
    with flash.device(1).open("r+b") as handle:
        handle.write(bytes(2 * MIB))
    outcome = run(flash)
    assert checks(outcome) == {"storage.content"} and "only a part of striped set" in outcome.message
    assert run(flash, plan=striped_plan(destroy=[namespace_uuid(1)])).failed
    assert not run(flash, plan=striped_plan(destroy=[namespace_uuid(0), namespace_uuid(1)])).failed


def test_a_member_that_the_plan_does_not_have_is_told(flash) -> None:
    flash.write_set(SET)
    plan = striped_plan()
    torn = StoragePlan(SITE, "gpu1", plan.mounts[:1], sets=plan.sets, units=plan.units)
    outcome = run(flash, plan=torn)
    assert checks(outcome) == {"storage.stripe"} and namespace_uuid(1) in outcome.message
    assert not created(flash) and not flash.ran("mdadm", "--assemble")


def test_a_member_without_live_path_fails_and_nothing_is_read(flash) -> None:
    run(flash)
    for name in ("nvme2", "nvme3"):
        flash.put(f"/sys/class/nvme/{name}/state", "connecting")
    outcome = run(flash, "verify")
    assert checks(outcome) == {"storage.device"} and "nsid 1" in outcome.message


def test_one_path_of_each_member_is_enough(flash) -> None:
    run(flash)
    for name in ("nvme0", "nvme2"):
        flash.put(f"/sys/class/nvme/{name}/state", "connecting")
    outcome = run(flash, "verify")
    assert not outcome.failed, outcome.message


def test_a_stranger_on_a_member_is_refused(flash) -> None:
    flash.write_set(SET)
    flash.put("/sys/block/nvme1n1/holders/dm-3", "")
    assert checks(run(flash)) == {"storage.in_use"}
    flash.path("/sys/block/nvme1n1/holders/dm-3").unlink()
    # An array with a device in it that is no member is somebody else's.
    flash.assemble(["/dev/nvme0n1", "/dev/nvme1n1"])
    flash.put("/sys/block/md127/slaves/sda", "")
    flash.path("/sys/block/sda").mkdir()
    assert checks(run(flash)) == {"storage.in_use"}


def test_what_mdadm_assembled_in_part_is_taken_apart_first(flash) -> None:
    flash.write_set(SET)
    flash.set_marker(SET, "gpu1")
    flash.assemble(["/dev/nvme0n1"], state="inactive")
    outcome = run(flash)
    assert flash.ran("mdadm", "--stop", "/dev/md127") and not created(flash)
    assert not outcome.failed, outcome.message


@pytest.mark.parametrize("state", ["inactive", "broken"])
def test_whose_it_is_is_known_before_what_is_in_pieces_is_put_together(flash, state: str) -> None:
    flash.write_set(SET)
    flash.set_marker(SET, "gpu2")
    flash.assemble(["/dev/nvme0n1", "/dev/nvme1n1"], state=state)
    outcome = run(flash)
    assert outcome.failed and "is marked for host gpu2" in outcome.message
    assert flash.marked()["owner"] == "gpu2" and not flash.ran("systemctl", "restart")


def test_an_array_that_broke_under_its_mount_is_assembled_and_mounted_again(flash) -> None:
    run(flash)
    flash.put("/sys/block/md127/md/array_state", "broken")
    assert "storage.stripe" in checks(run(flash, "verify"))
    outcome = run(flash)
    assert not outcome.failed, outcome.message
    assert flash.ran("umount", SET.mount_point) and ["systemctl", "restart", SET.unit] in flash.commands
    assert len(created(flash)) == 1


def test_an_array_whose_members_are_gone_for_good_gives_way(flash) -> None:
    """The kernel gave all paths up; the namespaces are back under other names, the old array is still mounted."""
    run(flash)
    for name in ("nvme0n1", "nvme1n1"):
        flash.path(f"/sys/block/md127/slaves/{name}").unlink()
        flash.path(f"/sys/block/{name}/holders/md127").unlink()
    for name in ("nvme8n1", "nvme9n1"):
        flash.put(f"/sys/block/md127/slaves/{name}", "")
    outcome = run(flash)
    assert not outcome.failed, outcome.message
    assert flash.ran("mdadm", "--stop", "/dev/md127") and len(created(flash)) == 1


def test_a_unit_that_lost_its_array_assembles_it_again(flash) -> None:
    run(flash)
    flash._umount(["umount", SET.mount_point])
    flash.units[mount_unit(SET)] = ("inactive", "enabled")
    flash.taken_apart()
    assert checks(run(flash, "verify")) >= {"storage.stripe", "storage.mount"}
    outcome = run(flash)
    assert not outcome.failed, outcome.message
    assert len(created(flash)) == 1


def test_another_chunk_than_planned_is_told_and_left(flash) -> None:
    run(flash)
    flash.put("/sys/block/md127/md/chunk_size", "65536")
    outcome = run(flash)
    assert not outcome.failed and not outcome.changed
    assert [item["check"] for item in outcome.findings] == ["storage.chunk"]


def test_drain_and_remove_unmount_before_they_take_the_array_apart_and_never_wipe(flash) -> None:
    run(flash)
    before = flash.head("/dev/nvme0n1", 2 * MIB)
    assert not run(flash, "drain").failed
    stops = [words[2] for words in flash.ran("systemctl", "stop")]
    assert stops == [mount_unit(SET), SET.unit]
    assert not run(flash, "remove").failed
    disabled = [words[3] for words in flash.ran("systemctl", "disable")]
    assert disabled == [mount_unit(SET), SET.unit]
    assert flash.head("/dev/nvme0n1", 2 * MIB) == before and len(created(flash)) == 1


def unit_text(kind: str) -> str:
    where = f"Where={SET.mount_point}\n" if kind == "mount" else f"ExecStop=/usr/sbin/mdadm --stop {SET.device}\n"
    return f"# Made by g35ctl for site lab; x\n[Unit]\nDescription=Flash set {SET.uuid} (g35ctl)\n{where}"


def test_a_set_that_went_to_another_owner_is_unmounted_and_then_taken_apart(flash) -> None:
    run(flash)
    flash.put(f"/etc/systemd/system/{SET.unit}", unit_text("service"))
    flash.put(f"/etc/systemd/system/{mount_unit(SET)}", unit_text("mount"))
    gone = StoragePlan(SITE, "gpu1", ())
    assert checks(run(flash, "verify", plan=gone)) == {"storage.stale"}
    outcome = act(StorageStage(flash.host, gone), "release", allow_disruptive=True)
    disabled = [words[3] for words in flash.ran("systemctl", "disable")]
    assert disabled == [mount_unit(SET), SET.unit], outcome.message
    assert not flash.host.exists(f"/etc/systemd/system/{SET.unit}")
    assert not flash.host.exists("/etc/udev/rules.d/62-g35-striped.rules")


def test_an_array_that_its_unit_left_behind_is_taken_apart_with_it(flash) -> None:
    run(flash)
    flash._umount(["umount", SET.mount_point])
    flash.put(f"/etc/systemd/system/{SET.unit}", unit_text("service"))
    flash.put(SET.device, "")
    outcome = act(StorageStage(flash.host, StoragePlan(SITE, "gpu1", ())), "release", allow_disruptive=True)
    assert ["mdadm", "--stop", SET.device] in flash.commands, outcome.message


def test_a_wipe_stops_the_array_and_clears_every_member(flash) -> None:
    run(flash)
    assert wipe.wipe(flash.host, striped_plan(), SITE)["failed"]
    flash._umount(["umount", SET.mount_point])
    told = wipe.wipe(flash.host, striped_plan(), SITE, check=True)
    assert told["changed"] and flash.assembled and not flash.ran("mdadm", "--zero-superblock")
    result = wipe.wipe(flash.host, striped_plan(), SITE)
    assert not result["failed"] and result["changed"] and not flash.assembled
    for number in (0, 1):
        assert ["mdadm", "--zero-superblock", f"/dev/nvme{number}n1"] in flash.commands
        assert ["wipefs", "--all", "--force", f"/dev/nvme{number}n1"] in flash.commands
        assert stripe.read_superblock(flash.host, f"/dev/nvme{number}n1") is None


def test_what_was_wiped_does_not_come_back_with_an_array_of_the_same_members(flash) -> None:
    """The file system of a set lies behind its superblock, at the same place when the set is made again."""
    flash.write_set(SET)
    assert xfs.read_superblock(flash.head("/dev/nvme0n1", 2 * MIB)[DATA_OFFSET:]) is not None
    assert not wipe.wipe(flash.host, striped_plan(), SITE)["failed"]
    flash.write_member(0, SET, 0)
    flash.write_member(1, SET, 1)
    assert xfs.read_superblock(flash.head("/dev/nvme0n1", 2 * MIB)[DATA_OFFSET:]) is None


def test_a_wipe_leaves_what_is_no_member_of_the_set(flash) -> None:
    flash.write_set(SET)
    flash.content(FOREIGN["ext4"], 1)
    with flash.device(1).open("r+b") as handle:
        handle.seek(stripe.SUPERBLOCK_OFFSET)
        handle.write(bytes(4096))
    wipe.wipe(flash.host, striped_plan(), SITE)
    assert flash.ran("mdadm", "--zero-superblock") == [["mdadm", "--zero-superblock", "/dev/nvme0n1"]]


def test_the_data_of_a_set_begins_where_its_first_member_says(flash) -> None:
    flash.write_set(SET)
    found = stripe.read_superblock(flash.host, "/dev/nvme1n1")
    assert found is not None and (found.role, found.data_offset, found.chunk_size) == (1, DATA_OFFSET, CHUNK)
    assert found.name == f"any:{SET.name}" and stripe.is_member(found, SET)


def with_units(flash: StripedFlash, plan: StoragePlan) -> None:
    """The unit files of a plan as the templates have them, as far as they are recognised by them."""
    for unit in plan.units:
        if unit.name.endswith(".mount"):
            point = next(m.mount_point for m in plan.mounts if mount_unit_of(m.mount_point) == unit.name)
            text = f"# Made by g35ctl for site lab; x\n[Unit]\nDescription=Flash namespace x\nWhere={point}\n"
            flash.put(f"/etc/systemd/system/{unit.name}", text)
    for item in plan.sets:
        text = "# Made by g35ctl for site lab; x\n[Unit]\nDescription=Flash set x\nExecStop=/usr/sbin/mdadm --stop "
        flash.put(f"/etc/systemd/system/{item.unit}", f"{text}{item.device}\n")


def mount_unit_of(point: str) -> str:
    return point.strip("/").replace("-", "\\x2d").replace("/", "-") + ".mount"


def test_live_stores_of_their_own_become_a_set_where_all_are_named_and_nowhere_else(flash) -> None:
    single = storage_plan((0, 1))
    assert not run(flash, plan=single).failed
    with_units(flash, single)
    assert checks(run(flash)) == {"storage.content"} and not created(flash)
    named = striped_plan(destroy=[namespace_uuid(0), namespace_uuid(1)])
    refused = run(flash, plan=named)
    assert checks(refused) == {"storage.consent"} and not created(flash) and not flash.ran("umount", "/flash")
    outcome = run(flash, plan=named, allow_disruptive=True)
    assert not outcome.failed, outcome.message
    assert len(created(flash)) == 1 and flash.marked()["namespace"] == SET.uuid
    mounted = flash.path("/proc/self/mountinfo").read_text()
    assert SET.mount_point in mounted and f"/flash/{namespace_uuid(0)}" not in mounted
    assert not run(flash, plan=named).changed


def test_a_live_set_grows_only_by_being_made_anew(tmp_path) -> None:
    flash = StripedFlash(tmp_path, (0, 1, 2))
    assert not run(flash).failed
    with_units(flash, striped_plan())
    larger = striped_plan((0, 1, 2), destroy=[namespace_uuid(number) for number in (0, 1, 2)])
    outcome = run(flash, plan=larger, allow_disruptive=True)
    assert not outcome.failed, outcome.message
    assert len(created(flash)) == 2 and flash.marked()["namespaces"] == [namespace_uuid(n) for n in (0, 1, 2)]
    assert not run(flash, plan=larger).changed


def test_a_live_set_becomes_stores_of_their_own_where_all_are_named(flash) -> None:
    assert not run(flash).failed
    with_units(flash, striped_plan())
    single = storage_plan((0, 1), destroy=[namespace_uuid(0), namespace_uuid(1)])
    assert checks(run(flash, plan=storage_plan((0, 1)), allow_disruptive=True)) == {"storage.content"}
    assert flash.assembled
    outcome = run(flash, plan=single, allow_disruptive=True)
    assert not outcome.failed, outcome.message
    assert not flash.assembled and len(flash.ran("mkfs.xfs")) == 3
