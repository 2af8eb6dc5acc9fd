"""The fabric stage: a host's data ports carry RoCE traffic as the traffic contract says.

MTU, global pause, DCB (DCBX, ETS, DSCP map, PFC), what NIC families have beyond it, rdma_cm's defaults and kernel
parameters. Nearly all of it is volatile, so a unit bound to each device applies it again at boot and after a hot
reset. One port's part is in :mod:`.fabric_port`.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict, List, Optional

from . import dcb, metrics_unit, network, nics
from .converge import Change, Finding, Stage
from .fabric_port import DataPort, differs
from .host import Host
from .managed import boot_files, file_changes, removal_changes, unit_changes, unit_findings
from .plans import FabricPlan
from .schema import load

#: kernel modules of the RDMA connection manager and of user-space verbs
MODULES = ("rdma_cm", "rdma_ucm", "ib_uverbs")
#: how long a boot unit waits for devices and addresses, seconds
BOOT_WAIT = 120.0
_SYSCTL = "/etc/sysctl.d/"
_LLDPAD = ("lldpad.service", "lldpad.socket")


class FabricStage(Stage):
    """Applies a FabricPlan. ``boots`` tells an apply that also makes the host's boots from one that is a boot; ``wait``
    is how long the first read waits for what must appear by itself, seconds."""

    name = "fabric"
    #: a link that PFC or MTU made retrain needs a moment to come back
    settle_seconds = 20.0

    def __init__(self, host: Host, plan: FabricPlan, boots: bool = True, wait: float = 0.0) -> None:
        super().__init__(host)
        self.plan = plan
        self.wait = wait
        self.boots = boots
        self._lldpad_seen: Optional[str] = None
        self.rdma = plan.transport == "rdma"
        carried = nics.MODULES + metrics_unit.MODULES + ("fabric_port", "fabric")
        self.files = plan.files + (boot_files("fabric", plan, carried) if boots else ())
        self.ports = [DataPort(host, plan, port) for port in plan.ports]

    # reading

    def read(self) -> Dict[str, Any]:
        """``ports`` by network device, ``modules`` loaded, ``sysctl`` values, and whether ``lldpad`` is running."""
        self._await()
        modules = [name for name in MODULES if self.host.exists("/sys/module/%s" % name)] if self.rdma else []
        self._lldpad_seen = self._lldpad() if self.rdma else ""
        sessions = network.target_sessions(self.host, [port.address for port in self.plan.ports])
        return {
            "ports": {port.name: port.read(sessions) for port in self.ports},
            "modules": modules,
            "sysctl": {key: self.host.read_value(_proc(key)) or "" for key in self._sysctls()},
            "lldpad": self._lldpad_seen == "running",
            "lldpad_unit": self._lldpad_seen,
        }

    def _lldpad(self) -> str:
        """``running``, ``installed`` (it may be started by anybody), or empty: masked or not there."""
        if self.host.run(["systemctl", "is-active", "--quiet", _LLDPAD[0]]).ok:
            return "running"
        told = self.host.run(["systemctl", "is-enabled", _LLDPAD[0]]).out.strip()
        return "installed" if told in ("enabled", "disabled", "static", "indirect", "alias") else ""

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
        for port in self.ports:
            found += port.preflight(addresses)
        if not self.rdma:
            return found
        for module in MODULES:
            loaded = self.host.exists("/sys/module/%s" % module)
            if not loaded and not self.host.run(["modinfo", "-F", "filename", module]).ok:
                found.append(
                    Finding("fabric.module", module, "not available", "a kernel with RDMA",
                            "install the kernel's module package (or the NIC vendor's driver) and reboot")
                )  # fmt: skip
        plan = self.plan
        contract = dcb.Contract(plan.dscp, plan.priority, plan.cnp_dscp, plan.cnp_priority, plan.bandwidth_percent)
        problem = contract.problem()
        if problem:
            found.append(
                Finding("fabric.ets", "g35_fabric.traffic", problem, "at least 1 % for each",
                        "lower g35_fabric.traffic.bandwidth_percent to 94 or less")
            )  # fmt: skip
        return found + self._lldpad_findings(self._lldpad() if self._lldpad_seen is None else self._lldpad_seen)

    def _lldpad_findings(self, seen: str) -> List[Finding]:
        if seen != "running" or self.plan.tuning.lldpad == "mask":
            return []
        return [
            Finding("fabric.lldpad", _LLDPAD[0], "running", "not running: it overwrites DCB settings",
                    "systemctl mask --now %s %s, or let g35ctl do it: g35_fabric.tuning.lldpad: mask" % _LLDPAD)
        ]  # fmt: skip

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        found: List[Finding] = []
        for port in self.ports:
            found += port.findings(state["ports"][port.name])
        for key, value in self._sysctls().items():
            if state["sysctl"].get(key) != value:
                found.append(differs("fabric.sysctl", key, state["sysctl"].get(key), value))
        for name in MODULES if self.rdma else ():
            if name not in state["modules"]:
                found.append(differs("fabric.module", name, "not loaded", "loaded"))
        found += self._lldpad_findings(state["lldpad_unit"])
        if self._must_mask(state):
            found.append(differs("fabric.lldpad", _LLDPAD[0], state["lldpad_unit"], "masked"))
        return found + unit_findings(self.host, self.plan.units, "fabric.unit")

    def _must_mask(self, state: Dict[str, Any]) -> bool:
        return self.plan.tuning.lldpad == "mask" and bool(state["lldpad_unit"])

    # changing

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        todo: List[Change] = []
        if self.rdma:
            for name in MODULES:
                if name not in state["modules"]:
                    todo.append(Change("module %s" % name, "not loaded", "loaded", self._modprobe(name)))
        if self._must_mask(state):
            todo.append(Change(_LLDPAD[0], state["lldpad_unit"], "masked", self._mask_lldpad))
        for port in self.ports:
            todo += port.changes(state["ports"][port.name])
        files = file_changes(self.host, self.files)
        todo += files
        if self.boots:  # a boot's plan has no units: it says nothing about what is left over
            todo += metrics_unit.left_over(self.host, self.plan.units)
        for key, value in self._sysctls().items():
            if state["sysctl"].get(key) != value:
                todo.append(Change(key, state["sysctl"].get(key, ""), value, self._writer(_proc(key), value)))
        # Last, when everything already holds: starting the units then changes nothing but makes the boot safe.
        return todo + unit_changes(self.host, self.plan.units, [change.what for change in files])

    def _modprobe(self, name: str) -> Callable[[], None]:
        return lambda: _ignore(self.host.must(["modprobe", name]))

    def _writer(self, path: str, value: str) -> Callable[[], None]:
        return lambda: self.host.write_attribute(path, value)

    def _mask_lldpad(self) -> None:
        # The socket first, so that nothing starts the service again; not every distribution has one.
        self.host.run(["systemctl", "stop", _LLDPAD[1]])
        self.host.must(["systemctl", "mask", "--now", _LLDPAD[0]])
        self.host.must(["systemctl", "mask", _LLDPAD[1]])

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """Units and files, then each port's part of the contract. The MTU stays: others may rely on it."""
        todo = metrics_unit.output_removal(self.host) + removal_changes(self.host, self.files, self.plan.units)
        for port in self.ports if self.rdma else ():
            todo += port.removal(state["ports"][port.name])
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


def _ignore(_: Any) -> None:
    """Discard a result: a change's action returns nothing."""
