"""``g35ctl runs``: past runs of a site."""

from __future__ import annotations

import json
import sys

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of

app = typer.Typer(help="List past runs", add_completion=False)


@app.command()
def runs(
    ctx: typer.Context,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """List past runs, oldest first: when, what, how it ended, how many tasks changed. ``last`` names the latest."""
    from g35ctl.engine import folder

    state = folder.state_directory(inventory_of(ctx, inventory))
    known = [(item, item.summary()) for item in folder.runs(state)]
    if output_of(ctx, output) != "text":
        listed = [{"run": item.identifier, "folder": str(item.path), **summary} for item, summary in known]
        sys.stdout.write(json.dumps({"schema_version": 1, "ok": True, "failures": [], "runs": listed}, indent=2) + "\n")
        return
    for item, summary in known:
        code = summary.get("exit_code", "")
        status = summary.get("status", "unknown")
        seconds = summary.get("seconds")
        spent = f"{seconds:8.1f} s" if isinstance(seconds, int | float) else " " * 10
        sys.stdout.write(
            f"{item.identifier:<40} {status:<12} exit {code!s:<4} {spent}  changed {summary.get('changed', '')}\n"
        )
    if not known:
        sys.stderr.write(f"no runs in {state}\n")
