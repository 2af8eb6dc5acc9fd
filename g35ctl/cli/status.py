"""``g35ctl status``: the live state of the tier on one screen."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of, print_data

app = typer.Typer(rich_markup_mode=None)

_CLEAR = "\x1b[H\x1b[2J"


@app.command()
def status(
    ctx: typer.Context,
    watch: Annotated[float | None, typer.Option("--watch", min=1, help="Look again every so many seconds")] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="With --watch: end after so many looks")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for warnings, too")] = False,
    forks: Annotated[int | None, typer.Option("--forks", min=1, help="Hosts read at a time")] = None,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Read every host and show boxes, paths, owners, mounts, stores, pool, and what is wrong. Changes nothing.

    Needs no lock: also works during a deploy. Exit 0 healthy (warnings are shown), 1 with findings, 5 when a host does
    not answer; that of the last look with --watch, which also shows throughput and the hit rate since the look before.
    """
    from g35ctl.exits import Exit
    from g35ctl.report.status import build, lines, with_rates
    from g35ctl.validate.look import look

    form = output_of(ctx, output)
    path = inventory_of(ctx, inventory)
    before = None
    looks = 0
    while True:
        began = time.monotonic()
        found = build(look(path, forks=forks))
        shown = found if before is None else with_rates(before, found)
        if form == "text":
            if watch is not None and sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            for line in lines(shown):
                print_data(line)
        else:
            print_data(json.dumps(shown.to_json(), indent=2 if form == "json" and watch is None else None))
        sys.stdout.flush()
        before, looks = found, looks + 1
        if watch is None or looks == (count or 0):
            break
        time.sleep(max(0.0, watch - (time.monotonic() - began)))
    code = found.exit_code
    if strict and code is Exit.OK and found.warnings:
        code = Exit.DEPLOY_FAILED
    raise typer.Exit(int(code))
