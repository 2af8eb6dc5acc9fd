"""Titled tables and lines for people: ruled on a terminal, aligned columns everywhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

_SHOWN = 8


@dataclass(frozen=True)
class Section:
    """A titled table, or titled lines when ``columns`` is empty. Columns named in ``right`` hold figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()


def listed(names: Iterable[str]) -> str:
    """Names in one line: all of a few, the first of many."""
    every = list(names)
    more = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def write(found: Sequence[Section], stream: TextIO) -> None:
    """Write sections to ``stream``: with rules and bold heads on a terminal, plain otherwise and under NO_COLOR."""
    if stream.isatty() and not os.environ.get("NO_COLOR"):
        _write_rich(found, stream)
    else:
        _write_plain(found, stream)


def _write_plain(found: Sequence[Section], stream: TextIO) -> None:
    for place, section in enumerate(found):
        stream.write(f"{'' if place == 0 else chr(10)}{section.title}\n")
        table = (section.columns, *section.rows) if section.columns else section.rows
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        for row in table:
            cells = [
                cell.rjust(width) if section.columns and name in section.right else cell.ljust(width)
                for cell, width, name in zip(row, widths, section.columns or ("",), strict=True)
            ]
            stream.write(f"  {'  '.join(cells).rstrip()}\n")


def _write_rich(found: Sequence[Section], stream: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for place, section in enumerate(found):
        if place:
            console.print()
        console.print(Text(section.title, style="bold"))
        if not section.columns:
            for (line,) in section.rows:
                console.print(Text(f"  {line}"))
            continue
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for name in section.columns:
            table.add_column(name, justify="right" if name in section.right else "left", overflow="fold")
        for row in section.rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
