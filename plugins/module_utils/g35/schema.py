"""Strict loading of nested dataclasses from plain JSON data, and dumping them back.

Plans cross the wire as JSON. Loading refuses unknown keys, missing keys and wrong types, all of them at once, each
with its path, so that a hand-written role variable gets the same treatment as a computed plan.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from typing import Any, Dict, List, Type, TypeVar

T = TypeVar("T")


class SchemaError(ValueError):
    """Data does not fit its dataclass; ``problems`` lists every ``path: reason``."""

    def __init__(self, type_name: str, problems: List[str]) -> None:
        super().__init__("%s: %s" % (type_name, "; ".join(problems)))
        self.problems = problems


def load(cls: Type[T], data: Any) -> T:
    """Build ``cls`` (a dataclass) from ``data`` (mappings, sequences and scalars). Raises SchemaError."""
    problems: List[str] = []
    value = _load(cls, data, "", problems)
    if problems:
        raise SchemaError(cls.__name__, problems)
    return typing.cast(T, value)


def dump(value: Any) -> Dict[str, Any]:
    """The plain JSON form of a dataclass instance; ``load(type(value), dump(value)) == value``."""
    plain = _plain(value)
    assert isinstance(plain, dict)
    return plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, collections.abc.Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _load(kind: Any, data: Any, path: str, problems: List[str]) -> Any:
    origin = typing.get_origin(kind)
    if origin is typing.Union or (origin is not None and origin is getattr(types, "UnionType", None)):
        inner = [item for item in typing.get_args(kind) if item is not type(None)]
        return None if data is None else _load(inner[0], data, path, problems)
    if origin in (tuple, list):
        return _load_sequence(kind, data, path, problems)
    if origin in (dict, collections.abc.Mapping):
        return _load_mapping(kind, data, path, problems)
    if dataclasses.is_dataclass(kind):
        return _load_dataclass(kind, data, path, problems)
    return _load_scalar(kind, data, path, problems)


def _load_scalar(kind: Any, data: Any, path: str, problems: List[str]) -> Any:
    if kind is Any:
        return data
    # bool is an int in Python; a plan that says true where a number belongs is a mistake.
    wrong = not isinstance(data, kind) or (kind is int and isinstance(data, bool))
    if wrong and kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if wrong:
        problems.append("%s: expected %s, got %s" % (path or "value", kind.__name__, type(data).__name__))
        return None
    # Strings may arrive as tagged subclasses from Ansible's templating; keep plain values only.
    return kind(data) if kind in (str, int, float) else data


def _load_sequence(kind: Any, data: Any, path: str, problems: List[str]) -> Any:
    if not isinstance(data, (list, tuple)):
        problems.append("%s: expected a list, got %s" % (path, type(data).__name__))
        return ()
    item_kind = typing.get_args(kind)[0]
    items = [_load(item_kind, item, "%s[%d]" % (path, index), problems) for index, item in enumerate(data)]
    return tuple(items) if typing.get_origin(kind) is tuple else items


def _load_mapping(kind: Any, data: Any, path: str, problems: List[str]) -> Any:
    if not isinstance(data, dict):
        problems.append("%s: expected a mapping, got %s" % (path, type(data).__name__))
        return {}
    value_kind = typing.get_args(kind)[1]
    return {str(key): _load(value_kind, item, "%s.%s" % (path, key), problems) for key, item in data.items()}


def _load_dataclass(kind: Any, data: Any, path: str, problems: List[str]) -> Any:
    if not isinstance(data, dict):
        problems.append("%s: expected a mapping, got %s" % (path or kind.__name__, type(data).__name__))
        return None
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    prefix = path + "." if path else ""
    for key in sorted(set(data) - set(fields), key=str):
        problems.append("%s%s: unknown key" % (prefix, key))
    values: Dict[str, Any] = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _load(hints[name], data[name], prefix + name, problems)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            problems.append("%s%s: missing" % (prefix, name))
    return None if problems else kind(**values)
