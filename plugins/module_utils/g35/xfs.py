"""What is on a block device, and the XFS that g35ctl makes.

A file system of ours is recognised without mounting it: its label and its UUID are both derived from the namespace
(and the UUID from the site too), so no other XFS, not even that of another site on the same namespace, is taken for it.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import List, Optional

from .host import Host

_MIB = 2**20
#: mkfs.xfs of xfsprogs 6 refuses less
SMALLEST = 300 * _MIB
#: pieces of a device that has no signature at which it is looked at, and their size in bytes
_SAMPLES = 64
_SAMPLE = 4096
FORMAT_TIMEOUT = 1800.0

EMPTY = "empty"
OURS = "ours"
UNFINISHED = "unfinished"
FOREIGN = "foreign"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Superblock:
    """The fields of an XFS superblock that identify it. ``in_progress``: mkfs was interrupted."""

    uuid: str
    label: str
    in_progress: bool


@dataclass(frozen=True)
class Content:
    """What a device holds: ``kind`` is empty, ours, unfinished (ours, but never completed), foreign or unreadable."""

    kind: str
    description: str


def label_of(namespace_uuid: str) -> str:
    """Label of the file system on a namespace; XFS allows twelve characters."""
    return "g35-%s" % namespace_uuid.replace("-", "")[:8]


def file_system_uuid(site: str, namespace_uuid: str) -> str:
    """UUID of the file system that this site makes on this namespace: always the same one."""
    return str(uuid.uuid5(uuid.UUID(namespace_uuid), "g35ctl:%s" % site))


def read_superblock(data: bytes) -> Optional[Superblock]:
    """The superblock at the start of ``data``, or None when there is no XFS."""
    if len(data) < 264 or data[:4] != b"XFSB":
        return None
    label = data[108:120].split(b"\0")[0].decode("ascii", "replace")
    (in_progress,) = struct.unpack_from(">B", data, 126)
    return Superblock(str(uuid.UUID(bytes=data[32:48])), label, in_progress != 0)


def read_content(host: Host, device: str, site: str, namespace_uuid: str, size: int) -> Content:
    """Look at a device. Empty means: no signature that blkid knows, and nothing but zeros in its first and last MiB
    and wherever it is sampled in between."""
    try:
        found = read_superblock(_read(host, device, 0, 4096))
        wanted = (label_of(namespace_uuid), file_system_uuid(site, namespace_uuid))
        if found is not None and (found.label, found.uuid) == wanted:
            return Content(UNFINISHED if found.in_progress else OURS, "XFS %s" % found.label)
        head = _read(host, device, 0, _MIB)
        tail = _read(host, device, max(0, size - _MIB), _MIB)
    except OSError as error:
        return Content(UNREADABLE, str(error))
    probe = host.run(["blkid", "-p", "-o", "export", device], timeout=60.0)
    if probe.ok:
        return Content(FOREIGN, _describe(probe.out))
    if probe.code == 8:
        return Content(FOREIGN, "several signatures at once (wipefs %s lists them)" % device)
    if probe.code != 2:
        return Content(UNREADABLE, probe.explain())
    if head.strip(b"\0") or tail.strip(b"\0"):
        return Content(FOREIGN, "data without a known signature")
    try:
        used = [offset for offset in _samples(size) if _read(host, device, offset, _SAMPLE).strip(b"\0")]
    except OSError as error:
        return Content(UNREADABLE, str(error))
    if used:
        return Content(FOREIGN, "data without a known signature, at byte %d for example" % used[0])
    return Content(EMPTY, "nothing")


def _samples(size: int) -> List[int]:
    """Where to look between the ends: raw pools and encrypted volumes keep nothing that blkid knows.

    In the middle of equal parts: an mkfs.xfs that was cut off leaves headers of allocation groups at their ends.
    """
    return [(2 * number + 1) * size // (2 * _SAMPLES) // _SAMPLE * _SAMPLE for number in range(_SAMPLES)]


def _describe(export: str) -> str:
    fields = dict(line.partition("=")[::2] for line in export.splitlines())
    words: List[str] = []
    if fields.get("PTTYPE"):
        words.append("a partition table (%s)" % fields["PTTYPE"])
    if fields.get("TYPE"):
        words.append(fields["TYPE"])
    for key in ("LABEL", "UUID"):
        if fields.get(key):
            words.append("%s %s" % (key.lower(), fields[key]))
    return ", ".join(words) or "an unknown signature"


def _read(host: Host, device: str, offset: int, length: int) -> bytes:
    # Unbuffered: the interpreter would round small reads up, and a slow fabric makes that felt.
    with open(str(host.path(device)), "rb", buffering=0) as handle:
        handle.seek(offset)
        return handle.read(length)


def make_command(device: str, site: str, namespace_uuid: str, overwrite: bool) -> List[str]:
    """mkfs.xfs for a namespace. ``overwrite`` only where the device holds something that may go.

    Nothing is discarded: a deallocate of a whole SSD can hold up every other host of the box.
    """
    command = ["mkfs.xfs", "-q", "-K", "-L", label_of(namespace_uuid)]
    command += ["-m", "crc=1,uuid=%s" % file_system_uuid(site, namespace_uuid)]
    return command + (["-f"] if overwrite else []) + [device]
