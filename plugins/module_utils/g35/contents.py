"""What is on a block device that does not hold what was looked for: nothing, something, or nobody can say."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import List

from .host import Host

MIB = 2**20
#: pieces of a device that has no signature at which it is looked at, and their size in bytes
_SAMPLES = 64
_SAMPLE = 4096
#: how the first block of a device begins whose contents were given up, see :func:`give_up`
_GIVEN_UP = b"g35ctl: wiped, what is left here is nothing\n"

EMPTY = "empty"
OURS = "ours"
UNFINISHED = "unfinished"
FOREIGN = "foreign"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Content:
    """What a device holds: ``kind`` is empty, ours, unfinished (ours, but never completed), foreign or unreadable."""

    kind: str
    description: str


def look(host: Host, device: str, size: int) -> Content:
    """Look at a device of ``size`` bytes. Empty means: no signature that blkid knows, and nothing but zeros in its
    first and last MiB and wherever it is sampled in between; or just what was given up there (:func:`give_up`)."""
    try:
        head = read_bytes(host, device, 0, MIB)
        tail = read_bytes(host, device, max(0, size - MIB), MIB)
    except OSError as error:
        return Content(UNREADABLE, str(error))
    probe = host.run(["blkid", "-p", "-o", "export", device], timeout=60.0)
    if probe.ok:
        return Content(FOREIGN, _describe(probe.out))
    if probe.code == 8:
        return Content(FOREIGN, "several signatures at once (wipefs %s lists them)" % device)
    if probe.code != 2:
        return Content(UNREADABLE, probe.explain())
    try:
        if _is_given_up(host, device, size):
            return Content(EMPTY, "nothing: wiped by g35ctl")
    except OSError as error:
        return Content(UNREADABLE, str(error))
    if head.strip(b"\0") or tail.strip(b"\0"):
        return Content(FOREIGN, "data without a known signature")
    try:
        used = used_between(host, device, 0, size)
    except OSError as error:
        return Content(UNREADABLE, str(error))
    if used:
        return Content(FOREIGN, "data without a known signature, at byte %d for example" % used[0])
    return Content(EMPTY, "nothing")


def give_up(host: Host, device: str, size: int) -> None:
    """Make what a wiped device of ``size`` bytes still holds known as nothing. Raises OSError.

    Erasing signatures leaves the data, zeroing an SSD through the fabric takes hours, and not every device deallocates
    to zeros. So the first block takes a note with the digest of what is left: as long as nobody writes there, it may
    be overwritten; from then on it is somebody's data again.
    """
    if look(host, device, size).kind == EMPTY:
        return
    note = _GIVEN_UP + _digest(host, device, size)
    with open(str(host.path(device)), "r+b", buffering=0) as handle:
        handle.write(note.ljust(_SAMPLE, b"\0"))
        os.fsync(handle.fileno())


def _is_given_up(host: Host, device: str, size: int) -> bool:
    first = read_bytes(host, device, 0, _SAMPLE).rstrip(b"\0")
    return first.startswith(_GIVEN_UP) and first == _GIVEN_UP + _digest(host, device, size)


def _digest(host: Host, device: str, size: int) -> bytes:
    """Of everything that is looked at but the first block."""
    digest = hashlib.sha256(read_bytes(host, device, _SAMPLE, MIB - _SAMPLE))
    digest.update(read_bytes(host, device, max(_SAMPLE, size - MIB), MIB))
    for offset in _samples(0, size):
        if offset >= _SAMPLE:
            digest.update(read_bytes(host, device, offset, _SAMPLE))
    return digest.hexdigest().encode("ascii")


def used_between(host: Host, device: str, start: int, end: int) -> List[int]:
    """Offsets of samples between two offsets that are not all zeros. Raises OSError."""
    return [offset for offset in _samples(start, end) if read_bytes(host, device, offset, _SAMPLE).strip(b"\0")]


def _samples(start: int, end: int) -> List[int]:
    """Where to look between the ends: raw pools and encrypted volumes keep nothing that blkid knows.

    In the middle of equal parts: an mkfs.xfs that was cut off leaves headers of allocation groups at their ends.
    """
    size = end - start
    return [
        start + (2 * number + 1) * size // (2 * _SAMPLES) // _SAMPLE * _SAMPLE for number in range(_SAMPLES)
    ]  # fmt: skip


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


def read_bytes(host: Host, device: str, offset: int, length: int) -> bytes:
    """Bytes of a device. Raises OSError."""
    # Unbuffered: the interpreter would round small reads up, and a slow fabric makes that felt.
    with open(str(host.path(device)), "rb", buffering=0) as handle:
        handle.seek(offset)
        return handle.read(length)
