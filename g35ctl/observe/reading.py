"""Typed access to the plain data that modules return: what is missing or of another type is an error with its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class StateError(ValueError):
    """A stage's state is not what its module promises: ``where`` is the path into the data, ``reason`` the matter."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where or 'state'}: {reason}")
        self.where = where
        self.reason = reason


class Reader:
    """A value of plain JSON data with its path. Every accessor raises StateError; ``optional_*`` give None for absent
    or null, and still refuse another type."""

    def __init__(self, data: Any, where: str = "") -> None:
        self.data = data
        self.where = where

    def _mapping(self) -> Mapping[str, Any]:
        if not isinstance(self.data, Mapping):
            raise StateError(self.where, f"expected a mapping, got {type(self.data).__name__}")
        return self.data

    def _path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def get(self, key: str) -> Reader:
        """The value of a key that must be there."""
        mapping = self._mapping()
        if key not in mapping:
            raise StateError(self._path(key), "missing")
        return Reader(mapping[key], self._path(key))

    def optional(self, key: str) -> Reader | None:
        """The value of a key, or None where it is absent or null."""
        mapping = self._mapping()
        return None if mapping.get(key) is None else Reader(mapping[key], self._path(key))

    def items(self) -> Iterator[tuple[str, Reader]]:
        """Keys and values of a mapping."""
        for key, value in self._mapping().items():
            yield str(key), Reader(value, self._path(str(key)))

    def each(self) -> Iterator[Reader]:
        """Elements of a list."""
        if not isinstance(self.data, (list, tuple)):
            raise StateError(self.where, f"expected a list, got {type(self.data).__name__}")
        for index, value in enumerate(self.data):
            yield Reader(value, f"{self.where}[{index}]")

    def as_text(self) -> str:
        if not isinstance(self.data, str):
            raise StateError(self.where, f"expected text, got {type(self.data).__name__}")
        return str(self.data)

    def as_integer(self) -> int:
        if isinstance(self.data, bool) or not isinstance(self.data, int):
            raise StateError(self.where, f"expected a whole number, got {type(self.data).__name__}")
        return int(self.data)

    def as_number(self) -> float:
        if isinstance(self.data, bool) or not isinstance(self.data, (int, float)):
            raise StateError(self.where, f"expected a number, got {type(self.data).__name__}")
        return float(self.data)

    def as_truth(self) -> bool:
        if not isinstance(self.data, bool):
            raise StateError(self.where, f"expected true or false, got {type(self.data).__name__}")
        return self.data

    def text(self, key: str) -> str:
        return self.get(key).as_text()

    def integer(self, key: str) -> int:
        return self.get(key).as_integer()

    def truth(self, key: str) -> bool:
        return self.get(key).as_truth()

    def optional_text(self, key: str) -> str | None:
        found = self.optional(key)
        return None if found is None else found.as_text()

    def optional_integer(self, key: str) -> int | None:
        found = self.optional(key)
        return None if found is None else found.as_integer()

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(item.as_text() for item in self.get(key).each())

    def integers(self, key: str) -> tuple[int, ...]:
        return tuple(item.as_integer() for item in self.get(key).each())
