"""Broadcom (bnxt): application entries for RoCE beside the DSCP map, and congestion control in configfs.

The driver takes entries only while the host is in charge of DCBX in IEEE mode, and hands three of them to the
firmware: DSCP, UDP port 4791 and Ethertype 0x8915. The vendor's driver has congestion control in configfs; the kernel's
own runs the firmware's default, which reacts to ECN.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from . import dcb
from .nic import Family, Nic, Setting, number

_CONFIGFS = "/sys/kernel/config/bnxt_re"
#: RoCE's UDP port and Ethertype, and how ``dcb app`` calls their selectors
_ENTRIES = (("app_udp_4791", "dgram-port-prio", 4791), ("app_ethertype_8915", "ethtype-prio", 0x8915))


def settings(nic: Nic) -> List[Setting]:
    """RoCE's application entries; with the vendor's driver also ECN, and DSCP and priority of the notifications."""
    found = [_entry(nic, *item) for item in _ENTRIES]
    if not nic.device or not nic.host.exists(_CONFIGFS):
        return found
    contract = nic.contract
    values = {"disable_prio_vlan_tx": 1, "ecn_marking": 1, "ecn_enable": 1, "cc_mode": 1}
    if not _firmware_owns_priorities(nic):
        values.update(
            roce_prio=contract.priority, cnp_prio=contract.cnp_priority,
            roce_dscp=contract.dscp, cnp_dscp=contract.cnp_dscp,
        )  # fmt: skip
    return found + [_congestion(nic, name, want) for name, want in values.items()]


def _entry(nic: Nic, key: str, selector: str, protocol: int) -> Setting:
    def read() -> Optional[str]:
        try:
            return " ".join(str(p) for p in dcb.app_priorities(nic.host, nic.netdev, selector, protocol)) or "none"
        except dcb.DcbError:
            return None

    def write(priority: Optional[int]) -> None:
        try:
            dcb.set_app(nic.host, nic.netdev, selector, protocol, priority)
        except dcb.DcbError as error:
            raise OSError(str(error)) from error

    want = nic.contract.priority
    return Setting(key, str(want), read, lambda: write(want), undo=lambda: write(None))


def _congestion(nic: Nic, name: str, want: int) -> Setting:
    directory = "%s/%s" % (_CONFIGFS, nic.device)
    path = "%s/ports/1/cc/%s" % (directory, name)

    def read() -> Optional[str]:
        if not nic.host.exists(directory):
            return "not read"
        return number(nic.host.read_value(path))

    def write() -> None:
        # Left there, so that reading needs no writing.
        nic.host.make_directory(directory)
        if nic.host.exists(path):
            nic.host.write_attribute(path, str(want))
            nic.host.write_attribute("%s/ports/1/cc/apply" % directory, "1")

    return Setting("cc_" + name, str(want), read, write)


def _firmware_owns_priorities(nic: Nic) -> bool:
    """Whether the firmware has a service profile for notifications; then it takes their marking from the DSCP map."""
    text = nic.host.read("/sys/kernel/debug/bnxt_re/%s/info" % nic.device) or ""
    match = re.search(r"fw_service_prof_type_sup\s*[:=]?\s*(\d+)", text)
    return bool(match and match.group(1) == "1")


def facts(nic: Nic) -> Dict[str, Any]:
    """Where congestion control is configured."""
    return {"congestion_control": "configfs" if nic.host.exists(_CONFIGFS) else "firmware default"}


FAMILY = Family("bnxt", ("bnxt_en",), settings=settings, facts=facts)
