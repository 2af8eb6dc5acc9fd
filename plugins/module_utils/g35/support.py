"""Which systems are supported, and which packages bring the tools that each stage needs: data, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Tuple

#: os-release ID -> accepted VERSION_ID prefixes ("" accepts every version), and the package family
SYSTEMS: Dict[str, Tuple[Tuple[str, ...], str]] = {
    "debian": (("12", "13"), "debian"),
    "ubuntu": (("22.04", "24.04"), "debian"),
    "rhel": (("9",), "redhat"),
    "rocky": (("9",), "redhat"),
    "almalinux": (("9",), "redhat"),
    "centos": (("9",), "redhat"),
    "ol": (("9",), "redhat"),
    "openEuler": (("22.03", "24.03"), "redhat"),
    "anolis": (("8", "23"), "redhat"),
    "kos": (("5",), "redhat"),
    "keyarchos": (("5",), "redhat"),
}

#: what people are told they may use
SUPPORTED = (
    "Debian 12 or 13, Ubuntu 22.04 or 24.04, a RHEL 9 family system, openEuler 22.03 or 24.03, Anolis 8 or 23,"
    " KeyarchOS 5"
)

INSTALLERS = {"debian": "apt-get install -y", "redhat": "dnf install -y"}


@dataclass(frozen=True)
class Tool:
    """A program (found by name) or a file (found by one of several paths) and the package that brings it."""

    name: str
    debian: str
    redhat: str
    paths: Tuple[str, ...] = ()

    def package(self, family: str) -> str:
        return self.debian if family == "debian" else self.redhat


def _library(soname: str) -> Tuple[str, ...]:
    directories = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
    return tuple("%s/%s" % (directory, soname) for directory in directories)


_IP = Tool("ip", "iproute2", "iproute")
_MODPROBE = Tool("modprobe", "kmod", "kmod")

TOOLS: Dict[str, Tuple[Tool, ...]] = {
    "target": (_MODPROBE, _IP),
    "fabric": (
        _MODPROBE,
        _IP,
        Tool("dcb", "iproute2", "iproute"),
        Tool("rdma", "iproute2", "iproute"),
        Tool("ethtool", "ethtool", "ethtool"),
    ),
    "connect": (_MODPROBE, _IP, Tool("nvme", "nvme-cli", "nvme-cli"), Tool("ping", "iputils-ping", "iputils")),
    "storage": (
        Tool("mkfs.xfs", "xfsprogs", "xfsprogs"),
        Tool("blkid", "util-linux", "util-linux"),
        Tool("findmnt", "util-linux", "util-linux"),
    ),
    "cache": (
        Tool("nft", "nftables", "nftables"),
        Tool("libibverbs.so.1", "libibverbs1", "libibverbs", _library("libibverbs.so.1")),
        Tool("librdmacm.so.1", "librdmacm1", "librdmacm", _library("librdmacm.so.1")),
        Tool("libnuma.so.1", "libnuma1", "numactl-libs", _library("libnuma.so.1")),
        Tool("libcurl.so.4", "libcurl4", "libcurl", _library("libcurl.so.4")),
    ),
    # What engines need besides comes with their wheels or images; podman is asked for where an image is to run.
    "inference": (
        Tool("libibverbs.so.1", "libibverbs1", "libibverbs", _library("libibverbs.so.1")),
        Tool("libnuma.so.1", "libnuma1", "numactl-libs", _library("libnuma.so.1")),
    ),
}

#: what the benchmark suites drive; a deploy needs none of it
BENCH_TOOLS: Dict[str, Tool] = {
    "perftest": Tool("ib_write_bw", "perftest", "perftest"),
    "fio": Tool("fio", "fio", "fio"),
}

#: what a stage needs besides where its paths use TLS: the daemon that shakes hands for the kernel
TLS_TOOL = Tool("tlshd", "ktls-utils", "ktls-utils")

#: what stage storage needs besides where it has striped sets
STRIPE_TOOL = Tool("mdadm", "mdadm", "mdadm")

#: only wanted when the transport is RDMA
RDMA_ONLY = ("rdma",)
