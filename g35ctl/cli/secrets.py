"""``g35ctl secrets``: what secrets a site needs, made where they are missing and rotated while it runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, OutputOption, inventory_of, output_of, print_data, print_json, print_talk

app = typer.Typer(help="Make, list and rotate the keys and passwords of a site", no_args_is_help=True)


@app.command("list")
def list_secrets(ctx: typer.Context, inventory: InventoryOption = None, output: OutputOption = None) -> None:
    """Every secret the site needs: where it is kept, whether it can be used, keys by digest. Shows none.

    Exit 1 when one is missing, damaged, open to others, or in plain text in the inventory.
    """
    from g35ctl.exits import Exit
    from g35ctl.site.load import load_without_keys
    from g35ctl.site.secret_list import secrets_of

    found = secrets_of(*load_without_keys(inventory_of(ctx, inventory)))
    wrong = [item for item in found if item.condition != "ok"]
    if output_of(ctx, output) != "text":
        told = [
            {"host": item.host, "stage": "secrets", "check": f"secrets.{item.condition}", "observed": item.why,
             "expected": f"a usable {item.kind}", "remedy": item.remedy}
            for item in wrong
        ]  # fmt: skip
        print_json({"ok": not wrong, "secrets": [asdict(item) for item in found], "failures": told})
    else:
        for item in found:
            named = f"  {item.digest}" if item.digest else ""
            print_data(
                f"{item.host:<20} {item.kind:<18} {item.condition:<9} {item.kept or '-':<16} {item.where}{named}"
            )
        for item in wrong:
            print_talk(f"{item.host}: {item.kind}: {item.why}; {item.remedy}")
        if not found:
            print_talk("this site needs no secrets")
    raise typer.Exit(int(Exit.DEPLOY_FAILED if wrong else Exit.OK))


@app.command()
def init(
    ctx: typer.Context,
    vault: Annotated[bool, typer.Option("--vault", help="Encrypt new keys with Ansible's vault secret")] = False,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Make the keys that are missing, each in a file of mode 0600; what is there is never touched.

    With --vault they are encrypted: ANSIBLE_VAULT_PASSWORD_FILE or ANSIBLE_VAULT_IDENTITY_LIST names the secret, a
    file or a client script.
    """
    from pathlib import Path

    from g35ctl.engine import keyfiles
    from g35ctl.site.load import load_without_keys
    from g35ctl.site.secret_list import secrets_of

    path = inventory_of(ctx, inventory)
    site, variables = load_without_keys(path)
    missing = [item for item in secrets_of(site, variables) if item.condition == "missing"]
    made = [item for item in missing if item.generated]
    for item in made:
        keyfiles.create(Path(item.where), vault=vault, make=keyfiles.maker(item.kind))
    by_hand = [item for item in missing if not item.generated]
    if output_of(ctx, output) != "text":
        print_json(
            {"ok": True, "made": [{"host": item.host, "kind": item.kind, "file": item.where} for item in made],
             "by_hand": [{"host": item.host, "kind": item.kind, "remedy": item.remedy} for item in by_hand]}
        )  # fmt: skip
        return
    for item in made:
        print_data(item.where)
    for item in by_hand:
        print_talk(f"{item.host}: {item.kind} is the box's own: {item.remedy}")
    print_talk(f"{len(made)} keys made; next: g35ctl -i {path} deploy" if made else "no key was missing")


@app.command()
def rotate(
    ctx: typer.Context,
    limit: Annotated[str, typer.Option("--limit", "-l", help="Hosts, groups or globs, joined by commas")] = "",
    back: Annotated[bool, typer.Option("--back", help="Return to the keys of a rotation that did not end")] = False,
    forks: Annotated[int | None, typer.Option("--forks", min=1, help="Hosts worked on at a time")] = None,
    inventory: InventoryOption = None,
    output: OutputOption = None,
) -> None:
    """Give hosts new DH-HMAC-CHAP keys, one host and one path at a time, without losing a path.

    The old key is kept until both ends are read back with the new one. A rotation that did not end is continued.
    """
    from g35ctl.cli.outcome import report_conclusion
    from g35ctl.engine.conclusion import conclude
    from g35ctl.engine.opening import open_session
    from g35ctl.engine.progress import make_display
    from g35ctl.engine.rotation import Rotation
    from g35ctl.engine.stages import select_hosts

    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    display = make_display(form)
    with open_session(path, "rotate", display, forks=forks) as session:
        rotation = Rotation(session, select_hosts(session.site, session.plan, limit), back=back)
        conclusion = conclude(session, rotation.run())
        display.end()
    if form == "text":
        for item in rotation.rotated:
            print_data(f"{item.host}: key {item.before} -> {item.after}: {'done' if item.done else item.why}")
    report_conclusion(conclusion, form, f"g35ctl -i {path} secrets rotate")
    raise typer.Exit(int(conclusion.run.exit_code))
