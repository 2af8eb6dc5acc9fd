"""What a host needs before it can connect, checked locally: nothing here asks a target, which may not export yet."""

from __future__ import annotations

import json
import re
from typing import Dict, List, Optional, Tuple

from .connecting import FABRICS_DEVICE, fabrics_tokens
from .converge import Finding
from .dhchap import kernel_lacks
from .host import Host
from .plans import ConnectPlan
from .rdma import device_of

MULTIPATH = "/sys/module/nvme_core/parameters/multipath"
_TOOL_PLACES = ("/usr/sbin/nvme", "/usr/bin/nvme", "/sbin/nvme", "/bin/nvme", "/usr/local/sbin/nvme")
#: what our connects write to the kernel; all of them are known since 5.4
_TOKENS = ("traddr", "trsvcid", "nqn", "host_traddr", "hostnqn", "hostid", "queue_size", "nr_io_queues", "tos")
_OUR_UNIT = "g35-connect.service"


def modules_of(plan: ConnectPlan) -> Tuple[str, ...]:
    """The kernel modules the plan's paths need."""
    return ("nvme-fabrics",) + tuple("nvme-%s" % name for name in sorted({path.transport for path in plan.paths}))


def missing_modules(host: Host, plan: ConnectPlan) -> List[str]:
    """Modules that are not loaded. Built-in ones have no directory in /sys/module when they have no parameters."""
    wanted = [name for name in modules_of(plan) if not host.exists("/sys/module/%s" % name.replace("-", "_"))]
    if wanted and host.exists(FABRICS_DEVICE):
        builtin = host.read("/lib/modules/%s/modules.builtin" % (host.read_value("/proc/sys/kernel/osrelease") or ""))
        known = {re.sub(r"\.ko.*$", "", line.rpartition("/")[2]) for line in (builtin or "").splitlines()}
        wanted = [name for name in wanted if name not in known]
    return wanted


def multipath_finding(host: Host) -> List[Finding]:
    """Native multipath must be on: without it two paths are two unrelated disks."""
    value = host.read_value(MULTIPATH)
    if value in ("Y", "1", None):
        return []
    return [
        Finding(
            "connect.multipath",
            "nvme_core.multipath",
            value or "unknown",
            "Y",
            "write 'options nvme_core multipath=Y' to /etc/modprobe.d/nvme.conf (or drop nvme_core.multipath=N from the"
            " kernel command line), rebuild the initramfs and reboot",
        )
    ]


def preflight_findings(host: Host, plan: ConnectPlan) -> List[Finding]:
    """Everything that would keep this host from connecting, as far as the host alone can tell."""
    found: List[Finding] = []
    if not any(host.exists(path) for path in _TOOL_PLACES):
        found.append(
            Finding("connect.tool", "nvme", "not installed", "nvme-cli 2.0 or later", "install the package nvme-cli")
        )
    found += _module_findings(host, plan)
    found += _token_findings(host, plan)
    found += multipath_finding(host)
    found += _port_findings(host, plan)
    found += _autoconnect_findings(host, plan)
    return found


def _module_findings(host: Host, plan: ConnectPlan) -> List[Finding]:
    found: List[Finding] = []
    kernel = host.read_value("/proc/sys/kernel/osrelease") or "unknown"
    origins: Dict[str, str] = {}
    for name in modules_of(plan):
        info = host.run(["modinfo", name])
        filename = re.search(r"^filename:\s+(\S+)", info.out, re.MULTILINE)
        if info.ok and filename and filename.group(1).startswith("/"):
            vendor = re.search(r"/(updates|extra|weak-updates)/", filename.group(1))
            origins[name] = "vendor" if vendor else "kernel"
        if not info.ok and host.exists("/sys/module/%s" % name.replace("-", "_")):
            continue
        if not info.ok:
            found.append(
                Finding(
                    "connect.module",
                    name,
                    "not there for kernel %s" % kernel,
                    "a loadable module",
                    "install the kernel's extra modules (linux-modules-extra, kernel-modules-extra) for %s" % kernel,
                )
            )
        elif re.search(r"\bdummy\b", info.out, re.IGNORECASE):
            # MLNX_OFED without --with-nvmf replaces the module by one that only reserves its name.
            path = re.search(r"^filename:\s+(\S+)", info.out, re.MULTILINE)
            found.append(
                Finding(
                    "connect.module",
                    name,
                    "a dummy of the NIC vendor's driver stack (%s)" % (path.group(1) if path else "no file name"),
                    "the working module",
                    "install the vendor stack again with NVMe-oF (mlnxofedinstall --with-nvmf), rebuild the initramfs",
                )
            )
    if len(set(origins.values())) > 1:
        mixed = ", ".join("%s: %s" % pair for pair in sorted(origins.items()))
        found.append(
            Finding(
                "connect.module",
                "nvme",
                "modules of two origins (%s)" % mixed,
                "all of one origin: the kernel refuses symbols of the other",
                "install the vendor stack again with NVMe-oF (mlnxofedinstall --with-nvmf), rebuild the initramfs,"
                " reboot; never unload modules that are in use",
                # What is loaded has been found to fit.
                "error" if missing_modules(host, plan) else "warning",
            )
        )
    return found


def _token_findings(host: Host, plan: ConnectPlan) -> List[Finding]:
    """The kernel lists the options it understands in /dev/nvme-fabrics; read only where the module is loaded."""
    known = fabrics_tokens(host)
    wanted = plan.authentication is not None
    if "traddr" not in known:
        lacks = wanted and kernel_lacks(host, "CONFIG_NVME_HOST_AUTH", "CONFIG_NVME_AUTH")
        return [_authentication_finding("was built without CONFIG_NVME_HOST_AUTH")] if lacks else []
    found: List[Finding] = []
    if wanted and "dhchap_secret" not in known:
        found.append(_authentication_finding("no dhchap_secret"))
    missing = [name for name in _TOKENS if name not in known]
    if missing:
        observed = "no %s" % ", ".join(missing)
        found.append(Finding("connect.kernel", FABRICS_DEVICE, observed, "all of them", "use kernel 5.4 or later"))
    return found


def _authentication_finding(observed: str) -> Finding:
    return Finding(
        "connect.kernel",
        FABRICS_DEVICE,
        observed,
        "in-band authentication, which g35_nvme.authentication asks for",
        "use a kernel with CONFIG_NVME_HOST_AUTH (CONFIG_NVME_AUTH before 6.7; Debian 13, not Debian 12),"
        " or set g35_nvme.authentication.mode: none",
    )


def _port_findings(host: Host, plan: ConnectPlan) -> List[Finding]:
    """One route per portal, and an RDMA device behind each port."""
    found: List[Finding] = []
    ports: Dict[str, str] = {}
    seen: Dict[Tuple[str, str], Tuple[str, str]] = {}
    for path in plan.paths:
        if path.transport == "rdma":
            ports[path.netdev] = path.rail
        seen[(path.address, path.source_address)] = (path.netdev, path.rail)
    for netdev, rail in ports.items():
        if not host.exists("/sys/class/net/%s" % netdev):
            found.append(
                Finding(
                    "connect.port", "%s (rail %s)" % (netdev, rail), "no such device", "a port", "correct g35_ports"
                )
            )
        elif device_of(host, netdev) is None:
            found.append(
                Finding(
                    "connect.rdma_device",
                    "%s (rail %s)" % (netdev, rail),
                    "no RDMA device on this port",
                    "one",
                    "load the NIC's RDMA driver (mlx5_ib, bnxt_re, irdma) or, for soft-RoCE:"
                    " rdma link add rxe_%s type rxe netdev %s" % (netdev, netdev),
                )
            )
    for (address, source), (netdev, rail) in seen.items():
        device, words = route_device(host, address, source)
        if device != netdev:
            observed = "leaves through %s" % device if device else words
            found.append(
                Finding(
                    "connect.route",
                    "portal %s on rail %s" % (address, rail),
                    observed,
                    "leaves through %s with source %s" % (netdev, source),
                    "check: ip route get %s from %s; each rail needs its own subnet on its own port"
                    % (address, source),
                )
            )
    return found


def route_device(host: Host, address: str, source: str) -> Tuple[Optional[str], str]:
    """The device that packets from ``source`` to ``address`` leave through, or None and why there is none."""
    result = host.run(["ip", "-j", "route", "get", address, "from", source])
    try:
        device = json.loads(result.out)[0]["dev"] if result.ok else None
    except (ValueError, LookupError, TypeError):
        device = None
    if device is None:
        words = (result.err.strip() or result.out.strip() or "no route").splitlines()[-1]
        return None, "no route: %s" % words
    return str(device), ""


def _autoconnect_findings(host: Host, plan: ConnectPlan) -> List[Finding]:
    """The distribution's own autoconnect may add controllers beside ours; it is reported, never changed."""
    portals = {path.address for path in plan.paths}
    found: List[Finding] = []
    for path in ("/etc/nvme/discovery.conf", "/etc/nvme/config.json", "/etc/nvme/nvme-fabrics.conf"):
        lines = [line for line in (host.read(path) or "").splitlines() if not line.lstrip().startswith("#")]
        words = set(re.findall(r"[0-9A-Fa-f:.]+", " ".join(lines)))
        named = sorted(portals & words)
        if named:
            found.append(
                Finding(
                    "connect.autoconnect",
                    path,
                    "names %s" % ", ".join(named),
                    "these portals only in %s" % _OUR_UNIT,
                    "take them out of %s, or the host may connect twice" % path,
                    "warning",
                )
            )
    return found
