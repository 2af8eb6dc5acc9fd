"""``g35ctl doctor``: what is wrong, why, and what to do."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of, print_data

app = typer.Typer(rich_markup_mode=None)


@app.command()
def doctor(
    ctx: typer.Context,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Between two samples; 0 samples once")] = 5.0,
    forks: Annotated[int | None, typer.Option("--forks", min=1, help="Hosts read at a time")] = None,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Read every host twice and name the causes of what is wrong, with evidence and remedy. Changes nothing.

    Needs no lock: also works during a deploy. Exit 0 nothing found, 1 findings, 5 when a host does not answer.
    """
    from g35ctl.report.doctor import exit_code, lines, to_json
    from g35ctl.validate.doctor.diagnose import diagnose
    from g35ctl.validate.doctor.examine import examine

    form = output_of(ctx, output)
    case = examine(inventory_of(ctx, inventory), seconds, forks=forks)
    found = diagnose(case)
    if form == "text":
        for line in lines(case, found):
            print_data(line)
    else:
        print_data(json.dumps(to_json(case, found), indent=2 if form == "json" else None))
    raise typer.Exit(int(exit_code(case, found)))
