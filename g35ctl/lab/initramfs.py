"""A minimal initial RAM file system: the modules the root disk needs, busybox and one script.

Debian's own is built for unknown hardware and costs many seconds under emulation; this one loads a dozen modules.
"""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from g35ctl.errors import G35Error

WANTED_MODULES = (
    "crc32c_generic",
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_rng",
    "ext4",
)


@dataclass(frozen=True)
class Entry:
    """One member of the archive: a directory (no data), a regular file or a character device (major, minor)."""

    path: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def module_order(modules_dep: str, modules_builtin: str, wanted: Iterable[str]) -> list[str]:
    """Paths of the wanted modules and all they depend on, in loading order; built-in ones are left out.

    Takes the text of ``modules.dep`` and ``modules.builtin``. Raises :class:`G35Error` for a module that is neither.
    """
    dependencies: dict[str, list[str]] = {}
    by_name: dict[str, str] = {}
    for line in modules_dep.splitlines():
        path, _, needs = line.partition(":")
        dependencies[path] = needs.split()
        by_name[_module_name(path)] = path
    builtin = {_module_name(path) for path in modules_builtin.split()}
    order: list[str] = []

    def visit(path: str) -> None:
        if path in order:
            return
        # modules.dep lists each module's needs flattened, the deepest last.
        for need in reversed(dependencies[path]):
            visit(need)
        order.append(path)

    for name in wanted:
        if name in by_name:
            visit(by_name[name])
        elif name not in builtin:
            raise G35Error(f"the guest kernel has no module {name}", why="neither built in nor in modules.dep")
    return order


def _module_name(path: str) -> str:
    return PurePosixPath(path).name.split(".ko", 1)[0].replace("-", "_")


def read_module(path: Path) -> bytes:
    """The bytes of a kernel module, decompressed: busybox can load no compressed one."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return data


def entries_from_tree(tree: Path, kernel: str, init_script: bytes) -> list[Entry]:
    """What the initramfs of this guest tree holds."""
    modules = tree / "lib" / "modules" / kernel
    order = module_order(
        (modules / "modules.dep").read_text(), (modules / "modules.builtin").read_text(), WANTED_MODULES
    )
    entries = [Entry(name, 0o040755) for name in ("bin", "dev", "proc", "sys", "root", "modules")]
    entries.append(Entry("dev/console", 0o020600, device=(5, 1)))
    busybox = (tree / "bin" / "busybox").read_bytes()
    entries.append(Entry("bin/busybox", 0o100755, busybox))
    entries.append(Entry("bin/sh", 0o120777, b"busybox"))
    names = []
    for number, path in enumerate(order):
        name = f"{number:02d}-{_module_name(path)}.ko"
        names.append(name)
        entries.append(Entry(f"modules/{name}", 0o100644, read_module(modules / path)))
    entries.append(Entry("modules/order", 0o100644, ("\n".join(names) + "\n").encode()))
    entries.append(Entry("init", 0o100755, init_script))
    return entries


def cpio_newc(entries: Iterable[Entry]) -> bytes:
    """The entries as a cpio archive in the kernel's "newc" format; the same entries give the same bytes."""
    out = bytearray()
    for number, entry in enumerate([*entries, Entry("TRAILER!!!", 0)], start=1):
        name = entry.path.encode() + b"\0"
        fields = (
            number,
            entry.mode,
            0,
            0,
            1,
            0,
            len(entry.data),
            0,
            0,
            entry.device[0],
            entry.device[1],
            len(name),
            0,
        )
        out += b"070701" + b"".join(f"{field:08X}".encode() for field in fields) + name
        out += b"\0" * (-len(out) % 4)
        out += entry.data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)
