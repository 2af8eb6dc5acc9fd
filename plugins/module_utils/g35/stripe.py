"""Striped sets: several namespaces under one md array of level 0, and how one of ours is known.

Recognition never needs the array to be assembled: the superblocks (metadata 1.2) are read from the members, and what
is assembled is read from sysfs. The UUID is derived from the site and all members, so that no other array, not even
one of the same site over other namespaces, is taken for it. It does not contain the owner: a set moves between owners,
and two arrays of one UUID on one host would be taken for one.
"""

from __future__ import annotations

import os
import struct
import uuid
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from . import xfs
from .contents import EMPTY, FOREIGN, MIB, OURS, UNFINISHED, UNREADABLE, Content, look, read_bytes, used_between
from .host import Host
from .plans import StripedSet

#: where a superblock of metadata 1.2 lies, bytes
SUPERBLOCK_OFFSET = 4096
#: states of an array that serves reads and writes
SERVING = ("clean", "active", "active-idle", "write-pending", "read-auto")
_MAGIC = 0xA92B4EFC
_SECTOR = 512
#: stored as the home of an array: it is assembled under its own name on every host
ANY_HOST = "any"
#: how the stored names of our arrays begin
OUR_NAMES = "%s:g35-" % ANY_HOST
#: creating writes superblocks; stopping waits for whoever looks at the device
COMMAND_TIMEOUT = 120.0


def set_uuid(site: str, members: Sequence[str]) -> str:
    """UUID of the set of a site over these namespaces (UUIDs, in any order). Raises ValueError without members."""
    ordered = sorted(item.lower() for item in members)
    if not ordered:
        raise ValueError("a striped set has members")
    return str(uuid.uuid5(uuid.UUID(ordered[0]), "g35ctl:%s:%s" % (site, ",".join(ordered))))


@dataclass(frozen=True)
class Superblock:
    """What an md superblock of metadata 1.2 says. ``role`` is the member's place in the array, -1 for a spare or a
    faulty one; ``chunk_size`` and ``data_offset`` in bytes."""

    uuid: str
    name: str
    level: int
    members: int
    role: int
    chunk_size: int
    data_offset: int


def read_superblock(host: Host, device: str) -> Optional[Superblock]:
    """The superblock of a member, or None when there is none. Raises OSError."""
    data = read_bytes(host, device, SUPERBLOCK_OFFSET, 4096)
    if len(data) < 256 + 2 or struct.unpack_from("<II", data, 0) != (_MAGIC, 1):
        return None
    level, _layout = struct.unpack_from("<ii", data, 72)
    chunk, members = struct.unpack_from("<II", data, 88)
    (offset,) = struct.unpack_from("<Q", data, 128)
    (number,) = struct.unpack_from("<I", data, 160)
    role = -1
    if 256 + 2 * number + 2 <= len(data):
        (told,) = struct.unpack_from("<H", data, 256 + 2 * number)
        role = told if told < 0xFFFE else -1
    name = data[32:64].split(b"\0")[0].decode("utf-8", "replace")
    return Superblock(
        str(uuid.UUID(bytes=data[16:32])), name, level, members, role, chunk * _SECTOR, offset * _SECTOR
    )  # fmt: skip


@dataclass(frozen=True)
class Array:
    """An md device as sysfs has it. ``members`` are kernel names of its devices; sizes in bytes; ``number`` is
    major:minor. ``state`` is the kernel's: clean, active, broken, inactive."""

    name: str
    number: str
    size: int
    level: str
    chunk_size: int
    state: str
    members: Tuple[str, ...]

    @property
    def device(self) -> str:
        return "/dev/%s" % self.name


def read_array(host: Host, name: str) -> Array:
    """The md device of that kernel name; what cannot be read is empty or 0."""
    base = "/sys/block/%s" % name
    return Array(
        name=name,
        number=host.read_value(base + "/dev") or "",
        size=_number(host, base + "/size") * _SECTOR,
        level=host.read_value(base + "/md/level") or "",
        chunk_size=_number(host, base + "/md/chunk_size"),
        state=host.read_value(base + "/md/array_state") or "",
        members=tuple(host.list(base + "/slaves")),
    )


def arrays_on(host: Host, devices: Sequence[str]) -> Tuple[Array, ...]:
    """The md devices that hold any of these block devices (kernel names), each once."""
    names: Dict[str, None] = {}
    for device in devices:
        for holder in host.list("/sys/block/%s/holders" % device):
            if host.exists("/sys/block/%s/md" % holder):
                names[holder] = None
    return tuple(read_array(host, name) for name in names)


def _number(host: Host, path: str) -> int:
    text = (host.read_value(path) or "").split(" ")[0]
    return int(text) if text.isdigit() else 0


def is_member(found: Optional[Superblock], plan: StripedSet) -> bool:
    """Whether this is the superblock of a member of the planned set."""
    return found is not None and (found.uuid, found.level, found.members) == (plan.uuid, 0, len(plan.members))


@dataclass(frozen=True)
class Look:
    """What the members of a set hold: each by its UUID, and all of them together."""

    members: Mapping[str, Content]
    whole: Content


def read_contents(host: Host, site: str, plan: StripedSet, devices: Mapping[str, Tuple[str, int]]) -> Look:
    """Look at a set that is not assembled. ``devices`` maps the UUID of every member to its device and size, bytes."""
    blocks: Dict[str, Optional[Superblock]] = {}
    contents: Dict[str, Content] = {}
    for member in plan.members:
        device, size = devices[member]
        try:
            blocks[member] = read_superblock(host, device)
        except OSError as error:
            contents[member] = Content(UNREADABLE, str(error))
            continue
        found = blocks[member]
        if is_member(found, plan):
            contents[member] = Content(OURS, "a member of striped set %s" % plan.name)
        elif found is not None and found.name.startswith(OUR_NAMES):
            told = "a member of striped set %s of %d namespaces" % (found.name.partition(":")[2], found.members)
            contents[member] = Content(FOREIGN, told)
        else:
            contents[member] = look(host, device, size)
    return Look(contents, _together(host, site, plan, devices, blocks, contents))


def _together(
    host: Host,
    site: str,
    plan: StripedSet,
    devices: Mapping[str, Tuple[str, int]],
    blocks: Mapping[str, Optional[Superblock]],
    contents: Mapping[str, Content],
) -> Content:
    kinds = {item.kind for item in contents.values()}
    for kind in (UNREADABLE, FOREIGN):
        told = ["namespace %s: %s" % (member, item.description) for member, item in contents.items()
                if item.kind == kind]  # fmt: skip
        if told:
            return Content(kind, "; ".join(told))
    if kinds == {EMPTY}:
        return Content(EMPTY, "nothing")
    roles = {blocks[member].role: member for member in plan.members if contents[member].kind == OURS}  # type: ignore[union-attr]
    first = roles.get(0)
    missing = [member for member in plan.members if contents[member].kind == EMPTY]
    complete = not missing and set(roles) == set(range(len(plan.members)))
    try:
        held = _first_bytes(host, site, plan, devices[first], blocks[first]) if first else None
    except OSError as error:
        return Content(UNREADABLE, str(error))
    if held is not None and (held.kind == UNFINISHED or complete):
        # Where no file system was ever completed there is nothing to lose, whatever of the array was written.
        return held
    if missing:
        told_missing = "namespaces %s are empty" % ", ".join(missing)
        return Content(FOREIGN, "only a part of striped set %s: %s" % (plan.name, told_missing))
    return Content(FOREIGN, "members of striped set %s that do not fit together" % plan.name)


def _first_bytes(
    host: Host, site: str, plan: StripedSet, device: Tuple[str, int], block: Optional[Superblock]
) -> Content:
    """What the array begins with, read from its first member."""
    assert block is not None
    name, size = device
    data = read_bytes(host, name, block.data_offset, MIB)
    kind = xfs.kind_of(xfs.read_superblock(data), site, plan.uuid)
    if kind:
        return Content(kind, "XFS %s" % xfs.label_of(plan.uuid))
    if not data.strip(b"\0") and not used_between(host, name, block.data_offset, size):
        return Content(UNFINISHED, "an array without a file system")
    return Content(FOREIGN, "striped set %s with something else than our XFS in it" % plan.name)


# Commands


def create_command(plan: StripedSet, devices: Sequence[str]) -> List[str]:
    """mdadm that makes the array of these devices, in this order. ``--run``: it asks nothing."""
    return [
        "mdadm", "--create", plan.device, "--run", "--metadata=1.2", "--level=0",
        "--raid-devices=%d" % len(devices), "--chunk=%dK" % (plan.chunk_size // 1024), "--name=%s" % plan.name,
        "--homehost=%s" % ANY_HOST, "--uuid=%s" % plan.md_uuid, *devices,
    ]  # fmt: skip


def assemble_command(plan: StripedSet, devices: Sequence[str]) -> List[str]:
    """mdadm that assembles the array without writing a byte to its members, to look at what is in it."""
    return [
        "mdadm", "--assemble", plan.device, "--readonly", "--uuid=%s" % plan.md_uuid, *devices
    ]  # fmt: skip


def stop(host: Host, device: str) -> None:
    """Take an array apart; what is on its members stays. Raises CommandFailed while something uses it. One that is
    gone already (by its kernel name) is fine: its unit may have been stopped meanwhile."""
    named = device.startswith("/dev/md/")
    if not named and not host.exists("/sys/block/%s" % device[len("/dev/") :]):
        return
    # udev looks at an array whenever somebody closed it; until it has, the array is in use.
    host.run(["udevadm", "settle", "--timeout=30"], timeout=40.0)
    host.must(["mdadm", "--stop", device], timeout=COMMAND_TIMEOUT)


def forget(host: Host, device: str) -> None:
    """Make a member of an array that is taken apart a device like any other. Raises CommandFailed, and OSError.

    The beginning of what is in the array goes too: an array of the same members has its data at the same place, and
    would bring the file system back.
    """
    found = read_superblock(host, device)
    if found is not None and found.role == 0:
        with open(str(host.path(device)), "r+b", buffering=0) as handle:
            handle.seek(found.data_offset)
            handle.write(bytes(MIB))
            os.fsync(handle.fileno())
    host.must(["mdadm", "--zero-superblock", device], timeout=COMMAND_TIMEOUT)


def create(host: Host, plan: StripedSet, devices: Sequence[str], overwrite: Sequence[str]) -> None:
    """Make the array. ``overwrite`` are those of the devices that hold something that may go. Raises CommandFailed."""
    for device in overwrite:
        # A file system in the first bytes would stay there beside the superblock, and both would be found later.
        host.must(["wipefs", "--all", "--force", device], timeout=COMMAND_TIMEOUT)
    host.must(create_command(plan, devices), timeout=COMMAND_TIMEOUT)
    host.run(["udevadm", "settle", "--timeout=30"], timeout=40.0)
