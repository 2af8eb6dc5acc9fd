"""``g35ctl simulate``: the benchmark's table, predicted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
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

app = typer.Typer(rich_markup_mode=None)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = []
    if text and (not found or min(found) < 1 or max(found) > 100_000):
        raise typer.BadParameter(f"{text!r} is not a list of whole numbers such as 8,16,32,48")
    return found


@app.command()
def simulate(
    ctx: typer.Context,
    users: Annotated[str, typer.Option("--users", help="Active users, for example 8,16,32,48")] = "",
    config: Annotated[Path | None, typer.Option("--config", help="A set-up in a file, instead of the site's")] = None,
    published: Annotated[bool, typer.Option("--published", help="The published set-up, instead of the site's")] = False,
    against: Annotated[
        str, typer.Option("--against", metavar="RUN", help="Set the prediction beside the serving figures of a run")
    ] = "",
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same figures")] = 1,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also change one input at a time and show what hangs on it")
    ] = False,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Predict the benchmark: the three cache paths at each number of users, in a discrete-event model.

    Reads g35_validate.workload of the site and no host; docs/simulate.md says what is calibrated.
    """
    from g35ctl.report.sections import write
    from g35ctl.report.simulation_text import compared_sections, sensitivity_sections, simulation_sections
    from g35ctl.simulation.compare import as_measured, compare
    from g35ctl.simulation.inputs import file_inputs, measured_run, site_inputs, with_users
    from g35ctl.simulation.inputs import published as example
    from g35ctl.simulation.run import simulate as run
    from g35ctl.simulation.sensitivity import sensitivity as vary

    numbers, form = _numbers(users), output_of(ctx, output)
    if config is not None and published:
        raise typer.BadParameter("--config and --published name two set-ups; use one")
    if config is not None:
        name, inputs = file_inputs(config)
    else:
        name, inputs = site_inputs(example() if published else inventory_of(ctx, inventory))
    inputs = with_users(inputs, numbers)
    if against:
        of_run, measured = measured_run(inventory_of(ctx, inventory), against)
        compared = compare(as_measured(inputs, measured), measured, seed)
        sections = compared_sections(compared, of_run)
        document = {"predicted": True, "run": of_run, "rows": [item.to_json() for item in compared]}
    else:
        found = run(inputs, name, seed)
        cases = vary(inputs, seed) if sensitivity else ()
        sections = (*simulation_sections(found), *(sensitivity_sections(cases) if cases else ()))
        document = {**found.to_json(), "sensitivity": [case.to_json() for case in cases]}
    if form == "text":
        write(sections, sys.stdout)
    elif form == "json":
        print_json({"ok": True, **document})
    else:
        print_data(json.dumps({"schema_version": SCHEMA_VERSION, "failures": [], "ok": True, **document}))
