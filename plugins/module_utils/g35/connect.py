"""Stage connect: one live controller per subsystem and rail, merged by native multipath, and kept that way.

Success is what sysfs shows. The distribution's autoconnect is not used: it treats its files as discovery controllers,
exits 0 when nothing connected and never tries again. A unit of ours connects at boot and disconnects before the
network goes down; a timer runs the same code again, so that a path that was given up comes back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import connect_checks, connect_keys, managed
from .connect_tls import ConnectPsks
from .connect_verdicts import path_findings, queue_findings, stale_findings, subsystem_findings
from .connecting import Connector, Judgement, judge, label
from .converge import Change, Finding, Stage
from .host import Host
from .identity import KEPT, identity_conflicts, identity_files, read_identity
from .nvme import SUBSYSTEMS, Controller, MountEntry, Topology, read_mounts, read_topology, users_of
from .plans import ConnectPath, ConnectPlan, File
from .rdma import device_of
from .schema import load

_MODULES = (
    "connect", "connecting", "connect_checks", "connect_keys", "connect_tls", "connect_verdicts", "dhchap", "identity",
    "nvme", "psk_ring", "rdma", "tlspsk",
)  # fmt: skip
#: how long the boot unit waits for addresses and RDMA devices before it connects what it can, seconds
BOOT_PATIENCE = 30.0


@dataclass(frozen=True)
class _Seen:
    """One reading of the host, typed."""

    topology: Topology
    judgement: Judgement
    mounts: Tuple[MountEntry, ...]


def build(host: Host, plan: Dict[str, Any], secrets: Optional[Mapping[str, Any]] = None) -> Stage:
    """The stage for a module. ``secrets`` are keys by host NQN. Raises schema.SchemaError."""
    return ConnectStage(host, load(ConnectPlan, plan), secrets=secrets)


def boot_stage(host: Host, plan: Dict[str, Any]) -> Stage:
    """The stage for the boot unit: it waits for the network and connects what it can."""
    return ConnectStage(host, load(ConnectPlan, plan), booting=True)


class ConnectStage(Stage):
    """Brings the controllers of a host to its :class:`ConnectPlan`."""

    name = "connect"

    def __init__(
        self, host: Host, plan: ConnectPlan, booting: bool = False, secrets: Optional[Mapping[str, Any]] = None
    ) -> None:
        super().__init__(host)
        self.plan = plan
        self.booting = booting
        self.given = connect_keys.handed_over(plan, secrets)
        self.psks = ConnectPsks(host, plan, secrets)
        self.connector = Connector(host, plan, connect_keys.known_keys(host, plan, self.given))
        self._seen: Optional[_Seen] = None

    # Reading

    def preflight(self) -> List[Finding]:
        if self.booting:
            # Whatever is missing at boot costs its own paths only; the rest must still come up.
            topology = read_topology(self.host)
            if judge(self.plan, topology).missing:
                self.host.wait_until(self._network_is_there, BOOT_PATIENCE, interval=1.0)
            return identity_conflicts(self.plan, topology)
        found = connect_checks.preflight_findings(self.host, self.plan)
        found += connect_keys.preflight_findings(self.plan, self.given) + self.psks.preflight()
        return found + identity_conflicts(self.plan, read_topology(self.host))

    def _network_is_there(self) -> bool:
        for path in self.plan.paths:
            device, _ = connect_checks.route_device(self.host, path.address, path.source_address)
            if device != path.netdev or (path.transport == "rdma" and device_of(self.host, path.netdev) is None):
                return False
        return True

    def read(self) -> Dict[str, Any]:
        topology = read_topology(self.host)
        seen = _Seen(topology, judge(self.plan, topology), read_mounts(self.host))
        self._seen = seen
        ours = {path.nqn for path in self.plan.paths}
        return {
            "identity": read_identity(self.host),
            "multipath": self.host.read_value(connect_checks.MULTIPATH) or "",
            "paths": [self._path_state(path, item) for path, item in seen.judgement.live + seen.judgement.in_transit]
            + [self._path_state(path, None) for path in seen.judgement.missing],
            "stale": [asdict(item) for item in seen.judgement.stale],
            "subsystems": [asdict(item) for item in topology.subsystems if item.nqn in ours],
            "keys": connect_keys.read(self.host, self.plan, seen.judgement),
            "tls": self.psks.tls_state(seen.judgement),
            "modules_missing": connect_checks.missing_modules(self.host, self.plan),
            "units": managed.read_units(self.host, self.plan.units),
            "files_differing": [change.what for change in managed.file_changes(self.host, self._files())],
        }

    @staticmethod
    def _path_state(path: ConnectPath, item: Optional[Controller]) -> Dict[str, Any]:
        state = asdict(path)
        state["controller"] = item.name if item else ""
        state["state"] = item.state if item else "absent"
        if item:
            for key in ("queue_count", "sqsize", "keep_alive", "reconnect_delay", "controller_loss_timeout"):
                state[key] = getattr(item, key)
            state["ana_states"] = sorted({entry.ana_state for entry in item.paths if entry.ana_state})
        return state

    def _read_seen(self) -> _Seen:
        if self._seen is None:
            self.read()
        assert self._seen is not None
        return self._seen

    def _files(self) -> Tuple[File, ...]:
        own = {item.path for item in self.plan.files}
        files = tuple(item for item in identity_files(self.plan) if item.path not in own) + self.plan.files
        files += connect_keys.key_files(self.plan, self.given) + self.psks.files
        return files if self.booting else files + managed.boot_files("connect", self.plan, _MODULES)

    # Changing

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        seen = self._read_seen()
        todo = managed.file_changes(self.host, self._files())
        written = [change.what for change in todo]
        missing_modules = state["modules_missing"]
        if missing_modules:
            todo.append(
                Change("kernel modules", "%s not loaded" % ", ".join(missing_modules), "loaded", self._load_modules)
            )
        replaced = self.psks.replaced_pairs()
        todo += self.psks.changes(self.psks.ours)
        todo += self._disconnects(seen, seen.judgement.stale, "stale")
        todo += self.psks.lost_changes(self.connector, seen.judgement, lambda nqn: self._users(seen, nqn))
        todo += connect_keys.lost_key_changes(self.host, self.plan, self.connector, seen.judgement)
        todo += self._connects(seen)
        todo += connect_keys.key_changes(
            self.host, self.plan, self.connector, seen.judgement, seen.topology, lambda nqn: self._users(seen, nqn)
        )
        todo += self.psks.live_changes(
            self.connector, seen.judgement, seen.topology, lambda nqn: self._users(seen, nqn), replaced
        )
        todo += self._settings(seen)
        return todo + managed.unit_changes(self.host, self.plan.units, written)

    def _load_modules(self) -> None:
        for name in connect_checks.modules_of(self.plan):
            self.host.must(["modprobe", name])

    def _connects(self, seen: _Seen) -> List[Change]:
        # All paths are tried at once, at the first of their changes; whether each came up is read back afterwards.
        pending = list(seen.judgement.missing)
        transit = [item.name for _, item in seen.judgement.in_transit]

        def connect_all() -> None:
            paths, pending[:] = list(pending), []
            self.connector.connect(paths)
            names, transit[:] = list(transit), []
            if names and not self.booting:
                self.connector.wait_for(names, 2.0 * self.plan.reconnect_delay + 5.0)
            self._set_io_policy()

        changes = [
            Change(label(path), "no controller", "live", connect_all, check="connect.path")
            for path in seen.judgement.missing
        ]
        return changes + [
            Change(label(path), "%s is %s" % (item.name, item.state), "live", connect_all, check="connect.path")
            for path, item in seen.judgement.in_transit
        ]

    def _set_io_policy(self) -> None:
        # The udev rule does the same a moment later; the read-back must not depend on who is first.
        for item in read_topology(self.host).subsystems:
            if item.nqn in self._nqns() and item.io_policy not in ("", self.plan.io_policy):
                self._write(SUBSYSTEMS + "/" + item.name + "/iopolicy", self.plan.io_policy)

    def _write(self, path: str, value: str) -> None:
        try:
            self.host.write_attribute(path, value)
        except OSError:
            # An older kernel may not know the value: the read-back says so by name, with what is in force instead.
            return

    def _settings(self, seen: _Seen) -> List[Change]:
        todo: List[Change] = []
        for item in seen.topology.subsystems:
            if item.nqn in self._nqns() and item.io_policy not in ("", self.plan.io_policy):
                path = SUBSYSTEMS + "/" + item.name + "/iopolicy"
                todo.append(
                    Change(
                        "multipath policy of %s" % item.nqn,
                        item.io_policy,
                        self.plan.io_policy,
                        lambda path=path: self._write(path, self.plan.io_policy),  # type: ignore[misc]
                        check="connect.io_policy",
                    )
                )
        for path_plan, controller in seen.judgement.live + seen.judgement.in_transit:
            todo += self._timeouts(path_plan, controller)
        return todo

    def _timeouts(self, path: ConnectPath, item: Controller) -> List[Change]:
        """Reconnect delay and loss timeout can be changed on a live controller, in this order: the kernel keeps the
        timeout as a number of attempts."""
        delay, loss = self.plan.reconnect_delay, self.plan.controller_loss_timeout
        base = "/sys/class/nvme/%s" % item.name
        held = self.host.exists(base + "/reconnect_delay") and self.host.exists(base + "/ctrl_loss_tmo")
        if not held or (item.reconnect_delay, item.controller_loss_timeout) == (delay, self._loss_in_force()):
            return []

        def set_both() -> None:
            self.host.write_attribute(base + "/reconnect_delay", str(delay))
            self.host.write_attribute(base + "/ctrl_loss_tmo", "off" if loss < 0 else str(loss))

        before = "delay %d s, loss timeout %d s" % (item.reconnect_delay, item.controller_loss_timeout)
        after = "delay %d s, loss timeout %d s" % (delay, self._loss_in_force())
        return [Change("reconnecting of %s" % label(path), before, after, set_both)]

    def _loss_in_force(self) -> int:
        delay, loss = self.plan.reconnect_delay, self.plan.controller_loss_timeout
        return -1 if loss < 0 else -(-loss // delay) * delay

    def _nqns(self) -> Tuple[str, ...]:
        return tuple(dict.fromkeys(path.nqn for path in self.plan.paths))

    def _disconnects(self, seen: _Seen, controllers: Sequence[Controller], why: str) -> List[Change]:
        leaving = {item.name for item in controllers}
        todo: List[Change] = []
        for item in controllers:
            others = [other for other in seen.topology.of(item.nqn) if other.live and other.name not in leaving]
            used = [] if others else self._users(seen, item.nqn)
            source = item.source_address or "any address"
            address = "%s %s:%s from %s" % (item.transport, item.address, item.port, source)
            todo.append(
                Change(
                    "%s (%s)" % (item.nqn, address),
                    "%s controller %s, %s" % (why, item.name, item.state),
                    "disconnected",
                    lambda name=item.name: self.connector.disconnect([name]),  # type: ignore[misc]
                    disruptive="%s on %s" % (", ".join(used), item.name) if used else "",
                    check="connect.stale",
                )
            )
        return todo

    def _users(self, seen: _Seen, nqn: str) -> List[str]:
        return [
            user
            for subsystem in seen.topology.subsystem_of(nqn)
            for namespace in subsystem.namespaces
            for user in users_of(self.host, namespace, seen.mounts)
        ]

    # Judging

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        seen = self._read_seen()
        found = identity_conflicts(self.plan, seen.topology)
        for key, wanted in (("host_nqn", self.plan.host_nqn), ("host_id", self.plan.host_uuid)):
            if state["identity"][key] != wanted:
                path = KEPT[0] if key == "host_nqn" else KEPT[1]
                observed = state["identity"][key] or "absent"
                found.append(Finding("connect.identity", path, observed, wanted, "run the deploy"))
        found += connect_checks.multipath_finding(self.host)
        found += path_findings(self.plan, seen.judgement, self.connector.reasons)
        found += stale_findings(seen.judgement)
        found += subsystem_findings(self.host, self.plan, seen.topology)
        found += connect_keys.findings(self.plan, state["keys"], seen.judgement)
        found += self.psks.findings() + self.psks.path_findings(state["tls"], seen.judgement)
        found += queue_findings(self.host, self.plan, seen.judgement)
        others = [path for path in state["files_differing"] if path not in KEPT]
        found += [Finding("connect.file", path, "absent or differs", "as planned", "run the deploy") for path in others]
        return found + managed.unit_findings(self.host, self.plan.units, "connect.unit")

    # Leaving

    def draining(self, state: Dict[str, Any]) -> List[Change]:
        seen = self._read_seen()
        timers = [unit for unit in self.plan.units if unit.name.endswith(".timer")]
        todo = [
            Change(name, "active", "stopped", lambda name=name: self._stop(name))  # type: ignore[misc]
            for name in [unit.name for unit in timers]
            if state["units"].get(name, {}).get("ActiveState") == "active"
        ]
        return todo + self._disconnects(seen, self._ours(seen), "planned")

    def _stop(self, timer: str) -> None:
        # A run that the timer started a moment ago would connect again what is about to be disconnected.
        self.host.must(["systemctl", "stop", timer, timer.replace(".timer", ".service")], timeout=180)

    @staticmethod
    def _ours(seen: _Seen) -> List[Controller]:
        return [item for _, item in seen.judgement.live + seen.judgement.in_transit] + list(seen.judgement.stale)

    def _end_healing(self) -> None:
        self.host.must(["systemctl", "stop", "g35-connect-heal.service"], timeout=180)

    def letting_go(self, state: Dict[str, Any]) -> List[Change]:
        """The plan that boot unit and timer work from comes first, or they would connect again what is let go."""
        seen = self._read_seen()
        todo = managed.file_changes(self.host, self._files())
        leaving = self._disconnects(seen, seen.judgement.stale, "stale")
        if leaving:
            # A run of the timer that began with the old plan must have ended.
            todo.append(Change("g35-connect-heal.service", "perhaps running", "ended", self._end_healing))
        return todo + leaving

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        seen = self._read_seen()
        todo = self.draining(state)
        todo += self.psks.leaving(self.psks.ours)
        going = (File(connect_keys.KEYS_FILE, ""), *self.psks.gone_files())
        files = [item for item in self._files() if item.path not in KEPT + tuple(item.path for item in going)]
        files += going
        used = [user for nqn in self._nqns() for user in self._users(seen, nqn)]
        for change in managed.removal_changes(self.host, files, self.plan.units):
            is_unit = any(unit.name == change.what for unit in self.plan.units)
            # Stopping the unit takes the mounts that need it along.
            todo.append(replace(change, disruptive=", ".join(used)) if used and is_unit else change)
        return todo
