"""``g35ctl remove``: take a host or a box out of the tier."""

from __future__ import annotations

from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of

app = typer.Typer(rich_markup_mode=None)


@app.command()
def remove(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Host or box of the inventory")],
    confirm: Annotated[str, typer.Option("--confirm", metavar="NAME", help="Type the name once more")] = "",
    gone: Annotated[bool, typer.Option("--gone", help="The host will never answer again: only note it")] = False,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Undo everything g35ctl made on a host or a box, and nothing else. A host must own nothing: drain it first.

    A box takes what is cached on it out of the pool. The data stays on its SSDs.
    """
    from g35ctl.cli.acts import carry_out
    from g35ctl.engine.lifecycle.removal import must_be_typed
    from g35ctl.engine.lifecycle.removal import remove as take_out

    must_be_typed(confirm, name, "--confirm", f"{name} would be taken out of the tier")
    path, form = inventory_of(ctx, inventory), output_of(ctx, output)
    carry_out(path, form, "remove", name, lambda hands: take_out(hands, name, gone=gone))
