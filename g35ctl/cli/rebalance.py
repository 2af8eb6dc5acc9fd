"""``g35ctl rebalance``: even out what owners hold."""

from __future__ import annotations

from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of

app = typer.Typer(rich_markup_mode=None)


@app.command()
def rebalance(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make the moves; without it they are only shown")] = False,
    most: Annotated[int, typer.Option("--moves", min=0, help="At most so many moves; 0: as many as help")] = 0,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0, max=1, help="Difference to live with, a share of the mean")
    ] = 0.1,
    pause: Annotated[float, typer.Option("--pause", min=0, help="Seconds between two namespaces")] = 10,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Propose moves that even out what owners hold (exit 10), or make them, one namespace at a time.

    What the site pins or claims stays. Every move is checked before the next begins; the first bad one stops.
    """
    from g35ctl.cli.acts import carry_out, show_moves
    from g35ctl.engine.lifecycle import acts

    path, form = inventory_of(ctx, inventory), output_of(ctx, output)
    if not yes:
        show_moves(path, form, "rebalance", "", most, tolerance)
    options = acts.MoveOptions(pause=pause, most=most, tolerance=tolerance)
    carry_out(path, form, "rebalance", "", lambda hands: acts.rebalance(hands, options))
