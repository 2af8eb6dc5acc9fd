"""NVIDIA ConnectX (mlx5): congestion notification, ECN, and what the firmware decides.

The driver takes DSCP entries only, and any DSCP without an entry belongs to priority DSCP/8. Congestion control is in
debugfs with the kernel's own driver and in sysfs with the vendor's; the firmware's words count where neither is there.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from .converge import Finding
from .nic import Family, Nic, Setting, attribute, number

_WORDS = ("CNP_DSCP_P1", "CNP_802P_PRIO_P1", "ROCE_CC_PRIO_MASK_P1")


def _vendor(nic: Nic) -> str:
    return "/sys/class/net/%s/ecn" % nic.netdev


def _kernel(nic: Nic) -> str:
    return "/sys/kernel/debug/mlx5/%s/cc_params" % nic.pci


def settings(nic: Nic) -> List[Setting]:
    """DSCP and priority of the notifications this NIC sends; with the vendor's driver also ECN's two ends."""
    contract = nic.contract
    base = _vendor(nic)
    if nic.host.exists(base):
        return [
            attribute(nic, "ecn_notification", "%s/roce_np/enable/%d" % (base, contract.priority), 1),
            attribute(nic, "ecn_reaction", "%s/roce_rp/enable/%d" % (base, contract.priority), 1),
            attribute(nic, "cnp_dscp", base + "/roce_np/cnp_dscp", contract.cnp_dscp),
            attribute(nic, "cnp_priority", base + "/roce_np/cnp_802p_prio", contract.cnp_priority),
        ]
    base = _kernel(nic)
    if not nic.pci or not nic.host.exists(base):
        return []
    priority = attribute(nic, "cnp_priority", base + "/np_cnp_prio", contract.cnp_priority)

    def read() -> Optional[str]:
        # In another mode than 0 the number in np_cnp_prio is not used; writing it sets mode 0.
        mode = number(nic.host.read_value(base + "/np_cnp_prio_mode"))
        return priority.read() if mode in (None, "0") else "mode %s" % mode

    return [
        attribute(nic, "cnp_dscp", base + "/np_cnp_dscp", contract.cnp_dscp),
        Setting(priority.key, priority.want, read, priority.write),
    ]


def facts(nic: Nic) -> Dict[str, Any]:
    """``traffic_class`` forced on every connection (vendor's driver), and the firmware's words where they count."""
    found: Dict[str, Any] = {}
    text = nic.host.read_value("/sys/class/infiniband/%s/tc/1/traffic_class" % nic.device) if nic.device else None
    match = re.search(r"Global tclass=(\d+)", text or "")
    if match:
        found["traffic_class"] = int(match.group(1))
    if nic.pci and not nic.host.exists(_vendor(nic)) and not nic.host.exists(_kernel(nic)):
        found["firmware"] = firmware_words(nic)
    return found


def firmware_words(nic: Nic) -> Dict[str, int]:
    """The words of congestion control that the firmware starts with; empty where mstconfig is not installed."""
    result = nic.host.run(["mstconfig", "-d", nic.pci, "query"] + list(_WORDS))
    if not result.ok:
        return {}
    pairs = re.findall(r"^\s*(%s)\s+(?:\w+\()?(\d+)\)?\s*$" % "|".join(_WORDS), result.out, re.MULTILINE)
    return {word: int(value) for word, value in pairs}


def findings(nic: Nic, seen: Dict[str, Any]) -> List[Finding]:
    """A traffic class that overrides the contract (error), firmware words that differ (warning)."""
    found = []
    forced = seen.get("traffic_class")
    if forced is not None and forced != nic.tos:
        path = "/sys/class/infiniband/%s/tc/1/traffic_class" % nic.device
        found.append(
            Finding("fabric.traffic_class", nic.netdev, "%d forced on every connection" % forced,
                    "none, or %d" % nic.tos, "echo 0 > %s, and remove what sets it at boot" % path)
        )  # fmt: skip
    contract, words = nic.contract, seen.get("firmware", {})
    want = {"CNP_DSCP_P1": contract.cnp_dscp, "CNP_802P_PRIO_P1": contract.cnp_priority}
    wrong = {word: value for word, value in want.items() if words.get(word, value) != value}
    mask = words.get("ROCE_CC_PRIO_MASK_P1")
    if mask is not None and not mask >> contract.priority & 1:
        wrong["ROCE_CC_PRIO_MASK_P1"] = mask | 1 << contract.priority
    if wrong:
        have = " ".join("%s=%d" % (word, words[word]) for word in wrong)
        text = " ".join("%s=%d" % pair for pair in wrong.items())
        found.append(
            Finding("fabric.firmware", "%s (%s)" % (nic.netdev, nic.pci), have, text,
                    "mstconfig -d %s set %s, then power-cycle the host" % (nic.pci, text), "warning")
        )  # fmt: skip
    return found


FAMILY = Family("mlx5", ("mlx5_core",), True, True, settings, facts, findings)
