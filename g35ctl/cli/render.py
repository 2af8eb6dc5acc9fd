"""``g35ctl render``: every file that would end on a host or a switch, without touching one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of, print_data, print_json

app = typer.Typer(rich_markup_mode=None)


@app.command()
def render(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(help="New or empty directory, or one of an earlier render")],
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Write every file of the plan to DIRECTORY: hosts/HOST/PATH, and switches/VENDOR/SWITCH.* for a person to apply.

    Reads no host; rendering again changes nothing.
    """
    from g35ctl.engine.planning import make_plan
    from g35ctl.report.tree import write_tree

    made = make_plan(inventory_of(ctx, inventory))[1]
    done = write_tree(made, directory)
    if output_of(ctx, output) != "text":
        print_json({"ok": True, "directory": str(directory), "digest": made.digest, **vars(done)})
        return
    print_data(
        f"{directory}: {len(done.written)} files written, {len(done.unchanged)} unchanged, {len(done.removed)} removed"
    )
