"""What the running kernel was built with, and which options the stages of a host need.

An option only counts against a host when nothing else shows that the function is there: drivers of NIC vendors replace
modules without changing the kernel's own configuration.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .converge import Finding
from .host import Host


@dataclass(frozen=True)
class Option:
    """An option that must be y or m. ``present`` are paths and ``module`` is a kernel module that prove the function
    by themselves; ``transport`` limits it to rdma or tcp."""

    name: str
    purpose: str
    present: Tuple[str, ...] = ()
    module: str = ""
    transport: str = ""


_EXTRA = "boot a kernel that has it (distribution kernels do), or install its modules (linux-modules-extra-%(kernel)s, "
_EXTRA += "kernel-modules-extra)"

OPTIONS: Mapping[str, Tuple[Option, ...]] = {
    "target": (
        Option("CONFIGFS_FS", "nvmet is configured through configfs", ("/sys/kernel/config",), "configfs"),
        Option("NVME_TARGET", "exports", ("/sys/module/nvmet",), "nvmet"),
        Option("NVME_TARGET_RDMA", "exports over RDMA", ("/sys/module/nvmet_rdma",), "nvmet-rdma", "rdma"),
        Option("NVME_TARGET_TCP", "exports over TCP", ("/sys/module/nvmet_tcp",), "nvmet-tcp", "tcp"),
    ),
    "fabric": (
        Option("INFINIBAND_USER_ACCESS", "verbs for Mooncake", ("/sys/module/ib_uverbs",), "ib_uverbs", "rdma"),
        Option("INFINIBAND_ADDR_TRANS", "connections over RoCE", ("/sys/module/rdma_cm",), "rdma_cm", "rdma"),
        Option(
            "INFINIBAND_ADDR_TRANS_CONFIGFS", "the default ToS of RDMA connections", ("/sys/kernel/config/rdma_cm",),
            "", "rdma",
        ),
        Option("DCB", "PFC and ETS", (), "", "rdma"),
    ),
    "connect": (
        Option("NVME_MULTIPATH", "two paths to one namespace", ("/sys/module/nvme_core/parameters/multipath",)),
        Option("NVME_FABRICS", "NVMe over fabrics", ("/sys/module/nvme_fabrics", "/dev/nvme-fabrics"), "nvme-fabrics"),
        Option("NVME_RDMA", "paths over RDMA", ("/sys/module/nvme_rdma",), "nvme-rdma", "rdma"),
        Option("NVME_TCP", "paths over TCP", ("/sys/module/nvme_tcp",), "nvme-tcp", "tcp"),
    ),
    "storage": (
        Option("XFS_FS", "file systems of the namespaces", ("/sys/module/xfs",), "xfs"),
        Option("MD_RAID0", "striped sets of namespaces", ("/sys/module/raid0",), "raid0"),
    ),
}  # fmt: skip


def read_config(host: Host) -> Optional[Dict[str, str]]:
    """Options of the running kernel without their CONFIG_ prefix; None where no configuration can be read."""
    release = host.read_value("/proc/sys/kernel/osrelease") or ""
    for path in ("/boot/config-%s" % release, "/lib/modules/%s/config" % release):
        text = host.read(path)
        if text:
            return _parse(text)
    try:
        return _parse(gzip.decompress(host.path("/proc/config.gz").read_bytes()).decode("utf-8", "replace"))
    except (OSError, EOFError, ValueError):
        return None


def _parse(text: str) -> Dict[str, str]:
    found = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.startswith("CONFIG_"):
            found[key[len("CONFIG_") :]] = value.strip()
    return found


def kernel_findings(host: Host, plans: Mapping[str, Mapping[str, Any]]) -> List[Tuple[str, Finding]]:
    """Options that a stage of this host needs and that its kernel does not have, with the stage. Silent where the
    configuration cannot be read: the modules themselves are then checked by the stages."""
    config = read_config(host)
    if config is None:
        return []
    release = host.read_value("/proc/sys/kernel/osrelease") or ""
    found: List[Tuple[str, Finding]] = []
    for stage, options in OPTIONS.items():
        plan = plans.get(stage)
        if not plan:
            continue
        transport = _transport(plan)
        for option in options:
            if option.transport not in ("", transport) or config.get(option.name) in ("y", "m"):
                continue
            if option.name == "DCB" and plan.get("lossless") == "unavailable":
                continue
            if option.name == "MD_RAID0" and not plan.get("sets"):
                continue
            if any(host.exists(path) for path in option.present):
                continue
            if option.module and host.run(["modinfo", "-F", "filename", option.module]).ok:
                continue
            found.append(
                (
                    stage,
                    Finding(
                        "system.kernel", "CONFIG_%s" % option.name, "not set in kernel %s" % release,
                        "y or m: %s" % option.purpose, _EXTRA % {"kernel": release},
                    ),
                )
            )  # fmt: skip
    return found


def _transport(plan: Mapping[str, Any]) -> str:
    """rdma or tcp, wherever the plan says so: itself, its paths or its portals."""
    if plan.get("transport"):
        return str(plan["transport"])
    for key in ("paths", "portals"):
        for item in plan.get(key) or ():
            return str(item.get("transport") or "rdma")
    return "rdma"
