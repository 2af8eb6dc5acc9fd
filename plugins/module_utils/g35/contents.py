"""What is on a block device that does not hold what was looked for: nothing, something, or nobody can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List

from .host import Host

MIB = 2**20
#: pieces of a device that has no signature at which it is looked at, and their size in bytes
_SAMPLES = 64
_SAMPLE = 4096

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
    first and last MiB and wherever it is sampled in between."""
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
    if head.strip(b"\0") or tail.strip(b"\0"):
        return Content(FOREIGN, "data without a known signature")
    try:
        used = used_between(host, device, 0, size)
    except OSError as error:
        return Content(UNREADABLE, str(error))
    if used:
        return Content(FOREIGN, "data without a known signature, at byte %d for example" % used[0])
    return Content(EMPTY, "nothing")


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
