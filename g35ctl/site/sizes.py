"""Sizes as people write them, held as bytes."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

_UNITS = {
    "": 1, "B": 1,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "PIB": 2**50,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
}  # fmt: skip
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$", re.ASCII)


def parse_size(value: object) -> int:
    """Bytes of a size such as ``250GiB``, ``1.5 TB`` or ``4096``. Raises ValueError that shows accepted forms."""
    if isinstance(value, bool):
        raise ValueError("expected a size such as 250GiB, got a boolean")
    if isinstance(value, int):
        return value
    match = _SIZE.match(str(value))
    unit = match.group(2).upper() if match else ""
    if match is None or unit not in _UNITS:
        raise ValueError(
            f"{value!r} is not a size; write a number with B, KiB, MiB, GiB, TiB (1024) or KB, MB, GB, TB (1000)"
        )
    number = Fraction(match.group(1)) * _UNITS[unit]  # exact: as a float, 2.01KB would not be 2010 bytes
    if number.denominator != 1:
        raise ValueError(f"{value!r} is not a whole number of bytes")
    return int(number)


def format_size(value: int) -> str:
    """The shortest binary form of a byte count, such as ``250 GiB`` or ``1.5 TiB``."""
    number = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(number) < 1024:
            return f"{number:.4g} {unit}"
        number /= 1024
    return f"{number:.4g} PiB"


Bytes = Annotated[int, BeforeValidator(parse_size), PlainSerializer(lambda value: value)]
"""A size in bytes that accepts unit suffixes on input."""
