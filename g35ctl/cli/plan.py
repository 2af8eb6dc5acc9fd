"""``g35ctl plan``: what would be, before anything is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from g35ctl.plan.model import Plan
    from g35ctl.site.model import Site

app = typer.Typer(rich_markup_mode=None)

_INDENTED_UP_TO = 64  # hosts; the plan of a fleet is for programs, and indenting it takes longer than making it


@app.command()
def plan(
    ctx: typer.Context,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what would change against what is on record, instead of the plan")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Show what each tier finds of a recorded trace, instead of the plan")
    ] = None,
    block_tokens: Annotated[int, typer.Option("--block-tokens", min=1, help="Tokens of a block in the trace")] = 512,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 10 when a deploy would have something to apply")
    ] = False,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Show what would be: who owns what, paths, stores, memory, predicted figures, disruptive steps. Reads no host.

    The JSON form is the whole plan; G35_PLAN_FILE takes it.
    """
    from g35ctl.engine.planning import make_plan, pending
    from g35ctl.report.plan_text import sections
    from g35ctl.report.sections import write

    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    site, made = make_plan(path)
    if trace is not None:
        _show_curve(site, made, trace, block_tokens, form)
        return
    if diff:
        _show_difference(path, made, form, exit_code)
        return
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


def _show_curve(site: Site, made: Plan, trace: Path, block_tokens: int, form: str) -> None:
    from g35ctl.engine.hitrate import site_curve
    from g35ctl.report.sections import write
    from g35ctl.report.workload_text import curve_sections

    found = site_curve(site, made, trace, block_tokens)
    if form == "text":
        write(curve_sections(found), sys.stdout)
    else:
        text = {"schema_version": SCHEMA_VERSION, "failures": [], "ok": True, "predicted": True, **found.to_json()}
        print_data(json.dumps(text, indent=2 if form == "json" else None))


def _show_difference(inventory: str, made: Plan, form: str, exit_code: bool) -> None:
    from g35ctl.engine.plan_diff import diff
    from g35ctl.report.diff_text import diff_sections
    from g35ctl.report.sections import write

    found = diff(inventory, made)
    if form == "text":
        write(diff_sections(found), sys.stdout)
    else:
        document = {"ok": True, "changes_pending": found.pending, **found.to_json()}
        text = {"schema_version": SCHEMA_VERSION, "failures": [], **document}
        print_data(json.dumps(text, indent=2 if form == "json" else None))
    if exit_code and found.pending:
        raise typer.Exit(int(Exit.CHANGES_PENDING))
