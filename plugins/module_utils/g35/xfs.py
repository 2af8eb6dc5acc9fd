"""What is on a block device, and the XFS that g35ctl makes.

A file system of ours is recognised without mounting it: its label and its UUID are both derived from the namespace
(and the UUID from the site too), so no other XFS, not even that of another site on the same namespace, is taken for it.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import List, Optional

from .contents import EMPTY, FOREIGN, OURS, UNFINISHED, UNREADABLE, Content, look, read_bytes
from .host import Host

__all__ = ["EMPTY", "FOREIGN", "OURS", "UNFINISHED", "UNREADABLE", "Content"]

#: mkfs.xfs of xfsprogs 6 refuses less
SMALLEST = 300 * 2**20
FORMAT_TIMEOUT = 1800.0


@dataclass(frozen=True)
class Superblock:
    """The fields of an XFS superblock that identify it. ``in_progress``: mkfs was interrupted."""

    uuid: str
    label: str
    in_progress: bool


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
    """Look at a device of ``size`` bytes for the file system of this site and this namespace (or striped set)."""
    try:
        found = read_superblock(read_bytes(host, device, 0, 4096))
    except OSError as error:
        return Content(UNREADABLE, str(error))
    kind = kind_of(found, site, namespace_uuid)
    return Content(kind, "XFS %s" % label_of(namespace_uuid)) if kind else look(host, device, size)


def kind_of(found: Optional[Superblock], site: str, namespace_uuid: str) -> str:
    """``ours`` or ``unfinished`` when this is the superblock of the file system that was looked for, else empty."""
    wanted = (label_of(namespace_uuid), file_system_uuid(site, namespace_uuid))
    if found is None or (found.label, found.uuid) != wanted:
        return ""
    return UNFINISHED if found.in_progress else OURS


def make_command(device: str, site: str, namespace_uuid: str, overwrite: bool) -> List[str]:
    """mkfs.xfs for a namespace. ``overwrite`` only where the device holds something that may go.

    Nothing is discarded: a deallocate of a whole SSD can hold up every other host of the box.
    """
    command = ["mkfs.xfs", "-q", "-K", "-L", label_of(namespace_uuid)]
    command += ["-m", "crc=1,uuid=%s" % file_system_uuid(site, namespace_uuid)]
    return command + (["-f"] if overwrite else []) + [device]
