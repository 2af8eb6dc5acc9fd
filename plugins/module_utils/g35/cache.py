"""Stage cache: Mooncake on one host.

The environment, the unprivileged user, the firewall, the master where the plan has one, and one store per owned
namespace, all in one pass. A store's rendered files carry ``@DEVICE:netdev@`` where the name of an RDMA device belongs:
that name is only known on the host.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from . import cache_checks, cache_etcd, cache_nof, firewall, flash, mooncake, runtime, storegate
from .converge import Change, Finding, Stage
from .host import Host
from .managed import file_changes, read_units, removal_changes, unit_changes, unit_findings
from .plans import CachePlan, File, StoreInstance, Unit
from .rdma import device_of
from .schema import load
from .sources import source_of

HOME = "/var/lib/g35"
#: a store registers its memory with the RDMA devices and scans its flash before the master lists it, seconds
STORE_START_SECONDS = 120.0
#: the store's gatekeeper, which its unit runs before it (storegate.py)
GATE = "/usr/lib/g35ctl/storegate.py"
UNITS = "/etc/systemd/system"
#: parts of the stage: everything, or only what all hosts can do at once, before the first service is touched
WHOLE = "whole"
ENVIRONMENT = "environment"
PARTS = (WHOLE, ENVIRONMENT)

_DEVICE = re.compile(r"@DEVICE:([^@]+)@")


class CacheStage(Stage):
    """Mooncake on one host; ``ask`` fetches URLs (replaced in tests)."""

    name = "cache"

    def __init__(self, host: Host, plan: CachePlan, ask: mooncake.Fetch = mooncake.fetch, part: str = WHOLE) -> None:
        super().__init__(host)
        self.plan = plan
        self.ask = ask
        self.part = part
        self.settle_seconds = STORE_START_SECONDS if part == WHOLE or plan.etcd else 0.0

    @property
    def instances(self) -> Tuple[StoreInstance, ...]:
        """The planned stores of this host."""
        return self.plan.store.instances if self.plan.store else ()

    @property
    def admin(self) -> str:
        """Admin interface of the site's master (address:port; of two with a comma between them), empty when there is
        none to ask."""
        if self.plan.master:
            return self.plan.master.admins or mooncake.endpoint(self.plan.master.address, self.plan.master.metrics_port)
        return self.plan.store.master_admin if self.plan.store else ""

    @property
    def units(self) -> Tuple[Unit, ...]:
        """All units; each one that runs Mooncake also restarts when the environment changes."""
        planned = self.plan.units
        planned += self.plan.master.units if self.plan.master else ()
        planned += self.plan.store.units if self.plan.store else ()
        current = runtime.current_of(self.plan.runtime)
        return tuple(
            replace(unit, restart_on=unit.restart_on + (current,)) if unit.name.startswith("g35-mooncake") else unit
            for unit in planned
        )

    @property
    def runs_mooncake(self) -> bool:
        """Whether this host needs Mooncake at all: a mere member of etcd does not."""
        return self.plan.master is not None or self.plan.store is not None

    def _rendered(self) -> Tuple[File, ...]:
        files = self.plan.files
        files += self.plan.master.files if self.plan.master else ()
        return files + (self.plan.store.files if self.plan.store else ())

    def files(self, devices: Dict[str, Optional[str]]) -> Tuple[File, ...]:
        """The planned files with the names of RDMA devices filled in; those that miss one are left out."""
        found = [File(GATE, _gate_source())] if self.instances else []
        found.extend(cache_nof.files(self.plan.nof))
        for item in self._rendered():
            wanted = _DEVICE.findall(item.content)
            if all(devices.get(netdev) for netdev in wanted):
                found.append(replace(item, content=_DEVICE.sub(lambda m: str(devices[m.group(1)]), item.content)))
        return tuple(found)

    # -- preflight ----------------------------------------------------------------------------------------------

    def preflight(self) -> List[Finding]:
        found = cache_etcd.preflight(self.host, self.plan.etcd)
        found.extend(cache_nof.preflight(self.host, self.plan, self.ask))
        if self.runs_mooncake:
            found.extend(runtime.preflight(self.host, self.plan.runtime))
            found.extend(cache_checks.library_findings(self.host, self.plan.runtime))
        found.extend(cache_checks.memory_findings(self.host, self.instances))
        found.extend(cache_checks.other_firewall_findings(self.host, self.plan))
        found.extend(cache_checks.huge_page_findings(self.host, self.instances, self._any_store_runs()))
        return found + cache_checks.port_findings(self.host, self.plan, self.units)

    def _any_store_runs(self) -> bool:
        if not any(instance.huge_page_size for instance in self.instances):
            return False
        return any(state.get("ActiveState") == "active" for state in read_units(self.host, self.units).values())

    def awaiting(self) -> List[str]:
        return runtime.wheels_missing(self.host, self.plan.runtime) if self.runs_mooncake else []

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self) -> Dict[str, Any]:
        seen = flash.mounts(self.host)
        devices = self._devices()
        units = read_units(self.host, self.units)
        master = self._read_master()
        segments = {item["name"]: item for item in master["segments"]} if master else {}
        stores = {}
        logs = cache_checks.store_logs(self.host, [instance.unit for instance in self.instances])
        blocks = {item.name: cache_checks.block_devices(self.host, seen, item) for item in self.instances}
        kernel = cache_checks.kernel_errors(self.host, blocks)
        for instance in self.instances:
            name = cache_checks.segment_name(instance)
            stores[instance.name] = {
                "unit": instance.unit,
                "segment_name": name,
                "segment": segments.get(name),
                "healthy": mooncake.store_healthy(instance.address, instance.http_port, self.ask),
                "directory": flash.read(self.host, instance, seen),
                "capacity": instance.capacity,
                "errors": logs[instance.unit],
                "kernel": kernel[instance.name],
            }
        state = {
            "runtime": runtime.read(self.host, self.plan.runtime),
            "user": flash.account(self.host, self.plan.runtime.user) is not None,
            "devices": devices,
            "firewall": firewall.read(self.host),
            "units": units,
            "master": master,
            "stores": stores,
            "etcd": cache_etcd.read(self.plan.etcd, self.ask),
            "nof": cache_nof.read(self.host, self.plan, self.ask),
            "stale": self._stale_units(),
            "foreign": cache_checks.running(self.host, self.plan.runtime),
        }
        if self.part == ENVIRONMENT:
            failed = [item for item in self._judged(state) if item.severity == "error"]
            state["whole"] = not failed and not self._differences(state)
        return state

    def _devices(self) -> Dict[str, Optional[str]]:
        names = sorted({name for item in self._rendered() for name in _DEVICE.findall(item.content)})
        return {name: device_of(self.host, name) for name in names}

    def _read_master(self) -> Optional[Dict[str, Any]]:
        if not self.admin:
            return None
        seen = mooncake.read_master(self.admin, self.ask)
        state: Dict[str, Any] = {
            "admin": seen.admin,
            "reachable": seen.reachable,
            "role": seen.role,
            "service_ready": seen.service_ready,
            "segments": [
                {"name": s.name, "protocol": s.protocol, "size": s.size, "used": s.used, "status": s.status}
                for s in seen.segments
            ],
            "metrics": dict(seen.metrics),
        }
        if self.plan.master and self.plan.master.admins:
            here = mooncake.endpoint(self.plan.master.address, self.plan.master.metrics_port)
            own = seen if seen.admin == here else mooncake.read_master(here, self.ask)
            state["own"] = {"admin": here, "reachable": own.reachable, "role": own.role, "ready": own.service_ready}
        return state

    def _stale_units(self) -> List[str]:
        """Units of ours on this host that the plan no longer has: the store of a namespace that moved away."""
        planned = {unit.name for unit in self.units}
        return [
            name
            for name in self.host.list(UNITS)
            if name.startswith("g35-mooncake-") and name.endswith(".service") and name not in planned
        ]

    # -- changing -----------------------------------------------------------------------------------------------

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        if self.part == ENVIRONMENT:
            return self._first(state)
        return self._differences(state)

    def _first(self, state: Dict[str, Any]) -> List[Change]:
        """What all hosts can do at once: the user, the environment, and etcd with the firewall before it."""
        todo = self._user_changes(state)
        if self.runs_mooncake:
            todo.extend(runtime.building(self.host, self.plan.runtime, state["runtime"]))
        if self.plan.etcd is None:
            return todo
        units = [unit for unit in self.units if unit.name in (firewall.UNIT, cache_etcd.UNIT)]
        paths = {path for unit in units for path in unit.restart_on} | {"%s/%s" % (UNITS, unit.name) for unit in units}
        written = file_changes(self.host, [item for item in self.files(state["devices"]) if item.path in paths])
        todo.extend(written)
        changed = unit_changes(self.host, units, [change.what for change in written])
        return todo + [self._with_consent(change) for change in changed]

    def _user_changes(self, state: Dict[str, Any]) -> List[Change]:
        if state["user"]:
            return []
        return [Change("user %s" % self.plan.runtime.user, "absent", "system user without login", self._make_user)]

    def _differences(self, state: Dict[str, Any]) -> List[Change]:
        plan = self.plan.runtime
        todo = self._user_changes(state)
        if self.runs_mooncake:
            todo.extend(runtime.changes(self.host, plan, state["runtime"]))
        for instance in self.instances:
            directory = state["stores"][instance.name]["directory"]
            if flash.on_its_namespace(instance, directory):
                change = flash.change(self.host, instance, directory, plan.user)
                todo.extend([change] if change else [])
        todo.extend(self._stale_changes(state["stale"]))
        written = file_changes(self.host, self.files(state["devices"]))
        todo.extend(written)
        paths = [change.what for change in written]
        if state["runtime"]["current"] not in (None, runtime.name_of(plan)):
            paths.append(runtime.current_of(plan))
        startable = self._startable(state)
        todo.extend(self._with_consent(change) for change in unit_changes(self.host, startable, paths))
        return todo + self._reopening(state, {change.what for change in todo})

    def _reopening(self, state: Dict[str, Any], told: Set[str]) -> List[Change]:
        """A store whose memory was emptied for a move that was given up takes no new values: it has to start anew."""
        found = []
        for instance in self.instances:
            segment = state["stores"][instance.name]["segment"]
            if segment is not None and segment["status"] == "DRAINED" and instance.unit not in told:
                before = "its memory was emptied and closed"
                found.append(Change(instance.unit, before, "restarted", self._restarter(instance.unit)))
        return found

    def _restarter(self, unit: str) -> Any:
        return lambda: self.host.must(["systemctl", "restart", unit], timeout=600) and None

    def _startable(self, state: Dict[str, Any]) -> List[Unit]:
        """Units that may be started: never a store without its mount or without its RDMA devices."""
        held: Set[str] = set()
        for instance in self.instances:
            missing = [name for name in instance.devices if name in state["devices"] and not state["devices"][name]]
            if missing or not flash.on_its_namespace(instance, state["stores"][instance.name]["directory"]):
                held.add(instance.unit)
        # What is held back does not come up by waiting for it.
        self.settle_seconds = 0.0 if held else STORE_START_SECONDS
        return [unit for unit in self.units if unit.name not in held]

    @staticmethod
    def _with_consent(change: Change) -> Change:
        if change.after != "restarted" or not change.what.startswith(("g35-mooncake", cache_etcd.UNIT)):
            return change
        if change.what == cache_etcd.UNIT:
            return replace(change, disruptive="when all members restart at once, no master leads for a while")
        what = "values of %s that are in memory and not yet on flash are lost" % change.what
        return replace(change, disruptive=what)

    def _stale_changes(self, names: Sequence[str]) -> List[Change]:
        todo: List[Change] = []
        for name in names:
            environment = "/etc/g35ctl/mooncake/%s.env" % name[len("g35-mooncake-store-") : -len(".service")]
            files = (File("%s/%s" % (UNITS, name), ""), File(environment, ""))
            for change in removal_changes(self.host, files, [Unit(name)]):
                lost = "values in the memory of %s" % name if change.what == name else ""
                todo.append(replace(change, disruptive=lost))
        return todo

    def _make_user(self) -> None:
        arguments = ["useradd", "--system", "--home-dir", HOME, "--no-create-home", "--shell", "/usr/sbin/nologin"]
        self.host.must(arguments + ["--user-group", self.plan.runtime.user])

    # -- judging ------------------------------------------------------------------------------------------------

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        if self.part == ENVIRONMENT:
            found = cache_etcd.findings(self.plan.etcd, state["etcd"])
            return found + (runtime.build_findings(self.plan.runtime, state["runtime"]) if self.runs_mooncake else [])
        return self._judged(state)

    def _judged(self, state: Dict[str, Any]) -> List[Finding]:
        found = cache_etcd.findings(self.plan.etcd, state["etcd"])
        found.extend(cache_nof.findings(self.plan, state["nof"]))
        if self.runs_mooncake:
            found.extend(runtime.findings(self.plan.runtime, state["runtime"]))
        found.extend(
            Finding("cache.stale", name, "still there", "gone: its namespace is another host's", "run the deploy")
            for name in state["stale"]
        )
        found.extend(cache_checks.wheel_findings(self.plan.runtime, state["foreign"]))
        rules = [item.content for item in self._rendered() if item.path == firewall.PATH]
        closed = firewall.finding(state["firewall"], rules[0]) if rules else None
        found.extend([closed] if closed else [])
        found.extend(cache_checks.device_findings(state["devices"]))
        for instance in self.instances:
            misplaced = flash.finding(instance, state["stores"][instance.name]["directory"])
            found.extend([misplaced] if misplaced else [])
        found.extend(unit_findings(self.host, self.units, "cache.unit"))
        found.extend(self._master_findings(state["master"]))
        for instance in self.instances:
            found.extend(cache_checks.store_findings(instance, state["stores"][instance.name], state["master"]))
        return found

    def _master_findings(self, master: Optional[Dict[str, Any]]) -> List[Finding]:
        if master is None:
            return []
        found: List[Finding] = []
        remedy = "journalctl -u g35-mooncake-master.service on the master's host"
        if master["role"] != "leader" or not master["service_ready"]:
            observed = "no answer"
            if master["reachable"]:
                observed = "role %s, ready: %s" % (master["role"] or "unknown", master["service_ready"])
            if "," in self.admin:
                # A master that does not reach etcd stays a standby for ever and says nothing.
                remedy += "; then etcd: journalctl -u g35-etcd.service on its hosts"
            found.append(Finding("cache.master", self.admin, observed, "leader and ready", remedy))
        own = master.get("own")
        if own and not (own["role"] == "standby" or (own["role"] == "leader" and own["ready"])):
            observed = "role %s, ready: %s" % (own["role"], own["ready"]) if own["reachable"] else "no answer"
            found.append(Finding("cache.master", own["admin"], observed, "leader and ready, or standby", remedy))
        return found

    # -- undoing ------------------------------------------------------------------------------------------------

    def draining(self, state: Dict[str, Any]) -> List[Change]:
        todo = []
        for instance in self.instances:
            active = state["units"].get(instance.unit, {}).get("ActiveState")
            if active not in ("inactive", "failed", None):
                todo.append(Change(instance.unit, str(active), "stopped", self._stopper(instance.unit)))
        return todo

    def _stopper(self, unit: str) -> Any:
        return lambda: self.host.must(["systemctl", "stop", unit], timeout=120) and None

    def letting_go(self, state: Dict[str, Any]) -> List[Change]:
        return self._stale_changes(state["stale"])

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """Everything but the flash directories and the user their files belong to: data is never destroyed here."""
        files = self.files({name: device or "none" for name, device in state["devices"].items()})
        todo = self._stale_changes(state["stale"])
        todo.extend(removal_changes(self.host, files, self.units))
        todo.extend(runtime.removal(self.host, self.plan.runtime))
        todo.extend(cache_etcd.removal(self.host, self.plan.etcd))
        return todo


def _gate_source() -> str:
    """Source text of the gatekeeper, from a checkout or from inside a shipped archive alike."""
    return source_of(storegate.__name__)


def build(host: Host, plan: Dict[str, Any], part: str = WHOLE) -> CacheStage:
    """The stage for ``plan`` (a CachePlan as JSON data), or a part of it. Raises schema.SchemaError."""
    return CacheStage(host, load(CachePlan, plan), part=part)
