"""Builds and caches guest images: package tree, kernel module, root file system, kernel and initramfs.

Every step writes under a temporary name and renames when complete, so an interrupted build goes on where it stopped.
Nothing is loop-mounted; what the package tools mount lives in a mount namespace of its own and dies with them.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.lab import initramfs
from g35ctl.lab.commands import Say, locked, run_logged
from g35ctl.lab.paths import images_root
from g35ctl.lab.recipe import DISABLED_UNITS, Recipe, file_bytes, recipe

ROOT_SIZE = "8G"
_PRIVATE_MOUNTS = ("unshare", "--mount", "--propagation", "private", "--")
_QUIETLY = ("nice", "-n", "5")


@dataclass(frozen=True)
class Image:
    """A finished image: what QEMU is started with."""

    image_id: str
    root: Path

    @property
    def disk(self) -> Path:
        """The raw root file system that overlays stand on."""
        return self.root / "root.img"

    @property
    def kernel(self) -> Path:
        """The kernel for direct boot."""
        return self.root / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The initramfs for direct boot."""
        return self.root / "initrd.img"

    @property
    def complete(self) -> bool:
        """True when every part is there."""
        return self.disk.exists() and self.kernel.exists() and self.initrd.exists()


def cached_image(image_id: str) -> Image | None:
    """The finished image of that id, or None."""
    image = Image(image_id, images_root() / image_id)
    return image if image.complete else None


def ensure_image(suite: str, say: Say) -> Image:
    """The current image for ``suite``, built if the cache has none. Raises :class:`G35Error` when a step fails."""
    wanted = recipe(suite)
    image = Image(wanted.image_id, images_root() / wanted.image_id)
    if image.complete:
        return image
    with locked(images_root() / "lock", what="the image cache", say=say):
        if not image.complete:
            _Builder(wanted, image, say).build()
    return image


class _Builder:
    def __init__(self, wanted: Recipe, image: Image, say: Say) -> None:
        self.recipe = wanted
        self.image = image
        self.say = say
        self.base = images_root() / f"base-{wanted.base_id}"
        self.module = images_root() / f"module-{wanted.module_id}" / "g35dcb.ko"
        self.log = image.root / "build.log"

    def build(self) -> None:
        self.image.root.mkdir(parents=True, exist_ok=True)
        self.base.mkdir(parents=True, exist_ok=True)
        self.module.parent.mkdir(parents=True, exist_ok=True)
        (self.image.root / "recipe.json").write_text(json.dumps(asdict(self.recipe), indent=2) + "\n")
        self._step(self.base / "rootfs.tar", f"installing Debian {self.recipe.suite} packages", self._packages)
        self._step(self.module, "building the DCB kernel module", self._module)
        self._step(self.image.disk, "writing the root file system, kernel and initramfs", self._root_disk)

    def _step(self, result: Path, what: str, make: Callable[[Path], None]) -> None:
        if result.exists():
            return
        self.say(f"image {self.image.image_id}: {what} (log: {self.log})")
        part = result.with_name(result.name + ".part")
        part.unlink(missing_ok=True)
        make(part)
        part.rename(result)

    def _packages(self, part: Path) -> None:
        argv = [*_PRIVATE_MOUNTS, *_QUIETLY, "mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar"]
        argv += [f"--include={','.join(self.recipe.packages)}", self.recipe.suite, str(part)]
        if self.recipe.mirror:
            argv.append(self.recipe.mirror)
        run_logged(argv, self.log, what="installing the guest's packages")

    def _module(self, part: Path) -> None:
        tree = self._unpack("builder.part")
        source = tree / "usr" / "src" / "g35dcb"
        source.mkdir(parents=True)
        for name in ("g35dcb.c", "Makefile"):
            (source / name).write_bytes(file_bytes(name))
        script = self.image.root / "build_module.sh"
        script.write_bytes(file_bytes("build_module.sh"))
        argv = [*_PRIVATE_MOUNTS, *_QUIETLY, "sh", str(script), str(tree)]
        run_logged(argv, self.log, what="building the DCB kernel module")
        shutil.copyfile(source / "g35dcb.ko", part)
        shutil.rmtree(tree)

    def _root_disk(self, part: Path) -> None:
        tree = self._unpack("tree.part")
        kernel = _kernel_version(tree)
        updates = tree / "lib" / "modules" / kernel / "updates"
        updates.mkdir(exist_ok=True)
        shutil.copyfile(self.module, updates / "g35dcb.ko")
        run_logged(["chroot", str(tree), "depmod", kernel], self.log, what="indexing the guest's kernel modules")
        configure_tree(tree, self.recipe)
        shutil.copyfile(tree / "boot" / f"vmlinuz-{kernel}", self.image.kernel)
        entries = initramfs.entries_from_tree(tree, kernel, file_bytes("initramfs_init"))
        self.image.initrd.write_bytes(gzip.compress(initramfs.cpio_newc(entries), compresslevel=6, mtime=0))
        argv = [*_QUIETLY, "mke2fs", "-q", "-F", "-t", "ext4", "-L", "g35lab", "-d", str(tree), str(part), ROOT_SIZE]
        run_logged(argv, self.log, what="writing the root file system")
        shutil.rmtree(tree)

    def _unpack(self, name: str) -> Path:
        tree = self.image.root / name
        if tree.exists():
            shutil.rmtree(tree)
        tree.mkdir(mode=0o755)
        argv = ["tar", "-x", "-p", "--numeric-owner", "-f", str(self.base / "rootfs.tar"), "-C", str(tree)]
        run_logged(argv, self.log, what="unpacking the package tree")
        return tree


def _kernel_version(tree: Path) -> str:
    versions = sorted(path.name for path in (tree / "lib" / "modules").iterdir())
    if len(versions) != 1:
        raise G35Error("the image has not exactly one kernel", why=f"found {', '.join(versions) or 'none'}")
    return versions[0]


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def configure_tree(tree: Path, wanted: Recipe) -> None:
    """Make an unpacked Debian tree a lab guest: our units and settings in, identities and boot-time ballast out."""

    def put(path: str, content: bytes, mode: int = 0o644) -> None:
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(content)
        target.chmod(mode)

    def link(path: str, target: str) -> None:
        where = tree / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.unlink(missing_ok=True)
        where.symlink_to(target)

    put("usr/local/sbin/g35-lab-seed", file_bytes("g35-lab-seed"), 0o755)
    put("etc/systemd/system/g35-lab-seed.service", file_bytes("g35-lab-seed.service"))
    link("etc/systemd/system/sysinit.target.wants/g35-lab-seed.service", "../g35-lab-seed.service")
    put("etc/ssh/sshd_config.d/lab.conf", file_bytes("sshd_lab.conf"))
    put("etc/modules-load.d/g35dcb.conf", b"g35dcb\n")
    put("etc/modprobe.d/g35dcb.conf", b"options g35dcb netdevs=eth1,eth2\n")
    put("etc/modprobe.d/g35lab.conf", _lines(f"blacklist {module}" for module in wanted.unwanted_modules))
    put("etc/rdma/modules/rdma.conf", _lines(wanted.rdma_modules))
    put("etc/fstab", b"")
    put("etc/resolv.conf", b"")
    # An empty one would make the first boot apply the presets. Each guest gets its own from its command line.
    put("etc/machine-id", b"0" * 31 + b"1\n")
    put("etc/hostname", b"g35lab\n")
    for key in (tree / "etc" / "ssh").glob("ssh_host_*"):
        key.unlink()
    for unit in wanted.masked_units:
        link(f"etc/systemd/system/{unit}", "/dev/null")
    for wants in (tree / "etc" / "systemd" / "system").glob("*.wants"):
        for unit in DISABLED_UNITS:
            (wants / unit).unlink(missing_ok=True)
