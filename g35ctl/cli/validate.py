"""``g35ctl validate``: the validation stage alone, with a report."""

from __future__ import annotations

from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, LanguageOption, OutputOption, inventory_of, output_of

app = typer.Typer(rich_markup_mode=None)


@app.command()
def validate(
    ctx: typer.Context,
    suite: Annotated[
        list[str] | None,
        typer.Option("--suite", help="functional, fabric, storage, store, serving or all (repeatable)"),
    ] = None,
    write_namespace: Annotated[
        list[str] | None,
        typer.Option("--write-namespace", help="UUID of a namespace on which writing is measured too (repeatable)"),
    ] = None,
    forks: Annotated[int | None, typer.Option("--forks", min=1, help="Hosts worked on at a time")] = None,
    lang: LanguageOption = "en",
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Read the whole site back, write and read values through flash, measure, judge, and write a report.

    Suites run in order and stop at the first that fails. Nothing is changed, but by suite serving, which is never part
    of all: it empties the pool, restarts stores and puts the site back. Exit 7 when a check fails, 1 when a suite could
    not be run, 5 when hosts do not answer.
    """
    from g35ctl.cli.outcome import report_conclusion
    from g35ctl.engine.conclusion import conclude
    from g35ctl.engine.opening import open_session
    from g35ctl.engine.progress import make_display
    from g35ctl.report.strings import named
    from g35ctl.validate.suites import select
    from g35ctl.validate.verb import validate as run

    names = tuple(suite or ("functional",))
    select(names)
    strings = named(lang)
    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    display = make_display(form)
    with open_session(path, "validate", display, forks=forks) as session:
        done, proof = run(session, names, tuple(write_namespace or ()))
        conclusion = conclude(session, done, proof.verdicts, strings)
        display.end()
    report_conclusion(conclusion, form, f"g35ctl -i {path} validate")
    raise typer.Exit(int(conclusion.run.exit_code))
