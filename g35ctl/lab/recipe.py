"""What goes into a guest image, and the content hash that names it. Pure apart from reading its own files."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from importlib import resources

FORMAT = 1
"""Raised when the way images are put together changes without any of the hashed inputs changing."""

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
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "nvmf-autoconnect.service",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-logind.service",
    "systemd-networkd-wait-online.service",
    "systemd-pstore.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
)
DISABLED_UNITS = ("chrony.service", "systemd-networkd.service", "systemd-timesyncd.service")

_RENAMED = {"trixie": {"libcurl4": "libcurl4t64", "libnuma1": "libnuma1", "librdmacm1": "librdmacm1t64"}}


@cache
def file_bytes(name: str) -> bytes:
    """A file that travels into the image, from ``g35ctl/lab/files``."""
    return (resources.files("g35ctl.lab") / "files" / name).read_bytes()


FILES = (
    "Makefile",
    "build_module.sh",
    "g35-lab-seed",
    "g35-lab-seed.service",
    "g35dcb.c",
    "initramfs_init",
    "sshd_lab.conf",
)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what an image contains. Two hashes: of the package tree alone, and of the whole."""

    suite: str
    packages: tuple[str, ...]
    masked_units: tuple[str, ...]
    mirror: str
    file_digests: tuple[tuple[str, str], ...]

    @property
    def base_id(self) -> str:
        """Names the package tree: the expensive part, shared by recipes that differ in their own files only."""
        return _digest([FORMAT, self.suite, list(self.packages), self.mirror])

    @property
    def image_id(self) -> str:
        """Names the finished image."""
        return _digest([self.base_id, list(self.masked_units), [list(pair) for pair in self.file_digests]])


def recipe(suite: str) -> Recipe:
    """The recipe of the lab's guests for one Debian suite; ``$G35_LAB_MIRROR`` names a package mirror of your own."""
    renamed = _RENAMED.get(suite, {})
    return Recipe(
        suite=suite,
        packages=tuple(renamed.get(package, package) for package in PACKAGES),
        masked_units=MASKED_UNITS,
        mirror=os.environ.get("G35_LAB_MIRROR", ""),
        file_digests=tuple((name, hashlib.sha256(file_bytes(name)).hexdigest()) for name in FILES),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]
