"""From Ansible's variables to the models: plain values, templates resolved, every validation error with its position.

A variable with errors is salvaged where possible (the bad part removed or replaced), only so that the lints can report
in the same run what is wrong elsewhere; a site with errors never leaves this room.
"""

from __future__ import annotations

import itertools
import typing
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from g35ctl.site import model
from g35ctl.site.positions import SourceIndex, Step, locate, path_text
from g35ctl.site.problems import Position, Problem, did_you_mean
from g35ctl.site.source import RawHost, RawInventory, problem_of

VARIABLES: Mapping[str, Any] = {
    "g35_site": model.SiteIdentity,
    "g35_fabric": model.Fabric,
    "g35_ebof": model.Box,
    "g35_nvme": model.Nvme,
    "g35_ports": tuple[model.HostPort, ...],
    "g35_storage": model.Storage,
    "g35_mooncake": model.Mooncake,
    "g35_inference": model.Inference,
    "g35_metrics": model.Metrics,
    "g35_validate": model.Validation,
    "g35_switch": model.Switch,
}
"""Every variable a user may set, with its type."""

# Variables that reach roles from the planner, and the switches of the role contract: not part of the site.
RESERVED = {
    "g35_action": "a role's own option: pass it to the role, not through the inventory",
    "g35_allow_disruptive": "set allow_disruptive in g35_site instead",
    **{
        f"g35_{stage}_plan": "computed by the planner; remove it from the inventory"
        for stage in ("target", "box", "fabric", "connect", "storage", "cache", "inference", "probe", "switch")
    },
}


@dataclass
class Converted:
    """One variable's value for one host or many: the model, and what was wrong with it (``salvaged`` if anything)."""

    value: Any
    salvaged: bool = False
    errors: tuple[_Error, ...] = ()


@dataclass(frozen=True)
class _Error:
    path: tuple[Step, ...]
    what: str
    hint: str = ""
    key: bool = False


@dataclass
class Converter:
    """Converts variables, each distinct value once however many hosts share it."""

    raw: RawInventory
    index: SourceIndex
    _cache: dict[tuple[str, int], Converted] = field(default_factory=dict)
    _adapters: dict[str, TypeAdapter[Any]] = field(default_factory=dict)
    _stand_in: Iterable[int] = field(default_factory=itertools.count)

    def variable(self, host: RawHost, name: str) -> tuple[Converted | None, list[Problem]]:
        """The model of a host's variable (None when it is not set) and the problems found in it."""
        if name not in host.variables:
            return None, []
        value = host.variables[name]
        problems: list[Problem] = []
        key = (name, id(value))
        converted = self._cache.get(key)
        if converted is None:
            shared = not _needs_host(value)
            plain = self._plain(host, value, (name,), problems)
            converted = self._validate(name, plain)
            if shared:
                self._cache[key] = converted  # the raw inventory keeps `value` alive, so its id stays its own
        unresolved = {problem.where for problem in problems}
        found = [self._problem(host, name, error) for error in converted.errors]
        problems += [problem for problem in found if problem.where not in unresolved]
        return converted, problems

    def _problem(self, host: RawHost, name: str, error: _Error) -> Problem:
        path = (name, *error.path)
        position = locate(host.variables, path, key=error.key) or self.index.host(host.name)
        return Problem(error.what, position, error.hint, path_text(path), (host.name,))

    def _plain(self, host: RawHost, value: Any, path: tuple[Step, ...], problems: list[Problem]) -> Any:
        """The value without tags, templates resolved one by one so that an error keeps its own position."""
        from ansible.module_utils._internal._datatag import AnsibleTagHelper

        if isinstance(value, Mapping):
            return {str(key): self._plain(host, item, (*path, str(key)), problems) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(host, item, (*path, number), problems) for number, item in enumerate(value)]
        if _needs_host(value):
            fallback = locate(host.variables, path) or self.index.host(host.name)
            try:
                return self._plain(host, _checked(self.raw.template.resolve(host, value)), path, problems)
            except Exception as error:
                found = problem_of(error, fallback)
                problems.append(Problem(found.what, found.position, "", path_text(path), (host.name,)))
                return _UNRESOLVED
        return AnsibleTagHelper.as_native_type(value)

    def _validate(self, name: str, plain: Any) -> Converted:
        if name not in self._adapters:
            self._adapters[name] = TypeAdapter(VARIABLES[name])
        adapter = self._adapters[name]
        errors: list[_Error] = []
        data = _without_unresolved(plain)
        salvaged = data is not plain
        for _attempt in range(4):  # removing one bad part may uncover the next
            try:
                return Converted(adapter.validate_python(data), salvaged or bool(errors), tuple(errors))
            except ValidationError as invalid:
                details = invalid.errors(include_url=False)
            fresh = _explain(VARIABLES[name], data, details)
            if not errors:
                errors = fresh
            data = self._salvage(VARIABLES[name], data, fresh)
        return Converted(None, True, tuple(errors))

    def _salvage(self, annotation: Any, data: Any, errors: list[_Error]) -> Any:
        dropped: set[tuple[Step, ...]] = set()
        for error in errors:
            if not error.path:
                return None
            parent, last = _follow(data, error.path[:-1]), error.path[-1]
            if isinstance(parent, dict) and isinstance(last, str):
                known = _field(annotation, error.path)
                if known is None or not known.is_required():
                    parent.pop(last, None)
                elif last == "size":
                    parent[last] = 2**40
                elif last == "uuid":
                    parent[last] = str(uuid.uuid4())
                elif last == "nqn":
                    parent[last] = f"nqn.2000-01.invalid:{next(iter(self._stand_in))}"
                else:
                    dropped.add(_enclosing_item(error.path))
            else:
                dropped.add(_enclosing_item(error.path))
        for path in sorted(dropped, key=str, reverse=True):
            container = _follow(data, path[:-1]) if path else None
            if isinstance(container, list) and isinstance(path[-1], int) and path[-1] < len(container):
                container[path[-1]] = _UNRESOLVED
        return _without_unresolved(data)


class _Unresolved:
    """Stands where a value could not be had; what is missing because of it is not reported again."""


_UNRESOLVED = _Unresolved()


def _needs_host(value: Any) -> bool:
    """True when the value holds a template or an encrypted string, which only resolve for a given host."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(_needs_host(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_needs_host(item) for item in value)
    return type(value).__name__ == "EncryptedString"


def _checked(value: Any) -> Any:
    """A resolved template; one that resolves to a template again is data, not an endless loop."""
    if isinstance(value, str) and _needs_host(value):
        raise ValueError(f"resolves to {str(value)!r}, which is a template again")
    return value


def _without_unresolved(data: Any) -> Any:
    """A copy without the places that could not be had; the very object when there are none."""
    if isinstance(data, dict):
        kept = {key: _without_unresolved(item) for key, item in data.items() if item is not _UNRESOLVED}
        return kept if len(kept) != len(data) or any(kept[key] is not data[key] for key in kept) else data
    if isinstance(data, list):
        items = [_without_unresolved(item) for item in data if item is not _UNRESOLVED]
        changed = len(items) != len(data) or any(a is not b for a, b in zip(items, data, strict=False))
        return items if changed else data
    return data


def _explain(annotation: Any, data: Any, details: Iterable[Any]) -> list[_Error]:
    """Pydantic's errors as ours, one for each place (the members of a union each report their own)."""
    found: dict[tuple[Step, ...], _Error] = {}
    for detail in details:
        path, kind = _existing(data, detail["loc"], detail["type"]), detail["type"]
        value = "the value" if "password" in path else _shown(detail.get("input"))
        if kind == "missing":
            error = _Error(path, f"the key {detail['loc'][-1]!r} is missing")
        elif kind == "extra_forbidden":
            hint = did_you_mean(str(path[-1]), _keys(annotation, path))
            error = _Error(path, f"unknown key {path[-1]!r}", hint, key=True)
        elif kind.startswith("ip_"):
            what = "subnet" if "network" in kind else "address"
            error = _Error(path, f"{value} is not an IPv4 or IPv6 {what}", _ip_hint(what))
        elif kind == "value_error":
            error = _Error(path, str(detail["ctx"]["error"]))
        elif kind in ("model_type", "model_attributes_type", "dict_type"):
            error = _Error(path, f"expected a mapping, got {value}")
        elif kind in ("tuple_type", "list_type"):
            error = _Error(path, f"expected a list, got {value}")
        elif kind == "too_short":
            error = _Error(path, "must not be empty")
        elif kind == "string_type":
            error = _Error(path, f"expected text, got {value}", "put it in quotes")
        elif kind == "string_pattern_mismatch":
            error = _Error(path, f"{value} does not match {detail['ctx']['pattern']}")
        elif kind == "literal_error":
            choices = [str(item) for item in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")]
            plain = [item.strip("'") for item in choices]
            error = _Error(path, f"{value} is not one of {', '.join(plain)}", did_you_mean(str(detail["input"]), plain))
        else:
            message = detail["msg"].removeprefix("Input ")
            error = _Error(path, f"{message}, got {value}")
        found.setdefault((*path, detail["loc"][-1]) if kind == "missing" else path, error)
    return list(found.values())


def _ip_hint(what: str) -> str:
    return "write a network such as 192.0.2.0/24" if what == "subnet" else "write it without a prefix length"


def _existing(data: Any, loc: tuple[Step, ...], kind: str) -> tuple[Step, ...]:
    """The part of an error's location that exists in the data (pydantic appends names of union members)."""
    path: list[Step] = []
    here = data
    for step in loc:
        in_list = isinstance(here, list) and isinstance(step, int) and step < len(here)
        if in_list or (isinstance(here, dict) and step in here):
            here = here[step]
        else:
            if kind == "missing" and isinstance(here, dict):
                path.append(step)
            break
        path.append(step)
    return tuple(path)


def _follow(data: Any, path: tuple[Step, ...]) -> Any:
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _enclosing_item(path: tuple[Step, ...]) -> tuple[Step, ...]:
    """The innermost list item that holds a path; empty when it is in none."""
    for end in range(len(path), 0, -1):
        if isinstance(path[end - 1], int):
            return path[:end]
    return ()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for item in typing.get_args(annotation) for found in _models(item)]


def _field(annotation: Any, path: tuple[Step, ...]) -> Any:
    """The pydantic field at a path, None when there is none."""
    found = None
    models = _models(annotation)
    for step in path:
        if isinstance(step, int):
            continue
        found = next((item.model_fields[step] for item in models if step in item.model_fields), None)
        models = _models(found.annotation) if found is not None else []
    return found


def _keys(annotation: Any, path: tuple[Step, ...]) -> list[str]:
    """The keys that are known where the path ends."""
    parent = _field(annotation, path[:-1])
    models = _models(annotation) if parent is None else _models(parent.annotation)
    return [name for item in models for name in item.model_fields]


def unknown_variables(host: RawHost, index: SourceIndex) -> list[Problem]:
    """Variables called ``g35_*`` that mean nothing: a mistyped one would otherwise be ignored in silence."""
    found = []
    for name in host.variables:
        text = str(name)
        if not text.startswith("g35") or text in VARIABLES or text.startswith("g35_lab_"):
            continue
        position = locate(host.variables, (text,), key=True) or index.host(host.name)
        if text in RESERVED:
            found.append(Problem(f"{text} is not for the inventory", position, RESERVED[text], text, (host.name,)))
        else:
            hint = did_you_mean(text, VARIABLES)
            found.append(Problem(f"unknown variable {text!r}", position, hint, "", (host.name,)))
    return found


def missing_variable(name: str, position: Position, hosts: tuple[str, ...]) -> Problem:
    """A variable that every host of the site must have and these do not."""
    return Problem(f"{name} is not set", position, f"set {name} in group_vars/all.yml", name, hosts)
