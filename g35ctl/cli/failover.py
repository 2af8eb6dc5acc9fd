"""``g35ctl failover``: give what a dead host owned to others."""

from __future__ import annotations

from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of

app = typer.Typer(rich_markup_mode=None)


@app.command()
def failover(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(help="Cache owner that is dead")],
    check: Annotated[bool, typer.Option("--check", help="Show the moves, change nothing (exit 10)")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also when the host still answers: shut it out")] = False,
    confirm_fenced: Annotated[
        str, typer.Option("--confirm-fenced", metavar="HOST", help="Its name: it is off, or was shut out by hand")
    ] = "",
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Shut a dead host out of its namespaces, prove it, then move them with their data to other owners.

    Refuses without proof that the host can no longer write. After a failure run the same command again.
    """
    from g35ctl.cli.acts import carry_out, show_moves
    from g35ctl.engine.lifecycle import acts
    from g35ctl.engine.lifecycle.life import must_be_dead, must_be_named

    path, form = inventory_of(ctx, inventory), output_of(ctx, output)
    must_be_named(confirm_fenced, host, "--confirm-fenced")
    if check:
        show_moves(path, form, "failover", host)
    if not force:
        must_be_dead(path, host)
    options = acts.MoveOptions(confirmed=confirm_fenced == host)
    carry_out(path, form, "failover", host, lambda hands: acts.failover(hands, host, options))
