"""``g35ctl report RUN``: the summary of a past run and where its report is, rebuilt from what is stored."""

from __future__ import annotations

import json
import sys

import typer

from g35ctl.cli.main import Options

app = typer.Typer(rich_markup_mode=None)


@app.command()
def report(
    ctx: typer.Context,
    run: str = typer.Argument("last", help="A run as listed by `g35ctl runs`, a unique beginning of it, or last"),
) -> None:
    """Show or rebuild the report of a run."""
    from g35ctl.engine.folder import find, state_directory
    from g35ctl.report.terminal import print_summary
    from g35ctl.report.writer import rebuild

    options: Options = ctx.obj
    folder = find(state_directory(options.inventory), run)
    paths = rebuild(folder.path)
    if options.output == "text":
        print_summary(paths.document, sys.stdout, paths.named())
    else:
        indent = 2 if options.output == "json" else None
        sys.stdout.write(json.dumps(paths.document.to_json(), indent=indent, ensure_ascii=False) + "\n")
