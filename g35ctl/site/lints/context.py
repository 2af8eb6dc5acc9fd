"""What a lint is given: the site, and where each part of it was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from g35ctl.site.model import BoxNamespace, BoxPortal, Site, SiteHost, SiteSwitch
from g35ctl.site.positions import SourceIndex, Step, locate, path_text
from g35ctl.site.problems import Position, Problem, Severity


@dataclass(frozen=True)
class Context:
    """A site under examination. ``partial`` names (host, variable) pairs that hold less than the user wrote, because
    of errors already reported: what is missing there must not be reported again."""

    site: Site
    variables: Mapping[str, Mapping[str, Any]]
    index: SourceIndex
    partial: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def at(
        self,
        host: SiteHost | SiteSwitch,
        path: tuple[Step, ...],
        what: str,
        hint: str = "",
        *,
        severity: Severity = "error",
        hosts: tuple[str, ...] | None = None,
    ) -> Problem:
        """A problem with the value at ``path`` (variable name first) of a host."""
        named = (host.name,) if hosts is None else hosts
        return Problem(what, self.position(host, path), hint, path_text(path), named, severity)

    def at_host(self, host: SiteHost, what: str, hint: str = "", *, severity: Severity = "error") -> Problem:
        """A problem with a host as such, at its name in the inventory."""
        return Problem(what, self.index.host(host.name), hint, "", (host.name,), severity)

    def at_site(self, what: str, hint: str = "", *, severity: Severity = "error") -> Problem:
        """A problem with the inventory as a whole."""
        return Problem(what, Position(str(Path(self.site.inventory).resolve())), hint, severity=severity)

    def position(self, host: SiteHost | SiteSwitch, path: tuple[Step, ...]) -> Position:
        """Where a value was written; the host's own position when it was not (a default)."""
        return locate(self.variables.get(host.name, {}), path) or self.index.host(host.name)

    def is_partial(self, host: SiteHost | SiteSwitch, variable: str) -> bool:
        """True when part of this variable was unusable."""
        return (host.name, variable) in self.partial

    @cached_property
    def boxes(self) -> tuple[SiteHost, ...]:
        """Hosts of group ebof that have a usable box."""
        return tuple(host for host in self.site.group("ebof") if host.box is not None)

    @cached_property
    def owners(self) -> tuple[SiteHost, ...]:
        """Hosts that may own namespaces."""
        return self.site.group("cache_owners")

    @cached_property
    def owner_names(self) -> frozenset[str]:
        """Names of the hosts that may own namespaces."""
        return frozenset(host.name for host in self.owners)

    @cached_property
    def owner_rails(self) -> Mapping[str, frozenset[str]]:
        """For each owner the rails it has a port on."""
        return {host.name: frozenset(port.rail for port in host.ports) for host in self.owners}

    @cached_property
    def masters(self) -> tuple[SiteHost, ...]:
        """Hosts that run a Mooncake master."""
        return self.site.group("mooncake_masters")

    @cached_property
    def etcd(self) -> tuple[SiteHost, ...]:
        """Hosts in group etcd."""
        return self.site.group("etcd")

    @cached_property
    def cache_hosts(self) -> tuple[SiteHost, ...]:
        """Hosts that run some part of Mooncake, each once; etcd is none of it."""
        return tuple({host.name: host for host in self.owners + self.masters}.values())

    @cached_property
    def data_hosts(self) -> tuple[SiteHost, ...]:
        """Hosts that need data ports: GPU hosts, owners, masters, members of etcd, and boxes that are configured."""
        boxes = tuple(host for host in self.boxes if host.box is not None and host.box.driver == "nvmet")
        hosts = self.site.group("gpu_hosts") + self.owners + self.masters + self.etcd + boxes
        return tuple({host.name: host for host in hosts}.values())

    @cached_property
    def rails(self) -> frozenset[str]:
        """Names of the site's rails."""
        return frozenset(rail.name for rail in self.site.fabric.rails)

    @cached_property
    def owner_claims(self) -> Mapping[str, tuple[tuple[SiteHost, int], ...]]:
        """For each NQN the hosts that claim it in ``g35_storage.owns``, with the index of the claim."""
        found: dict[str, tuple[tuple[SiteHost, int], ...]] = {}
        for host in self.site.hosts:
            for number, nqn in enumerate(host.storage.owns):
                found[nqn] = (*found.get(nqn, ()), (host, number))
        return found

    def namespaces(self) -> Iterator[tuple[SiteHost, int, BoxNamespace]]:
        """Every namespace with its box and its index."""
        for host in self.boxes:
            assert host.box is not None
            for number, namespace in enumerate(host.box.namespaces):
                yield host, number, namespace

    def portals(self) -> Iterator[tuple[SiteHost, int, BoxPortal]]:
        """Every portal with its box and its index."""
        for host in self.boxes:
            assert host.box is not None
            for number, portal in enumerate(host.box.portals):
                yield host, number, portal


def same_twice(seen: dict[Any, str], key: Any, who: str) -> str | None:
    """Who had ``key`` before; remembers ``who`` when nobody had."""
    if key in seen:
        return seen[key]
    seen[key] = who
    return None
