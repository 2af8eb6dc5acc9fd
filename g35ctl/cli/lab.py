"""``g35ctl lab``: the embedded virtual machine lab. Parses, calls :class:`g35ctl.lab.VmLab`, prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from g35ctl.lab import LabStatus, VmLab
    from g35ctl.lab.container import ContainerLab

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="The embedded labs: an EBOF box and two GPU hosts as virtual machines with a real kernel data path, or"
    " (--kind container) hosts for the serving stage with a real engine.",
)
fault = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Break the lab on purpose, and mend it.",
)
app.add_typer(fault, name="fault")

Name = Annotated[str, typer.Option("--name", envvar="G35_LAB_NAME", help="Which lab, when there are several")]
Kind = Annotated[
    str, typer.Option("--kind", help="vm, or container for the serving lab; default: as it was brought up")
]
Output = Annotated[str, typer.Option("--output", "-o", help="text or json; default: the global option")]
Guest = Annotated[str, typer.Argument(help="A guest of the lab, such as ebof1 or gpu1", show_default=False)]
RailName = Annotated[str, typer.Argument(metavar="RAIL", help="A rail of the lab: a or b", show_default=False)]
Directory = Annotated[str, typer.Argument(metavar="PATH", help="A directory on the guest", show_default=False)]
Wait = Annotated[float, typer.Option("--wait", min=1, help="Seconds to wait for ssh")]

DEFAULT_WAIT = 300.0


def _lab(name: str, inventory_dir: Path | None = None) -> VmLab:
    from g35ctl.lab import VmLab

    return VmLab(name, inventory_dir=inventory_dir)


def _any_lab(kind: str, name: str, inventory_dir: Path | None = None) -> VmLab | ContainerLab:
    """The lab of that kind and name; without a kind, whichever was brought up under the name."""
    from g35ctl.lab.container import KIND, ContainerLab, was_container_lab
    from g35ctl.lab.container_topology import NAME

    if kind not in ("", "vm", KIND):
        raise typer.BadParameter(f"{kind!r} is not one of vm, {KIND}", param_hint="--kind")
    if kind == KIND and name == "default":
        name = NAME
    if kind == KIND or (not kind and was_container_lab(name)):
        return ContainerLab(name, inventory_dir=inventory_dir)
    return _lab(name, inventory_dir)


def _wants_json(ctx: typer.Context, output: str) -> bool:
    chosen = output or getattr(ctx.obj, "output", "text")
    if chosen not in ("text", "json", "jsonl"):
        raise typer.BadParameter(f"{chosen!r} is not one of text, json", param_hint="--output")
    return bool(chosen != "text")


def _pair(text: str) -> tuple[str, str]:
    guest, separator, suite = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not GUEST=SUITE", param_hint="--guest-suite")
    return guest, suite


def _print_status(status: LabStatus, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(status.as_json(), indent=2))
        return
    typer.echo(f"lab {status.name}: {'up' if status.ok else 'not up'}, inventory {status.inventory or 'not written'}")
    row = "{:<10} {:<8} {:<6} {:<7} {:<9} {:<34} {}"
    typer.echo(row.format("GUEST", "RUNNING", "LOGIN", "PORT", "SUITE", "ADDRESSES", "RAILS CUT").rstrip())
    for guest in status.guests:
        cells = (
            guest.name,
            "yes" if guest.running else "no",
            "yes" if guest.login else "no",
            guest.port or "-",
            guest.suite,
            " ".join(guest.addresses),
            " ".join(guest.rails_cut) or "-",
        )
        typer.echo(row.format(*cells))


@app.command()
def up(
    ctx: typer.Context,
    name: Name = "default",
    kind: Kind = "",
    suite: Annotated[str, typer.Option(help="Debian suite of new guests: bookworm or trixie")] = "",
    guest_suite: Annotated[
        list[str] | None, typer.Option(metavar="GUEST=SUITE", help="Another suite for one guest; may be repeated")
    ] = None,
    inventory_dir: Annotated[
        Path | None,
        typer.Option(help="Inventory to complete; default inventories/lab (serving), or ./g35-lab when installed"),
    ] = None,
    install_prerequisites: Annotated[
        bool, typer.Option("--install-prerequisites", help="Install missing Debian packages on this machine")
    ] = False,
    wait: Wait = DEFAULT_WAIT,
    output: Output = "",
) -> None:
    """Build the image if needed, boot what is not running, wait for ssh, write the inventory."""
    from g35ctl.lab import VmLab, default_topology

    others = dict(_pair(text) for text in guest_suite or [])
    topology = default_topology(name, suite or "bookworm", others) if suite or others else None
    lab: VmLab | ContainerLab = VmLab(name, topology=topology, inventory_dir=inventory_dir)
    if not topology:
        lab = _any_lab(kind, name, inventory_dir)
    elif kind not in ("", "vm"):
        raise typer.BadParameter("suites can be chosen for virtual machines only", param_hint="--suite")
    status = lab.up(install_prerequisites=install_prerequisites, wait_seconds=wait)
    _print_status(status, as_json=_wants_json(ctx, output))


@app.command()
def down(
    name: Name = "default",
    kind: Kind = "",
    purge: Annotated[bool, typer.Option("--purge", help="Also delete disks, keys and logs of this lab")] = False,
) -> None:
    """Power every guest of this lab off and remove its network."""
    _any_lab(kind, name).down(purge=purge)


@app.command()
def status(ctx: typer.Context, name: Name = "default", kind: Kind = "", output: Output = "") -> None:
    """Show which guests run, whether they can be logged into, and which rails are cut; exit 5 unless all is up."""
    from g35ctl.exits import Exit

    found = _any_lab(kind, name).status()
    _print_status(found, as_json=_wants_json(ctx, output))
    if not found.ok:
        raise typer.Exit(int(Exit.UNREACHABLE))


@app.command(context_settings={"ignore_unknown_options": True})
def ssh(
    guest: Guest,
    command: Annotated[list[str] | None, typer.Argument(help="What to run there; default: a login shell")] = None,
    name: Name = "default",
    kind: Kind = "",
) -> None:
    """Log in to a guest as root, or run a command there: g35ctl lab ssh gpu1 -- rdma link."""
    lab = _any_lab(kind, name)
    words = command or []
    argv = lab.ssh_argv(guest, words, terminal=not words and sys.stdin.isatty())
    if not words:
        os.execvp(argv[0], argv)  # noqa: S606 (hands the terminal over)
    raise typer.Exit(subprocess.run(argv, check=False).returncode)


@fault.command()
def poweroff(guest: Guest, name: Name = "default") -> None:
    """Cut a guest's power without warning."""
    was_on = _lab(name).faults.poweroff(guest)
    typer.echo(f"{guest}: {'off' if was_on else 'was off already'}", err=True)


@fault.command()
def start(guest: Guest, name: Name = "default", wait: Wait = DEFAULT_WAIT) -> None:
    """Power a guest on again and wait for ssh."""
    _lab(name).faults.start(guest, wait_seconds=wait)


@fault.command()
def reboot(guest: Guest, name: Name = "default", wait: Wait = DEFAULT_WAIT) -> None:
    """Reboot a guest in an orderly way and wait until it is back with a new boot id."""
    _lab(name).faults.reboot(guest, wait_seconds=wait)


@fault.command()
def reset(guest: Guest, name: Name = "default", wait: Wait = DEFAULT_WAIT) -> None:
    """Press a guest's reset button and wait until it is back with a new boot id."""
    _lab(name).faults.reset(guest, wait_seconds=wait)


@fault.command("cut-rail")
def cut_rail(
    guest: Guest,
    rail: RailName,
    carrier: Annotated[
        bool, typer.Option("--carrier", help="Take the link away, so that the guest notices, instead of packets only")
    ] = False,
    name: Name = "default",
) -> None:
    """Cut one guest off one rail."""
    _lab(name).faults.cut_rail(guest, rail, carrier=carrier)
    typer.echo(f"{guest}: rail {rail} cut ({'carrier lost' if carrier else 'packets vanish'})", err=True)


@fault.command("restore-rail")
def restore_rail(guest: Guest, rail: RailName, name: Name = "default") -> None:
    """Undo cut-rail, whichever way it was done."""
    _lab(name).faults.restore_rail(guest, rail)
    typer.echo(f"{guest}: rail {rail} restored", err=True)


@fault.command()
def fill(
    guest: Guest,
    path: Directory,
    leave_mib: Annotated[int, typer.Option(min=0, help="MiB to leave free")] = 0,
    name: Name = "default",
) -> None:
    """Fill the file system that holds a directory of a guest."""
    taken = _lab(name).faults.fill(guest, path, leave_mib=leave_mib)
    typer.echo(f"{guest}: {taken} MiB taken on {path}", err=True)


@fault.command()
def unfill(guest: Guest, path: Directory, name: Name = "default") -> None:
    """Give back what fill took."""
    _lab(name).faults.unfill(guest, path)
    typer.echo(f"{guest}: {path} emptied again", err=True)
