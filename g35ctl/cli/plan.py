"""``g35ctl plan``: what would be, before anything is."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from g35ctl.cli.common import (
    SCHEMA_VERSION,
    InventoryOption,
    OutputOption,
    inventory_of,
    output_of,
    print_data,
    print_json,
)
from g35ctl.exits import Exit

app = typer.Typer(rich_markup_mode=None)

_INDENTED_UP_TO = 64  # hosts; the plan of a fleet is for programs, and indenting it takes longer than making it


@app.command()
def plan(
    ctx: typer.Context,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 10 when a deploy would have something to apply")
    ] = False,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Show what would be: who owns what, paths, stores, memory, disruptive steps. Reads no host.

    The JSON form is the whole plan; G35_PLAN_FILE takes it.
    """
    from g35ctl.engine.planning import make_plan, pending
    from g35ctl.report.plan_text import sections, write

    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    made = make_plan(path)[1]
    todo = pending(path, made)
    if form == "text":
        write(sections(made, todo), sys.stdout)
    else:
        document = {"ok": True, "pending": [{"host": host, "stage": stage} for host, stage in todo], **made.to_json()}
        if form == "json" and len(made.hosts) <= _INDENTED_UP_TO:
            print_json(document)
        else:
            print_data(json.dumps({"schema_version": SCHEMA_VERSION, "failures": [], **document}))
    if exit_code and todo:
        raise typer.Exit(int(Exit.CHANGES_PENDING))
