"""Boxes with a Redfish or Swordfish service: NVMe-oF endpoints are read, access is given by connections or zones.

What a firmware does not offer is said as such, together with what to do by hand: the Swordfish model of access control
is young, and many boxes only let endpoints be read. Subsystems are the box's own; this driver makes none.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Set

from .box import BoxError, ByHand, Driver, Seen, SeenSubsystem, instruction
from .converge import Change, Finding
from .host import Host
from .plans import BoxPlan, RedfishInterface
from .redfish import NOT_OFFERED, ROOT, RedfishClient, RedfishRefused, links
from .swordfish import (
    NO_ADDRESS,
    PROTOCOL,
    Access,
    FabricView,
    connection_ends,
    endpoint_nqn,
    endpoint_portals,
    endpoint_roles,
    endpoint_storages,
    volume_namespace,
)

UNSUPPORTED = "not supported by this firmware"

Connect = Callable[[str], RedfishClient]


class RedfishDriver(Driver):
    """Driver ``redfish``. ``connect`` makes a client for a management address; tests hand in their own."""

    name = "redfish"

    def __init__(self, host: Host, plan: BoxPlan, password: str = "", connect: Optional[Connect] = None) -> None:
        super().__init__(host, plan)
        if plan.redfish is None:
            raise BoxError("the plan says nothing about Redfish", "set g35_ebof.redfish")
        access = self.access = plan.redfish
        self._connect = connect or (lambda address: RedfishClient(address, access.username, password, access.ca_file))
        self._client: Optional[RedfishClient] = None
        self._fabrics: Optional[List[FabricView]] = None
        self._problems: List[str] = []
        self._root: Dict[str, Any] = {}

    # reading

    def preflight(self) -> List[Finding]:
        try:
            self._session()
        except BoxError as error:
            where = ", ".join(self.access.addresses)
            return [Finding("box.reach", where, str(error), "a Redfish service", error.remedy)]
        return [self._unreadable(text) for text in self._problems]

    def _session(self) -> RedfishClient:
        """The session with the first management processor that answers, once all were found to be of one chassis."""
        if self._client is not None:
            return self._client
        roots: Dict[str, Dict[str, Any]] = {}
        failed: List[BoxError] = []
        for address in self.access.addresses:
            client = self._connect(address)
            try:
                root = client.get(ROOT)
                if "RedfishVersion" not in root:
                    raise BoxError("%s: %s has no RedfishVersion" % (address, ROOT), "check the address")
                roots[address] = root
                if self._client is None:
                    client.login()
                    self._client, self._root = client, root
            except RedfishRefused:
                raise  # a wrong password is wrong everywhere, and trying again may lock the account
            except BoxError as error:
                failed.append(error)
        self._one_chassis(roots)
        if self._client is None:
            raise failed[0] if failed else BoxError("no management address is given", "set g35_ebof.redfish.addresses")
        self._problems = [str(error) for error in failed]
        return self._client

    def _one_chassis(self, roots: Dict[str, Dict[str, Any]]) -> None:
        told = {address: (str(root.get("UUID", "")), str(root.get("Product", ""))) for address, root in roots.items()}
        if len(set(told.values())) > 1:
            shown = "; ".join("%s: %s, UUID %s" % (address, pair[1] or "no product", pair[0] or "none")
                              for address, pair in told.items())  # fmt: skip
            raise BoxError(
                "the management addresses are not of one box: %s" % shown, "correct g35_ebof.redfish.addresses"
            )

    def close(self) -> None:
        if self._client is not None:
            self._client.logout()
            self._client = None

    def discover(self) -> Seen:
        client = self._session()
        self._fabrics = [
            view for item in client.members(_link(self._root, "Fabrics", client)) for view in self._fabric(client, item)
        ]
        found = [self._subsystem(view, nqn) for view in self._fabrics for nqn in sorted(view.targets)]
        details = {
            "interface %s" % item.path: _interface_text(client.get(item.path)) for item in self.access.interfaces
        }
        portals = sorted({portal for item in found for portal in item.portals}, key=str)
        return Seen(
            self.name, tuple(found), str(self._root.get("Product", "")), str(self._root.get("UUID", "")),
            tuple(portals), tuple(self._problems), details,
        )  # fmt: skip

    def _fabric(self, client: RedfishClient, fabric: Dict[str, Any]) -> List[FabricView]:
        endpoints = "".join(links(fabric.get("Endpoints"))[:1])
        if not endpoints:
            return []
        view = FabricView(str(fabric.get("@odata.id", "")), endpoints)
        for item in client.members(endpoints):
            nqn = endpoint_nqn(item)
            if item.get("EndpointProtocol") != PROTOCOL or not nqn:
                continue
            if endpoint_roles(item) & {"Target", "Both"}:
                view.targets.setdefault(nqn, []).append(item)
            if endpoint_roles(item) & {"Initiator", "Both"}:
                view.initiators[nqn] = str(item["@odata.id"])
        if not view.targets and not view.initiators:
            return []
        for storage in sorted(
            {path for items in view.targets.values() for item in items for path in endpoint_storages(item)}
        ):
            view.volumes[storage] = self._volumes(client, storage)
        self._read_access(client, fabric, view)
        return [view]

    @staticmethod
    def _volumes(client: RedfishClient, storage: str) -> List[Dict[str, Any]]:
        found = client.find(storage) or {}
        return [item for path in links(found.get("Volumes")) for item in client.members(path)]

    @staticmethod
    def _read_access(client: RedfishClient, fabric: Dict[str, Any], view: FabricView) -> None:
        groups: Dict[str, Set[str]] = {}
        for path in links(fabric.get("EndpointGroups")):
            for item in client.members(path):
                groups[str(item.get("@odata.id"))] = set(links((item.get("Links") or {}).get("Endpoints")))
        view.connections = "".join(links(fabric.get("Connections"))[:1])
        if view.connections:
            for item in client.members(view.connections):
                told = item.get("Links") or {}
                volumes = {path for one in item.get("VolumeInfo") or () for path in links(one.get("Volume"))}
                view.accesses.append(
                    Access(
                        str(item.get("@odata.id")),
                        connection_ends(told, "Initiator", groups),
                        connection_ends(told, "Target", groups),
                        volumes,
                    )
                )
            return
        view.zones = "".join(links(fabric.get("Zones"))[:1])
        hosts = set(view.initiators.values())
        for item in client.members(view.zones) if view.zones else ():
            ends = set(links((item.get("Links") or {}).get("Endpoints")))
            view.accesses.append(Access(str(item.get("@odata.id")), ends & hosts, ends - hosts))

    def _subsystem(self, view: FabricView, nqn: str) -> SeenSubsystem:
        transport = self.plan.portals[0].transport if self.plan.portals else "rdma"
        portals = {portal for item in view.targets[nqn] for portal in endpoint_portals(item, transport)}
        spaces = sorted((volume_namespace(item) for item in view.volumes_of(nqn)), key=lambda item: item.nsid)
        return SeenSubsystem(nqn, tuple(sorted(portals, key=str)), tuple(spaces), view.allowed(nqn))

    # changing

    def changes(self, seen: Seen) -> List[Change]:
        todo = self._interface_changes(seen)
        for nqn, wanted in sorted(self.desired.items()):
            have = seen.subsystem(nqn)
            if have is None or have.allowed_hosts is None:
                continue  # findings say what to do by hand
            hosts = wanted[0].allowed_hosts
            for host_nqn in sorted(set(hosts) - set(have.allowed_hosts)):
                todo.append(
                    self.change("hosts of %s" % nqn, "%s refused" % self.named(host_nqn), "allowed", self.grant, nqn,
                                host_nqn)
                )  # fmt: skip
            for host_nqn in sorted(set(have.allowed_hosts) - set(hosts)):
                todo.append(
                    self.change("hosts of %s" % nqn, "%s allowed" % self.named(host_nqn), "refused", self.revoke, nqn,
                                host_nqn, disruptive=self.live(have, {host_nqn}))
                )  # fmt: skip
        return todo

    def _interface_changes(self, seen: Seen) -> List[Change]:
        differing = []
        for item in self.access.interfaces:
            before = seen.details.get("interface %s" % item.path, "")
            if before != _wanted_text(item):
                differing.append((item, before))
        todo = []
        for number, (item, before) in enumerate(differing):
            at = before.partition("/")[0]
            note = "paths through %s" % at if at not in NO_ADDRESS else ""
            last = number == len(differing) - 1
            todo.append(
                self.change("interface %s" % item.path, before, _wanted_text(item), self._assign, item, last,
                            disruptive=note)
            )  # fmt: skip
        return todo

    def _assign(self, item: RedfishInterface, settle: bool) -> None:
        """Give a data port its address. The box answers at it only after a while, so the last one waits for all."""
        body = {
            "DHCPv4": {"DHCPEnabled": False},
            "IPv4StaticAddresses": [{"Address": item.address, "SubnetMask": item.netmask, "Gateway": "0.0.0.0"}],  # noqa: S104
            "MTUSize": item.mtu,
            "InterfaceEnabled": True,
        }
        try:
            self._session().post(item.path, body)
        except RedfishRefused as error:
            if error.status not in NOT_OFFERED:
                raise
            by_hand = "on %s, give interface %s the address %s, mask %s, MTU %d" % (
                self.plan.box, item.path, item.address, item.netmask, item.mtu,
            )  # fmt: skip
            raise ByHand("%s (%s)" % (UNSUPPORTED, error), by_hand) from error
        if settle:
            self.host.sleep(self.access.settle_seconds)

    def _view(self, nqn: str) -> FabricView:
        if self._fabrics is None:
            self.discover()
        for view in self._fabrics or ():
            if nqn in view.targets:
                return view
        raise BoxError("%s does not export %s" % (self.plan.box, nqn), "g35ctl discover %s" % self.plan.box)

    def grant(self, nqn: str, host_nqn: str) -> None:
        view = self._view(nqn)
        if host_nqn in (view.allowed(nqn) or ()):
            return
        if not view.connections and not view.zones:
            self._by_hand(nqn, host_nqn, True, "the fabric has neither connections nor zones")
        client = self._session()
        try:
            initiator = view.initiators.get(host_nqn) or self._register(client, view, host_nqn)
            targets = sorted(view.endpoints_of(nqn))
            volumes = sorted(str(item.get("@odata.id")) for item in view.volumes_of(nqn))
            name = "g35ctl %s %s" % (self.plan.site, self.plan.owners.get(host_nqn, host_nqn))
            if view.connections:
                path, _ = client.post(view.connections, _connection(name, initiator, targets, volumes))
            else:
                ends = [{"@odata.id": item} for item in (initiator, *targets)]
                body = {"Name": name, "ZoneType": "ZoneOfEndpoints", "Links": {"Endpoints": ends}}
                path, _ = client.post(view.zones, body)
        except RedfishRefused as error:
            if error.status not in NOT_OFFERED:
                raise
            self._by_hand(nqn, host_nqn, True, str(error), error)
        view.accesses.append(Access(path, {initiator}, set(targets), set(volumes if view.connections else ())))

    @staticmethod
    def _register(client: RedfishClient, view: FabricView, host_nqn: str) -> str:
        """Make the endpoint of a host that the box does not know yet."""
        body = {
            "Name": "g35ctl %s" % host_nqn.rpartition(":")[2],
            "EndpointProtocol": PROTOCOL,
            "Identifiers": [{"DurableNameFormat": "NQN", "DurableName": host_nqn}],
            "ConnectedEntities": [{"EntityType": "NetworkController", "EntityRole": "Initiator"}],
        }
        path, _ = client.post(view.endpoints, body)
        if not path:
            raise BoxError("POST %s made an endpoint without saying where" % view.endpoints, "update the firmware")
        view.initiators[host_nqn] = path
        return path

    def revoke(self, nqn: str, host_nqn: str) -> None:
        view = self._view(nqn)
        initiator = view.initiators.get(host_nqn, "")
        for item in [one for one in view.concerning(nqn) if initiator in one.initiators]:
            if item.initiators - {initiator} or item.targets - view.endpoints_of(nqn):
                why = "%s also serves other hosts or subsystems" % item.path
                self._by_hand(nqn, host_nqn, False, why)
            try:
                self._session().delete(item.path)
            except RedfishRefused as error:
                if error.status not in NOT_OFFERED:
                    raise
                if error.status != 404:  # one that is gone already is what was wanted
                    self._by_hand(nqn, host_nqn, False, str(error), error)
            view.accesses.remove(item)

    def _by_hand(
        self, nqn: str, host_nqn: str, allow: bool, why: str, cause: Optional[BaseException] = None
    ) -> NoReturn:
        raise ByHand("%s (%s)" % (UNSUPPORTED, why), instruction(self.plan, nqn, host_nqn, allow)) from cause


def _link(root: Dict[str, Any], name: str, client: RedfishClient) -> str:
    found = links(root.get(name))
    if not found:
        raise BoxError(
            "%s: the service has no %s: NVMe-oF endpoints are %s" % (client.address, name, UNSUPPORTED),
            "use driver discovery or static for this box",
        )
    return found[0]


def _interface_text(found: Dict[str, Any]) -> str:
    """Address, mask and MTU of an interface in one comparable text."""
    addresses: Sequence[Dict[str, Any]] = found.get("IPv4StaticAddresses") or found.get("IPv4Addresses") or ({},)
    first = addresses[0]
    dhcp = bool((found.get("DHCPv4") or {}).get("DHCPEnabled"))
    text = "%s/%s, MTU %s" % (
        first.get("Address") or "",
        first.get("SubnetMask") or "",
        found.get("MTUSize", "unknown"),
    )
    return text + (", DHCP" if dhcp else "")


def _wanted_text(item: RedfishInterface) -> str:
    return "%s/%s, MTU %d" % (item.address, item.netmask, item.mtu)


def _connection(name: str, initiator: str, targets: Sequence[str], volumes: Sequence[str]) -> Dict[str, Any]:
    return {
        "Name": name,
        "ConnectionType": "Storage",
        "VolumeInfo": [{"AccessCapabilities": ["Read", "Write"], "Volume": {"@odata.id": path}} for path in volumes],
        "Links": {
            "InitiatorEndpoints": [{"@odata.id": initiator}],
            "TargetEndpoints": [{"@odata.id": path} for path in targets],
        },
    }
