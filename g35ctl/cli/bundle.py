"""``g35ctl bundle``: collect on the controller what hosts without internet need, and check it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from g35ctl.errors import G35Error
from g35ctl.exits import Exit

app = typer.Typer(help="Collect what hosts without internet need", no_args_is_help=True)


@app.command()
def create(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", help="Directory; default below ~/.cache/g35ctl/wheelhouse")
    ] = None,
    distribution: Annotated[str, typer.Option(help="Wheel variant")] = "mooncake-transfer-engine-non-cuda",
    release: Annotated[str, typer.Option("--release", help="Mooncake release")] = "0.3.13.post1",
    python: Annotated[str, typer.Option(help="Python version of the hosts")] = "3.11",
) -> None:
    """Download the wheels of Mooncake with a manifest; does nothing when they are there already."""
    from g35ctl.bundle import wheelhouse

    directory = output or wheelhouse.default_directory(distribution, release)
    made = wheelhouse.create(directory, distribution, release, python)
    if ctx.obj.output == "text":
        total = sum(entry.size for entry in made.wheels)
        sys.stdout.write(f"{made.directory}: {len(made.wheels)} wheels, {total / 2**20:.1f} MiB\n")
    else:
        sys.stdout.write(
            json.dumps({"schema_version": 1, "ok": True, "failures": [], "wheelhouse": asdict(made)}) + "\n"
        )


@app.command()
def verify(ctx: typer.Context, directory: Annotated[Path, typer.Argument(help="The wheelhouse")]) -> None:
    """Compare a wheelhouse with its manifest: every digest, every size, nothing more and nothing less."""
    from g35ctl.bundle import wheelhouse

    found = wheelhouse.problems(directory)
    if found:
        raise G35Error(
            f"{directory} is not what its manifest says",
            why="\n".join(found),
            next_command=f"remove the directory and run: g35ctl bundle create --output {directory}",
            exit_code=Exit.DEPLOY_FAILED,
        )
    if ctx.obj.output == "text":
        sys.stdout.write(f"{directory}: complete and unaltered\n")
    else:
        sys.stdout.write(json.dumps({"schema_version": 1, "ok": True, "failures": []}) + "\n")
