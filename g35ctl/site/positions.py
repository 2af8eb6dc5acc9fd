"""Where things were written: origins of values (Ansible tags each one) and of group and host names (it does not)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from g35ctl.site.problems import Position

Step = str | int
_SECTION = re.compile(r"^\s*\[([^\]:]+)(?::(\w+))?\]")
_INI_HOST = re.compile(r"^([A-Za-z0-9][\w.:\[\]-]*)")
_IGNORED_DIRECTORIES = {"group_vars", "host_vars", "vars_plugins"}
_YAML_SUFFIXES = {".yml", ".yaml", ".json"}
# How Ansible describes the origin of what an inventory script or plugin gave.
_SCRIPT = re.compile(r"^<inventory .*'(/[^']+)'>$")
_GROUP_KEYS = {"hosts", "children", "vars"}


def origin(value: object) -> Position | None:
    """The position Ansible tagged a value or key with; None when it has none (booleans, null, computed values)."""
    from ansible._internal._datatag._tags import Origin

    tag = Origin.get_tag(value)
    if tag is None:
        return None
    if tag.path:
        return Position(tag.path, tag.line_num, tag.col_num)
    source = _SCRIPT.search(tag.description or "")
    return Position(source.group(1)) if source else None


def locate(variables: Mapping[str, Any], path: Sequence[Step], *, key: bool = False) -> Position | None:
    """Position of the value at ``path``, or of its key (``key=True``); of the nearest ancestor when that is unknown."""
    best: Position | None = None
    here: Any = variables
    for number, step in enumerate(path):
        last = number == len(path) - 1
        if isinstance(here, Mapping) and step in here:
            own_key = next((item for item in here if item == step), None)
            value = here[str(step)]
            found = (None if key and last else _scalar_origin(value)) or _key_origin(own_key, value)
        elif isinstance(here, list) and isinstance(step, int) and 0 <= step < len(here):
            value = here[step]
            found = origin(value)
        else:
            break
        best = found or best
        here = value
    return best


def _scalar_origin(value: object) -> Position | None:
    return None if isinstance(value, Mapping | list) else origin(value)


def _key_origin(key: object, value: object) -> Position | None:
    """The key's position, unless merging paired it with a value from another file."""
    at_key, at_value = origin(key), origin(value)
    if at_key and at_value and at_key.file != at_value.file:
        return at_value
    return at_key or at_value


def path_text(path: Sequence[Step]) -> str:
    """``g35_ebof.namespaces[1].size``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


class SourceIndex:
    """Positions of the names of groups and hosts in an inventory's own files, read when first asked for."""

    def __init__(self, inventory: str) -> None:
        self._inventory = os.path.realpath(inventory)

    def group(self, name: str) -> Position:
        """Where a group is first named; the inventory itself when no file of it shows the name."""
        return self._names["group"].get(name, Position(self._inventory))

    def host(self, name: str) -> Position:
        """Where a host is first named; the inventory itself when no file of it shows the name."""
        return self._names["host"].get(name, Position(self._inventory))

    def group_key(self, group: str, key: str) -> Position:
        """Where ``key`` stands in the definition of a group."""
        return self._names["key"].get(f"{group}\0{key}", self.group(group))

    @cached_property
    def _names(self) -> dict[str, dict[str, Position]]:
        found: dict[str, dict[str, Position]] = {"group": {}, "host": {}, "key": {}}
        for file in _files(Path(self._inventory)):
            if os.access(file, os.X_OK):
                continue  # a script: what it prints has no lines of its own
            try:
                if file.suffix in _YAML_SUFFIXES:
                    _index_yaml(file, found)
                else:
                    _index_ini(file, found)
            except (OSError, ValueError):
                continue  # the loader has reported it already
        return found


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for entry in sorted(path.iterdir()):
            if not entry.name.startswith(".") and entry.name not in _IGNORED_DIRECTORIES:
                yield from _files(entry)


def _index_yaml(file: Path, found: dict[str, dict[str, Position]]) -> None:
    import yaml

    def position(node: Any) -> Position:
        return Position(str(file), node.start_mark.line + 1, node.start_mark.column + 1)

    def group(key: Any, node: Any) -> None:
        found["group"].setdefault(key.value, position(key))
        if not isinstance(node, yaml.MappingNode):
            return
        for section, content in node.value:
            if section.value not in _GROUP_KEYS:
                found["key"].setdefault(f"{key.value}\0{section.value}", position(section))
            if not isinstance(content, yaml.MappingNode):
                continue
            for name, below in content.value:
                if section.value == "children":
                    group(name, below)
                elif section.value == "hosts":
                    for host in _expanded(name.value):
                        found["host"].setdefault(host, position(name))

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(file.read_text(), Loader=loader)
    except yaml.YAMLError:
        return
    if isinstance(root, yaml.MappingNode):
        for key, node in root.value:
            group(key, node)


def _expanded(pattern: str) -> list[str]:
    """The host names of a pattern such as ``gpu[01:48]``."""
    if "[" not in pattern:
        return [pattern]
    from ansible.plugins.inventory import expand_hostname_range

    return [str(name) for name in expand_hostname_range(pattern)]


def _index_ini(file: Path, found: dict[str, dict[str, Position]]) -> None:
    inside = ""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        section = _SECTION.match(line)
        if section:
            inside = section.group(2) or "hosts"
            found["group"].setdefault(section.group(1), Position(str(file), number, section.start(1) + 1))
        elif inside in ("hosts", "children", "") and (name := _INI_HOST.match(line)):
            kind = "group" if inside == "children" else "host"
            for each in _expanded(name.group(1)):
                found[kind].setdefault(each, Position(str(file), number, 1))
