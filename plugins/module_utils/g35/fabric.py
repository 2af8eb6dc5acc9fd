"""The fabric stage: a host's data ports carry RoCE traffic as the traffic contract says.

MTU, global pause, DCB (DCBX, ETS, DSCP map, PFC), rdma_cm's defaults and kernel parameters. All of it is volatile, so
a unit bound to each device applies it again at boot and after a hot reset. Nothing that already holds is written: NICs
retrain their link when told the PFC settings they already have.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict, List, Optional, Set

from . import dcb, network, rdma
from .converge import Change, Finding, Stage
from .host import Host
from .managed import boot_files, file_changes, removal_changes, unit_changes, unit_findings
from .plans import FabricPlan, FabricPort
from .schema import load

#: kernel modules of the RDMA connection manager and of user-space verbs
MODULES = ("rdma_cm", "rdma_ucm", "ib_uverbs")
#: how long a boot unit waits for devices and addresses, seconds
BOOT_WAIT = 120.0
_SYSCTL = "/etc/sysctl.d/"


class FabricStage(Stage):
    """Applies a FabricPlan. ``wait`` is how long the first read waits for what must appear by itself, seconds."""

    name = "fabric"
    #: a link that PFC or MTU made retrain needs a moment to come back
    settle_seconds = 20.0

    def __init__(self, host: Host, plan: FabricPlan, boots: bool = True, wait: float = 0.0) -> None:
        super().__init__(host)
        self.plan = plan
        self.wait = wait
        # What read has just seen, so that the preflight of the same apply need not ask again.
        self._dcb_seen: Dict[str, dcb.DcbState] = {}
        self._lldpad_seen: Optional[bool] = None
        self.rdma = plan.transport == "rdma"
        self.files = plan.files + (boot_files("fabric", plan, ("dcb", "network", "rdma", "fabric")) if boots else ())
        self.contract = dcb.Contract(plan.dscp, plan.priority, plan.cnp_dscp, plan.cnp_priority, plan.bandwidth_percent)

    # reading

    def read(self) -> Dict[str, Any]:
        """``ports`` by network device, ``modules`` loaded, ``sysctl`` values, and ``lldpad`` running or not."""
        self._await()
        modules = [name for name in MODULES if self.host.exists("/sys/module/%s" % name)] if self.rdma else []
        self._lldpad_seen = self._lldpad() if self.rdma else False
        sessions = network.target_sessions(self.host, [port.address for port in self.plan.ports])
        return {
            "ports": {port.netdev: self._read_port(port, sessions) for port in self.plan.ports},
            "modules": modules,
            "sysctl": {key: self.host.read_value(_proc(key)) or "" for key in self._sysctls()},
            "lldpad": self._lldpad_seen,
        }

    def _read_port(self, port: FabricPort, sessions: List[str]) -> Dict[str, Any]:
        base = "/sys/class/net/%s" % port.netdev
        mtu = self.host.read_value(base + "/mtu")
        here = [session for session in sessions if session.endswith(" -> %s" % port.address)]
        state: Dict[str, Any] = {
            "mtu": int(mtu) if mtu else None,
            "carrier": self.host.read_value(base + "/carrier") == "1",
            "live": network.live_controllers(self.host, port.address) + here,
        }
        if not self.rdma or mtu is None:
            return state
        state["pause"] = dcb.read_pause(self.host, port.netdev)
        try:
            found = dcb.read(self.host, port.netdev)
            state["dcb"] = found.plain() if found else None
            if found:
                self._dcb_seen[port.netdev] = found
        except dcb.DcbError as error:
            state["dcb_error"] = str(error)
        device = rdma.device_of(self.host, port.netdev)
        state["rdma_device"] = device
        if device:
            defaults = rdma.read_cm_defaults(self.host, device)
            state["path_mtu"] = rdma.active_mtu(self.host, device)
            state["tos"], state["roce_mode"] = defaults.tos, defaults.mode
        return state

    def _lldpad(self) -> bool:
        return self.host.run(["systemctl", "is-active", "--quiet", "lldpad.service"]).ok

    def _sysctls(self) -> Dict[str, str]:
        """Kernel parameters of our files, by name."""
        found = {}
        for item in self.plan.files:
            if item.path.startswith(_SYSCTL):
                for line in item.content.splitlines():
                    key, equals, value = line.partition("=")
                    if equals and not line.lstrip().startswith(("#", ";")):
                        found[key.strip()] = value.strip()
        return found

    def _await(self) -> None:
        """At boot, give devices and addresses time to appear before anything is read."""
        seconds, self.wait = self.wait, 0.0
        if seconds:
            self.host.wait_until(
                lambda: not [item for item in self.preflight() if item.severity == "error"], seconds, interval=1.0
            )

    # judging

    def preflight(self) -> List[Finding]:
        found: List[Finding] = []
        addresses = network.addresses_of(self.host)
        for port in self.plan.ports:
            found += self._preflight_port(port, addresses)
        if not self.rdma:
            return found
        for module in MODULES:
            loaded = self.host.exists("/sys/module/%s" % module)
            if not loaded and not self.host.run(["modinfo", "-F", "filename", module]).ok:
                found.append(
                    Finding("fabric.module", module, "not available", "a kernel with RDMA",
                            "install the kernel's module package (or the NIC vendor's driver) and reboot")
                )  # fmt: skip
        problem = self.contract.problem()
        if problem:
            found.append(
                Finding("fabric.ets", "g35_fabric.traffic", problem, "at least 1 % for each",
                        "lower g35_fabric.traffic.bandwidth_percent to 94 or less")
            )  # fmt: skip
        return found + self._lldpad_findings(self._lldpad() if self._lldpad_seen is None else self._lldpad_seen)

    def _preflight_port(self, port: FabricPort, addresses: Dict[str, Set[str]]) -> List[Finding]:
        where = port.netdev
        if not self.host.exists("/sys/class/net/%s" % where):
            have = ", ".join(name for name in self.host.list("/sys/class/net") if name != "lo") or "none"
            return [
                Finding("fabric.netdev", where, "absent (there are: %s)" % have, "present",
                        "correct g35_ports in the inventory, or the NIC's name or driver on the host")
            ]  # fmt: skip
        found = []
        wanted = "%s/%d" % (port.address, port.prefix_length)
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
            state = self._dcb_seen.get(where) or dcb.read(self.host, where)
        except dcb.DcbError as error:
            found.append(
                Finding("fabric.dcb", where, str(error), "readable DCB settings", "install iproute2 with dcb (5.11)")
            )
            return found
        if state is None:
            found.append(self._no_dcb(where))
        return found

    def _no_dcb(self, netdev: str) -> Finding:
        return Finding(
            "fabric.lossless", netdev, "unavailable: the NIC has no DCB", "PFC and ETS",
            "use NICs with DCB, or accept it by name with g35_fabric.lossless: unavailable",
            "error" if self.plan.lossless == "required" else "info",
        )  # fmt: skip

    def _lldpad_findings(self, running: bool) -> List[Finding]:
        if not running:
            return []
        return [
            Finding("fabric.lldpad", "lldpad.service", "running", "not running: it overwrites DCB settings",
                    "systemctl disable --now lldpad.service lldpad.socket", "warning")
        ]  # fmt: skip

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        found: List[Finding] = []
        for port in self.plan.ports:
            found += self._port_findings(port, state["ports"][port.netdev])
        for key, value in self._sysctls().items():
            if state["sysctl"].get(key) != value:
                found.append(_differs("fabric.sysctl", key, state["sysctl"].get(key), value))
        for name in MODULES if self.rdma else ():
            if name not in state["modules"]:
                found.append(_differs("fabric.module", name, "not loaded", "loaded"))
        return found + self._lldpad_findings(state["lldpad"]) + unit_findings(self.host, self.plan.units, "fabric.unit")

    def _port_findings(self, port: FabricPort, state: Dict[str, Any]) -> List[Finding]:
        name = port.netdev
        if state["mtu"] is None:
            return [_differs("fabric.netdev", name, "absent", "present")]
        checks: List[Any] = [("mtu", state["mtu"], port.mtu), ("carrier", state["carrier"], True)]
        if self.rdma:
            if state.get("dcb_error"):
                return [_differs("fabric.dcb", name, state["dcb_error"], "readable DCB settings")]
            device = state.get("rdma_device")
            checks += [("rdma_device", device or "none", device or "an RDMA device")]
            if device:
                checks += [("tos", state["tos"], self.plan.tos), ("roce_mode", state["roce_mode"], rdma.ROCE_MODE)]
            if device and state["path_mtu"] is not None:
                checks += [("path_mtu", state["path_mtu"], rdma.path_mtu_of(port.mtu))]
            if state["dcb"]:
                checks += self._dcb_checks(state["dcb"])
                checks += [("pause", "on" if state["pause"] else "off", "off")]
        found = [_differs("fabric." + check, name, have, want) for check, have, want in checks if have != want]
        return found + ([self._no_dcb(name)] if self.rdma and state["dcb"] is None else [])

    def _dcb_checks(self, state: Dict[str, Any]) -> List[Any]:
        have = load(dcb.DcbState, state)
        checks: List[Any] = [("pfc", list(have.pfc), [self.plan.priority])]
        if self.contract.missing(have.dscp) or self.contract.contradicting(have.dscp):
            checks.append(("dscp", _dscp_text(have.dscp), _dscp_text(self.contract.dscp_map)))
        want = self.contract.ets(have.classes)
        if have.ets is not None and (want is None or not dcb.ets_holds(want, have.ets, have.classes)):
            checks.append(("ets", _ets_text(have.ets), _ets_text(want)))
        if have.dcbx is not None and not {"host", "ieee"} <= set(have.dcbx):
            checks.append(("dcbx", " ".join(have.dcbx) or "off", "host ieee"))
        return checks

    # changing

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        todo: List[Change] = []
        if self.rdma:
            for name in MODULES:
                if name not in state["modules"]:
                    todo.append(Change("module %s" % name, "not loaded", "loaded", self._modprobe(name)))
        for port in self.plan.ports:
            todo += self._port_changes(port, state["ports"][port.netdev])
        files = file_changes(self.host, self.files)
        todo += files
        for key, value in self._sysctls().items():
            if state["sysctl"].get(key) != value:
                todo.append(Change(key, state["sysctl"].get(key, ""), value, self._writer(_proc(key), value)))
        # Last, when everything already holds: starting the units then changes nothing but makes the boot safe.
        return todo + unit_changes(self.host, self.plan.units, [change.what for change in files])

    def _modprobe(self, name: str) -> Callable[[], None]:
        return lambda: _ignore(self.host.must(["modprobe", name]))

    def _writer(self, path: str, value: str) -> Callable[[], None]:
        return lambda: self.host.write_attribute(path, value)

    def _port_changes(self, port: FabricPort, state: Dict[str, Any]) -> List[Change]:
        if state["mtu"] is None:
            return []
        name = port.netdev
        todo: List[Change] = []
        if state["mtu"] != port.mtu:
            argv = ["ip", "link", "set", "dev", name, "mtu", str(port.mtu)]
            todo.append(
                Change("mtu of %s" % name, str(state["mtu"]), str(port.mtu), lambda: _ignore(self.host.must(argv)),
                       _interrupts("MTU change on %s" % name, state))
            )  # fmt: skip
        if not self.rdma:
            return todo
        if state.get("dcb"):
            todo += self._dcb_changes(name, load(dcb.DcbState, state["dcb"]), state)
        device = state.get("rdma_device")
        if device and (state["tos"], state["roce_mode"]) != (self.plan.tos, rdma.ROCE_MODE):
            todo.append(
                Change(
                    "rdma_cm defaults of %s" % device,
                    "ToS %s, %s" % (state["tos"], state["roce_mode"] or "mode not read"),
                    "ToS %d, %s" % (self.plan.tos, rdma.ROCE_MODE),
                    lambda: rdma.write_cm_defaults(self.host, device, self.plan.tos),
                )
            )
        return todo

    def _dcb_changes(self, name: str, have: dcb.DcbState, state: Dict[str, Any]) -> List[Change]:
        todo: List[Change] = []
        host, contract = self.host, self.contract
        if state["pause"]:
            todo.append(Change("global pause of %s" % name, "on", "off", lambda: dcb.pause_off(host, name),
                               _interrupts("global pause change on %s" % name, state)))  # fmt: skip
        if have.dcbx is not None and not {"host", "ieee"} <= set(have.dcbx):
            todo.append(
                Change("dcbx of %s" % name, " ".join(have.dcbx), "host ieee", lambda: dcb.take_over(host, name))
            )
        want = contract.ets(have.classes)
        if have.ets is not None and want is not None and not dcb.ets_holds(want, have.ets, have.classes):
            todo.append(
                Change("ets of %s" % name, _ets_text(have.ets), _ets_text(want),
                       lambda: dcb.set_ets(host, name, want, have.classes))
            )  # fmt: skip
        if contract.missing(have.dscp) or contract.contradicting(have.dscp):
            todo.append(
                Change("dscp map of %s" % name, _dscp_text(have.dscp), _dscp_text(contract.dscp_map),
                       lambda: self._set_dscp(name))
            )  # fmt: skip
        if have.pfc != (contract.priority,):
            todo.append(
                Change("pfc of %s" % name, _list_text(have.pfc), str(contract.priority),
                       lambda: dcb.set_pfc(host, name, contract.priority),
                       _interrupts("link flap on %s by the PFC change" % name, state))
            )  # fmt: skip
        return todo

    def _set_dscp(self, name: str) -> None:
        try:
            dcb.set_dscp(self.host, name, self.contract)
        except dcb.DcbError as error:
            raise OSError(str(error)) from error

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """Units and files, then the contract's PFC, DSCP entries, ETS and ToS. The MTU stays: others may rely on it."""
        todo = removal_changes(self.host, self.files, self.plan.units)
        for port in self.plan.ports if self.rdma else ():
            now = state["ports"][port.netdev]
            if now.get("dcb"):
                todo += self._dcb_removal(port.netdev, load(dcb.DcbState, now["dcb"]), now)
            device = now.get("rdma_device")
            if device and now["tos"] is not None:
                todo.append(Change("rdma_cm defaults of %s" % device, "ToS %s" % now["tos"], "ToS 0",
                                   _forgetter(self.host, device)))  # fmt: skip
        return todo

    def _dcb_removal(self, name: str, have: dcb.DcbState, state: Dict[str, Any]) -> List[Change]:
        host, todo = self.host, []
        if self.contract.priority in have.pfc:
            todo.append(Change("pfc of %s" % name, _list_text(have.pfc), "off", lambda: dcb.clear_pfc(host, name),
                               _interrupts("link flap on %s by the PFC change" % name, state)))  # fmt: skip
        ours = sorted(self.contract.dscp_map & set(have.dscp))
        if ours:
            todo.append(Change("dscp map of %s" % name, _dscp_text(ours), "without these",
                               lambda: dcb.delete_dscp(host, name, ours)))  # fmt: skip
        want = self.contract.ets(have.classes)
        if want is not None and dcb.ets_holds(want, have.ets, have.classes):
            strict = dcb.Ets(tuple(range(dcb.CLASSES)) if have.classes >= dcb.CLASSES else (0,) * dcb.CLASSES,
                             ("strict",) * dcb.CLASSES, (0,) * dcb.CLASSES)  # fmt: skip
            todo.append(Change("ets of %s" % name, _ets_text(want), "strict",
                               lambda: dcb.set_ets(host, name, strict, have.classes)))  # fmt: skip
        return todo


def build(host: Host, plan: Dict[str, Any]) -> FabricStage:
    """The stage of a plan in its JSON form. Raises schema.SchemaError."""
    return FabricStage(host, load(FabricPlan, plan))


def boot_stage(host: Host, plan: Dict[str, Any]) -> FabricStage:
    """The stage as a boot unit runs it: for one port (environment G35_PORT), waiting for it, files left alone."""
    loaded = load(FabricPlan, plan)
    only = os.environ.get("G35_PORT")
    if only:
        loaded = dataclasses.replace(loaded, ports=tuple(port for port in loaded.ports if port.netdev == only))
    return FabricStage(host, loaded, boots=False, wait=BOOT_WAIT)


def _proc(key: str) -> str:
    return "/proc/sys/" + key.replace(".", "/")


def _interrupts(what: str, state: Dict[str, Any]) -> str:
    """The disruptive note of a change: empty unless something lives on the port."""
    live = state["live"]
    return "%s while live: %s" % (what, ", ".join(live)) if live else ""


def _differs(check: str, subject: str, observed: Any, expected: Any) -> Finding:
    return Finding(check, subject, _list_text(observed), _list_text(expected), "g35ctl deploy --only fabric")


def _list_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)


def _dscp_text(entries: Any) -> str:
    return " ".join("%d:%d" % entry for entry in sorted(entries)) or "none"


def _ets_text(ets: Optional[dcb.Ets]) -> str:
    if ets is None:
        return "at least three traffic classes"
    classes = ("%s %d%%" % pair for pair in zip(ets.selection, ets.bandwidth))
    return "priorities %s; classes %s" % (" ".join(str(p) for p in ets.priorities), ", ".join(classes))


def _forgetter(host: Host, device: str) -> Callable[[], None]:
    return lambda: rdma.forget_cm_defaults(host, device)


def _ignore(_: Any) -> None:
    """Discard a result: a change's action returns nothing."""
