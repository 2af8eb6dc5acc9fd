"""``g35ctl trust``: pin the host keys of the site's hosts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

app = typer.Typer(help="Pin the host keys of the site's hosts", add_completion=False)


@app.command()
def trust(
    ctx: typer.Context,
    inventory: InventoryOption = None,
    output: OutputOption = None,
    limit: str = typer.Option("", "--limit", "-l", help="Hosts, groups or globs, joined by commas; ! leaves out"),
    yes: bool = typer.Option(False, "--yes", "-y", help="Pin new keys without asking"),
    replace: bool = typer.Option(False, "--replace", help="Also pin keys that differ from the pinned ones"),
) -> None:
    """Fetch every host's key without logging in, show the fingerprints, and pin them for this site.

    Compare the fingerprints with the hosts' consoles. A key that differs from the pinned one is refused.
    """
    from g35ctl.engine import failures, hostkeys
    from g35ctl.engine.connections import connections
    from g35ctl.engine.folder import state_directory
    from g35ctl.engine.planning import make_plan
    from g35ctl.engine.stages import logged_in, select_hosts

    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    site, plan = make_plan(path)
    found = connections(path, logged_in(plan, select_hosts(site, plan, limit)))
    keys, silent = hostkeys.fetch(found)
    pinned = state_directory(path) / "known_hosts"
    named = dict.fromkeys(Path(name).expanduser() for item in found for name in item.known_hosts)
    compared = hostkeys.compare(keys, hostkeys.read([*named, pinned]))
    text = form == "text"
    if text:
        for word, group in (("pinned", compared.pinned), ("new", compared.new), ("CHANGED", compared.changed)):
            for key in group:
                sys.stdout.write(f"{word:<8} {key.host:<20} {key.place:<28} {key.kind} {key.fingerprint}\n")
        for item in found:
            if not item.direct:
                sys.stderr.write(f"{item.host}: behind a proxy; pin its key with ssh-keyscan run on the jump host\n")
    if compared.changed and not replace:
        raise G35Error(
            "host keys have CHANGED: " + ", ".join(key.host for key in compared.changed),
            why="someone may be in the middle, or the hosts were reinstalled; nothing was pinned",
            next_command="compare the fingerprints on the hosts' consoles, then: g35ctl trust --replace",
            exit_code=Exit.PREFLIGHT_FAILED,
        )
    wanted = compared.new + compared.changed
    if wanted and not yes:
        if not sys.stdin.isatty():
            raise G35Error(
                f"{len(wanted)} host keys are not pinned",
                why="there is no terminal to ask on",
                next_command="g35ctl trust --yes",
                exit_code=Exit.USAGE,
            )
        typer.confirm(f"Pin {len(wanted)} keys?", abort=True, err=True)
    if wanted:
        hostkeys.pin(pinned, wanted)
    if text:
        sys.stderr.writelines(f"{line}\n" for line in failures.lines(silent, str(pinned.parent)))
        sys.stdout.write(f"{len(wanted)} keys pinned, {len(compared.pinned)} were already, in {pinned}\n")
    else:
        listed = [{"host": key.host, "kind": key.kind, "fingerprint": key.fingerprint} for key in keys]
        told = {"schema_version": 1, "ok": not silent, "keys": listed, "failures": [vars(item) for item in silent]}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    raise typer.Exit(int(Exit.UNREACHABLE if silent else Exit.OK))
