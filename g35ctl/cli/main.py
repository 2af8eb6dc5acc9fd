"""Entry point of ``g35ctl``: global options, lazy verbs, and the one place that turns errors into exit codes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer
import typer.core

from g35ctl.errors import G35Error
from g35ctl.exits import Exit

# verb -> (module in g35ctl.cli, one line of help).
# Modules are imported when their verb is used: `g35ctl --help` stays fast.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("init", "Scaffold a site inventory"),
    "check": ("check", "Validate the inventory offline"),
    "plan": ("plan", "Show what would be: ownership, paths, memory, disruptive steps"),
    "simulate": ("simulate", "Predict the benchmark's table: three cache paths, modelled"),
    "render": ("render", "Write every file without touching a host"),
    "discover": ("discover", "Show what a box exports, as ready-to-paste inventory"),
    "trust": ("trust", "Pin the host keys of the site's hosts"),
    "preflight": ("preflight", "Connect to every host, read only, and report all problems at once"),
    "deploy": ("deploy", "Bring the tier into service, stage by stage"),
    "upgrade": ("upgrade", "Bring Mooncake to another release, one host at a time, or back"),
    "validate": ("validate", "Run the validation stage alone"),
    "drain": ("drain", "Take a host out of service: its namespaces and their data move to others"),
    "undrain": ("undrain", "Bring a host back with what it owned"),
    "failover": ("failover", "Give what a dead host owned to others, after shutting it out"),
    "rebalance": ("rebalance", "Propose or make moves that even out what owners hold"),
    "remove": ("remove", "Take a host or a box out of the tier again"),
    "teardown": ("teardown", "Undo everything g35ctl made; destroying data is separate and typed"),
    "status": ("status", "Show the live state of the tier"),
    "doctor": ("doctor", "Name the causes of what is wrong, with evidence and remedy"),
    "secrets": ("secrets", "Make, list and rotate the keys and passwords of a site"),
    "bundle": ("bundle", "Collect what hosts without internet need"),
    "metrics": ("metrics", "Write the Grafana dashboard and the Prometheus alert rules"),
    "runs": ("runs", "List past runs"),
    "report": ("report", "Show or rebuild the report of a run"),
    "lab": ("lab", "The embedded virtual machine lab"),
}


@dataclass(frozen=True)
class Options:
    """Global options, found by verbs in ``typer.Context.obj``."""

    inventory: str
    output: str
    verbose: bool


class _LazyGroup(typer.core.TyperGroup):
    """Loads a verb's module only when it is invoked or its own help is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        if ctx.resilient_parsing or (ctx.invoked_subcommand is None and not _is_named(cmd_name)):
            return _stand_in(cmd_name)
        module = importlib.import_module(f"g35ctl.cli.{VERBS[cmd_name][0]}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command


def _is_named(verb: str) -> bool:
    return verb in sys.argv[1:]


def _stand_in(verb: str) -> Any:
    """A command that only carries the help line, for the list in ``g35ctl --help``."""
    return typer.core.TyperCommand(verb, help=VERBS[verb][1], short_help=VERBS[verb][1])


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Puts a G3.5 shared all-flash KV-cache tier into service, and keeps it there.",
)


@app.callback()
def _globals(
    ctx: typer.Context,
    inventory: str = typer.Option("inventory", "--inventory", "-i", envvar="G35_INVENTORY", help="Inventory path"),
    output: str = typer.Option("text", "--output", "-o", help="text, json or jsonl"),
    verbose: bool = typer.Option(False, "--verbose", help="Show tracebacks and raw events"),
) -> None:
    if output not in ("text", "json", "jsonl"):
        raise typer.BadParameter(f"{output!r} is not one of text, json, jsonl", param_hint="--output")
    ctx.obj = Options(inventory, output, verbose)


def asked_output(arguments: Sequence[str]) -> str:
    """The output form that the command line asks for, before or after the verb; the last one counts.

    Read from the arguments themselves: an error can come before any verb has looked at its options.
    """
    form = "text"
    for flag, following in zip(arguments, (*arguments[1:], ""), strict=False):
        if flag.startswith("--output="):
            given = flag.partition("=")[2]
        elif flag in ("-o", "--output"):
            given = following
        else:
            given = flag[2:] if flag.startswith("-o") else ""
        if given in ("text", "json", "jsonl"):
            form = given
    return form


def print_error(error: G35Error, output: str = "text") -> None:
    """What, why, next command: on stderr. With a JSON form also the one object that a program waits for: on stdout."""
    if output != "text":
        import json

        told = {"schema_version": 1, "ok": False, "exit_code": int(error.exit_code), "failures": error.failures()}
        text = json.dumps(told, indent=2) if output == "json" else json.dumps({"event": "end", **told})
        sys.stdout.write(text + "\n")
    sys.stderr.write(f"error: {error.what}\n")
    for line in error.why.splitlines():
        sys.stderr.write(f"  {line}\n")
    if error.next_command:
        sys.stderr.write(f"next: {error.next_command}\n")


def main() -> None:
    """Run the command line and exit with one of :class:`g35ctl.exits.Exit`."""
    try:
        code = app(standalone_mode=False)
    except G35Error as error:
        print_error(error, asked_output(sys.argv[1:]))
        sys.exit(int(error.exit_code))
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(int(Exit.INTERRUPTED))
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # click's usage errors
            error.show()
            sys.exit(int(Exit.USAGE))
        raise
    sys.exit(int(code or 0))


if __name__ == "__main__":
    main()
