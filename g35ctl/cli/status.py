"""``g35ctl status``: the live state of the tier on one screen."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of, print_data

app = typer.Typer(rich_markup_mode=None)


@app.command()
def status(
    ctx: typer.Context,
    forks: Annotated[int | None, typer.Option("--forks", min=1, help="Hosts read at a time")] = None,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Read every host and show boxes, paths, mounts, stores, pool, and what is wrong. Changes nothing.

    Needs no lock: also works during a deploy. Exit 0 healthy, 1 with findings, 5 when a host does not answer.
    """
    from g35ctl.report.status import build, lines
    from g35ctl.validate.look import look

    form = output_of(ctx, output)
    found = build(look(inventory_of(ctx, inventory), forks=forks))
    if form == "text":
        for line in lines(found):
            print_data(line)
    else:
        print_data(json.dumps(found.to_json(), indent=2 if form == "json" else None))
    raise typer.Exit(int(found.exit_code))
