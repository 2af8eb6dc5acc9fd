"""What must be true before SSDs are exported: the plan makes sense, the kernel can, and the devices are free."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Sequence, Set

from . import nvmet
from .converge import Finding
from .host import Host
from .plans import TargetNamespace, TargetPlan

# NVMe base specification: at most 223 bytes. configfs takes any name, so nobody else checks.
_NQN = re.compile(r"^nqn\.\d{4}-\d{2}\.[A-Za-z0-9.:_-]+$")
_NQN_BYTES = 223


def is_nqn(text: str) -> bool:
    """Whether this is a well-formed NVMe qualified name."""
    return len(text) <= _NQN_BYTES and bool(_NQN.match(text))


def plan_findings(plan: TargetPlan) -> List[Finding]:
    """What makes a plan impossible on any box."""
    found = []
    names = {item.nqn for item in plan.namespaces} | {name for item in plan.namespaces for name in item.allowed_hosts}
    for name in sorted(names - {nvmet.ANY_HOST}):
        if not is_nqn(name):
            found.append(_plan("nqn", name, "not an NVMe qualified name", "nqn.yyyy-mm.reverse.domain:name, 223 bytes"))
    first: Dict[str, TargetNamespace] = {}
    seen: Set[object] = set()
    for item in plan.namespaces:
        if not (1 <= len(item.serial) <= 20 and item.serial.isascii() and item.serial.isprintable()):
            found.append(_plan("serial", item.nqn, repr(item.serial), "1 to 20 printable ASCII characters"))
        if not (1 <= len(item.model) <= 40 and item.model.isascii() and item.model.isprintable()):
            found.append(_plan("model", item.nqn, repr(item.model), "1 to 40 printable ASCII characters"))
        same = first.setdefault(item.nqn, item)
        if (same.serial, same.model, same.allowed_hosts) != (item.serial, item.model, item.allowed_hosts):
            found.append(_plan("subsystem", item.nqn, "namespaces disagree", "one serial, model and list of hosts"))
        for key in ((item.nqn, item.nsid), nvmet.compact(item.uuid), item.device):
            if key in seen:
                found.append(_plan("namespace", item.nqn, "%s is used twice" % (key,), "used once"))
            seen.add(key)
    ids = [portal.port_id for portal in plan.portals]
    for port_id in sorted({number for number in ids if ids.count(number) > 1}):
        found.append(_plan("port", "port %d" % port_id, "used for two portals", "used once"))
    return found


def _plan(check: str, subject: str, observed: str, expected: str) -> Finding:
    return Finding("target." + check, subject, observed, expected, "correct g35_ebof in the inventory")


def module_findings(host: Host, modules: Sequence[str]) -> List[Finding]:
    """Kernel modules that are missing, or that come from a vendor's driver package that does not fit together."""
    found = []
    trees = {}
    for name in modules:
        if host.exists("/sys/module/%s" % name):
            continue
        result = host.run(["modinfo", "-F", "filename", name])
        if not result.ok:
            found.append(
                Finding("target.module", name, "not available", "a kernel with NVMe target support",
                        "install the kernel's module package for the running kernel (%s)" % _kernel(host))
            )  # fmt: skip
            continue
        trees[name] = "vendor" if re.search(r"/(updates|extra|weak-updates)/", result.out) else "kernel"
        if "dummy" in host.run(["modinfo", "-F", "description", name]).out.lower():
            found.append(
                Finding("target.module", name, "a dummy of the NIC vendor's driver package", "the real module",
                        "install the vendor's package with its NVMe-oF option (mlnxofedinstall --with-nvmf)")
            )  # fmt: skip
    if len(set(trees.values())) > 1:
        mixed = ", ".join("%s: %s" % pair for pair in sorted(trees.items()))
        found.append(
            Finding("target.module", "nvmet", "modules of two origins (%s)" % mixed, "all of one origin",
                    "install the vendor's package with its NVMe-oF option and rebuild the initramfs", "warning")
        )  # fmt: skip
    return found


def _kernel(host: Host) -> str:
    return host.read_value("/proc/sys/kernel/osrelease") or "unknown"


def device_findings(
    host: Host, plan: TargetPlan, foreign: Sequence[str], released: Sequence[str] = ()
) -> List[Finding]:
    """Devices that are absent, empty, or used by something other than this plan. Reads only. ``released`` are arrays
    on them that an apply takes apart."""
    exported = {}
    for nqn in foreign:
        for item in nvmet.read_subsystem(host, nqn)["namespaces"].values():
            exported[host.real(item["device"])] = nqn
    found = []
    for namespace in plan.namespaces:
        problem, remedy = _device_problem(host, namespace.device, exported, released)
        if problem:
            expected = "a free block device or regular file"
            found.append(Finding("target.device", namespace.device, problem, expected, remedy))
    return found


def _device_problem(host: Host, device: str, exported: Dict[str, str], released: Sequence[str]) -> "tuple[str, str]":
    correct = "correct g35_ebof.namespaces[].device (stable names: ls -l /dev/disk/by-id)"
    if not host.path(device).exists():
        return "absent", correct
    real = host.real(device)
    if real in exported:
        return "exported already by %s, which g35ctl did not make" % exported[real], "remove that configuration"
    kernel_name = os.path.basename(real)
    base = "/sys/class/block/%s" % kernel_name
    if not host.exists(base):
        if not host.path(real).is_file():
            return "neither a block device nor a regular file", correct
        return ("", "") if host.path(real).stat().st_size else ("empty file", "give it a size: truncate --size")
    if host.read_value(base + "/size") in (None, "0"):
        return "no capacity", "check the SSD: nvme list"
    parts = [base] + [
        "%s/%s" % (base, name) for name in host.list(base) if host.exists("%s/%s/partition" % (base, name))
    ]
    for part in parts:
        holders = [name for name in host.list(part + "/holders") if name not in released]
        if holders:
            return "held by %s" % ", ".join(holders), "take it out of that volume group, array or mapping"
        number = host.read_value(part + "/dev")
        if number in _mounted(host):
            return "mounted on %s" % _mounted(host)[number], "umount it and remove it from /etc/fstab"
        if "/dev/%s" % os.path.basename(part) in _swaps(host):
            return "used as swap", "swapoff it and remove it from /etc/fstab"
    return "", ""


def _mounted(host: Host) -> Dict[str, str]:
    """Device number (major:minor) -> mount point."""
    rows = [line.split() for line in (host.read("/proc/self/mountinfo") or "").splitlines()]
    return {row[2]: row[4] for row in rows if len(row) > 4}


def _swaps(host: Host) -> List[str]:
    return [line.split()[0] for line in (host.read("/proc/swaps") or "").splitlines() if line.startswith("/")]
