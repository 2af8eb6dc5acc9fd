"""What several verbs share: where the inventory is named, and how data and talk are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

InventoryOption = Annotated[
    str | None,
    typer.Option("--inventory", "-i", help="Inventory path; also accepted before the verb", show_default=False),
]
"""``-i`` after the verb: a parameter ``inventory: InventoryOption = None``, resolved with :func:`inventory_of`."""

OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", help="text, json or jsonl; also accepted before the verb", show_default=False),
]
"""``-o`` after the verb; resolve it with :func:`output_of`."""

LanguageOption = Annotated[
    str, typer.Option("--lang", envvar="G35_LANG", help="Language of the report: en or zh-CN", show_default=True)
]
"""``--lang`` of verbs that make a report; ``g35ctl.report.strings.named`` resolves it."""

SCHEMA_VERSION = 1
"""Of every JSON document the command line prints."""


def inventory_of(ctx: typer.Context, given: str | None) -> str:
    """The inventory named after the verb, else before it, else the default."""
    return given or str(ctx.obj.inventory)


def output_of(ctx: typer.Context, given: str | None) -> str:
    """The output form named after the verb, else before it. Raises typer.BadParameter for an unknown one."""
    output = given or str(ctx.obj.output)
    if output not in ("text", "json", "jsonl"):
        raise typer.BadParameter(f"{output!r} is not one of text, json, jsonl", param_hint="--output")
    return output


def print_data(line: str) -> None:
    """A line of data: stdout."""
    sys.stdout.write(f"{line}\n")


def print_talk(line: str) -> None:
    """A line of talk: stderr."""
    sys.stderr.write(f"{line}\n")


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout, with its schema version and, where the document has none, an empty ``failures``."""
    print_data(json.dumps({"schema_version": SCHEMA_VERSION, "failures": [], **document}, indent=2))
