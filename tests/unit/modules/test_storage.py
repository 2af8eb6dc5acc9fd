"""Stage storage: makes, mounts and marks what is empty; never touches what is not its own."""

from __future__ import annotations

import json
import struct
import uuid
from pathlib import Path

import pytest
from ansible.module_utils.g35 import xfs
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.marker import NAME
from ansible.module_utils.g35.plans import StoragePlan
from ansible.module_utils.g35.storage import StorageStage
from nvme_kernel import MIB, RAILS, SITE, Kernel, namespace_uuid, nqn, storage_plan

NAMESPACE = namespace_uuid(0)
MOUNT_POINT = f"/flash/{NAMESPACE}"


def superblock(site: str = SITE, namespace: str = NAMESPACE, in_progress: bool = False, label: str = "") -> bytes:
    data = bytearray(512)
    data[0:4] = b"XFSB"
    data[32:48] = uuid.UUID(xfs.file_system_uuid(site, namespace)).bytes
    name = (label or xfs.label_of(namespace)).encode()
    data[108 : 108 + len(name)] = name
    struct.pack_into(">B", data, 126, int(in_progress))
    return bytes(data)


class Flash(Kernel):
    """A connected host: mkfs writes a superblock, mounting shows the files of the namespace."""

    def __init__(self, root: Path, numbers: tuple[int, ...] = (0,), size: int = 400 * MIB) -> None:
        super().__init__(root)
        for number in numbers:
            for portal, source, _ in RAILS.values():
                self.add_controller(nqn(number), portal, source, size=size)

    def device(self, number: int = 0) -> Path:
        return self.path(f"/dev/nvme{number}n1")

    def head(self, device: str, length: int = 4096) -> bytes:
        """The first bytes of a device; all of one would be hundreds of MiB."""
        with self.path(device).open("rb") as handle:
            return handle.read(length)

    def content(self, data: bytes, number: int = 0) -> None:
        with self.device(number).open("r+b") as handle:
            handle.write(data)

    def files(self, number: int = 0) -> Path:
        """What is stored in the file system of a namespace."""
        folder = self.path(f"/stored/{number}")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def marker(self, owner: str, site: str = SITE, number: int = 0) -> None:
        data = {"site": site, "owner": owner, "namespace": namespace_uuid(number), "nqn": nqn(number), "created": "x"}
        (self.files(number) / NAME).write_text(json.dumps(data))

    def mount(self, device: str, mount_point: str, file_system: str = "xfs") -> None:
        super().mount(device, mount_point, file_system)
        self.path(mount_point).rmdir()
        self.path(mount_point).symlink_to(self.files(int(device[4:].partition("n")[0])))

    def _mkfs_xfs(self, words: list[str]) -> Result:
        device = words[-1]
        if xfs.read_superblock(self.head(device)) and "-f" not in words:
            return Result(words, 1, "", "appears to contain an existing filesystem (xfs).\n")
        options = dict(item.split("=") for item in words[words.index("-m") + 1].split(","))
        data = bytearray(superblock(label=words[words.index("-L") + 1]))
        data[32:48] = uuid.UUID(options["uuid"]).bytes
        with self.path(device).open("r+b") as handle:
            handle.write(bytes(data))
        return Result(words, 0, "", "")

    def _blkid(self, words: list[str]) -> Result:
        head = self.head(words[-1])
        if head[:4] == b"XFSB":
            label = head[108:120].rstrip(b"\0").decode()
            return Result(words, 0, f"DEVNAME={words[-1]}\nLABEL={label}\nTYPE=xfs\n", "")
        if head[1080:1082] == b"\x53\xef":
            return Result(words, 0, f"DEVNAME={words[-1]}\nTYPE=ext4\nUUID=1234\n", "")
        if head[510:512] == b"\x55\xaa":
            return Result(words, 0, "PTTYPE=dos\n", "")
        return Result(words, 2, "", "")

    def _mount(self, words: list[str]) -> Result:
        device, folder = words[-2].rpartition("/")[2], self.path(words[-1])
        folder.rmdir()
        folder.symlink_to(self.files(int(device[4:].partition("n")[0])))
        return Result(words, 0, "", "")

    def _umount(self, words: list[str]) -> Result:
        folder = self.path(words[-1])
        folder.unlink()
        folder.mkdir()
        mounts = self.path("/proc/self/mountinfo").read_text().splitlines(keepends=True)
        self.path("/proc/self/mountinfo").write_text("".join(line for line in mounts if f" {words[-1]} " not in line))
        return Result(words, 0, "", "")


@pytest.fixture
def flash(tmp_path) -> Flash:
    return Flash(tmp_path)


def run(kernel: Kernel, action: str = "apply", plan: StoragePlan | None = None, **options: bool) -> Outcome:
    return act(StorageStage(kernel.host, plan or storage_plan()), action, **options)


def checks(outcome: Outcome) -> set[str]:
    return {item["check"] for item in outcome.findings if item["severity"] == "error"}


def test_an_empty_namespace_is_made_mounted_and_marked_once(flash) -> None:
    outcome = run(flash)
    assert not outcome.failed and outcome.changed, outcome.message
    assert len(flash.ran("mkfs.xfs")) == 1 and "-f" not in flash.ran("mkfs.xfs")[0]
    marker = json.loads((flash.files() / NAME).read_text())
    assert (marker["site"], marker["owner"], marker["namespace"], marker["nqn"]) == (SITE, "gpu1", NAMESPACE, nqn(0))
    (state,) = outcome.state["mounts"]
    assert state["mounted"] and state["content"] == "ours" and state["marker"]["owner"] == "gpu1"
    assert [path["address"] for path in state["live_paths"]] == ["192.0.2.11", "198.51.100.11"]
    again = run(flash)
    assert not again.failed and not again.changed
    assert not run(flash, "verify").failed


def test_the_file_system_is_derived_from_namespace_and_site(flash) -> None:
    run(flash)
    words = flash.ran("mkfs.xfs")[0]
    assert words[words.index("-L") + 1] == "g35-00000000"
    assert f"uuid={xfs.file_system_uuid(SITE, NAMESPACE)}" in words[words.index("-m") + 1]
    assert xfs.file_system_uuid("other", NAMESPACE) != xfs.file_system_uuid(SITE, NAMESPACE)


def test_check_mode_changes_nothing_and_works_before_the_first_connect(tmp_path) -> None:
    flash = Flash(tmp_path)
    outcome = run(flash, check=True)
    assert outcome.changed and not outcome.failed
    assert not flash.ran("mkfs.xfs") and flash.head("/dev/nvme0n1", 4) == b"\0" * 4
    bare = Kernel(tmp_path / "bare")
    assert not run(bare, "preflight").failed
    outcome = run(bare, check=True)
    assert outcome.changed and not outcome.failed


def test_without_a_device_an_apply_fails_and_says_what_to_do(tmp_path) -> None:
    outcome = run(Kernel(tmp_path))
    assert outcome.failed and "connect it first" in outcome.message
    assert run(Kernel(tmp_path / "other"), "verify").failed


def ext4() -> bytes:
    return b"\0" * 1080 + b"\x53\xef" + b"\0" * 100


FOREIGN = {
    "ext4": ext4(),
    "partition table": b"\0" * 510 + b"\x55\xaa",
    "data without a known signature": b"\0" * 5000 + b"payload",
    "xfs of another site": superblock(site="elsewhere"),
    "xfs of another namespace": superblock(namespace=namespace_uuid(7)),
    "xfs made by hand": superblock(label="scratch"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_contents_are_refused_and_left_alone(flash, name: str) -> None:
    flash.content(FOREIGN[name])
    before = flash.head("/dev/nvme0n1", MIB)
    for action in ("preflight", "apply", "verify"):
        outcome = run(flash, action)
        assert outcome.failed and checks(outcome) >= {"storage.content"}
        assert f"g35_storage.destroy: [{NAMESPACE}]" in outcome.findings[0]["remedy"]
    assert flash.head("/dev/nvme0n1", MIB) == before
    assert not flash.ran("mkfs.xfs") and not flash.ran("mount") and not (flash.files() / NAME).exists()


def test_data_in_the_last_mebibyte_counts_as_contents(flash) -> None:
    with flash.device().open("r+b") as handle:
        handle.seek(400 * MIB - 4096)
        handle.write(b"backup label")
    assert checks(run(flash)) == {"storage.content"}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_contents_go_only_when_the_namespace_is_named(flash, name: str) -> None:
    flash.content(FOREIGN[name])
    assert run(flash, plan=storage_plan(destroy=[namespace_uuid(1)])).failed
    outcome = run(flash, plan=storage_plan(destroy=[NAMESPACE]))
    assert not outcome.failed, outcome.message
    assert "-f" in flash.ran("mkfs.xfs")[0]
    # Leaving the name in place must not destroy it again.
    assert not run(flash, plan=storage_plan(destroy=[NAMESPACE])).changed
    assert len(flash.ran("mkfs.xfs")) == 1


def test_one_refused_namespace_stops_the_host_before_anything_is_made(tmp_path) -> None:
    flash = Flash(tmp_path, (0, 1))
    flash.content(ext4(), 1)
    assert run(flash, plan=storage_plan((0, 1))).failed
    assert not flash.ran("mkfs.xfs") and not flash.ran("systemctl", "restart")


def test_an_interrupted_mkfs_of_ours_is_made_again(flash) -> None:
    flash.content(superblock(in_progress=True))
    outcome = run(flash)
    assert not outcome.failed and "-f" in flash.ran("mkfs.xfs")[0]


def test_an_existing_file_system_of_ours_is_kept_and_a_lost_marker_written(flash) -> None:
    flash.content(superblock())
    (flash.files() / "bucket").write_text("values")
    outcome = run(flash)
    assert not outcome.failed, outcome.message
    assert not flash.ran("mkfs.xfs") and (flash.files() / "bucket").read_text() == "values"
    assert json.loads((flash.files() / NAME).read_text())["owner"] == "gpu1"


@pytest.mark.parametrize("mounted", [False, True])
def test_a_file_system_marked_for_another_owner_is_refused(flash, mounted: bool) -> None:
    flash.content(superblock())
    flash.marker("gpu2")
    if mounted:
        flash.mount("nvme0n1", MOUNT_POINT)
    outcome = run(flash)
    assert outcome.failed and checks(outcome) == {"storage.owner"} and "host gpu2" in outcome.message
    assert not flash.ran("systemctl", "restart")
    assert json.loads((flash.files() / NAME).read_text())["owner"] == "gpu2"


def test_looking_at_an_unmounted_file_system_does_not_replay_its_log(flash) -> None:
    flash.content(superblock())
    flash.marker("gpu1")
    run(flash, "verify")
    (words,) = flash.ran("mount")
    assert "ro,norecovery" in words[words.index("-o") + 1]
    assert len(flash.ran("umount")) == 1


def test_a_damaged_marker_is_not_overwritten(flash) -> None:
    flash.content(superblock())
    (flash.files() / NAME).write_text("{")
    assert checks(run(flash)) == {"storage.marker"}
    assert (flash.files() / NAME).read_text() == "{"


def test_a_device_used_elsewhere_is_refused(flash) -> None:
    flash.content(superblock())
    flash.mount("nvme0n1", "/srv/other")
    outcome = run(flash)
    assert checks(outcome) == {"storage.in_use"} and "/srv/other" in outcome.message


def test_another_file_system_on_the_mount_point_is_refused(flash) -> None:
    with flash.path("/proc/self/mountinfo").open("a") as handle:
        handle.write(f"91 22 8:1 / {MOUNT_POINT} rw - ext4 /dev/sda1 rw\n")
    assert checks(run(flash)) == {"storage.mount"}
    assert not flash.ran("mkfs.xfs")


def test_the_device_must_carry_the_planned_uuid(flash) -> None:
    flash.put("/sys/class/nvme-subsystem/nvme-subsys0/nvme0n1/uuid", namespace_uuid(9))
    outcome = run(flash)
    assert checks(outcome) == {"storage.device"} and namespace_uuid(9) in outcome.message
    assert not flash.ran("mkfs.xfs")


def test_no_live_path_is_a_failure_and_the_device_is_not_read(flash) -> None:
    run(flash)
    for name in ("nvme0", "nvme1"):
        flash.put(f"/sys/class/nvme/{name}/state", "connecting")
    flash.device().unlink()
    outcome = run(flash, "verify")
    assert checks(outcome) == {"storage.device"} and "no live path" in outcome.message


def test_a_mount_whose_device_is_gone_for_good_is_mounted_again(flash) -> None:
    flash.content(superblock())
    flash.marker("gpu1")
    with flash.path("/proc/self/mountinfo").open("a") as handle:
        handle.write(f"91 22 259:77 / {MOUNT_POINT} rw - xfs /dev/nvme77n1 rw\n")
    flash.path(MOUNT_POINT).parent.mkdir(parents=True)
    flash.path(MOUNT_POINT).symlink_to(flash.files())
    flash.units[storage_plan().units[0].name] = ("active", "enabled")
    outcome = run(flash)
    assert not outcome.failed, outcome.message
    assert flash.ran("umount", MOUNT_POINT)


def test_verify_finds_an_unmounted_file_system_and_a_missing_marker(flash) -> None:
    run(flash)
    (flash.files() / NAME).unlink()
    assert checks(run(flash, "verify")) == {"storage.marker"}
    flash._umount(["umount", MOUNT_POINT])
    assert "storage.mount" in checks(run(flash, "verify"))


def test_drain_and_remove_unmount_and_never_wipe(flash) -> None:
    run(flash)
    before = flash.head("/dev/nvme0n1", MIB)
    assert not run(flash, "drain").failed
    assert ["systemctl", "stop", storage_plan().units[0].name] in flash.commands
    assert not run(flash, "remove").failed
    assert ["systemctl", "disable", "--now", storage_plan().units[0].name] in flash.commands
    assert flash.head("/dev/nvme0n1", MIB) == before and len(flash.ran("mkfs.xfs")) == 1
    assert (flash.files() / NAME).exists()


def test_a_marker_is_never_written_into_an_unmounted_directory(flash) -> None:
    flash.content(superblock())
    flash.answers["systemctl"] = lambda words: (
        flash._systemctl(list(words)) if words[1] == "show" else Result(words, 0, "", "")
    )
    outcome = run(flash)
    assert outcome.failed and "is not mounted from namespace" in outcome.message
    assert not flash.path(MOUNT_POINT).exists()


def test_a_smaller_namespace_than_planned_is_told(tmp_path) -> None:
    flash = Flash(tmp_path, size=350 * MIB)
    outcome = run(flash)
    assert not outcome.failed
    assert {item["check"] for item in outcome.findings} == {"storage.size"}


def test_data_without_any_signature_in_the_middle_of_a_device_is_not_taken_for_empty(flash) -> None:
    """A raw pool or an encrypted volume: both ends are zeros, and blkid knows nothing of it."""
    with flash.device().open("r+b") as handle:
        handle.seek(100 * MIB)
        handle.write(b"\x5a" * (20 * MIB))
    outcome = run(flash)
    assert outcome.failed
    assert checks(outcome) == {"storage.content"}
    assert "data without a known signature" in outcome.message
    assert xfs.read_superblock(flash.head("/dev/nvme0n1", 512)) is None
