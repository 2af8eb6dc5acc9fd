"""Functional checks of the RoCE settings: what each data port reads back equals the traffic contract."""

from __future__ import annotations

from collections.abc import Iterator

from ansible.module_utils.g35.dcb import Contract, Ets, ets_holds
from ansible.module_utils.g35.plans import FabricPlan, FabricPort

from g35ctl.observe.model import DcbSettings, Port
from g35ctl.validate.judging import Judging, listed
from g35ctl.verdict import Verdict

_REMEDY = "run: g35ctl deploy --only fabric (--only target on a box); then see what else configures this NIC"


def judge(judging: Judging) -> Iterator[Verdict]:
    """MTU of every data port; with RDMA also ToS, PFC, DSCP map and ETS."""
    for host in judging.plan.hosts:
        if host.fabric is None:
            continue
        missing = judging.missing("fabric", host.name)
        found = {port.netdev: port for port in judging.readings.ports.get(host.name, ())}
        for planned in host.fabric.ports:
            yield from _port(judging, host.name, host.fabric, planned, found.get(planned.netdev), missing)


def _port(
    judging: Judging, host: str, plan: FabricPlan, planned: FabricPort, port: Port | None, missing: str
) -> Iterator[Verdict]:
    contract = Contract(plan.dscp, plan.priority, plan.cnp_dscp, plan.cnp_priority, plan.bandwidth_percent)
    expected = {"fabric.mtu": str(planned.mtu)}
    if plan.transport == "rdma":
        expected |= {
            "fabric.tos": str(plan.tos),
            "fabric.pfc": f"priority {plan.priority} only",
            "fabric.dscp": _dscp(contract.dscp_map),
            "fabric.ets": f"{plan.bandwidth_percent} % for priority {plan.priority}, "
            f"priority {plan.cnp_priority} strict",
        }
    for check, wanted in expected.items():
        subject = planned.netdev
        if missing:
            yield judging.skip(check, missing, wanted, host=host, subject=subject)
        elif port is None:
            yield judging.verdict(
                check, False, "the port was not read", wanted, host=host, subject=subject, remedy=_REMEDY
            )
        elif check == "fabric.mtu":
            told = "the device does not exist" if port.mtu is None else str(port.mtu)
            yield judging.verdict(
                check, port.mtu == planned.mtu, told, wanted, host=host, subject=subject, remedy=_REMEDY
            )
        elif check == "fabric.tos":
            yield _tos(judging, host, plan, port, wanted)
        else:
            yield _dcb_check(judging, host, plan, contract, port, check, wanted)


def _tos(judging: Judging, host: str, plan: FabricPlan, port: Port, wanted: str) -> Verdict:
    told = str(port.tos) if port.tos is not None else "not readable"
    if not port.rdma_device:
        told = "the port has no RDMA device"
    return judging.verdict(
        "fabric.tos", port.tos == plan.tos, told, wanted, host=host, subject=port.netdev, remedy=_REMEDY
    )


def _dcb_check(
    judging: Judging, host: str, plan: FabricPlan, contract: Contract, port: Port, check: str, wanted: str
) -> Verdict:
    if port.dcb is None:
        told = port.dcb_error or "the NIC has no DCB"
        if plan.lossless == "unavailable" and not port.dcb_error:
            reason = f"{told}, which the site accepts (g35_fabric.lossless: unavailable)"
            return judging.skip(check, reason, wanted, host=host, subject=port.netdev)
        remedy = "use NICs with DCB and see `dcb pfc show dev " + port.netdev + "`, or accept it by name with "
        remedy += "g35_fabric.lossless: unavailable"
        return judging.verdict(check, False, told, wanted, host=host, subject=port.netdev, remedy=remedy)
    holds, told = {"fabric.pfc": _pfc, "fabric.dscp": _map, "fabric.ets": _ets}[check](contract, port.dcb)
    return judging.verdict(check, holds, told, wanted, host=host, subject=port.netdev, remedy=_REMEDY)


def _pfc(contract: Contract, dcb: DcbSettings) -> tuple[bool, str]:
    if dcb.pfc == (contract.priority,):
        return True, f"priority {contract.priority} only"
    return False, f"priorities {listed(dcb.pfc)}"


def _map(contract: Contract, dcb: DcbSettings) -> tuple[bool, str]:
    holds = not contract.missing(dcb.dscp) and not contract.contradicting(dcb.dscp)
    return holds, _dscp(dcb.dscp)


def _ets(contract: Contract, dcb: DcbSettings) -> tuple[bool, str]:
    have = Ets(dcb.ets_priorities, dcb.ets_selection, dcb.ets_bandwidth) if dcb.ets_selection else None
    want = contract.ets(dcb.classes)
    if have is None:
        return False, "the NIC has no ETS"
    told = f"priority to class {' '.join(map(str, have.priorities))}; classes " + listed(
        f"{name} {percent} %" if name == "ets" else name
        for name, percent in list(zip(have.selection, have.bandwidth, strict=False))[: dcb.classes]
    )
    if want is None:
        return False, f"{told}; at least three traffic classes are needed"
    return ets_holds(want, have, dcb.classes), told


def _dscp(entries: object) -> str:
    assert isinstance(entries, (tuple, frozenset))
    return ", ".join(f"{dscp} to priority {priority}" for dscp, priority in sorted(entries)) or "none"
