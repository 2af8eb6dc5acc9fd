"""Stage inference: engines that use the KV pool, and the routers in front of them, on one host.

Three ways to install (plans_inference.ProgramPlan): ``pip`` builds an environment of its own, ``container`` runs an
image, ``files`` writes files and units and touches nothing that runs. Success is what the services say of themselves:
active, answering, and serving the model that clients ask for.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from . import enginegate, flash, inference_env, runtime
from . import inference_checks as checks
from .converge import Change, Finding, Stage
from .host import Host
from .http import answer
from .managed import file_changes, read_units, removal_changes, unit_changes, unit_findings
from .plans import File, Unit
from .plans_inference import EnginePlan, InferencePlan, ProgramPlan, RouterPlan
from .rdma import device_of
from .schema import load
from .sources import source_of

HOME = "/var/lib/g35"
GATE = "/usr/lib/g35ctl/enginegate.py"
UNITS = "/etc/systemd/system"
#: parts of the stage: everything, or what one role brings about
WHOLE = "whole"
PARTS = (WHOLE, "vllm", "sglang", "router")
#: starts of a unit after which it is told that it does not come up, instead of waiting on
HOPELESS_STARTS = 3
_OURS = re.compile(r"^g35-(vllm|sglang|router)-[a-z0-9-]+\.service$")
_DEVICE = re.compile(r"@DEVICE:([^@]+)@")


class InferenceStage(Stage):
    """Engines and routers of one host; ``ask`` fetches URLs (replaced in tests)."""

    name = "inference"

    def __init__(self, host: Host, plan: InferencePlan, ask: checks.Ask = answer, part: str = WHOLE) -> None:
        super().__init__(host)
        self.plan = plan
        self.ask = ask
        self.part = part
        running = [item.start_seconds for item in self.engines if item.program.mode != "files"]
        running += [item.start_seconds for item in self.routers if item.program.mode != "files"]
        self.settle_seconds = float(max(running, default=0))

    @property
    def engines(self) -> Tuple[EnginePlan, ...]:
        """The engines that this run is about."""
        return tuple(item for item in self.plan.engines if self.part in (WHOLE, item.engine))

    @property
    def routers(self) -> Tuple[RouterPlan, ...]:
        """The routers that this run is about."""
        return self.plan.routers if self.part in (WHOLE, "router") else ()

    @property
    def programs(self) -> Tuple[ProgramPlan, ...]:
        """Programs that this run is about, each once."""
        found = [item.program for item in self.engines] + [item.program for item in self.routers]
        return tuple(dict.fromkeys(found))

    @property
    def runtimes(self) -> Tuple[Any, ...]:
        """Environments that this run is about."""
        used = {item.distribution for item in self.programs}
        return tuple(item for item in self.plan.runtimes if item.distribution in used)

    @property
    def units(self) -> Tuple[Unit, ...]:
        """Units that must run; each also restarts when its environment changes."""
        environment = {}
        for item in tuple(self.engines) + tuple(self.routers):
            environment[item.unit] = inference_env.environment_of(item.program)
        return tuple(
            replace(unit, restart_on=unit.restart_on + (environment[unit.name],)) if environment[unit.name] else unit
            for unit in self.plan.units
            if unit.name in environment
        )

    def _rendered(self) -> Tuple[File, ...]:
        paths = {"%s/%s" % (UNITS, item.unit) for item in tuple(self.engines) + tuple(self.routers)}
        paths |= {item.config_path for item in self.engines if item.config_path}
        return tuple(item for item in self.plan.files if item.path in paths)

    def files(self, devices: Dict[str, Optional[str]]) -> Tuple[File, ...]:
        """The planned files with the names of RDMA devices filled in; those that miss one are left out."""
        found = [File(GATE, _gate_source())] if self.engines else []
        for item in self._rendered():
            wanted = _DEVICE.findall(item.content)
            if all(devices.get(netdev) for netdev in wanted):
                found.append(replace(item, content=_DEVICE.sub(lambda m: str(devices[m.group(1)]), item.content)))
        return tuple(found)

    # -- preflight ----------------------------------------------------------------------------------------------

    def preflight(self) -> List[Finding]:
        found: List[Finding] = []
        for item in self.runtimes:
            found.extend(inference_env.preflight(self.host, item))
        for program in self.programs:
            found.extend(checks.program_findings(self.host, program))
        for engine in self.engines:
            found.extend(checks.engine_findings(self.host, engine))
        found.extend(checks.memory_findings(self.host, self.engines))
        return found + checks.port_findings(self.host, self.engines, self.routers)

    def awaiting(self) -> List[str]:
        return [item.distribution for item in self.runtimes if inference_env.missing(self.host, item)]

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self) -> Dict[str, Any]:
        devices = {
            name: device_of(self.host, name)
            for name in sorted({name for item in self._rendered() for name in _DEVICE.findall(item.content)})
        }
        images = sorted({item.image for item in self.programs if item.mode == "container"})
        return {
            "user": flash.account(self.host, self.plan.user) is not None,
            "devices": devices,
            "runtimes": {item.distribution: inference_env.read(self.host, item) for item in self.runtimes},
            "images": {image: inference_env.image_present(self.host, image) for image in images},
            "units": read_units(self.host, self.units),
            "restarts": self._restarts(),
            "engines": {item.name: checks.read_service(item, self.ask) for item in self.engines},
            "routers": {item.name: checks.read_service(item, self.ask) for item in self.routers},
            "stale": self._stale_units(),
        }

    def _restarts(self) -> Dict[str, int]:
        """How often systemd has started each unit again by itself."""
        names = [unit.name for unit in self.units]
        if not names:
            return {}
        told = self.host.run(["systemctl", "show", "--property", "Id,NRestarts", "--"] + names)
        found = {}
        for name, block in zip(names, told.out.strip("\n").split("\n\n")):
            count = dict(line.partition("=")[::2] for line in block.splitlines()).get("NRestarts", "")
            found[name] = int(count) if count.isdigit() else 0
        return found

    def _stale_units(self) -> List[str]:
        """Units of ours on this host that the plan no longer has, of the kinds that this run is about."""
        planned = {item.unit for item in self.plan.engines} | {item.unit for item in self.plan.routers}
        # An engine that is another kind now still holds its accelerators: either kind's run lets it go.
        kinds = {WHOLE: ("vllm", "sglang", "router"), "router": ("router",)}.get(self.part, ("vllm", "sglang"))
        return [
            name
            for name in self.host.list(UNITS)
            if (match := _OURS.match(name)) and name not in planned and match.group(1) in kinds
        ]

    # -- changing -----------------------------------------------------------------------------------------------

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        todo: List[Change] = []
        runs = any(item.mode != "files" for item in self.programs)
        if not state["user"] and runs:
            todo.append(Change("user %s" % self.plan.user, "absent", "system user without login", self._make_user))
        restarted: List[str] = []
        for item in self.runtimes:
            seen = state["runtimes"][item.distribution]
            todo.extend(inference_env.changes(self.host, item, seen))
            if seen["current"] not in (None, runtime.name_of(item)):
                restarted.append(runtime.current_of(item))
        missing = [image for image, present in state["images"].items() if not present]
        todo.extend(inference_env.image_change(self.host, image) for image in missing)
        todo.extend(self._stale_changes(state["stale"]))
        written = file_changes(self.host, self.files(state["devices"]))
        todo.extend(written)
        paths = [change.what for change in written] + restarted
        todo.extend(self._with_consent(item) for item in unit_changes(self.host, self._startable(state), paths))
        # Files that only wait to be used are nobody's business but their reader's: not even systemd is told.
        return todo if self.units else [item for item in todo if item.what != "systemd"]

    def _startable(self, state: Dict[str, Any]) -> List[Unit]:
        """Units that may be started: none without the RDMA devices that its files name."""
        held: Set[str] = set()
        for engine in self.engines:
            names = set(_DEVICE.findall(" ".join(engine.arguments) + engine.config))
            if any(not state["devices"].get(name) for name in names):
                held.add(engine.unit)
        if held:
            self.settle_seconds = 0.0
        return [unit for unit in self.units if unit.name not in held]

    def _with_consent(self, change: Change) -> Change:
        if change.after != "restarted":
            return change
        engine = next((item for item in self.engines if item.unit == change.what), None)
        what = "requests in flight of %s" % change.what
        if engine is not None:
            what += ", and what it holds in accelerator and host memory; what reached the pool stays"
        return replace(change, disruptive=what)

    def _stale_changes(self, names: Sequence[str]) -> List[Change]:
        todo: List[Change] = []
        for name in names:
            instance = name[: -len(".service")].split("-", 2)[2]
            files = [File("%s/%s" % (UNITS, name), "")]
            files += [
                File("/etc/g35ctl/inference/%s.%s" % (instance, ending), "")
                for ending in ("mooncake.json", "hicache.json", "lmcache.yaml")
                if instance not in {item.name for item in self.plan.engines}
            ]
            for change in removal_changes(self.host, files, [Unit(name)]):
                lost = "requests in flight of %s" % name if change.what == name else ""
                todo.append(replace(change, disruptive=lost))
        return todo

    def _make_user(self) -> None:
        arguments = ["useradd", "--system", "--home-dir", HOME, "--no-create-home", "--shell", "/usr/sbin/nologin"]
        self.host.must(arguments + ["--user-group", self.plan.user])

    # -- judging ------------------------------------------------------------------------------------------------

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        found: List[Finding] = []
        for item in self.runtimes:
            found.extend(inference_env.findings(item, state["runtimes"][item.distribution]))
        # What is not there at all needs no list of what it lacks.
        absent = {name for name, seen in state["runtimes"].items() if not seen["complete"]}
        for item in tuple(self.engines) + tuple(self.routers):
            if item.program.distribution not in absent:
                needed = getattr(item, "packages", ())
                found.extend(inference_env.package_findings(self.host, item.program, needed, item.name))
        for netdev, device in sorted(state["devices"].items()):
            if not device:
                remedy = "g35ctl deploy --only fabric"
                found.append(Finding("inference.device", netdev, "no RDMA device", "an RDMA device", remedy))
        for image, present in state["images"].items():
            if not present:
                remedy = "podman pull %s, or podman load --input FILE" % image
                found.append(Finding("inference.image", image, "absent", "present", remedy))
        found.extend(unit_findings(self.host, self.units, "inference.unit"))
        services = list(state["engines"].values()) + list(state["routers"].values())
        for service in services:
            found.extend(checks.service_findings(service, state["restarts"]))
        return found

    def hopeless(self, state: Dict[str, Any]) -> bool:
        """A service that systemd had to start again and again does not come up by waiting for it."""
        silent = _silent(state)
        return any(count >= HOPELESS_STARTS and unit in silent for unit, count in state["restarts"].items())

    def coming_up(self, state: Dict[str, Any]) -> bool:
        """True for a service that was started, by a boot say, less than its time to start ago and is silent so far."""
        names = sorted(_silent(state))
        if not names or self.hopeless(state):
            return False
        told = self.host.run(["systemctl", "show", "--property", "Id,ActiveEnterTimestampMonotonic", "--"] + names)
        since = [int(text) / 1e6 for text in re.findall(r"^ActiveEnterTimestampMonotonic=([0-9]+)$", told.out, re.M)]
        # Zero: it is not active, and nothing is coming.
        now = float((self.host.read("/proc/uptime") or "0").split()[0])
        return any(moment > 0 and now - moment < self.settle_seconds for moment in since)

    # -- undoing ------------------------------------------------------------------------------------------------

    def draining(self, state: Dict[str, Any]) -> List[Change]:
        todo = []
        for unit in self.units:
            active = state["units"].get(unit.name, {}).get("ActiveState")
            if active not in ("inactive", "failed", None):
                todo.append(Change(unit.name, str(active), "stopped", self._stopper(unit.name)))
        return todo

    def _stopper(self, unit: str) -> Callable[[], None]:
        def stop() -> None:
            self.host.must(["systemctl", "stop", unit], timeout=180)

        return stop

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """Everything that was made but models, images and what engines compiled: nothing of the user's is touched."""
        files = self.files({name: device or "none" for name, device in state["devices"].items()})
        todo = self._stale_changes(state["stale"])
        todo.extend(removal_changes(self.host, files, self.units))
        for item in self.runtimes:
            todo.extend(inference_env.removal(self.host, item))
        return todo


def _gate_source() -> str:
    """Source text of the gatekeeper, from a checkout or from inside a shipped archive alike."""
    return source_of(enginegate.__name__)


def build(host: Host, plan: Dict[str, Any], part: str = WHOLE) -> InferenceStage:
    """The stage for ``plan`` (an InferencePlan as JSON data), or a part of it. Raises schema.SchemaError."""
    return InferenceStage(host, load(InferencePlan, plan), part=part)


def _silent(state: Dict[str, Any]) -> Set[str]:
    """Units of services that run here and do not answer."""
    services = list(state["engines"].values()) + list(state["routers"].values())
    return {item["unit"] for item in services if item["mode"] != "files" and not item["healthy"]}
