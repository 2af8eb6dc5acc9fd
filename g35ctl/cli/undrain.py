"""``g35ctl undrain``: bring a host back with what it owned."""

from __future__ import annotations

from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of

app = typer.Typer(rich_markup_mode=None)


@app.command()
def undrain(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(help="Host that was drained or failed over")],
    check: Annotated[bool, typer.Option("--check", help="Show the moves, change nothing (exit 10)")] = False,
    pause: Annotated[float, typer.Option("--pause", min=0, help="Seconds between two namespaces")] = 0,
    empty_seconds: Annotated[int, typer.Option("--empty-seconds", min=10, help="Time to empty a memory")] = 300,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Give a host that is out of service its namespaces back; also takes back a drain that was cut off."""
    from g35ctl.cli.acts import carry_out, show_moves
    from g35ctl.engine.lifecycle import acts

    path, form = inventory_of(ctx, inventory), output_of(ctx, output)
    if check:
        show_moves(path, form, "undrain", host)
    options = acts.MoveOptions(pause=pause, empty_seconds=empty_seconds)
    carry_out(path, form, "undrain", host, lambda hands: acts.undrain(hands, host, options))
