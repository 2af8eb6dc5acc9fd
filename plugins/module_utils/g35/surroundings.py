"""What around the stages decides how a deploy goes: ssh server, free space, clock, NIC firmware, sets of modules."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .converge import Finding
from .host import Host
from .plans import FabricPort
from .rdma import device_of

MIB = 2**20
#: fewer sessions over one connection than this slow a deploy down or break it
MIN_SESSIONS = 4
_SSHD = ("/usr/sbin/sshd", "/usr/local/sbin/sshd")
#: services that keep the clock, as their units are called
CLOCKS = ("chronyd", "chrony", "systemd-timesyncd", "ntpd", "ntpsec", "ptp4l")
#: directory trees of modules that did not come with the kernel
_FOREIGN = ("/updates/", "/extra/", "/weak-updates/", "/dkms/")


def sshd_findings(host: Host) -> List[Finding]:
    """Settings of the ssh server that make every task slow or break connections that are shared."""
    path = next((item for item in _SSHD if host.exists(item)), "")
    told = host.run([path, "-T"], timeout=10.0) if path else None
    if told is None or not told.ok:
        return []
    settings = {}
    for line in told.out.splitlines():
        key, _, value = line.partition(" ")
        settings[key.lower()] = value.strip()
    found = []
    if settings.get("usedns") == "yes":
        found.append(
            Finding("system.sshd", "UseDNS", "yes", "no: a login waits for the name server",
                    "set 'UseDNS no' in /etc/ssh/sshd_config and reload sshd", "warning")
        )  # fmt: skip
    sessions = settings.get("maxsessions", "")
    if sessions.isdigit() and int(sessions) < MIN_SESSIONS:
        found.append(
            Finding("system.sshd", "MaxSessions", sessions, "%d or more" % MIN_SESSIONS,
                    "set 'MaxSessions 10' in /etc/ssh/sshd_config and reload sshd", "warning")
        )  # fmt: skip
    return found


def needed_space(plans: Mapping[str, Mapping[str, Any]], host: Host) -> Dict[str, int]:
    """Directory to the bytes a deploy wants free there."""
    wanted = {"/": 200 * MIB, "/var": 200 * MIB}
    cache = plans.get("cache")
    if cache:
        runtime = cache.get("runtime") or {}
        prefix = str(runtime.get("prefix") or "/opt/g35/mooncake")
        # A new environment is built beside the one in use; an installed one needs room for its successor later.
        wanted[prefix] = 300 * MIB if host.exists(prefix + "/current") else 1024 * MIB
    return wanted


def free_space(host: Host, path: str) -> Optional[Tuple[int, int]]:
    """Free bytes and free inodes of the file system a path is on or will be on; None where it cannot be told."""
    while path != "/" and not host.exists(path):
        path = os.path.dirname(path)
    try:
        told = os.statvfs(str(host.path(path)))
    except OSError:
        return None
    # File systems without a fixed number of inodes say 0 of 0.
    return told.f_bavail * told.f_frsize, told.f_favail if told.f_files else 2**31


def space_findings(
    host: Host,
    plans: Mapping[str, Mapping[str, Any]],
    free: Callable[[Host, str], Optional[Tuple[int, int]]] = free_space,
) -> List[Finding]:
    """Directories with less space than the stages of this host need, or without inodes."""
    found = []
    for path, wanted in needed_space(plans, host).items():
        told = free(host, path)
        if told is None:
            continue
        have, inodes = told
        if have < wanted:
            found.append(
                Finding("system.space", path, "%d MiB free" % (have // MIB), "%d MiB" % (wanted // MIB),
                        "make room: du -xh --max-depth=2 %s | sort -h | tail" % path)
            )  # fmt: skip
        elif inodes < 10000:
            found.append(
                Finding("system.space", path, "%d inodes free" % inodes, "10000 or more",
                        "remove files: du -x --inodes --max-depth=2 %s | sort -n | tail" % path)
            )  # fmt: skip
    return found


def clock_findings(host: Host, synchronized: Optional[bool]) -> List[Finding]:
    """A clock that nobody keeps right, with the service that should."""
    if synchronized:
        return []
    states = host.run(["systemctl", "is-active"] + [name + ".service" for name in CLOCKS]).out.split()
    running = [name for name, state in zip(CLOCKS, states) if state == "active"]
    if running:
        names = ", ".join(running)
        observed = "%s runs, but the clock is not synchronized" % names
        remedy = "see its sources: %s" % (
            "chronyc sources" if running[0].startswith("chrony") else "timedatectl timesync-status"
        )
    else:
        observed = "no time service runs"
        remedy = "enable chrony or systemd-timesyncd; logs and leases are compared across hosts"
    return [Finding("system.time", "clock", observed, "synchronized", remedy, "warning")]


def firmware(host: Host, ports: Sequence[FabricPort]) -> Dict[str, Dict[str, str]]:
    """Per network device its RDMA device, driver, board and firmware, as sysfs tells them; soft-RoCE has none."""
    found = {}
    for port in ports:
        device = device_of(host, port.netdev)
        if device:
            base = "/sys/class/infiniband/%s" % device
            found[port.netdev] = {
                "device": device,
                "driver": host.link_name("/sys/class/net/%s/device/driver" % port.netdev) or "",
                "board": host.read_value(base + "/board_id") or "",
                "firmware": host.read_value(base + "/fw_ver") or "",
            }
    return found


def firmware_findings(seen: Mapping[str, Mapping[str, str]]) -> List[Finding]:
    """NICs of one board type on one host that run different firmware."""
    boards: Dict[Tuple[str, str], Dict[str, List[str]]] = {}
    for netdev, item in seen.items():
        if item["firmware"]:
            boards.setdefault((item["driver"], item["board"]), {}).setdefault(item["firmware"], []).append(netdev)
    return [
        Finding(
            "system.firmware", "%s %s" % (driver, board or "NICs"),
            "; ".join("%s on %s" % (version, ", ".join(netdevs)) for version, netdevs in sorted(versions.items())),
            "one firmware", "bring them to one version with the vendor's tool (mlxfwmanager, niccli, nvmupdate)",
            "warning",
        )
        for (driver, board), versions in boards.items()
        if len(versions) > 1
    ]  # fmt: skip


def module_findings(host: Host, plans: Mapping[str, Mapping[str, Any]]) -> List[Finding]:
    """Kernel modules from two sets: the RDMA core of a NIC vendor with the distribution's NVMe over RDMA. They refuse
    each other ("disagrees about version of symbol") unless the vendor's set was installed with NVMe-oF."""
    wanted = [name for stage, name in (("connect", "nvme-rdma"), ("target", "nvmet-rdma")) if plans.get(stage)]
    if not wanted:
        return []
    core = _origin(host, "ib_core")
    found = []
    for name in wanted:
        if host.exists("/sys/module/%s" % name.replace("-", "_")):
            continue
        own = _origin(host, name)
        if core and own and _foreign(core) and not _foreign(own):
            found.append(
                Finding(
                    "system.modules", name, "%s with %s" % (own, core), "both from one set",
                    "install the vendor stack with NVMe-oF (mlnxofedinstall --with-nvmf), rebuild the initramfs",
                )
            )  # fmt: skip
    return found


def _origin(host: Host, module: str) -> str:
    told = host.run(["modinfo", "-F", "filename", module])
    path = told.out.strip().splitlines()[0] if told.ok and told.out.strip() else ""
    return path if path.startswith("/") else ""


def _foreign(path: str) -> bool:
    return any(part in re.sub(r"^/(usr/)?lib/modules/[^/]+", "", path) for part in _FOREIGN)
