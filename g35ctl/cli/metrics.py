"""``g35ctl metrics DIR``: the Grafana dashboard and the Prometheus alert rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from g35ctl.cli.common import OutputOption, output_of, print_data, print_json, print_talk

app = typer.Typer(rich_markup_mode=None)


@app.command()
def metrics(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(help="Where to write them")],
    output: OutputOption = None,
) -> None:
    """Write the Grafana dashboard and the Prometheus alert rules for what hosts export (docs/metrics.md)."""
    from g35ctl.report.monitoring import write

    written = write(directory)
    if output_of(ctx, output) != "text":
        print_json({"ok": True, "files": [str(path) for path in written]})
        return
    for path in written:
        print_data(str(path))
    print_talk("hosts export these metrics with g35_metrics.enabled: true; deploy after setting it")
