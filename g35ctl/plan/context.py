"""What the stage planners share: the site and the decisions that concern more than one host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ansible.module_utils.g35.plans import HostKey, TlsKey, Wheel

from g35ctl.plan.custody import Custody
from g35ctl.plan.identity import endpoint, host_nqn
from g35ctl.plan.model import Ownership
from g35ctl.plan.stripes import Volume, volumes
from g35ctl.site.keys import HostKeys
from g35ctl.site.model import HostPort, Site, SiteHost


@dataclass(frozen=True)
class WheelSet:
    """Which wheels a host's Mooncake needs; ``directory`` is the wheelhouse's path on the controller, ``target`` the
    Python and machine of the host (3.11/x86_64), empty where the site does not say."""

    directory: str
    distribution: str
    version: str
    target: str = ""


@dataclass(frozen=True)
class Paths:
    """Directories of the controller that the plan names: the inventory's, where relative paths of the site start, and
    the one that holds the wheelhouses of sites that name none."""

    inventory: str = "."
    wheelhouses: str = "wheelhouse"

    def resolve(self, path: str) -> str:
        """A path that the site states: absolute, below the user's home, or relative to the inventory."""
        return str(Path(self.inventory) / Path(path).expanduser())


@dataclass(frozen=True)
class Master:
    """Where the Mooncake master answers, ``address:port`` each.

    With two masters ``rpc`` is ``etcd://`` and the members of etcd with ``;`` between them, ``admin`` both with a comma
    between them, and ``cluster_id`` what every client has to be given as MC_STORE_CLUSTER_ID; it is empty with one.
    ``host`` is the first of ``hosts``.
    """

    host: str
    rpc: str
    admin: str
    hosts: tuple[str, ...] = ()
    cluster_id: str = ""


@dataclass(frozen=True)
class Context:
    """One planning: the site, who owns what, and what the controller has."""

    site: Site
    ownership: tuple[Ownership, ...]
    wheels: Mapping[WheelSet, tuple[Wheel, ...]] = field(default_factory=dict)
    paths: Paths = Paths()
    keys: Mapping[str, HostKeys] = field(default_factory=dict)
    custody: Custody = field(default_factory=Custody)

    @cached_property
    def absent(self) -> frozenset[str]:
        """Members that are out of service and asked nothing. The master's host stays: the pool depends on it."""
        owning = set(self.owned)
        master = self.master.host if self.master is not None else ""
        away = set(self.custody.away) - owning - self.custody.letting_go - {master}
        heads = {head for box in self.custody.removed for head in self.heads(box)}
        return frozenset(away | heads)

    @cached_property
    def fenced(self) -> frozenset[tuple[str, str]]:
        """(Box, subsystem) that nobody may connect to now, for every head of a box."""
        return frozenset(
            (head, item.nqn)
            for item in self.ownership
            if item.uuid in self.custody.fenced
            for head in self.heads(item.box)
        )

    @cached_property
    def hosts(self) -> Mapping[str, SiteHost]:
        """Hosts by name."""
        return {host.name: host for host in self.site.hosts}

    @cached_property
    def rail_order(self) -> Mapping[str, int]:
        """Rail name to its place in the site's list: the first rail carries control traffic."""
        return {rail.name: place for place, rail in enumerate(self.site.fabric.rails)}

    @cached_property
    def prefix_lengths(self) -> Mapping[str, int]:
        """Rail name to the prefix length of its subnet."""
        return {rail.name: rail.subnet.prefixlen for rail in self.site.fabric.rails}

    @cached_property
    def owned(self) -> Mapping[str, tuple[Ownership, ...]]:
        """Owner to its namespaces, in the order of their names."""
        found: dict[str, list[Ownership]] = {}
        for item in self.ownership:
            found.setdefault(item.owner, []).append(item)
        return {owner: tuple(items) for owner, items in found.items()}

    @cached_property
    def volumes(self) -> Mapping[str, tuple[Volume, ...]]:
        """Owner to what its stores lie on."""
        name = self.site.identity.name
        return {owner: volumes(name, items, self.custody) for owner, items in self.owned.items()}

    @cached_property
    def owners(self) -> tuple[SiteHost, ...]:
        """Cache owners that own something, in inventory order."""
        return tuple(host for host in self.site.group("cache_owners") if host.name in self.owned)

    @cached_property
    def boxes(self) -> Mapping[str, SiteHost]:
        """Boxes by name."""
        return {host.name: host for host in self.site.group("ebof") if host.box is not None}

    def heads(self, box: str) -> tuple[str, ...]:
        """A box and the boxes that are further heads of it."""
        return (box, *(name for name, host in self.boxes.items() if host.box is not None and host.box.head_of == box))

    def primary(self, box: str) -> str:
        """The box that another one is a head of; most are their own."""
        found = self.boxes[box].box if box in self.boxes else None
        return box if found is None or found.head_of is None else found.head_of

    @cached_property
    def owner_nqns(self) -> Mapping[tuple[str, str], str]:
        """Host NQN of the owner of each (box, subsystem), for every head of a box."""
        nqns = {host.name: host_nqn(self.site, host) for host in self.owners}
        return {(head, item.nqn): nqns[item.owner] for item in self.ownership for head in self.heads(item.box)}

    def authentication(self, host: SiteHost) -> HostKey | None:
        """The key that a host proves itself with, or None. Raises KeyError when it needs one that was not read."""
        if host.nvme.authentication.mode == "none":
            return None
        keys = self.keys[host.name]
        nqn = host_nqn(self.site, host)
        return HostKey(nqn, keys.digest, keys.key_file, keys.controller_digest, keys.controller_key_file)

    def tls_key(self, host: SiteHost) -> TlsKey | None:
        """The TLS key of a host's connections, or None. Raises KeyError when it needs one that was not read."""
        if host.nvme.tls.mode == "none":
            return None
        keys = self.keys[host.name]
        return TlsKey(host_nqn(self.site, host), keys.psk_digest, keys.psk_file)

    @cached_property
    def tls(self) -> bool:
        """Whether the boxes take connections with TLS only. The site's checks see to it that all owners agree."""
        return any(host.nvme.tls.mode == "psk" for host in self.owners)

    @cached_property
    def managed_nqns(self) -> tuple[str, ...]:
        """Every subsystem of the site, sorted."""
        return tuple(
            sorted({item.nqn for host in self.boxes.values() if host.box is not None for item in host.box.namespaces})
        )

    @property
    def raw(self) -> bool:
        """Whether Mooncake opens the namespaces itself, and no host owns, connects or mounts one."""
        return self.site.identity.profile == "nof-experimental"

    @cached_property
    def master(self) -> Master | None:
        """The Mooncake master or pair of masters, or None while the site has no usable one."""
        usable = [(host, port) for host in self.site.group("mooncake_masters") if (port := self.first_port(host))]
        if not usable:
            return None
        names = tuple(host.name for host, _ in usable)
        admin = ",".join(endpoint(port.address, host.mooncake.master.metrics_port) for host, port in usable)
        first, port = usable[0]
        settings = first.mooncake.master
        if len(usable) == 1:
            return Master(first.name, endpoint(port.address, settings.rpc_port), admin, names)
        rpc = "etcd://" + ";".join(
            endpoint(port.address, host.mooncake.etcd.client_port) for host, port in self.etcd_members
        )
        return Master(first.name, rpc, admin, names, settings.cluster_id or self.site.identity.name)

    @cached_property
    def etcd_members(self) -> tuple[tuple[SiteHost, HostPort], ...]:
        """Members of etcd, each with the port it is known by; none while the site has a single master."""
        if len(self.site.group("mooncake_masters")) < 2:
            return ()
        return tuple((host, port) for host in self.site.group("etcd") if (port := self.first_port(host)))

    def ports(self, host: SiteHost) -> tuple[HostPort, ...]:
        """The host's data ports on rails of the site, in rail order."""
        usable = [port for port in host.ports if port.rail in self.rail_order]
        return tuple(sorted(usable, key=lambda port: (self.rail_order[port.rail], port.netdev)))

    def first_port(self, host: SiteHost) -> HostPort | None:
        """The port whose address the host's services are known by: the one on the first rail it has."""
        ports = self.ports(host)
        return ports[0] if ports else None

    @property
    def protocol(self) -> str:
        """``rdma`` or ``tcp``: NVMe-oF and Mooncake use the same."""
        return self.site.fabric.transport

    def devices(self, host: SiteHost) -> tuple[str, ...]:
        """Network devices that carry the host's Mooncake data; none with tcp, which routes by address."""
        return tuple(port.netdev for port in self.ports(host)) if self.protocol == "rdma" else ()
