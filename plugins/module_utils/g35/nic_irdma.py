"""Intel E810 (ice with irdma): the firmware's LLDP agent must be off, or it owns DCB.

Notifications and ECN are the RDMA driver's own: the kernel has no setting for them, so they are reported.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from .nic import Family, Nic, Setting

_FLAG = "fw-lldp-agent"


def settings(nic: Nic) -> List[Setting]:
    """The LLDP agent off, before anything of DCB. The NIC keeps it over reboots and restarts DCB when it changes."""

    def read() -> Optional[str]:
        result = nic.host.run(["ethtool", "--show-priv-flags", nic.netdev])
        match = re.search(r"^%s\s*:\s*(on|off)\s*$" % _FLAG, result.out, re.MULTILINE)
        return match.group(1) if result.ok and match else None

    def write() -> None:
        nic.host.must(["ethtool", "--set-priv-flags", nic.netdev, _FLAG, "off"])

    return [Setting("fw_lldp_agent", "off", read, write, "DCB restart on %s" % nic.netdev, early=True)]


def facts(nic: Nic) -> Dict[str, Any]:
    """How congestion control is set."""
    return {"congestion_control": "driver default"}


FAMILY = Family("irdma", ("ice",), settings=settings, facts=facts)
