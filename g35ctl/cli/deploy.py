"""``g35ctl deploy``: bring the tier into service, stage by stage."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, LanguageOption, OutputOption, inventory_of, output_of

app = typer.Typer(help="Bring the tier into service, stage by stage", add_completion=False)


@app.command()
def deploy(
    ctx: typer.Context,
    inventory: InventoryOption = None,
    output: OutputOption = None,
    limit: str = typer.Option("", "--limit", "-l", help="Hosts, groups or globs, joined by commas; ! leaves out"),
    first: str = typer.Option("", "--from", help="Start at this stage, whatever the ledger says"),
    only: Annotated[list[str] | None, typer.Option("--only", help="Run these stages alone (repeatable)")] = None,
    skip: Annotated[list[str] | None, typer.Option("--skip", help="Leave these stages out (repeatable)")] = None,
    check: bool = typer.Option(False, "--check", help="Change nothing, tell what would change (exit 10)"),
    diff: bool = typer.Option(False, "--diff", help="Show each change as before -> after"),
    forks: int | None = typer.Option(None, "--forks", min=1, help="Hosts worked on at a time; default up to 64"),
    resume: bool = typer.Option(True, "--resume/--no-resume", help="Keep what the ledger and a fresh reading agree on"),
    batch: str = typer.Option("", "--batch", help="Roll it out: 1, N or 20% hosts at a time, a canary first"),
    allow_disruptive: bool = typer.Option(
        False, "--allow-disruptive", help="Consent to steps that interrupt something live"
    ),
    accelerate: str = typer.Option("", "--accelerate", help="mitogen: run modules through it, where it is installed"),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask before disruptive steps on a terminal"),
    lang: LanguageOption = "en",
) -> None:
    """Run the stages on the site: preflight, target and fabric, connect, storage, cache, validate.

    Safe to repeat: what holds is read back and kept. After a failure or an interruption run the same command again.
    """
    from g35ctl.cli.outcome import report_conclusion, show_changes
    from g35ctl.engine.batches import run_deploy
    from g35ctl.engine.conclusion import conclude
    from g35ctl.engine.deploy import DeployOptions
    from g35ctl.engine.environment import check_accelerator
    from g35ctl.engine.opening import open_session
    from g35ctl.engine.progress import make_display
    from g35ctl.report.strings import named

    strings = named(lang)
    path = inventory_of(ctx, inventory)
    form = output_of(ctx, output)
    options = DeployOptions(limit, first, tuple(only or ()), tuple(skip or ()), check, diff, resume, allow_disruptive)
    if accelerate:
        check_accelerator(accelerate)
    display = make_display(form)
    with open_session(path, "deploy", display, forks=forks) as session:
        session.accelerate = accelerate
        if allow_disruptive and not check and session.plan.disruptive and not yes and sys.stdin.isatty():
            for step in session.plan.disruptive:
                sys.stderr.write(f"disruptive: {step.host}: {step.stage}: {step.what} interrupts {step.interrupts}\n")
            typer.confirm("Proceed?", abort=True, err=True)
        deployed = run_deploy(session, options, batch)
        conclusion = conclude(session, deployed.run, deployed.proof.verdicts if deployed.proof else (), strings)
        display.end()
    if diff and form == "text":
        show_changes(session.folder)
    report_conclusion(conclusion, form, f"g35ctl -i {path} deploy")
    raise typer.Exit(int(conclusion.run.exit_code))
