"""The target stage: a box with the kernel's NVMe-oF target exports its SSDs as planned.

What g35ctl made is known from the plan and from the plan that was applied before (``/etc/g35ctl/target.json``, which
is written only after everything else holds). Everything else in configfs belongs to somebody else and stays as it is.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from . import ana, network, nvmet, ssd, target_stripes
from .converge import Change, Finding, Stage
from .host import Host
from .managed import CONFIG, boot_files, file_changes, removal_changes, unit_changes, unit_findings
from .plans import ControllerIds, File, Portal, TargetNamespace, TargetPlan
from .schema import SchemaError, load
from .target_keys import KEYS_FILE, KeyRing
from .target_psks import TargetPsks

#: how long a boot unit waits for devices and addresses, seconds
BOOT_WAIT = 120.0
_MARKER = CONFIG + "/target.json"
_MODULES = (
    "ana", "contents", "dhchap", "network", "nvmet", "psk_ring", "ssd", "stripe", "target", "target_keys",
    "target_psks", "target_stripes", "tlspsk", "xfs",
)  # fmt: skip


class TargetStage(Stage):
    """Applies a TargetPlan. ``wait`` is how long the first read waits for what must appear by itself, seconds."""

    name = "target"
    settle_seconds = 5.0

    def __init__(
        self,
        host: Host,
        plan: TargetPlan,
        boots: bool = True,
        wait: float = 0.0,
        secrets: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(host)
        self.plan = plan
        self.wait = wait
        self.ring = KeyRing(host, plan, secrets)
        self.psks = TargetPsks(host, plan, secrets)
        self.files = plan.files + (boot_files("target", plan, _MODULES) if boots else ())
        self.files += self.ring.files + self.psks.files
        self.ports: Dict[str, Portal] = {str(portal.port_id): portal for portal in plan.portals}
        self.subsystems: Dict[str, List[TargetNamespace]] = {}
        for namespace in plan.namespaces:
            self.subsystems.setdefault(namespace.nqn, []).append(namespace)
        self.identity = nvmet.Identity(plan.firmware, plan.controller_ids)
        transports = sorted({portal.transport for portal in plan.portals})
        self.modules = ["nvmet"] + ["nvmet_%s" % transport for transport in transports]

    # reading

    def read(self) -> Dict[str, Any]:
        """``subsystems`` and ``ports`` that are ours, ``hosts``, what is ``foreign``, and connected ``sessions``."""
        self._await()
        host = self.host
        before = self._previous()
        ours = set(self.subsystems) | set(before["subsystems"])
        our_ports = set(self.ports) | set(before["ports"])
        present = host.list(nvmet.ROOT + "/subsystems")
        ports = host.list(nvmet.ROOT + "/ports")
        addresses = sorted({portal.address for portal in self.plan.portals})
        sessions = network.target_sessions(host, addresses)
        return {
            "modules": [name for name in self.modules if host.exists("/sys/module/%s" % name)],
            "subsystems": {nqn: nvmet.read_subsystem(host, nqn) for nqn in present if nqn in ours},
            "ports": {port_id: nvmet.read_port(host, port_id) for port_id in ports if port_id in our_ports},
            "hosts": host.list(nvmet.ROOT + "/hosts"),
            "previous": before,
            "keys": self.ring.read(before["hosts"]),
            "tls": self.psks.read(),
            "foreign": {
                "subsystems": [nqn for nqn in present if nqn not in ours],
                "ports": {port_id: nvmet.read_port(host, port_id) for port_id in ports if port_id not in our_ports},
            },
            "sessions": sessions,
            "controllers": {nqn: nvmet.controllers(host, nqn) for nqn in present if nqn in ours},
            "listening": {
                port_id: network.listening(host, portal.transport, portal.address, portal.port)
                for port_id, portal in self.ports.items()
            },
        }

    def _previous(self) -> Dict[str, List[str]]:
        """Names of what the plan applied before made."""
        try:
            plan = load(TargetPlan, json.loads(self.host.read(_MARKER) or "null"))
        except (ValueError, SchemaError):
            return {"subsystems": [], "ports": [], "hosts": []}
        return {
            "subsystems": sorted({item.nqn for item in plan.namespaces}),
            "ports": sorted({str(item.port_id) for item in plan.portals}),
            "hosts": sorted({name for item in plan.namespaces for name in item.allowed_hosts} - {nvmet.ANY_HOST}),
        }

    def _await(self) -> None:
        """At boot, give devices and addresses time to appear before anything is read."""
        seconds, self.wait = self.wait, 0.0
        if seconds:
            self.host.wait_until(
                lambda: not [item for item in self.preflight() if item.severity == "error"], seconds, interval=1.0
            )

    # judging

    def preflight(self) -> List[Finding]:
        found = ssd.plan_findings(self.plan) + ana.plan_findings(self.plan)
        if found:
            return found
        before = self._previous()
        present = self.host.list(nvmet.ROOT + "/subsystems")
        foreign = [nqn for nqn in present if nqn not in self.subsystems and nqn not in before["subsystems"]]
        found += ssd.module_findings(self.host, self.modules)
        found += self.ring.preflight() + self.psks.preflight()
        found += ssd.device_findings(self.host, self.plan, foreign, target_stripes.assembled_here(self.host, self.plan))
        local = {item.rpartition("/")[0] for have in network.addresses_of(self.host).values() for item in have}
        for portal in self.plan.portals:
            if portal.address not in local:
                found.append(
                    Finding("target.address", portal.address, "not on this host", "an address of this host",
                            "configure it on the box, or correct the portal in g35_ebof")
                )  # fmt: skip
        return found + self._port_conflicts(before)

    def _port_conflicts(self, before: Dict[str, List[str]]) -> List[Finding]:
        found = []
        for port_id in self.host.list(nvmet.ROOT + "/ports"):
            have = nvmet.read_port(self.host, port_id)
            if port_id in before["ports"]:
                continue
            strangers = sorted(set(have["links"].values()) - set(self.subsystems) - set(before["subsystems"]))
            if port_id in self.ports and strangers:
                found.append(
                    Finding("target.port", "port %s" % port_id, "in use for %s" % ", ".join(strangers), "free",
                            "remove that configuration, or give the portal another place in g35_ebof.portals")
                )  # fmt: skip
            for portal in self.plan.portals if port_id not in self.ports else ():
                if all(have[key] == value for key, value in nvmet.wanted_port(portal).items()):
                    found.append(
                        Finding("target.port", "%s:%d" % (portal.address, portal.port),
                                "taken by port %s, which g35ctl did not make" % port_id, "free",
                                "remove that configuration, or use another service port")
                    )  # fmt: skip
        return found

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        found = [
            Finding("target.%s" % change.what.split()[0], change.what, change.before, change.after,
                    "g35ctl deploy --only target")
            for change in self._live_changes(state)
        ]  # fmt: skip
        for port_id, portal in self.ports.items():
            linked = state["ports"].get(port_id, {}).get("links")
            if linked and state["listening"][port_id] is False:
                found.append(
                    Finding("target.listening", "%s:%d" % (portal.address, portal.port), "not listening",
                            "%s listener" % portal.transport, "see the kernel log for nvmet: dmesg | grep nvmet")
                )  # fmt: skip
        found += self.ring.findings() + self.psks.findings()
        return found + unit_findings(self.host, self.plan.units, "target.unit")

    # changing

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        todo = self._live_changes(state)
        # The plan is also the record of what is ours: it is replaced when nothing of the old one is left to remove.
        files = file_changes(self.host, self.files)
        return todo + files + unit_changes(self.host, self.plan.units, [change.what for change in files])

    def _live_changes(self, state: Dict[str, Any]) -> List[Change]:
        todo = [
            self._change("module %s" % name, "not loaded", "loaded", self._modprobe, name)
            for name in self.modules
            if name not in state["modules"]
        ]
        todo += target_stripes.changes(self.host, self.plan)
        todo += self._stale(state, set(self.subsystems), set(self.ports))
        todo += self.psks.target_changes(state)
        # Before anybody is let in, so that no host is ever admitted without its key.
        todo += self.ring.changes(state["keys"])
        for port_id, have in state["ports"].items():
            if port_id in self.ports:
                peers = state["sessions"] if have["links"] else []
                todo += ana.additions(self.host, port_id, self._ana(port_id), have["ana"], peers)
        for nqn, namespaces in self.subsystems.items():
            todo += self._subsystem_changes(nqn, namespaces, state)
        for port_id, portal in self.ports.items():
            todo += self._port_changes(port_id, portal, state)
            kept = state["ports"].get(port_id)
            todo += ana.removals(self.host, port_id, self._ana(port_id), kept["ana"]) if kept else []
        allowed = {name for item in self.plan.namespaces for name in item.allowed_hosts}
        return todo + self._stale_hosts(state, allowed)

    def _ana(self, port_id: str) -> Dict[str, str]:
        return ana.wanted(self.ports[port_id], self.plan.namespaces)

    def _modprobe(self, host: Host, name: str) -> None:
        host.must(["modprobe", name])

    def _change(
        self, what: str, before: str, after: str, do: Callable[..., Any], *arguments: Any, disruptive: str = ""
    ) -> Change:
        call: Callable[[], None] = functools.partial(do, self.host, *arguments)
        return Change(what, before, after, call, disruptive)

    def _stale(self, state: Dict[str, Any], keep: "set[str]", keep_ports: "set[str]") -> List[Change]:
        """Subsystems and ports of ours that are not to be kept."""
        todo = []
        gone = [nqn for nqn in state["subsystems"] if nqn not in keep]
        for nqn in gone:
            todo.append(
                self._change("subsystem %s" % nqn, "present", "absent", nvmet.remove_subsystem, nqn,
                             disruptive=self._live(state, nqn))
            )  # fmt: skip
        for port_id, have in state["ports"].items():
            if port_id in keep_ports:
                continue
            for nqn in sorted(set(have["links"].values()) & keep):
                todo.append(
                    self._change("link of %s to port %s" % (nqn, port_id), "present", "absent", _unlink, port_id, nqn,
                                 disruptive=self._live(state, nqn))
                )  # fmt: skip
            # A port that somebody else uses as well stays for them.
            if not set(have["links"].values()) - set(state["subsystems"]):
                todo.append(self._change("port %s" % port_id, have["traddr"], "absent", nvmet.remove_port, port_id))
        return todo

    def _stale_hosts(self, state: Dict[str, Any], keep: "set[str]") -> List[Change]:
        ours = list(state["subsystems"])
        return [
            self._change("host %s" % name, "present", "absent", nvmet.forget_host, name)
            for name in state["hosts"]
            if name in state["previous"]["hosts"] and name not in keep
            and not nvmet.is_allowed_somewhere(self.host, name, except_for=ours)
        ]  # fmt: skip

    def _live(self, state: Dict[str, Any], nqn: str) -> str:
        """What dropping a subsystem's controllers would interrupt; empty when nothing is connected."""
        if not any(nqn in port["links"].values() for port in state["ports"].values()):
            return ""
        known = state["controllers"].get(nqn)
        peers: Sequence[str] = state["sessions"] if known is None else known
        return "controllers of %s (connected: %s)" % (nqn, ", ".join(peers)) if peers else ""

    def _subsystem_changes(self, nqn: str, want: List[TargetNamespace], state: Dict[str, Any]) -> List[Change]:
        have = state["subsystems"].get(nqn)
        what = "subsystem %s" % nqn
        live = self._live(state, nqn)
        firmware = self.plan.firmware
        after = nvmet.identity_text(want[0].serial, want[0].model, firmware)
        make = (nqn, want, self.identity)
        if have is None:
            after = "%s, namespaces %s" % (after, ", ".join(str(item.nsid) for item in want))
            return [self._change(what, "absent", after, nvmet.create_subsystem, *make)]
        # Older kernels have no firmware revision to present.
        other = bool(firmware) and have["firmware"] not in (None, firmware)
        if other or (have["serial"], have["model"]) != (want[0].serial, want[0].model):
            before = nvmet.identity_text(have["serial"], have["model"], (have["firmware"] or "") if other else firmware)
            return [self._change(what, before, after, nvmet.rebuild_subsystem, *make, disruptive=live)]
        return (
            self._id_changes(nqn, have)
            + self._host_changes(nqn, want[0].allowed_hosts, have, live)
            + self._namespace_changes(nqn, want, have, live)
        )

    def _id_changes(self, nqn: str, have: Dict[str, Any]) -> List[Change]:
        """Controllers that exist keep their identifiers; hosts get new ones when they connect again."""
        want = self.plan.controller_ids or ControllerIds(*nvmet.ALL_CONTROLLER_IDS)
        if have["controller_ids"] == [want.lowest, want.highest] or (
            have["controller_ids"] == [None, None] and self.plan.controller_ids is None
        ):
            return []
        before = " to ".join(str(item) for item in have["controller_ids"])
        after = "%d to %d" % (want.lowest, want.highest)
        what = "controller identifiers of %s" % nqn
        return [self._change(what, before, after, nvmet.write_controller_ids, nqn, want)]

    def _host_changes(self, nqn: str, want: Tuple[str, ...], have: Dict[str, Any], live: str) -> List[Change]:
        what = "hosts of %s" % nqn
        after = ", ".join(sorted(want)) or "none"
        before = "any" if have["allow_any_host"] else ", ".join(have["allowed_hosts"]) or "none"
        if want == (nvmet.ANY_HOST,):
            return [] if have["allow_any_host"] else [self._change(what, before, "any", nvmet.open_to_all, nqn, want)]
        if have["allow_any_host"] or set(have["allowed_hosts"]) - set(want):
            return [self._change(what, before, after, nvmet.fence, nqn, want, disruptive=live)]
        if set(want) - set(have["allowed_hosts"]):
            return [self._change(what, before, after, _allow, nqn, want)]
        return []

    def _namespace_changes(
        self, nqn: str, want: List[TargetNamespace], have: Dict[str, Any], live: str
    ) -> List[Change]:
        todo = []
        planned = {str(item.nsid) for item in want}
        for nsid in have["namespaces"]:
            if nsid not in planned:
                what = "namespace %s of %s" % (nsid, nqn)
                todo.append(self._change(what, "present", "absent", nvmet.remove_namespace, nqn, nsid, disruptive=live))
        for item in want:
            now = have["namespaces"].get(str(item.nsid))
            wanted = {
                "device": item.device,
                "uuid": nvmet.compact(item.uuid),
                "nguid": nvmet.compact(item.nguid),
                "enabled": True,
                "buffered_io": item.buffered_io,
                "ana_group": item.ana_group,
            }
            what = "namespace %d of %s" % (item.nsid, nqn)
            if now is not None and now != wanted and {**now, "ana_group": item.ana_group} == wanted:
                before, after = ("ana group %d" % group for group in (now["ana_group"], item.ana_group))
                todo.append(self._change(what, before, after, nvmet.write_ana_group, item))
            elif now != wanted:
                # One that is not enabled serves nobody.
                note = live if now is not None and now["enabled"] else ""
                before = nvmet.namespace_text(now) if now else "absent"
                todo.append(
                    self._change(
                        what, before, nvmet.namespace_text(wanted), nvmet.write_namespace, item, disruptive=note
                    )
                )
        return todo

    def _port_changes(self, port_id: str, portal: Portal, state: Dict[str, Any]) -> List[Change]:
        have = state["ports"].get(port_id)
        wanted = nvmet.wanted_port(portal)
        todo: List[Change] = []
        links = set(have["links"].values()) if have else set()
        size = self.plan.max_queue_size
        resized = have is not None and size and have["max_queue_size"] not in (None, size)
        if have is None or resized or nvmet.port_differs(have, portal):
            before = nvmet.port_text(have) if have else "absent"
            # New sessions carry the port's address; whoever is linked here may be connected.
            peers = ", ".join(state["sessions"]) if links else ""
            note = "controllers through port %s (connected: %s)" % (port_id, peers) if peers else ""
            after = nvmet.port_text({**wanted, "tls": portal.tls, "max_queue_size": size})
            what = "port %s" % port_id
            todo.append(self._change(what, before, after, nvmet.write_port, portal, size, disruptive=note))
        if have is None:
            todo += ana.additions(self.host, port_id, self._ana(port_id), {"1": "optimized"}, ())
        for nqn in self.subsystems:
            if nqn not in links:
                what = "link of %s to port %s" % (nqn, port_id)
                todo.append(self._change(what, "absent", portal.address, nvmet.link, port_id, nqn))
        return todo

    def draining(self, state: Dict[str, Any]) -> List[Change]:
        """Take our subsystems off the ports: hosts keep their devices and reconnect when they come back."""
        return [
            self._change("link of %s to port %s" % (nqn, port_id), "present", "absent", _unlink, port_id, nqn,
                         disruptive=self._live(state, nqn))
            for port_id, have in state["ports"].items()
            for nqn in sorted(set(have["links"].values()) & set(state["subsystems"]))
        ]  # fmt: skip

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """Unit, then everything of ours in configfs, then the files; the data on the SSDs stays."""
        todo = self._stale(state, set(), set()) + self._stale_hosts_all(state) + self.psks.target_leaving(state)
        # The unit's own stop unlinks; it must not do so before consent to what that interrupts.
        return (
            removal_changes(self.host, (), self.plan.units) + todo + removal_changes(self.host, self._every_file(), ())
        )

    def _every_file(self) -> List[File]:
        keys = [File(KEYS_FILE, ""), *self.psks.gone_files()]
        going = {item.path for item in keys}
        return [item for item in self.files if item.path not in going] + keys

    def _stale_hosts_all(self, state: Dict[str, Any]) -> List[Change]:
        planned = {name for item in self.plan.namespaces for name in item.allowed_hosts} - {nvmet.ANY_HOST}
        previous = {"hosts": sorted(planned | set(state["previous"]["hosts"]))}
        return self._stale_hosts({**state, "previous": previous}, set())


def build(host: Host, plan: Dict[str, Any], secrets: Optional[Mapping[str, Any]] = None) -> TargetStage:
    """The stage of a plan in its JSON form; ``secrets`` are keys by host NQN. Raises schema.SchemaError."""
    return TargetStage(host, load(TargetPlan, plan), secrets=secrets)


def boot_stage(host: Host, plan: Dict[str, Any]) -> TargetStage:
    """The stage as the boot unit runs it: waiting for SSDs and addresses, its files left alone."""
    return TargetStage(host, load(TargetPlan, plan), boots=False, wait=BOOT_WAIT)


def _unlink(host: Host, port_id: str, nqn: str) -> None:
    nvmet.unlink(host, port_id, nqn)


def _allow(host: Host, nqn: str, names: Sequence[str]) -> None:
    for name in names:
        nvmet.allow_host(host, nqn, name)
