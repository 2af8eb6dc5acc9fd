"""``g35ctl check``: validate the inventory offline, every problem at once."""

from __future__ import annotations

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of, print_data, print_json, print_talk

app = typer.Typer(rich_markup_mode=None)


@app.command()
def check(ctx: typer.Context, inventory: InventoryOption = None, output: OutputOption = None) -> None:
    """Validate the inventory offline: every problem at once, with file, line and column. Exit 3 on errors."""
    from g35ctl.site.load import inspect
    from g35ctl.site.problems import SiteInvalid, lines
    from g35ctl.site.summary import sentence, summary

    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    site, problems = inspect(path)
    if form != "text":
        failures = [problem.to_failure() for problem in problems if problem.severity == "error"]
        found = [problem.to_json() for problem in problems]
        told = summary(site) if site is not None else None
        print_json({"ok": site is not None, "site": told, "problems": found, "failures": failures})
        raise typer.Exit(0 if site is not None else int(SiteInvalid.exit_code))
    if site is None:
        raise SiteInvalid(path, problems)
    for line in lines(problems):
        print_talk(line)
    print_data(sentence(site))
