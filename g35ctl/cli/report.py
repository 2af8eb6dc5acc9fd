"""``g35ctl report RUN``: the summary of a past run and where its report is, rebuilt from what is stored; or two runs
side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from g35ctl.cli.common import (
    InventoryOption,
    LanguageOption,
    OutputOption,
    inventory_of,
    output_of,
    print_data,
    print_talk,
)
from g35ctl.exits import Exit

app = typer.Typer(rich_markup_mode=None)


@app.command()
def report(
    ctx: typer.Context,
    run: str = typer.Argument("last", help="A run as listed by `g35ctl runs`, a unique beginning of it, or last"),
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="RUN RUN", help="Two runs side by side, the earlier one first"),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --compare: exit 7 when something got worse")
    ] = False,
    lang: LanguageOption = "en",
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Show or rebuild the report of a run, or compare two runs and mark what got worse."""
    from g35ctl.engine.folder import find, state_directory
    from g35ctl.report.strings import named
    from g35ctl.report.terminal import print_summary
    from g35ctl.report.writer import read, render

    form = output_of(ctx, output)
    strings = named(lang)
    state = state_directory(inventory_of(ctx, inventory))
    if compare is not None:
        regressed = _compare(find(state, compare[0]).path, find(state, compare[1]).path, form, lang)
        raise typer.Exit(int(Exit.THRESHOLDS_MISSED if regressed and exit_code else Exit.OK))
    folder = find(state, run)
    document = read(folder.path)
    paths = render(folder.path, document, strings)
    if form == "text":
        print_summary(document, sys.stdout, paths.named(), strings)
    else:
        _print_json(document.to_json(), form)
    for problem in paths.problems:
        print_talk(f"error: {problem}")
    if paths.problems:
        print_talk(f"next: free the disk or mend what is named, then: g35ctl report {folder.identifier}")
        raise typer.Exit(int(Exit.DEPLOY_FAILED))


def _compare(before: Path, after: Path, form: str, lang: str) -> bool:
    """Write and print the comparison; true when something got worse."""
    from g35ctl.errors import G35Error
    from g35ctl.report import compare_page
    from g35ctl.report.strings import named
    from g35ctl.report.writer import read

    strings = named(lang)
    try:
        files = compare_page.write(after, read(before), read(after), strings)
    except OSError as error:
        raise G35Error(
            "the comparison could not be written",
            why=str(error),
            next_command="free the disk or mend what is named, then repeat the command",
        ) from error
    if form == "text":
        for line in compare_page.summary_lines(files, strings):
            print_data(line)
    else:
        _print_json(files.comparison.to_json(), form)
    return files.comparison.regressions


def _print_json(data: dict[str, Any], form: str) -> None:
    print_data(json.dumps(data, indent=2 if form == "json" else None, ensure_ascii=False))
