"""``g35ctl report RUN``: the summary of a past run and where its report is, rebuilt from what is stored."""

from __future__ import annotations

import json
import sys

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of, print_data

app = typer.Typer(rich_markup_mode=None)


@app.command()
def report(
    ctx: typer.Context,
    run: str = typer.Argument("last", help="A run as listed by `g35ctl runs`, a unique beginning of it, or last"),
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Show or rebuild the report of a run."""
    from g35ctl.engine.folder import find, state_directory
    from g35ctl.report.terminal import print_summary
    from g35ctl.report.writer import rebuild

    form = output_of(ctx, output)
    folder = find(state_directory(inventory_of(ctx, inventory)), run)
    paths = rebuild(folder.path)
    if form == "text":
        print_summary(paths.document, sys.stdout, paths.named())
    else:
        data = paths.document.to_json()
        print_data(json.dumps(data, indent=2 if form == "json" else None, ensure_ascii=False))
