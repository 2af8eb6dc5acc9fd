"""Judgement of what connect read: which paths are not up and why, and what is not as agreed."""

from __future__ import annotations

from typing import Dict, List, Mapping, Tuple

from .connecting import Judgement, label, route_label
from .converge import Finding
from .host import Host
from .nvme import Topology
from .plans import ConnectPath, ConnectPlan

_VENDOR_STACK = (
    "modules of the NIC vendor's stack and of the kernel are mixed: install the vendor stack again with NVMe-oF"
    " (mlnxofedinstall --with-nvmf), rebuild the initramfs and reboot"
)
#: words of the kernel's log, and what has helped
_FIELD_REMEDIES = (
    ("disagrees about version of symbol", _VENDOR_STACK),
    ("Unknown symbol", _VENDOR_STACK),
    ("pi mr pool", "update the NIC's firmware and driver together: the firmware refuses what this driver asks for"),
    ("initialize MR pool", "the NIC has no memory regions left: lower g35_nvme.queue_pair_budget or io_queues"),
    ("onnection reset by peer", "the other side speaks no RoCE there: check that both ports have an RDMA device"),
)


def path_findings(plan: ConnectPlan, judgement: Judgement, reasons: Mapping[ConnectPath, str]) -> List[Finding]:
    """Paths without a live controller. A portal none of whose paths is live is told once, with its rail.

    ``reasons`` carries why an attempt of this run failed. A controller that is connecting is a path that is down.
    """
    down: Dict[str, List[Tuple[ConnectPath, str]]] = {}
    for path, item in judgement.in_transit:
        down.setdefault(_portal(path), []).append((path, "%s is %s" % (item.name, item.state)))
    for path in judgement.missing:
        reason = reasons.get(path, "")
        words = "no controller" + ("; " + reason if reason else "")
        down.setdefault(_portal(path), []).append((path, words))
    found: List[Finding] = []
    for portal, failures in down.items():
        total = len([path for path in plan.paths if _portal(path) == portal])
        if len(failures) == total and total > 1:
            path, words = failures[0]
            observed = "none of %d paths live: %s" % (total, words)
            found.append(Finding("connect.path", portal, observed, "every path live", _remedy(path, words)))
            continue
        found += [
            Finding("connect.path", label(path), words, "a live controller", _remedy(path, words))
            for path, words in failures
        ]
    return found


def stale_findings(judgement: Judgement) -> List[Finding]:
    """Controllers of this site's subsystems that the plan does not ask for."""
    return [
        Finding(
            "connect.stale",
            "%s (%s)" % (item.name, item.nqn),
            "connected to %s:%s from %s" % (item.address, item.port, item.source_address or "any address"),
            "only the planned controllers",
            "run the deploy; by hand: nvme disconnect -d %s" % item.name,
        )
        for item in judgement.stale
    ]


def subsystem_findings(host: Host, plan: ConnectPlan, topology: Topology) -> List[Finding]:
    """Subsystems whose paths did not merge, whose multipath policy is another, or that show no namespace."""
    found: List[Finding] = []
    kernel = host.read_value("/proc/sys/kernel/osrelease") or "unknown"
    for nqn in dict.fromkeys(path.nqn for path in plan.paths):
        present = topology.subsystem_of(nqn)
        if len(present) > 1:
            found.append(
                Finding(
                    "connect.merged",
                    nqn,
                    "%d subsystems: %s" % (len(present), ", ".join(item.name for item in present)),
                    "one subsystem with all paths",
                    "give the subsystem the same serial and identity behind every portal of the box",
                )
            )
        for item in present:
            if item.io_policy not in ("", plan.io_policy):
                found.append(
                    Finding(
                        "connect.io_policy",
                        nqn,
                        "%s (kernel %s)" % (item.io_policy, kernel),
                        plan.io_policy,
                        "run the deploy; where the kernel refuses it, set g35_nvme.io_policy: round-robin",
                    )
                )
            if not item.namespaces and any(controller.live for controller in topology.of(nqn)):
                rescan = "; then: nvme ns-rescan /dev/%s" % item.controllers[0] if item.controllers else ""
                found.append(
                    Finding(
                        "connect.namespace",
                        nqn,
                        "live, but it shows no namespace",
                        "its namespace",
                        "enable the namespace on the box (g35ctl deploy --only target)" + rescan,
                    )
                )
    return found


def queue_findings(host: Host, plan: ConnectPlan, judgement: Judgement) -> List[Finding]:
    """What was agreed at connect time and can only change with a new connection: warnings, not failures."""
    found: List[Finding] = []
    queues = min(plan.io_queues, online_cpus(host)) + 1
    for path, item in judgement.live:
        agreed = (
            ("I/O and admin queues", item.queue_count, queues),
            ("queue size", item.sqsize + 1 if item.sqsize >= 0 else -1, plan.queue_size),
            ("keep-alive, seconds", item.keep_alive, plan.keep_alive),
        )
        for what, have, wanted in agreed:
            if have not in (-1, wanted):
                found.append(
                    Finding(
                        "connect.queues",
                        label(path),
                        "%s %d" % (what, have),
                        "%s %d" % (what, wanted),
                        "the target limits it, or it holds from the next connect on",
                        "warning",
                    )
                )
    return found


def online_cpus(host: Host) -> int:
    """Number of CPUs online; the kernel caps I/O queues at it."""
    total = 0
    for part in (host.read_value("/sys/devices/system/cpu/online") or "0").split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def _portal(path: ConnectPath) -> str:
    return "rail %s: %s" % (path.rail, route_label(path))


def _remedy(path: ConnectPath, words: str) -> str:
    if "not allowed" in words:
        return "allow this host's NQN on the box for this subsystem (g35ctl deploy --only target)"
    # nvme-cli takes a box that asks for in-band authentication for one that wants TLS.
    if "pre-shared TLS key" in words or "authentication setup failed" in words:
        return "the box asks this host to authenticate: set g35_nvme.authentication, or take the key off the box"
    if "TLS handshake" in words:
        return (
            "give both ends the same key: g35ctl deploy --only target --only connect; why: journalctl -u tlshd, there"
        )
    if "authentication failed" in words or "auth_" in words:
        return "give box and host the same key: g35ctl deploy --only target --only connect"
    for symptom, remedy in _FIELD_REMEDIES:
        if symptom in words:
            return remedy
    if "invalid service ID" in words or "onnection refused" in words:
        return "the box answers, but nothing listens on %s:%d: export it (g35ctl deploy --only target)" % (
            path.address,
            path.port,
        )
    if "Identify Controller failed" in words or "QID 0 timeout" in words:
        # The connection stands, for that takes small packets only; the first answer of 4 KiB never came.
        return (
            "the box accepts the connection but its large answers are lost: an MTU on rail %s is too small"
            " (g35ctl deploy --only target --only fabric; then ping -M do -s 4150 -I %s %s)"
            % (path.rail, path.source_address, path.address)
        )
    if "found same host" in words:
        return "one hostnqn per hostid: disconnect the controller that uses the other pair (docs/connect.md, identity)"
    return "check rail %s: link and cable of %s, the switch port, and that the box listens on %s:%d (ping -I %s %s)" % (
        path.rail,
        path.netdev,
        path.address,
        path.port,
        path.source_address,
        path.address,
    )
