"""One data port of the fabric stage: what it is, what must change, and in which order.

Everything is read first and only what differs is written: NICs retrain their link even when they are told the PFC
settings they already have.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

from . import dcb, network, nic, nics, rdma
from .converge import Change, Finding
from .host import Host
from .plans import FabricPlan, FabricPort
from .schema import load


class DataPort:
    """A port of a FabricPlan on its host."""

    def __init__(self, host: Host, plan: FabricPlan, port: FabricPort) -> None:
        self.host = host
        self.plan = plan
        self.port = port
        self.name = port.netdev
        self.rdma = plan.transport == "rdma"
        # What read has just seen, so that the preflight of the same apply need not ask again.
        self._seen: Optional[dcb.DcbState] = None
        self.identify()

    def identify(self) -> None:
        """Look which NIC this is; devices may have appeared since the last look."""
        plan = self.plan
        family = nics.family_of(nic.driver_of(self.host, self.name))
        self.contract = dcb.Contract(
            plan.dscp, plan.priority, plan.cnp_dscp, plan.cnp_priority, plan.bandwidth_percent, family.blocks
        )
        self.nic = nic.identify(self.host, self.name, self.contract, plan.tos, plan.tuning)
        self.tool = nics.tool_of(self.nic)
        self.settings = nics.settings_of(self.nic, self.rdma)

    # reading

    def read(self, sessions: List[str]) -> Dict[str, Any]:
        """The port's state. ``sessions`` are the peers of this host's NVMe-oF target, if it has one."""
        base = "/sys/class/net/%s" % self.name
        address = self.port.address
        mtu = self.host.read_value(base + "/mtu")
        here = [session for session in sessions if session.endswith(" -> %s" % address)]
        state: Dict[str, Any] = {
            "mtu": int(mtu) if mtu else None,
            "carrier": self.host.read_value(base + "/carrier") == "1",
            "live": network.live_controllers(self.host, address) + here,
            "settings": {},
            "nic": {},
        }
        if mtu is None:
            return state
        self.identify()
        state["settings"] = {item.key: item.read() for item in self.settings}
        state["nic"] = nics.facts_of(self.nic, self.tool if self.rdma else None)
        if not self.rdma:
            return state
        state["pause"] = dcb.read_pause(self.host, self.name)
        try:
            self._seen = self.tool.read(self.host, self.name)
            state["dcb"] = self._seen.plain() if self._seen else None
        except dcb.DcbError as error:
            state["dcb_error"] = str(error)
        device = self.nic.device or None
        state["rdma_device"] = device
        if device:
            defaults = rdma.read_cm_defaults(self.host, device)
            state["path_mtu"] = rdma.active_mtu(self.host, device)
            state["tos"], state["roce_mode"] = defaults.tos, defaults.mode
        return state

    # judging

    def preflight(self, addresses: Dict[str, Set[str]]) -> List[Finding]:
        """What would stop an apply; ``addresses`` are the host's, by network device."""
        where = self.name
        if not self.host.exists("/sys/class/net/%s" % where):
            have = ", ".join(name for name in self.host.list("/sys/class/net") if name != "lo") or "none"
            return [
                Finding("fabric.netdev", where, "absent (there are: %s)" % have, "present",
                        "correct g35_ports in the inventory, or the NIC's name or driver on the host")
            ]  # fmt: skip
        found = []
        wanted = "%s/%d" % (self.port.address, self.port.prefix_length)
        have_here = sorted(addresses.get(where, set()))
        if wanted not in have_here:
            found.append(
                Finding("fabric.address", where, ", ".join(have_here) or "no address", wanted,
                        "configure the address with the host's own network configuration")
            )  # fmt: skip
        if not self.rdma:
            return found
        if rdma.device_of(self.host, where) is None:
            found.append(
                Finding("fabric.rdma_device", where, "none", "an RDMA device",
                        "load the NIC's RDMA driver (or correct g35_ports); see: rdma link")
            )  # fmt: skip
        try:
            state = self._seen or self.tool.read(self.host, where)
        except dcb.DcbError as error:
            found.append(
                Finding("fabric.dcb", where, str(error), "readable DCB settings", "install iproute2 with dcb (5.11)")
            )
            return found
        if state is None:
            found.append(self._no_dcb())
        return found

    def _no_dcb(self) -> Finding:
        return Finding(
            "fabric.lossless", self.name, "unavailable: the NIC has no DCB", "PFC and ETS",
            "use NICs with DCB, or accept it by name with g35_fabric.lossless: unavailable",
            "error" if self.plan.lossless == "required" else "info",
        )  # fmt: skip

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        """Judgement of the state that read returned."""
        name = self.name
        if state["mtu"] is None:
            return [differs("fabric.netdev", name, "absent", "present")]
        checks: List[Any] = [("mtu", state["mtu"], self.port.mtu), ("carrier", state["carrier"], True)]
        checks += [(item.key, have, item.want) for item, have in self._wrong_settings(state)]
        if self.rdma:
            if state.get("dcb_error"):
                return [differs("fabric.dcb", name, state["dcb_error"], "readable DCB settings")]
            device = state.get("rdma_device")
            checks += [("rdma_device", device or "none", device or "an RDMA device")]
            if device:
                checks += [("tos", state["tos"], self.plan.tos), ("roce_mode", state["roce_mode"], rdma.ROCE_MODE)]
            if device and state["path_mtu"] is not None:
                checks += [("path_mtu", state["path_mtu"], rdma.path_mtu_of(self.port.mtu))]
            if state["dcb"]:
                checks += self._dcb_checks(load(dcb.DcbState, state["dcb"]))
                checks += [("pause", "on" if state["pause"] else "off", "off")]
        found = [differs("fabric." + check, name, have, want) for check, have, want in checks if have != want]
        if self.rdma:
            found += nics.findings_of(self.nic, state["nic"])
            found += [self._no_dcb()] if state["dcb"] is None else self._buffer_findings(state["dcb"])
        return found

    def _wrong_settings(self, state: Dict[str, Any]) -> "Iterable[tuple[nic.Setting, str]]":
        for item in self.settings:
            have = state["settings"].get(item.key)
            if have is not None and have != item.want:
                yield item, have

    def _dcb_checks(self, have: dcb.DcbState) -> List[Any]:
        checks: List[Any] = [("pfc", list(have.pfc), [self.plan.priority])]
        if have.trust is not None:
            checks.append(("trust", have.trust, "dscp"))
        if self.contract.missing(have.dscp) or self.contract.contradicting(have.dscp):
            checks.append(("dscp", dscp_text(have.dscp), dscp_text(self.contract.dscp_map)))
        want = self.contract.ets(have.classes)
        if have.ets is not None and (want is None or not dcb.ets_holds(want, have.ets, have.classes)):
            checks.append(("ets", ets_text(have.ets), ets_text(want)))
        if have.dcbx is not None and not {"host", "ieee"} <= set(have.dcbx):
            checks.append(("dcbx", " ".join(have.dcbx) or "off", "host ieee"))
        return checks

    def _buffer_findings(self, state: Dict[str, Any]) -> List[Finding]:
        """Drivers give the lossless priority a receive buffer of its own when PFC is set; unless somebody took over."""
        buffers, priority = state.get("buffers"), self.plan.priority
        if not buffers or state["pfc"] != [priority]:
            return []
        sharing = [index for index, buffer in enumerate(buffers) if buffer == buffers[priority] and index != priority]
        if not sharing:
            return []
        return [
            Finding("fabric.buffer", self.name, "priority %d shares its receive buffer with %s" % (
                        priority, list_text(sharing)), "a receive buffer of its own",
                    "remove what sets prio-buffer (dcb buffer show dev %s): the driver sizes them" % self.name,
                    "warning")
        ]  # fmt: skip

    # changing

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        """The differences, in the order in which they must be made."""
        if state["mtu"] is None:
            return []
        name = self.name
        todo: List[Change] = []
        if state["mtu"] != self.port.mtu:
            argv = ["ip", "link", "set", "dev", name, "mtu", str(self.port.mtu)]
            todo.append(
                Change("mtu of %s" % name, str(state["mtu"]), str(self.port.mtu), self._command(argv),
                       interrupts("MTU change on %s" % name, state))
            )  # fmt: skip
        todo += self._setting_changes(state, early=True)
        if self.rdma and state.get("dcb"):
            todo += self._dcb_changes(load(dcb.DcbState, state["dcb"]), state)
        todo += self._setting_changes(state, early=False)
        device = state.get("rdma_device")
        if device and (state["tos"], state["roce_mode"]) != (self.plan.tos, rdma.ROCE_MODE):
            todo.append(
                Change(
                    "rdma_cm defaults of %s" % device,
                    "ToS %s, %s" % (state["tos"], state["roce_mode"] or "mode not read"),
                    "ToS %d, %s" % (self.plan.tos, rdma.ROCE_MODE),
                    functools.partial(rdma.write_cm_defaults, self.host, device, self.plan.tos),
                )
            )
        return todo

    def _command(self, argv: List[str]) -> Callable[[], None]:
        def run() -> None:
            self.host.must(argv)

        return run

    def _setting_changes(self, state: Dict[str, Any], early: bool) -> List[Change]:
        return [
            Change("%s of %s" % (item.key, self.name), have, item.want, item.write,
                   interrupts(item.interrupts, state) if item.interrupts else "")
            for item, have in self._wrong_settings(state) if item.early == early
        ]  # fmt: skip

    def _dcb_changes(self, have: dcb.DcbState, state: Dict[str, Any]) -> List[Change]:
        todo: List[Change] = []
        host, contract, name, tool = self.host, self.contract, self.name, self.tool
        if state["pause"]:
            todo.append(Change("global pause of %s" % name, "on", "off", lambda: dcb.pause_off(host, name),
                               interrupts("global pause change on %s" % name, state)))  # fmt: skip
        if have.dcbx is not None and not {"host", "ieee"} <= set(have.dcbx):
            todo.append(
                Change("dcbx of %s" % name, " ".join(have.dcbx), "host ieee", lambda: tool.take_over(host, name))
            )
        want = contract.ets(have.classes)
        if have.ets is not None and want is not None and not dcb.ets_holds(want, have.ets, have.classes):
            todo.append(
                Change("ets of %s" % name, ets_text(have.ets), ets_text(want),
                       lambda: tool.set_ets(host, name, want, have.classes))
            )  # fmt: skip
        if have.trust is not None and have.trust != "dscp":
            todo.append(Change("trust of %s" % name, have.trust, "dscp", lambda: tool.trust_dscp(host, name)))
        if contract.missing(have.dscp) or contract.contradicting(have.dscp):
            todo.append(
                Change("dscp map of %s" % name, dscp_text(have.dscp), dscp_text(contract.dscp_map),
                       lambda: _told(tool.set_dscp, host, name, contract))
            )  # fmt: skip
        if have.pfc != (contract.priority,):
            todo.append(
                Change("pfc of %s" % name, list_text(have.pfc), str(contract.priority),
                       lambda: tool.set_pfc(host, name, contract.priority),
                       interrupts("link flap on %s by the PFC change" % name, state))
            )  # fmt: skip
        return todo

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """The contract's PFC, DSCP entries, ETS and ToS, and settings that mean nothing without them."""
        todo: List[Change] = []
        for item in self.settings:
            if item.undo is not None and state["settings"].get(item.key) == item.want:
                todo.append(Change("%s of %s" % (item.key, self.name), item.want, "none", item.undo))
        if state.get("dcb"):
            todo += self._dcb_removal(load(dcb.DcbState, state["dcb"]), state)
        device = state.get("rdma_device")
        if device and state["tos"] is not None:
            todo.append(Change("rdma_cm defaults of %s" % device, "ToS %s" % state["tos"], "ToS 0",
                               functools.partial(rdma.forget_cm_defaults, self.host, device)))  # fmt: skip
        return todo

    def _dcb_removal(self, have: dcb.DcbState, state: Dict[str, Any]) -> List[Change]:
        host, name, tool, contract = self.host, self.name, self.tool, self.contract
        todo: List[Change] = []
        if contract.priority in have.pfc:
            todo.append(Change("pfc of %s" % name, list_text(have.pfc), "off", lambda: tool.clear_pfc(host, name),
                               interrupts("link flap on %s by the PFC change" % name, state)))  # fmt: skip
        ours = sorted(contract.dscp_map & set(have.dscp))
        if ours:
            todo.append(Change("dscp map of %s" % name, dscp_text(ours), "without these",
                               lambda: _told(tool.forget_dscp, host, name, contract)))  # fmt: skip
        want = contract.ets(have.classes)
        if want is not None and dcb.ets_holds(want, have.ets, have.classes):
            strict = dcb.Ets(tuple(range(dcb.CLASSES)) if have.classes >= dcb.CLASSES else (0,) * dcb.CLASSES,
                             ("strict",) * dcb.CLASSES, (0,) * dcb.CLASSES)  # fmt: skip
            todo.append(Change("ets of %s" % name, ets_text(want), "strict",
                               lambda: tool.set_ets(host, name, strict, have.classes)))  # fmt: skip
        return todo


def _told(do: Callable[..., None], *arguments: Any) -> None:
    """A DCB error while changing is told like any other failed change."""
    try:
        do(*arguments)
    except dcb.DcbError as error:
        raise OSError(str(error)) from error


def interrupts(what: str, state: Dict[str, Any]) -> str:
    """The disruptive note of a change: empty unless something lives on the port."""
    live = state["live"]
    return "%s while live: %s" % (what, ", ".join(live)) if live else ""


def differs(check: str, subject: str, observed: Any, expected: Any) -> Finding:
    """A finding of a value that is not as planned."""
    return Finding(check, subject, list_text(observed), list_text(expected), "g35ctl deploy --only fabric")


def list_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)


def dscp_text(entries: Any) -> str:
    return " ".join("%d:%d" % entry for entry in sorted(entries)) or "none"


def ets_text(ets: Optional[dcb.Ets]) -> str:
    if ets is None:
        return "at least three traffic classes"
    classes = ("%s %d%%" % pair for pair in zip(ets.selection, ets.bandwidth))
    return "priorities %s; classes %s" % (" ".join(str(p) for p in ets.priorities), ", ".join(classes))
