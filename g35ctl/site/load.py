"""``load(inventory) -> Site``: the door between what the user wrote and everything that is computed from it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from g35ctl.site.convert import Converter, missing_variable, unknown_variables
from g35ctl.site.groups import SWITCHES, check_groups, misplaced_switches
from g35ctl.site.lint import lint
from g35ctl.site.lints.context import Context
from g35ctl.site.model import (
    Fabric,
    Metrics,
    Mooncake,
    Nvme,
    Site,
    SiteHost,
    SiteIdentity,
    SiteSwitch,
    Storage,
    Validation,
)
from g35ctl.site.positions import SourceIndex, locate
from g35ctl.site.problems import Position, Problem, SiteInvalid, merged
from g35ctl.site.source import RawHost, RawInventory, read

loading = False
"""True while an inventory is being read. Ansible calls variables plugins meanwhile, and ours must then stay silent."""

# Variables that describe the site as a whole: each host must see the same.
_CLUSTER_WIDE = ("g35_site", "g35_fabric", "g35_validate")
#: where an unusable key file is told
KEY_PLACES = (
    "g35_nvme.authentication.key_file", "g35_nvme.authentication.controller_key_file", "g35_nvme.tls.key_file"
)  # fmt: skip
_PER_HOST = ("g35_ports", "g35_ebof", "g35_nvme", "g35_storage", "g35_mooncake", "g35_metrics", "g35_inference")


def load(inventory: str) -> Site:
    """The validated site. Raises :class:`SiteInvalid` with every problem there is."""
    site, problems = inspect(inventory)
    if site is None:
        raise SiteInvalid(inventory, problems)
    return site


def load_without_keys(inventory: str) -> tuple[Site, Mapping[str, Mapping[str, Any]]]:
    """The site although key files may be missing or unusable, for the verb that makes them, and each host's variables
    as they were written. Raises :class:`SiteInvalid` with every other problem."""
    site, problems, variables = _examine(inventory)
    others = tuple(item for item in problems if item.where not in KEY_PLACES)
    if site is None or any(item.severity == "error" for item in others):
        raise SiteInvalid(inventory, others)
    return site, variables


def inspect(inventory: str) -> tuple[Site | None, tuple[Problem, ...]]:
    """The site, None when it has errors, and all problems including warnings, each once and in order of position."""
    site, found, _ = _examine(inventory)
    failed = site is None or any(problem.severity == "error" for problem in found)
    return (None if failed else site), found


def _examine(inventory: str) -> tuple[Site | None, tuple[Problem, ...], Mapping[str, Mapping[str, Any]]]:
    missing = _missing(inventory)
    if missing is not None:
        return None, (missing,), {}
    index = SourceIndex(inventory)
    with reading():
        raw = read(inventory, index)
        site, problems = _Builder(inventory, raw, index).build()
    return site, merged(raw.problems + problems), {host.name: host.variables for host in raw.hosts}


@contextmanager
def reading() -> Iterator[None]:
    global loading  # noqa: PLW0603 - read by the variables plugin, which Ansible instantiates
    before, loading = loading, True
    try:
        yield
    finally:
        loading = before


def _missing(inventory: str) -> Problem | None:
    path = Path(inventory)
    position = Position(str(path.absolute()))
    if not path.exists():
        hint = f"g35ctl init {inventory} makes a site, g35ctl -i PATH names another inventory"
        return Problem("no such inventory", position, hint)
    if not os.access(path, os.R_OK):
        return Problem("the inventory cannot be read", position, "check its permissions")
    return None


class _Builder:
    """Builds the site from the raw inventory and collects problems on the way."""

    def __init__(self, inventory: str, raw: RawInventory, index: SourceIndex) -> None:
        self._inventory = inventory
        self._raw = raw
        self._index = index
        self._converter = Converter(raw, index)
        self._partial: set[tuple[str, str]] = set()
        self._problems: list[Problem] = []

    def build(self) -> tuple[Site | None, list[Problem]]:
        raw = self._raw
        if not raw.hosts:
            if not raw.broken:
                hint = f"g35ctl init {self._inventory} --force writes an example" if not raw.problems else ""
                self._problems.append(Problem("the inventory has no hosts", Position(self._real), hint))
            return None, self._problems
        self._problems += check_groups(raw, self._index)
        seen: set[tuple[str, ...]] = set()
        for host in raw.hosts:
            names = tuple(str(name) for name in host.variables if str(name).startswith("g35"))
            own = (*names, *(str(id(host.variables[name])) for name in names))
            if own not in seen:  # the same unknown variable need not be looked for on every host
                seen.add(own)
                self._problems += unknown_variables(host, self._index)
        cluster = {name: self._cluster_wide(name) for name in _CLUSTER_WIDE}
        hosts = tuple(self._host(host) for host in raw.hosts if not _is_switch(host))
        switches = tuple(found for host in raw.hosts if _is_switch(host) for found in self._switch(host))
        self._problems += misplaced_switches(raw, self._index)
        if raw.broken:
            # What is missing may be in the part that could not be read: cross-checks would invent problems.
            return None, self._problems
        site = Site(
            identity=cluster["g35_site"] or SiteIdentity(name="unnamed"),
            fabric=cluster["g35_fabric"] or Fabric.model_construct(rails=()),
            validation=cluster["g35_validate"] or Validation(),
            hosts=hosts,
            switches=switches,
            inventory=self._inventory,
        )
        variables = {host.name: host.variables for host in raw.hosts}
        self._problems += lint(Context(site, variables, self._index, frozenset(self._partial)))
        return site, self._problems

    @property
    def _real(self) -> str:
        return os.path.realpath(self._inventory)

    def _convert(self, host: RawHost, name: str) -> Any:
        converted, problems = self._converter.variable(host, name)
        self._problems += problems
        if converted is None:
            return None
        if converted.salvaged or problems:
            self._partial.add((host.name, name))
        return converted.value

    def _cluster_wide(self, name: str) -> Any:
        """The one value that all hosts must agree on."""
        first: tuple[RawHost, Any] | None = None
        without: list[str] = []
        identities: set[int] = set()
        for host in self._raw.hosts:
            if name not in host.variables:
                if not _is_switch(host):  # it needs only what is its own
                    without.append(host.name)
                continue
            raw_value = host.variables[name]
            if id(raw_value) in identities:
                continue
            value = self._convert(host, name)
            if (host.name, name) not in self._partial:
                identities.add(id(raw_value))
            if first is None:
                first = (host, value)
            elif value is not None and first[1] is not None and value != first[1]:
                self._problems.append(self._differing(name, host, first[0]))
        if without and not self._raw.broken and name != "g35_validate":
            position = Position(self._real) if first is None else self._index.host(without[0])
            hosts = () if first is None else tuple(without)
            self._problems.append(missing_variable(name, position, hosts))
        return first[1] if first is not None else None

    def _differing(self, name: str, host: RawHost, first: RawHost) -> Problem:
        position = locate(host.variables, (name,)) or self._index.host(host.name)
        other = locate(first.variables, (name,)) or self._index.host(first.name)
        what = f"differs from its value on {first.name} ({other}), but describes the site as a whole"
        return Problem(what, position, f"set {name} once, in group_vars/all.yml", name, (host.name,))

    def _host(self, host: RawHost) -> SiteHost:
        values = {name: self._convert(host, name) for name in _PER_HOST}
        return SiteHost(
            name=host.name,
            groups=host.groups,
            ports=values["g35_ports"] or (),
            box=values["g35_ebof"],
            nvme=values["g35_nvme"] or _DEFAULT_NVME,
            storage=values["g35_storage"] or _DEFAULT_STORAGE,
            mooncake=values["g35_mooncake"] or _DEFAULT_MOONCAKE,
            metrics=values["g35_metrics"] or _DEFAULT_METRICS,
            inference=values["g35_inference"],
        )

    def _switch(self, host: RawHost) -> Iterator[SiteSwitch]:
        value = self._convert(host, "g35_switch")
        if value is not None:
            yield SiteSwitch(name=host.name, groups=host.groups, switch=value)


def _is_switch(host: RawHost) -> bool:
    return SWITCHES in host.groups


# Shared, so that hosts without settings of their own compare by identity.
_DEFAULT_NVME = Nvme()
_DEFAULT_STORAGE = Storage()
_DEFAULT_MOONCAKE = Mooncake()
_DEFAULT_METRICS = Metrics()
