"""``g35ctl init DIR``: scaffold a site inventory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from g35ctl.cli.common import OutputOption, output_of, print_data, print_json, print_talk

app = typer.Typer(rich_markup_mode=None)

_QUESTIONS = {
    "name": "Name of the site",
    "boxes": "EBOF boxes",
    "hosts": "GPU hosts",
    "ssds": "SSDs in each box",
    "ssd_size": "Size of an SSD",
    "driver": "Boxes: static (managed by their own means) or nvmet (Linux hosts)",
    "transport": "Transport: rdma or tcp",
    "mtu": "MTU of data ports",
}
_RAIL_HELP = "NAME=SUBNET=NETDEV, once for each rail [default: two rails]"


@app.command()
def init(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(help="Directory of the new inventory")],
    name: str | None = typer.Option(None, "--name", help="Name of the site [default: the directory's]"),
    boxes: int | None = typer.Option(None, "--boxes", help="Number of EBOF boxes [default: 1]"),
    hosts: int | None = typer.Option(None, "--hosts", help="Number of GPU hosts [default: 2]"),
    ssds: int | None = typer.Option(None, "--ssds", help="SSDs in each box [default: 4]"),
    ssd_size: str | None = typer.Option(None, "--ssd-size", help="Size of an SSD [default: 7.68TB]"),
    driver: str | None = typer.Option(None, "--driver", help="static, or nvmet for Linux boxes [default: static]"),
    transport: str | None = typer.Option(None, "--transport", help="rdma or tcp [default: rdma]"),
    mtu: int | None = typer.Option(None, "--mtu", help="MTU of data ports [default: 9000]"),
    rail: Annotated[list[str] | None, typer.Option("--rail", help=_RAIL_HELP)] = None,
    force: bool = typer.Option(False, "--force", help="Overwrite the files of a site that is there"),
    yes: bool = typer.Option(False, "--yes", "-y", help="Ask nothing, take the defaults"),
    output: OutputOption = None,
) -> None:
    """Scaffold a commented site that passes check. Asks only on a terminal, and only for what no flag says."""
    from g35ctl.site.scaffold import Answers, write

    given: dict[str, Any] = {
        "name": name,
        "boxes": boxes,
        "hosts": hosts,
        "ssds": ssds,
        "ssd_size": ssd_size,
        "driver": driver,
        "transport": transport,
        "mtu": mtu,
    }
    defaults = {**{key: getattr(Answers, key) for key in given}, "name": _name_of(directory)}
    form = output_of(ctx, output)
    asking = sys.stdin.isatty() and sys.stderr.isatty() and not yes and form == "text"
    for key, value in given.items():
        if value is None:
            given[key] = typer.prompt(_QUESTIONS[key], default=defaults[key], err=True) if asking else defaults[key]
    if rail:
        given["rails"] = tuple(_rail(item) for item in rail)
    written = write(directory, Answers(**given), force=force)
    if form != "text":
        print_json({"ok": True, "directory": str(directory), "files": [str(path) for path in written]})
        return
    for path in written:
        print_data(str(path))
    print_talk(f"next: correct addresses, devices and namespaces, then g35ctl -i {directory} check")


def _name_of(directory: Path) -> str:
    """The directory's name, as far as it can name a site."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in directory.absolute().name)
    return kept.lower().strip("-")[:31] or "mysite"


def _rail(text: str) -> tuple[str, str, str]:
    parts = text.split("=")
    if len(parts) != 3:
        raise typer.BadParameter(
            f"{text!r} is not NAME=SUBNET=NETDEV, such as a=192.0.2.0/24=eth1", param_hint="--rail"
        )
    return parts[0], parts[1], parts[2]
