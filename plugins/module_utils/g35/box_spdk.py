"""Boxes that run SPDK's nvmf_tgt, driven by JSON-RPC through the published ``spdk`` Python package.

The target's own listing is compared first, so that a box that is as planned gets nothing but questions. Subsystems
that the plan does not name are never touched. SPDK keeps its configuration in memory: what happens to it when the
target restarts is the business of whoever starts it (docs/drivers.md).
"""

from __future__ import annotations

import re
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .box import ANY_HOST, BoxError, Driver, Seen, SeenNamespace, SeenPortal, SeenSubsystem
from .converge import Change, Finding
from .host import Host
from .plans import BoxPlan, Portal, SpdkAccess, TargetNamespace

DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
_MESSAGE = re.compile(r'"message": "([^"]*)"')
_FAMILIES = {"ipv4": "IPv4", "ipv6": "IPv6"}


class SpdkRpc:
    """A JSON-RPC connection, opened at the first call. Raises BoxError with the target's own words."""

    def __init__(self, socket: str, seconds: float = 30.0) -> None:
        self.socket = socket
        self.seconds = seconds
        self._client: Any = None

    def call(self, method: str, parameters: Optional[Dict[str, Any]] = None) -> Any:
        """The result of one method."""
        client = self._connected()
        try:
            return client.call(method, dict(parameters or {}))
        except self._failure as error:
            raise BoxError("%s: %s" % (method, _words(error)), "see the log of the SPDK target") from error
        except OSError as error:
            raise BoxError("%s: %s: %s" % (self.socket, method, error), "see the log of the SPDK target") from error

    def _connected(self) -> Any:
        if self._client is None:
            try:
                from spdk.rpc.client import JSONRPCClient, JSONRPCException  # type: ignore[import-untyped,import-not-found,unused-ignore]
            except ImportError as error:
                raise BoxError(
                    "the Python package spdk is not installed for %s" % sys.executable,
                    "install it beside g35ctl: pip install 'g35ctl[spdk]'",
                ) from error
            self._failure = JSONRPCException
            try:
                self._client = JSONRPCClient(self.socket, timeout=self.seconds)
            except JSONRPCException as error:
                raise BoxError(
                    "%s: no SPDK target answers: %s" % (self.socket, _words(error)),
                    "start nvmf_tgt, or forward its socket: ssh -N -L %s:/var/tmp/spdk.sock BOX" % self.socket,
                ) from error
        return self._client


def _words(error: Any) -> str:
    """The last, telling part of the client's long message; its echo of the request says nothing new."""
    text = str(getattr(error, "message", error))
    found = _MESSAGE.findall(text)
    return str(found[-1]) if found else text.strip().splitlines()[-1] if text.strip() else "no reason given"


class SpdkDriver(Driver):
    """Driver ``spdk``."""

    name = "spdk"

    def __init__(self, host: Host, plan: BoxPlan, rpc: Optional[SpdkRpc] = None) -> None:
        super().__init__(host, plan)
        if plan.spdk is None:
            raise BoxError("the plan says nothing about SPDK", "set g35_ebof.spdk.socket")
        self.access: SpdkAccess = plan.spdk
        self.rpc = rpc or SpdkRpc(self.access.socket)
        #: alias of a bdev -> its name, by which the target lists it whatever it was added as
        self._names: Dict[str, str] = {}

    # reading

    def preflight(self) -> List[Finding]:
        found = []
        try:
            bdevs = {item["name"]: item for item in self.rpc.call("bdev_get_bdevs")}
        except BoxError as error:
            return [Finding("box.reach", self.access.socket, str(error), "an SPDK target", error.remedy)]
        aliases = {alias for item in bdevs.values() for alias in item.get("aliases", ())}
        for item in self.plan.namespaces:
            if item.device not in bdevs and item.device not in aliases:
                known = ", ".join(sorted(bdevs)[:8]) or "no bdev"
                found.append(
                    Finding("box.bdev", item.device, "the target has %s" % known, "a bdev of that name",
                            "attach the SSD (bdev_nvme_attach_controller), or correct bdev in g35_ebof")
                )  # fmt: skip
        return found

    def discover(self) -> Seen:
        sizes, used = {}, set()
        for item in self.rpc.call("bdev_get_bdevs"):
            name = str(item["name"])
            sizes[name] = int(item.get("block_size", 0)) * int(item.get("num_blocks", 0))
            self._names.update({str(alias): name for alias in item.get("aliases", ())})
            if item.get("claimed"):
                used.add(name)
        found, details = [], {}
        for item in self.rpc.call("nvmf_get_subsystems"):
            if item.get("subtype", "NVMe") == "NVMe" and item["nqn"] != DISCOVERY:
                found.append(self._subsystem(item, sizes))
                details.update(_details(item))
        transports = [str(item["trtype"]).lower() for item in self.rpc.call("nvmf_get_transports")]
        details["transports"] = " ".join(sorted(transports))
        portals = sorted({portal for item in found for portal in item.portals}, key=str)
        exported = {namespace.device for item in found for namespace in item.namespaces} | used
        free = [SeenNamespace(1, size=sizes[name], device=name) for name in sorted(sizes) if name not in exported]
        return Seen(self.name, tuple(found), "SPDK", portals=tuple(portals), details=details, free_devices=tuple(free))

    def _subsystem(self, item: Dict[str, Any], sizes: Dict[str, int]) -> SeenSubsystem:
        nqn = str(item["nqn"])
        controllers = self.rpc.call("nvmf_subsystem_get_controllers", {"nqn": nqn})
        return SeenSubsystem(
            nqn=nqn,
            portals=tuple(
                SeenPortal(str(at["traddr"]), int(at["trsvcid"]), str(at.get("trtype", "")).lower())
                for at in item.get("listen_addresses", ())
            ),
            namespaces=tuple(_namespace(space, sizes) for space in item.get("namespaces", ())),
            allowed_hosts=tuple(str(host["nqn"]) for host in item.get("hosts", ())),
            any_host=bool(item.get("allow_any_host")),
            serial=str(item.get("serial_number", "")),
            model=str(item.get("model_number", "")),
            controllers=tuple(str(one.get("hostnqn", "")) for one in controllers),
        )

    # changing

    def changes(self, seen: Seen) -> List[Change]:
        todo = []
        for transport in sorted({portal.transport for portal in self.plan.portals}):
            if transport not in seen.details.get("transports", "").split():
                todo.append(self.change("transport %s" % transport, "absent", "present", self._transport, transport))
        for nqn, wanted in sorted(self.desired.items()):
            have = seen.subsystem(nqn)
            if have is None:
                todo.append(self.change("subsystem %s" % nqn, "absent", _text(wanted), self._create, nqn, wanted))
            elif self._identity(have, seen) != self._wanted_identity(wanted, seen):
                todo.append(
                    self.change("subsystem %s" % nqn, self._identity(have, seen), self._wanted_identity(wanted, seen),
                                self._recreate, nqn, wanted, disruptive=self.live(have))
                )  # fmt: skip
            else:
                todo += self._access_changes(have, wanted[0].allowed_hosts, seen)
                todo += self._namespace_changes(have, wanted)
                todo += self._listener_changes(have)
        return todo

    def removal(self, seen: Seen) -> List[Change]:
        return [
            self.change("subsystem %s" % have.nqn, "present", "absent", self._delete, have.nqn,
                        disruptive=self.live(have))
            for have in seen.subsystems
            if have.nqn in self.desired
        ]  # fmt: skip

    def _identity(self, have: SeenSubsystem, seen: Seen) -> str:
        """How a subsystem was made, which cannot be changed afterwards."""
        told = [seen.details.get("%s %s" % (name, have.nqn)) for name in ("controllers", "ANA")]
        return ", ".join(["serial %s" % have.serial, "model %s" % have.model] + [item for item in told if item])

    def _wanted_identity(self, wanted: Sequence[TargetNamespace], seen: Seen) -> str:
        """The same as planned, as far as this SPDK tells it of an existing subsystem."""
        access, nqn = self.access, wanted[0].nqn
        parts = ["serial %s" % wanted[0].serial, "model %s" % wanted[0].model]
        if "controllers %s" % nqn in seen.details:
            parts.append(_range(access.min_cntlid, access.max_cntlid))
        if "ANA %s" % nqn in seen.details:
            parts.append(_ana(access.ana))
        return ", ".join(parts)

    def _transport(self, transport: str) -> None:
        parameters = {
            "trtype": transport.upper(),
            "max_queue_depth": self.access.max_queue_depth,
            "max_io_qpairs_per_ctrlr": self.access.max_io_qpairs,
        }
        self.rpc.call("nvmf_create_transport", parameters)

    def _create(self, nqn: str, wanted: Sequence[TargetNamespace]) -> None:
        access = self.access
        self.rpc.call(
            "nvmf_create_subsystem",
            {
                "nqn": nqn,
                "serial_number": wanted[0].serial,
                "model_number": wanted[0].model,
                "allow_any_host": False,
                "ana_reporting": access.ana,
                "min_cntlid": access.min_cntlid,
                "max_cntlid": access.max_cntlid,
            },
        )
        # A host that is let in must find its namespaces, and a listener opens the door: both come last.
        for item in wanted:
            self._add_namespace(item)
        for host_nqn in wanted[0].allowed_hosts:
            self.grant(nqn, host_nqn)
        for portal in self.plan.portals:
            self._listener("nvmf_subsystem_add_listener", nqn, portal)

    def _recreate(self, nqn: str, wanted: Sequence[TargetNamespace]) -> None:
        self._delete(nqn)
        self._create(nqn, wanted)

    def _delete(self, nqn: str) -> None:
        self.rpc.call("nvmf_delete_subsystem", {"nqn": nqn})

    def _access_changes(self, have: SeenSubsystem, wanted: Sequence[str], seen: Seen) -> List[Change]:
        todo = []
        allowed = have.allowed_hosts or ()
        strangers = set(allowed) - set(wanted)
        what = "hosts of %s" % have.nqn
        for host_nqn in sorted(set(wanted) - set(allowed)):
            todo.append(
                self.change(what, "%s refused" % self.named(host_nqn), "allowed", self.grant, have.nqn, host_nqn)
            )
        # The owner is in the list before the door is closed to everybody else.
        if have.any_host:
            others = None if have.controllers is None else set(have.controllers) - set(wanted)
            note = self.live(have, others)
            todo.append(self.change(what, ANY_HOST, "listed hosts only", self._close, have.nqn, disruptive=note))
        for host_nqn in sorted(strangers):
            note = self.live(have, {host_nqn})
            todo.append(
                self.change(what, "%s allowed" % self.named(host_nqn), "refused", self.revoke, have.nqn, host_nqn,
                            disruptive=note)
            )  # fmt: skip
        for host_nqn in sorted(set(wanted) & set(allowed)):
            key, told = self._keys(host_nqn), seen.details.get("key %s %s" % (have.nqn, host_nqn))
            if key and told != key[0]:
                todo.append(
                    self.change("key of %s for %s" % (self.named(host_nqn), have.nqn), told or "none", key[0],
                                self._set_keys, have.nqn, host_nqn)
                )  # fmt: skip
        return todo

    def _close(self, nqn: str) -> None:
        self.rpc.call("nvmf_subsystem_allow_any_host", {"nqn": nqn, "allow_any_host": False})

    def _keys(self, host_nqn: str) -> Tuple[str, ...]:
        """Names of the host's and the controller's key in the target's keyring; empty without authentication."""
        name = self.plan.owners.get(host_nqn, "")
        given = (self.access.dhchap_key, self.access.dhchap_controller_key)
        return tuple(item.replace("{host}", name) for item in given if item)

    def _key_parameters(self, host_nqn: str) -> Dict[str, str]:
        return dict(zip(("dhchap_key", "dhchap_ctrlr_key"), self._keys(host_nqn)))

    def _set_keys(self, nqn: str, host_nqn: str) -> None:
        parameters = {"nqn": nqn, "host": host_nqn}
        parameters.update(self._key_parameters(host_nqn))
        self.rpc.call("nvmf_subsystem_set_keys", parameters)

    def grant(self, nqn: str, host_nqn: str) -> None:
        for item in self.rpc.call("nvmf_get_subsystems", {"nqn": nqn}):
            if host_nqn in [str(host["nqn"]) for host in item.get("hosts", ())]:
                return
        parameters = {"nqn": nqn, "host": host_nqn}
        parameters.update(self._key_parameters(host_nqn))
        self.rpc.call("nvmf_subsystem_add_host", parameters)

    def revoke(self, nqn: str, host_nqn: str) -> None:
        for item in self.rpc.call("nvmf_get_subsystems", {"nqn": nqn}):
            if host_nqn in [str(host["nqn"]) for host in item.get("hosts", ())]:
                self.rpc.call("nvmf_subsystem_remove_host", {"nqn": nqn, "host": host_nqn})

    def _namespace_changes(self, have: SeenSubsystem, wanted: Sequence[TargetNamespace]) -> List[Change]:
        todo = []
        now = {item.nsid: item for item in have.namespaces}
        for nsid in sorted(set(now) - {item.nsid for item in wanted}):
            todo.append(
                self.change("namespace %d of %s" % (nsid, have.nqn), now[nsid].device, "absent",
                            self._remove_namespace, have.nqn, nsid, disruptive=self.live(have))
            )  # fmt: skip
        for item in wanted:
            seen = now.get(item.nsid)
            if seen is None:
                todo.append(
                    self.change("namespace %d of %s" % (item.nsid, have.nqn), "absent", _space_text(item),
                                self._add_namespace, item)
                )  # fmt: skip
            elif (seen.device, seen.uuid, seen.nguid) != (self._name(item.device), item.uuid, item.nguid):
                before = "bdev %s, UUID %s, NGUID %s" % (seen.device, seen.uuid, seen.nguid)
                todo.append(
                    self.change("namespace %d of %s" % (item.nsid, have.nqn), before, _space_text(item),
                                self._replace_namespace, item, disruptive=self.live(have))
                )  # fmt: skip
        return todo

    def _name(self, bdev: str) -> str:
        return self._names.get(bdev, bdev)

    def _add_namespace(self, item: TargetNamespace) -> None:
        namespace = {"nsid": item.nsid, "bdev_name": item.device, "uuid": item.uuid, "nguid": item.nguid.upper()}
        self.rpc.call("nvmf_subsystem_add_ns", {"nqn": item.nqn, "namespace": namespace})

    def _remove_namespace(self, nqn: str, nsid: int) -> None:
        self.rpc.call("nvmf_subsystem_remove_ns", {"nqn": nqn, "nsid": nsid})

    def _replace_namespace(self, item: TargetNamespace) -> None:
        self._remove_namespace(item.nqn, item.nsid)
        self._add_namespace(item)

    def _listener_changes(self, have: SeenSubsystem) -> List[Change]:
        todo = []
        wanted = {(item.address, item.port, item.transport): item for item in self.plan.portals}
        now = {(item.address, item.port, item.transport): item for item in have.portals}
        for key, portal in wanted.items():
            if key not in now:
                todo.append(
                    self.change("listener %s:%d of %s" % (portal.address, portal.port, have.nqn), "absent", "present",
                                self._listener, "nvmf_subsystem_add_listener", have.nqn, portal)
                )  # fmt: skip
        for key, gone in now.items():
            if key not in wanted:
                family = "ipv6" if ":" in gone.address else "ipv4"
                portal = Portal(gone.address, "", gone.transport, gone.port, family)
                todo.append(
                    self.change("listener %s of %s" % (gone, have.nqn), "present", "absent", self._listener,
                                "nvmf_subsystem_remove_listener", have.nqn, portal, disruptive=self.live(have))
                )  # fmt: skip
        return todo

    def _listener(self, method: str, nqn: str, portal: Portal) -> None:
        address = {
            "trtype": portal.transport.upper(),
            "adrfam": _FAMILIES[portal.family],
            "traddr": portal.address,
            "trsvcid": str(portal.port),
        }
        self.rpc.call(method, {"nqn": nqn, "listen_address": address})


def _namespace(item: Dict[str, Any], sizes: Dict[str, int]) -> SeenNamespace:
    device = str(item.get("bdev_name") or item.get("name") or "")
    nguid = str(item.get("nguid", "")).replace("-", "").lower()
    return SeenNamespace(int(item["nsid"]), str(item.get("uuid", "")).lower(), nguid, sizes.get(device, 0), device)


def _details(item: Dict[str, Any]) -> Dict[str, str]:
    """What of a subsystem only this driver compares: how it was made, and the hosts' keys."""
    found = {}
    nqn = str(item["nqn"])
    if "min_cntlid" in item:
        found["controllers %s" % nqn] = _range(item["min_cntlid"], item["max_cntlid"])
    if "ana_reporting" in item:
        found["ANA %s" % nqn] = _ana(bool(item["ana_reporting"]))
    for host in item.get("hosts", ()):
        if host.get("dhchap_key"):
            found["key %s %s" % (nqn, host["nqn"])] = str(host["dhchap_key"])
    return found


def _range(low: int, high: int) -> str:
    return "controllers %d-%d" % (low, high)


def _ana(on: bool) -> str:
    return "ANA %s" % ("on" if on else "off")


def _space_text(item: TargetNamespace) -> str:
    return "bdev %s, UUID %s, NGUID %s" % (item.device, item.uuid, item.nguid)


def _text(wanted: Sequence[TargetNamespace]) -> str:
    hosts = ", ".join(wanted[0].allowed_hosts) or "no host"
    spaces = ", ".join("%d (%s)" % (item.nsid, item.device) for item in wanted)
    return "serial %s, namespaces %s, for %s" % (wanted[0].serial, spaces, hosts)
