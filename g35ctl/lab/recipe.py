"""What goes into a guest image, and the content hash that names it. Pure apart from reading its own files."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from importlib import resources

BASE_FORMAT = 1
TREE_FORMAT = 1
"""Raised by hand when image.py changes what comes out (of the package step, of the later steps) for the same recipe."""

PACKAGES = (
    "acl",
    "busybox-static",
    "ca-certificates",
    "chrony",
    "dbus",
    "ethtool",
    "fio",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "iputils-ping",
    "kmod",
    "libcurl4",
    "libibverbs1",
    "libnuma1",
    "librdmacm1",
    "libstdc++6",
    "linux-image-amd64",
    "mdadm",
    "nftables",
    "nvme-cli",
    "openssh-server",
    "pciutils",
    "perftest",
    "procps",
    "python3",
    "python3-apt",
    "python3-venv",
    "rdma-core",
    "rdmacm-utils",
    "sudo",
    "systemd-sysv",
    "udev",
    "xfsprogs",
)

# What costs boot time under emulation, or would do the product's work behind its back (nvmf-autoconnect).
MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "nvmf-autoconnect.service",
    "rdma-ndd.service",
    "serial-getty@ttyS0.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-initctl.socket",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-networkd-wait-online.service",
    "systemd-pstore.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
    "uuidd.socket",
)
# Drivers of the emulated machine that nothing here needs; each costs a udev worker and a module load at boot.
UNWANTED_MODULES = (
    "ahci",
    "evdev",
    "i2c_i801",
    "iTCO_wdt",
    "kvm",
    "kvm_amd",
    "kvm_intel",
    "lpc_ich",
    "pcspkr",
    "powernow_k8",
    "psmouse",
    "serio_raw",
    "sha512_ssse3",
    "sha256_ssse3",
    "sha1_ssse3",
    "ghash_clmulni_intel",
    "aesni_intel",
)
# The RDMA consumers this tier uses; the package's own list adds iSER and NFS, which load half the SCSI stack.
RDMA_MODULES = ("ib_uverbs", "rdma_ucm")
DISABLED_UNITS = ("chrony.service", "systemd-networkd.service", "systemd-timesyncd.service")

_RENAMED = {"trixie": {"libcurl4": "libcurl4t64", "libnuma1": "libnuma1", "librdmacm1": "librdmacm1t64"}}


# Beside PACKAGES, by suite. Debian 12's kernel has no TLS for NVMe, and its image must not change for others' sake.
_MORE = {"trixie": ("ktls-utils",)}


@cache
def file_bytes(name: str) -> bytes:
    """A file that travels into the image, from ``g35ctl/lab/files``."""
    return (resources.files("g35ctl.lab") / "files" / name).read_bytes()


MODULE_FILES = ("Makefile", "build_module.sh", "g35dcb.c")
FILES = (
    *MODULE_FILES,
    "g35-lab-seed",
    "g35-lab-seed.service",
    "initramfs_init",
    "sshd_lab.conf",
)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what an image contains. Each costly step has its own hash."""

    suite: str
    packages: tuple[str, ...]
    masked_units: tuple[str, ...]
    unwanted_modules: tuple[str, ...]
    rdma_modules: tuple[str, ...]
    mirror: str
    file_digests: tuple[tuple[str, str], ...]

    @property
    def base_id(self) -> str:
        """Names the package tree: the expensive part, shared by recipes that differ in their own files only."""
        return _digest([BASE_FORMAT, self.suite, list(self.packages), self.mirror])

    @property
    def module_id(self) -> str:
        """Names the kernel module built for that package tree's kernel."""
        sources = [list(pair) for pair in self.file_digests if pair[0] in MODULE_FILES]
        return _digest([self.base_id, sources])

    @property
    def image_id(self) -> str:
        """Names the finished image."""
        settings = [list(self.masked_units), list(self.unwanted_modules), list(self.rdma_modules)]
        return _digest([TREE_FORMAT, self.base_id, settings, [list(pair) for pair in self.file_digests]])


def recipe(suite: str) -> Recipe:
    """The recipe of the lab's guests for one Debian suite; ``$G35_LAB_MIRROR`` names a package mirror of your own."""
    renamed = _RENAMED.get(suite, {})
    return Recipe(
        suite=suite,
        packages=tuple(renamed.get(package, package) for package in PACKAGES) + _MORE.get(suite, ()),
        masked_units=MASKED_UNITS,
        unwanted_modules=UNWANTED_MODULES,
        rdma_modules=RDMA_MODULES,
        mirror=os.environ.get("G35_LAB_MIRROR", ""),
        file_digests=tuple((name, hashlib.sha256(file_bytes(name)).hexdigest()) for name in FILES),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]
