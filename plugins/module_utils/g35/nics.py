"""The families of NICs that are known, by driver, and which tool sets a given NIC."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Dict, List, Optional, Tuple

from . import dcb, mlnx_qos, nic_bnxt, nic_irdma, nic_mlx5
from .converge import Finding
from .nic import GENERIC, Family, Nic, Setting, ethtool_settings, roce_enabled, slot_facts, slot_findings

FAMILIES = (nic_mlx5.FAMILY, nic_bnxt.FAMILY, nic_irdma.FAMILY)


def family_of(driver: str) -> Family:
    """The family of a driver; GENERIC for any other."""
    return next((item for item in FAMILIES if driver in item.drivers), GENERIC)


class QosTool:
    """What sets DCB on a NIC: the functions that :mod:`.dcb` and :mod:`.mlnx_qos` have in common."""

    def __init__(self, module: ModuleType) -> None:
        self.name: str = module.NAME
        self.read = module.read
        self.take_over = module.take_over
        self.trust_dscp = module.trust_dscp
        self.set_pfc = module.set_pfc
        self.clear_pfc = module.clear_pfc
        self.set_ets = module.set_ets
        self.set_dscp = module.set_dscp
        self.forget_dscp = module.forget_dscp


def tool_of(nic: Nic) -> QosTool:
    """``mlnx_qos`` where the vendor's driver keeps DCB in sysfs or ``dcb`` is not installed, otherwise ``dcb``."""
    host = nic.host
    if family_of(nic.driver).vendor_tool:
        vendor = any(host.exists("/sys/class/net/%s/%s" % (nic.netdev, name)) for name in ("qos", "ecn"))
        if (vendor or host.run(["dcb", "-V"]).code == 127) and mlnx_qos.is_installed(host):
            return QosTool(mlnx_qos)
    return QosTool(dcb)


def settings_of(nic: Nic, rdma: bool) -> List[Setting]:
    """The settings of a NIC beyond DCB: its family's with RDMA, and ethtool's."""
    family = list(family_of(nic.driver).settings(nic)) if rdma else []
    return family + ethtool_settings(nic)


def facts_of(nic: Nic, tool: Optional[QosTool]) -> Dict[str, Any]:
    """What is reported of a NIC: family, driver, tool, slot, whether RoCE is on, and what its family adds."""
    family = family_of(nic.driver)
    facts: Dict[str, Any] = {"driver": nic.driver, "family": family.name, "tool": tool.name if tool else ""}
    if family is GENERIC:
        return facts
    facts.update(slot_facts(nic), pci=nic.pci, roce=roce_enabled(nic))
    facts.update(family.facts(nic))
    return facts


def findings_of(nic: Nic, facts: Dict[str, Any]) -> List[Finding]:
    """Judgement of the facts."""
    family = family_of(nic.driver)
    return [] if family is GENERIC else slot_findings(nic, facts) + family.findings(nic, facts)


#: what must travel with the fabric stage to a host's boot unit
MODULES: Tuple[str, ...] = ("dcb", "mlnx_qos", "network", "nic", "nic_bnxt", "nic_irdma", "nic_mlx5", "nics", "rdma")
