"""``g35ctl drain``: take a host out of service without losing a value."""

from __future__ import annotations

from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of

app = typer.Typer(rich_markup_mode=None)


@app.command()
def drain(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(help="Cache owner to free")],
    check: Annotated[bool, typer.Option("--check", help="Show the moves, change nothing (exit 10)")] = False,
    pause: Annotated[float, typer.Option("--pause", min=0, help="Seconds between two namespaces")] = 0,
    empty_seconds: Annotated[int, typer.Option("--empty-seconds", min=10, help="Time to empty its memory")] = 300,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Empty the host's memory, move its namespaces with their data to other owners, prove that every key is there.

    After a failure or an interruption run the same command again; g35ctl undrain takes it back.
    """
    from g35ctl.cli.acts import carry_out, show_moves
    from g35ctl.engine.lifecycle import acts

    path, form = inventory_of(ctx, inventory), output_of(ctx, output)
    if check:
        show_moves(path, form, "drain", host)
    options = acts.MoveOptions(pause=pause, empty_seconds=empty_seconds)
    carry_out(path, form, "drain", host, lambda hands: acts.drain(hands, host, options))
