"""A host with striped sets for tests: md superblocks on its namespaces, arrays in sysfs, and mdadm that makes both."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Sequence
from pathlib import Path

from ansible.module_utils.g35 import stripe
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.marker import NAME
from ansible.module_utils.g35.plans import File, Mount, StoragePlan, StripedSet, Unit
from nvme_kernel import MIB, SITE, namespace_uuid, nqn
from test_storage import Flash, superblock

DATA_OFFSET = MIB
CHUNK = 512 * 1024


def striped_set(numbers: Sequence[int] = (0, 1), site: str = SITE) -> StripedSet:
    members = tuple(namespace_uuid(number) for number in numbers)
    name = stripe.set_uuid(site, members)
    return StripedSet(name, members, f"/flash/{name}", CHUNK)


def striped_plan(
    numbers: Sequence[int] = (0, 1), destroy: Sequence[str] = (), previous: tuple[str, ...] = ()
) -> StoragePlan:
    item = striped_set(numbers)
    mounts = tuple(
        Mount(nqn(n), 1, namespace_uuid(n), 400 * MIB, item.mount_point, previous, item.uuid) for n in numbers
    )
    units = (Unit(item.unit), Unit(mount_unit(item)))
    files = (File("/etc/udev/rules.d/62-g35-striped.rules", "rule\n"), File(f"/etc/systemd/system/{item.unit}", "u\n"))
    return StoragePlan(SITE, "gpu1", mounts, destroy=tuple(destroy), sets=(item,), files=files, units=units)


def mount_unit(item: StripedSet) -> str:
    return item.mount_point.strip("/").replace("-", "\\x2d").replace("/", "-") + ".mount"


def md_superblock(set_uuid: str, name: str, members: int, role: int, chunk: int = CHUNK) -> bytes:
    data = bytearray(4096)
    struct.pack_into("<II", data, 0, 0xA92B4EFC, 1)
    data[16:32] = uuid.UUID(set_uuid).bytes
    data[32 : 32 + len(name)] = name.encode()
    struct.pack_into("<ii", data, 72, 0, 0)
    struct.pack_into("<II", data, 88, chunk // 512, members)
    struct.pack_into("<Q", data, 128, DATA_OFFSET // 512)
    struct.pack_into("<I", data, 160, role)
    for place in range(members):
        struct.pack_into("<H", data, 256 + 2 * place, place)
    return bytes(data)


class StripedFlash(Flash):
    """A connected host whose mdadm works: one array at a time, md127."""

    array = "md127"

    def __init__(self, root: Path, numbers: tuple[int, ...] = (0, 1), size: int = 400 * MIB) -> None:
        super().__init__(root, numbers, size)
        for number in numbers:
            self.path(f"/sys/block/nvme{number}n1/holders").mkdir(parents=True, exist_ok=True)

    # what is there

    def write_member(self, number: int, item: StripedSet, role: int, chunk: int = CHUNK) -> None:
        block = md_superblock(item.uuid, f"any:{item.name}", len(item.members), role, chunk)
        with self.device(number).open("r+b") as handle:
            handle.seek(stripe.SUPERBLOCK_OFFSET)
            handle.write(block)

    def write_set(self, item: StripedSet, in_progress: bool = False) -> None:
        """A whole set with its file system, taken apart."""
        for role, member in enumerate(item.members):
            self.write_member(int(member[-3:]), item, role)
        with self.device(int(item.members[0][-3:])).open("r+b") as handle:
            handle.seek(DATA_OFFSET)
            handle.write(superblock(namespace=item.uuid, in_progress=in_progress))

    def set_marker(self, item: StripedSet, owner: str, site: str = SITE) -> None:
        data = {
            "site": site, "owner": owner, "namespace": item.uuid, "nqn": nqn(0), "created": "x",
            "namespaces": list(item.members),
        }  # fmt: skip
        (self.files(127) / NAME).write_text(json.dumps(data))

    def marked(self) -> dict[str, object]:
        return dict(json.loads((self.files(127) / NAME).read_text()))

    def assemble(self, devices: Sequence[str], state: str = "clean") -> None:
        """The array in sysfs, and its data as far as a file system is recognised by it."""
        base = f"/sys/block/{self.array}"
        names = [device.rpartition("/")[2] for device in devices]
        found = stripe.read_superblock(self.host, devices[0])
        size = sum(int(self.path(f"/sys/block/{name}/size").read_text()) for name in names)
        for key, value in {
            "dev": "9:127", "size": str(size), "md/level": "raid0", "md/array_state": state,
            "md/chunk_size": str(found.chunk_size if found else 0),
        }.items():  # fmt: skip
            self.put(f"{base}/{key}", value)
        for name in names:
            self.put(f"{base}/slaves/{name}", "")
            self.put(f"/sys/block/{name}/holders/{self.array}", "")
        node = self.path(f"/dev/{self.array}")
        node.parent.mkdir(parents=True, exist_ok=True)
        if found is not None:
            self.path("/dev/md").mkdir(exist_ok=True)
            link = self.path(f"/dev/md/{found.name.rpartition(':')[2]}")
            link.unlink(missing_ok=True)
            link.symlink_to(f"../{self.array}")
        with self.path(devices[0]).open("rb") as handle:
            handle.seek(DATA_OFFSET)
            head = handle.read(4096)
        with node.open("wb") as handle:
            handle.write(head)
            handle.truncate(size * 512)

    def taken_apart(self) -> None:
        import shutil

        for link in self.path("/sys/block").glob(f"nvme*/holders/{self.array}"):
            link.unlink()
        shutil.rmtree(self.path(f"/sys/block/{self.array}"), ignore_errors=True)
        for link in self.path("/dev/md").glob("g35-*"):
            link.unlink()

    @property
    def assembled(self) -> bool:
        return self.path(f"/sys/block/{self.array}").exists()

    # commands

    def _md(self, device: str) -> str:
        return f"/dev/{self.array}" if device.startswith("/dev/md/") else device

    def _mdadm(self, words: list[str]) -> Result:
        devices = [word for word in words[3:] if word.startswith("/dev/nvme")]
        if words[1] == "--create":
            options = dict(word.partition("=")[::2] for word in words if word.startswith("--"))
            hexadecimal = options["--uuid"].replace(":", "")
            for role, device in enumerate(devices):
                if self.path(f"/sys/block/{device[5:]}/holders/{self.array}").exists():
                    return Result(words, 1, "", f"mdadm: {device} is busy\n")
                chunk = int(options["--chunk"].rstrip("K")) * 1024
                name = f"{options['--homehost']}:{options['--name']}"
                block = md_superblock(str(uuid.UUID(hexadecimal)), name, len(devices), role, chunk)
                with self.path(device).open("r+b") as handle:
                    handle.seek(stripe.SUPERBLOCK_OFFSET)
                    handle.write(block)
                    handle.seek(DATA_OFFSET)
                    handle.write(bytes(4096))
            self.assemble(devices)
        elif words[1] == "--assemble":
            if self.assembled:
                return Result(words, 1, "", "mdadm: device or resource busy\n")
            self.assemble(devices)
        elif words[1] == "--stop":
            if any(" 9:127 " in line for line in self.path("/proc/self/mountinfo").read_text().splitlines()):
                return Result(words, 1, "", "mdadm: Cannot get exclusive access\n")
            self.taken_apart()
        elif words[1] == "--zero-superblock":
            with self.path(words[2]).open("r+b") as handle:
                handle.seek(stripe.SUPERBLOCK_OFFSET)
                handle.write(bytes(4096))
        return Result(words, 0, "", "")

    def _mkfs_xfs(self, words: list[str]) -> Result:
        given = words[-1]
        told = super()._mkfs_xfs([*words[:-1], self._md(given)])
        if given.startswith("/dev/md/"):
            # What is written to the array begins on its first member.
            first = sorted(item.name for item in self.path(f"/sys/block/{self.array}/slaves").iterdir())[0]
            with self.path(f"/dev/{first}").open("r+b") as handle:
                handle.seek(DATA_OFFSET)
                handle.write(self.head(f"/dev/{self.array}", 512))
        return told

    def _blkid(self, words: list[str]) -> Result:
        path = words[-1]
        found = stripe.read_superblock(self.host, path)
        if found is not None:
            return Result(words, 0, f"TYPE=linux_raid_member\nLABEL={found.name}\nUUID={found.uuid}\n", "")
        return super()._blkid(words)

    def _mount(self, words: list[str]) -> Result:
        device = self._md(words[-2])
        if device == f"/dev/{self.array}":
            if not self.assembled:
                return Result(words, 32, "", f"mount: {device} does not exist\n")
            folder = self.path(words[-1])
            folder.rmdir()
            folder.symlink_to(self.files(127))
            return Result(words, 0, "", "")
        return super()._mount(words)

    def mount(self, device: str, mount_point: str, file_system: str = "xfs") -> None:
        if device != self.array:
            super().mount(device, mount_point, file_system)
            return
        with self.path("/proc/self/mountinfo").open("a") as handle:
            handle.write(f"91 22 9:127 / {mount_point} rw,noatime - {file_system} /dev/{device} rw\n")
        point = self.path(mount_point)
        point.parent.mkdir(parents=True, exist_ok=True)
        if point.is_dir() and not point.is_symlink():
            point.rmdir()
        if not point.is_symlink():
            point.symlink_to(self.files(127))

    def _started(self, name: str) -> None:
        if name.startswith("g35-stripe-"):
            if not self.assembled:
                members = [f"/dev/{item.parent.parent.name}" for item in self._ours()]
                self.assemble(sorted(members))
            return
        if name.endswith(".mount") and self.assembled:
            mount_point = "/" + name[: -len(".mount")].replace("-", "/").replace("\\x2d", "-")
            if f" {mount_point} " not in self.path("/proc/self/mountinfo").read_text():
                self.mount(self.array, mount_point)
            return
        super()._started(name)

    def _ours(self) -> list[Path]:
        found = []
        for folder in self.path("/sys/block").glob("nvme*/holders"):
            block = stripe.read_superblock(self.host, f"/dev/{folder.parent.name}")
            if block is not None:
                found.append(folder / "x")
        return found
