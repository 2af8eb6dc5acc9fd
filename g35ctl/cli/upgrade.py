"""``g35ctl upgrade``: Mooncake to the release that the site says, one host at a time, and back."""

from __future__ import annotations

from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of, print_json, print_talk

app = typer.Typer(rich_markup_mode=None)


@app.command()
def upgrade(
    ctx: typer.Context,
    rollback: Annotated[bool, typer.Option("--rollback", help="Back to what the last upgrade began from")] = False,
    untested: Annotated[bool, typer.Option("--untested", help="Also along a path that was not tested")] = False,
    allow_disruptive: Annotated[
        bool, typer.Option("--allow-disruptive", help="Consent to restarts of stores and masters")
    ] = False,
    forks: Annotated[int | None, typer.Option("--forks", min=1, help="Hosts read at a time")] = None,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Bring Mooncake to g35_mooncake.version on every host, one at a time; the first bad host stops the rest.

    The environment of the release before is kept beside the new one: --rollback returns to it.
    """
    from g35ctl.cli.outcome import report_conclusion
    from g35ctl.engine.conclusion import conclude
    from g35ctl.engine.opening import open_session
    from g35ctl.engine.progress import make_display
    from g35ctl.engine.upgrade import Upgrade
    from g35ctl.exits import Exit

    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    display = make_display(form)
    with open_session(path, "upgrade", display, forks=forks) as session:
        work = Upgrade(session, consent=allow_disruptive, allow_untested=untested, back=rollback)
        done = work.run()
        conclusion = None if done is None else conclude(session, done.run, done.proof.verdicts if done.proof else ())
        if done is None:
            session.folder.finish({"status": "finished", "verb": "upgrade", "exit_code": 0, "changed": 0})
        display.end()
    if conclusion is None:
        print_talk("every host has the release that the site says")
        if form != "text":
            print_json({"ok": True, "exit_code": 0, "changed": 0})
        return
    report_conclusion(conclusion, form, f"g35ctl -i {path} upgrade")
    if rollback and conclusion.run.exit_code is Exit.OK:
        version = work.steps[0].after
        print_talk(f"next: set g35_mooncake.version to {version}, or the next deploy upgrades again")
    elif conclusion.run.exit_code is not Exit.OK:
        print_talk(f"or return: g35ctl -i {path} upgrade --rollback --allow-disruptive")
    raise typer.Exit(int(conclusion.run.exit_code))
