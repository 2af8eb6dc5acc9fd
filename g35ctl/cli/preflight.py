"""``g35ctl preflight``: connect to every host, read only, and report all problems at once."""

from __future__ import annotations

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of

app = typer.Typer(help="Connect to every host, read only, and report all problems at once", add_completion=False)


@app.command()
def preflight(
    ctx: typer.Context,
    inventory: InventoryOption = None,
    output: OutputOption = None,
    limit: str = typer.Option("", "--limit", "-l", help="Hosts, groups or globs, joined by commas; ! leaves out"),
    forks: int | None = typer.Option(None, "--forks", min=1, help="Hosts worked on at a time; default up to 64"),
) -> None:
    """Check that every host can be reached, is supported and has what each stage needs. Changes nothing."""
    from g35ctl.cli.outcome import report_conclusion
    from g35ctl.engine.conclusion import conclude
    from g35ctl.engine.opening import open_session
    from g35ctl.engine.preflight import run_preflight
    from g35ctl.engine.progress import make_display

    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    display = make_display(form)
    with open_session(path, "preflight", display, forks=forks) as session:
        conclusion = conclude(session, run_preflight(session, limit))
        display.end()
    report_conclusion(conclusion, form, f"g35ctl -i {path} preflight")
    raise typer.Exit(int(conclusion.run.exit_code))
