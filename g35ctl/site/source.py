"""Reads an inventory exactly as Ansible would: its own loaders, its own merging, no second dialect.

What Ansible only warns about while parsing (a file it could not read, a key it skips, a key given twice) is collected
as problems: for a site each of them means that something the user wrote has no effect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from g35ctl.site.positions import SourceIndex, origin
from g35ctl.site.problems import Position, Problem

_SKIPPED_KEY = re.compile(r"Skipping (?:unexpected )?key \((.+?)\) in group \((.+?)\)")
_INVALID_GROUP = re.compile(r"Skipping '(.+)' as this is not a valid group definition")
_UNPARSED = re.compile(r"Unable to parse (.+) as an inventory source")
_PLUGIN = re.compile(r"with '(?:\w+\.)*(\w+)' plugin")
_PLUGIN_OF_SUFFIX = {".yml": "yaml", ".yaml": "yaml", ".json": "yaml", ".toml": "toml"}
_NOT_INVENTORY = "no inventory plugin can read it"
_WAITS = "cross-checks of the site wait until every file can be read"


@dataclass(frozen=True)
class RawHost:
    """One host as Ansible sees it: its groups and merged, untemplated variables (tagged with their origins)."""

    name: str
    groups: tuple[str, ...]
    variables: Mapping[str, Any]


@dataclass
class RawInventory:
    """The whole inventory as Ansible sees it. ``broken`` is True when a part of it could not be read."""

    hosts: list[RawHost] = field(default_factory=list)
    groups: dict[str, RawGroup] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    broken: bool = False
    template: Any = None


@dataclass(frozen=True)
class RawGroup:
    """A group: its relatives, its hosts (also through child groups), and whether it sets any variable."""

    name: str
    ancestors: frozenset[str]
    descendants: frozenset[str]
    hosts: frozenset[str]
    has_variables: bool


@dataclass(frozen=True)
class _Notice:
    """Something Ansible would have printed."""

    message: str
    obj: object = None
    exception: BaseException | None = None


@contextmanager
def captured_display() -> Iterator[list[_Notice]]:
    """Collect what Ansible would print, on its one Display object, and print nothing."""
    from ansible.utils.display import Display

    display = Display()
    notices: list[_Notice] = []

    def warning(msg: str, *_args: object, obj: object = None, **_kwargs: object) -> None:
        notices.append(_Notice(str(msg), obj))

    def error_as_warning(msg: str | None, exception: BaseException, *_args: object, **_kwargs: object) -> None:
        notices.append(_Notice(str(msg), None, exception))

    def ignore(*_args: object, **_kwargs: object) -> None:
        return None

    replaced = {"warning": warning, "error_as_warning": error_as_warning, "deprecated": ignore, "display": ignore}
    saved = {name: display.__dict__[name] for name in replaced if name in display.__dict__}
    display.__dict__.update(replaced)
    try:
        yield notices
    finally:
        for name in replaced:
            del display.__dict__[name]
        display.__dict__.update(saved)


def read(inventory: str, index: SourceIndex) -> RawInventory:
    """Hosts with merged variables, groups, and problems. Never raises for what the user wrote."""
    raw = RawInventory()
    path = str(Path(inventory).absolute())
    with captured_display() as notices:
        from ansible.inventory.manager import InventoryManager

        loader = _loader()
        loader.set_basedir(path if Path(path).is_dir() else str(Path(path).parent))
        _set_vault_secrets(loader)
        try:
            manager = InventoryManager(loader, [path])
        except Exception as error:  # whatever a plugin raises is a problem of what it read
            raw.problems.append(problem_of(error, Position(path)))
            raw.broken = True
            return raw
        _collect_notices(notices, raw, index, path)
        notices.clear()
        _merge(manager, loader, path, raw)
        for notice in notices:
            raw.problems.append(
                Problem(notice.message, origin(notice.obj) or Position(path), severity=_severity(notice.message))
            )
    raw.template = _Templates(manager, loader)
    return raw


def _loader() -> Any:
    """Ansible's loader, except that each file is parsed once and not copied: several plugins ask for each in turn."""
    from ansible.parsing.dataloader import DataLoader

    class Once(DataLoader):  # type: ignore[misc]
        def load_from_file(self, file_name: str, *_args: object, json_only: bool = False, **_kwargs: object) -> Any:
            # Inventory sources are trusted as templates whichever plugin reads them.
            return super().load_from_file(
                file_name, cache="all", unsafe=True, json_only=json_only, trusted_as_template=True
            )

    return Once()


def problem_of(error: BaseException, fallback: Position, hosts: tuple[str, ...] = ()) -> Problem:
    """An Ansible error as a problem at the most exact position in its chain of causes."""
    position, message = fallback, str(getattr(error, "_original_message", None) or error)
    link: BaseException | None = error
    while link is not None:
        found = _origin_of(getattr(link, "obj", None))
        if found and found.line:
            position = found
            message = str(getattr(link, "_original_message", None) or link)
            break
        if found and not position.line:
            position = found
        link = link.__cause__ or link.__context__
    told = getattr(error, "_help_text", None) or ""
    if "Standard error" in told:  # what an executable inventory said is the cause, not advice
        message += f" {told}"
    return Problem(" ".join(message.split()), position, hosts=hosts)


def _origin_of(obj: object) -> Position | None:
    from ansible._internal._datatag._tags import Origin

    if isinstance(obj, Origin):
        return Position(obj.path, obj.line_num, obj.col_num) if obj.path else None
    return origin(obj)


def _set_vault_secrets(loader: Any) -> None:
    """The secrets of a running Ansible process, else those its configuration names as files; otherwise none."""
    from ansible import constants  # type: ignore[attr-defined]
    from ansible.parsing.vault import VaultSecretsContext, get_file_vault_secret

    context = VaultSecretsContext.current(optional=True)
    if context is not None:
        loader.set_vault_secrets(context.secrets)
        return
    wanted = [str(item).rpartition("@")[::2] for item in constants.DEFAULT_VAULT_IDENTITY_LIST]
    if constants.DEFAULT_VAULT_PASSWORD_FILE:
        wanted.append(("default", str(constants.DEFAULT_VAULT_PASSWORD_FILE)))
    secrets = []
    for name, source in wanted:
        file = Path(source).expanduser()
        if not file.is_file():
            continue  # "prompt" among them: a check asks no questions
        secret = get_file_vault_secret(str(file), vault_id=name or "default", loader=loader)
        secret.load()
        secrets.append((name or "default", secret))
    loader.set_vault_secrets(secrets)
    if secrets:
        VaultSecretsContext.initialize(VaultSecretsContext(secrets))


def _severity(message: str) -> Any:
    return "error" if "duplicate mapping key" in message or _SKIPPED_KEY.search(message) else "warning"


def _collect_notices(notices: list[_Notice], raw: RawInventory, index: SourceIndex, path: str) -> None:
    """Turn what the inventory plugins complained about into problems, one for each unreadable file."""
    failures: list[_Notice] = []
    for notice in notices:
        unparsed = _UNPARSED.search(notice.message)
        skipped = _SKIPPED_KEY.search(notice.message)
        if notice.exception is not None:
            failures.append(notice)
        elif unparsed and Path(unparsed.group(1)).is_dir():
            failures = []  # its files have been reported, or it is empty
            raw.broken = raw.broken or any(problem.severity == "error" for problem in raw.problems)
        elif unparsed:
            raw.problems.append(_unreadable(unparsed.group(1), failures, path))
            raw.broken = raw.broken or raw.problems[-1].severity == "error"
            failures = []
        elif skipped:
            key, group = skipped.groups()
            raw.problems.append(
                Problem(
                    f"group {group!r} has the key {key!r}, which Ansible skips",
                    index.group_key(group, key),
                    "only hosts, children and vars are valid in a group",
                )
            )
        elif invalid := _INVALID_GROUP.search(notice.message):
            raw.problems.append(
                Problem(
                    f"group {invalid.group(1)!r} is skipped by Ansible: it is not a mapping",
                    index.group(invalid.group(1)),
                    "write its hosts as keys of a mapping: `hosts:`, then one `name:` a line",
                )
            )
        elif "No inventory was parsed" not in notice.message:
            position = origin(notice.obj) or Position(path)
            raw.problems.append(Problem(notice.message, position, severity=_severity(notice.message)))


def _unreadable(source: str, failures: list[_Notice], inventory: str) -> Problem:
    suffix = Path(source).suffix
    wanted = "script" if os.access(source, os.X_OK) else _PLUGIN_OF_SUFFIX.get(suffix, "ini")
    by_plugin = {m.group(1): item for item in failures if (m := _PLUGIN.search(item.message))}
    chosen = by_plugin.get(wanted) or next(reversed(by_plugin.values()), None)
    stray = source != inventory and suffix not in (*_PLUGIN_OF_SUFFIX, ".ini", "")
    if chosen is None or chosen.exception is None or stray:
        return Problem(
            f"Ansible cannot read this file as inventory ({_NOT_INVENTORY})",
            Position(source),
            "move it out of the inventory directory, or into a directory whose name starts with a dot",
            severity="warning" if stray else "error",
        )
    return replace(problem_of(chosen.exception, Position(source)), hint=_WAITS)


def _merge(manager: Any, loader: Any, path: str, raw: RawInventory) -> None:
    """Merge variables in Ansible's order of precedence (without a play), once for each set of groups."""
    from ansible import constants  # type: ignore[attr-defined]
    from ansible.inventory.helpers import get_group_vars, sort_groups
    from ansible.utils.vars import combine_vars
    from ansible.vars.plugins import get_vars_from_inventory_sources

    from_files: dict[str, dict[str, Any]] = {}
    layers: dict[tuple[str, ...], dict[str, Any]] = {}
    sources = [path]

    def plugin_variables(entity: Any, hosts: tuple[str, ...] = ()) -> dict[str, Any]:
        try:
            found: dict[str, Any] = get_vars_from_inventory_sources(loader, sources, [entity], "task")
        except Exception as error:
            raw.problems.append(_unreadable_variables(error, path, hosts))
            raw.broken = raw.broken or raw.problems[-1].severity == "error"
            return {}
        return found

    def group_variables(group: Any) -> dict[str, Any]:
        if group.name not in from_files:
            from_files[group.name] = plugin_variables(group)
        return from_files[group.name]

    def combined(groups: list[Any]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for group in groups:
            merged = combine_vars(merged, group_variables(group))
        return merged

    def layer(groups: list[Any]) -> dict[str, Any]:
        everyone = manager.groups["all"]
        parts = {
            "all_inventory": everyone.get_vars,
            "groups_inventory": lambda: get_group_vars(groups),
            "all_plugins_inventory": lambda: combined([everyone]),
            "groups_plugins_inventory": lambda: combined(groups),
            "plugins_by_groups": lambda: combined(groups),
        }
        merged: dict[str, Any] = {}
        for name in constants.VARIABLE_PRECEDENCE:
            if name in parts:
                merged = combine_vars(merged, parts[name]())
        return merged

    for host in manager.hosts.values():
        groups = sort_groups([group for group in host.get_groups() if group.name != "all"])
        names = tuple(str(group.name) for group in groups)
        if names not in layers:
            layers[names] = layer(groups)
        own = combine_vars(host.vars, plugin_variables(host, (str(host.name),)))
        merged = combine_vars(layers[names], own)
        raw.hosts.append(RawHost(str(host.name), tuple(name for name in names if name != "ungrouped"), merged))
    for group in manager.groups.values():
        name = str(group.name)
        raw.groups[name] = RawGroup(
            name,
            frozenset(str(item.name) for item in group.get_ancestors()) - {"all"},
            frozenset(str(item.name) for item in group.get_descendants()),
            frozenset(str(item.name) for item in group.get_hosts()),
            bool({key for key in group.vars if key != "ansible_group_priority"} or group_variables(group)),
        )


def _unreadable_variables(error: BaseException, path: str, hosts: tuple[str, ...]) -> Problem:
    if "no vault secrets" in str(error) or "Decryption failed" in str(error):
        found = problem_of(error, Position(path), hosts)
        return Problem(
            f"an encrypted file was not checked: {found.what}",
            found.position,
            "set ANSIBLE_VAULT_PASSWORD_FILE to check it too",
            hosts=hosts,
            severity="warning",
        )
    return replace(problem_of(error, Position(path), hosts), hint=_WAITS)


class _Templates:
    """Resolves templates as Ansible would for a host; costs nothing for a host that uses none."""

    def __init__(self, manager: Any, loader: Any) -> None:
        self._manager = manager
        self._loader = loader
        self._variables: Any = None
        self._templars: dict[str, Any] = {}

    def resolve(self, host: RawHost, value: Any) -> Any:
        """The value of one template string. Raises what Ansible raises (an undefined variable, a syntax error)."""
        templar = self._templars.get(host.name)
        if templar is None:
            from ansible.template import Templar
            from ansible.vars.manager import VariableManager

            if self._variables is None:
                self._variables = VariableManager(loader=self._loader, inventory=self._manager)
            target = self._manager.get_host(host.name)
            magic = self._variables._get_magic_variables(None, target, None, True)
            variables = {**host.variables, **target.get_magic_vars(), **magic}
            templar = Templar(loader=self._loader, variables=variables)
            self._templars[host.name] = templar
        return templar.template(value)
