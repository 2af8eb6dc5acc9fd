"""``g35ctl discover``: what a box exports, as ready-to-paste inventory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from g35ctl.cli.common import (
    InventoryOption,
    OutputOption,
    inventory_of,
    output_of,
    print_data,
    print_json,
    print_talk,
)

app = typer.Typer(rich_markup_mode=None)


@app.command()
def discover(
    ctx: typer.Context,
    box: Annotated[str, typer.Argument(help="Name of the box; the inventory need not know it yet")],
    driver: Annotated[str, typer.Option("--driver", help="nvmet, spdk, redfish, discovery or static")] = "",
    address: Annotated[
        list[str] | None,
        typer.Option("--address", help="redfish: management address; discovery: portal. May be given again"),
    ] = None,
    username: Annotated[str, typer.Option("--username", help="redfish: account")] = "",
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="redfish: file that holds the password, mode 0600")
    ] = None,
    ca_file: Annotated[str, typer.Option("--ca-file", help="redfish: CA certificates")] = "",
    socket: Annotated[str, typer.Option("--socket", help="spdk: JSON-RPC socket on this machine")] = "",
    asker: Annotated[str, typer.Option("--from", help="discovery: host of the inventory that asks")] = "",
    transport: Annotated[str, typer.Option("--transport", help="discovery: rdma or tcp")] = "",
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Ask a box what it exports and print it as inventory. Changes nothing.

    Differences to the inventory go to stderr. What the box does not tell is named, with the way to get it.
    """
    from g35ctl.engine.discover import Question
    from g35ctl.engine.discover import discover as ask
    from g35ctl.engine.secrets import read_password
    from g35ctl.report import box_inventory

    if driver not in ("", "nvmet", "spdk", "redfish", "discovery", "static"):
        raise typer.BadParameter(
            f"{driver!r} is not one of nvmet, spdk, redfish, discovery, static", param_hint="--driver"
        )
    if transport not in ("", "rdma", "tcp"):
        raise typer.BadParameter(f"{transport!r} is not one of rdma, tcp", param_hint="--transport")
    form = output_of(ctx, output)
    password = read_password(password_file) if password_file is not None else ""
    question = Question(box, driver, tuple(address or ()), username, password, ca_file, socket, asker, transport)
    answer = ask(inventory_of(ctx, inventory), question)
    found = box_inventory.inventory(answer)
    if form != "text":
        unknown = [{"value": item.value, "how": item.how} for item in found.unknown]
        seen = {"product": answer.seen.product, "identity": answer.seen.identity}
        findings = [dict(item) for item in answer.findings]
        told = {"unknown": unknown, "findings": findings, "by_hand": list(answer.instructions)}
        print_json({"ok": True, "box": box, **seen, "g35_ebof": found.variable, **told})
        return
    for line in box_inventory.text(found, answer):
        print_data(line)
    for problem in answer.seen.problems:
        print_talk(f"no answer: {problem}")
    for item in answer.findings:
        print_talk(f"{item['severity']}: {item['subject']}: {item['observed']}, the inventory says {item['expected']}")
    for sentence in answer.instructions:
        print_talk(f"by hand: {sentence}")
