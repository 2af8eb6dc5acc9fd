"""``g35ctl teardown``: undo everything g35ctl made."""

from __future__ import annotations

from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of

app = typer.Typer(rich_markup_mode=None)


@app.command()
def teardown(
    ctx: typer.Context,
    confirm: Annotated[str, typer.Option("--confirm", metavar="SITE", help="Type the name of the site")] = "",
    yes_destroy: Annotated[
        str, typer.Option("--yes-destroy", metavar="SITE", help="Also wipe the namespaces: type the site's name")
    ] = "",
    forks: Annotated[int | None, typer.Option("--forks", min=1, help="Hosts worked on at a time")] = None,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Stop, unmount, disconnect and unexport everything of this site, and remove every file that g35ctl made.

    The data stays on the SSDs and a later deploy finds it, unless --yes-destroy names the site.
    """
    from g35ctl.cli.acts import carry_out
    from g35ctl.engine.lifecycle.removal import must_be_typed
    from g35ctl.engine.lifecycle.removal import teardown as take_down
    from g35ctl.engine.planning import make_plan

    path, form = inventory_of(ctx, inventory), output_of(ctx, output)
    site = make_plan(path)[1].site
    if yes_destroy:
        must_be_typed(yes_destroy, site, "--yes-destroy", f"every value on the namespaces of {site} would be destroyed")
    else:
        must_be_typed(confirm, site, "--confirm", f"the tier of {site} would be taken down")
    carry_out(path, form, "teardown", "", lambda hands: take_down(hands, destroy=bool(yes_destroy)), forks=forks)
