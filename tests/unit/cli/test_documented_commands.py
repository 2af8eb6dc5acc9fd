"""Every command that documents, help texts, messages and remedies name exists, with the options they name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from g35ctl.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[3]
GLOBAL = {"-i", "--inventory", "-o", "--output", "--verbose", "--help"}
# What follows the program's name up to where prose, a quotation or another command begins.
COMMAND = re.compile(r"\bg35ctl(?: -[io] \S+)* ([a-z]+)((?: (?:--?[a-z][a-z-]*|[A-Za-z0-9_./{}!'=@<>-]+))*)")


def texts() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").glob("*.md"), *(ROOT / "roles").rglob("*.md")]
    for folder in ("g35ctl", "plugins"):
        found += [path for path in (ROOT / folder).rglob("*.py") if "_content" not in path.parts]
    return found


def command(verb: str) -> Any:
    return typer.main.get_command(importlib.import_module(f"g35ctl.cli.{VERBS[verb][0]}").app)


def options(found: Any) -> set[str]:
    return {name for item in found.params for name in (*item.opts, *item.secondary_opts) if name.startswith("-")}


def named() -> list[tuple[str, str, str]]:
    """(file, verb, rest) of each command that is named anywhere."""
    return [
        (str(path.relative_to(ROOT)), match[1], match[2])
        for path in texts()
        for match in COMMAND.finditer(path.read_text(encoding="utf-8"))
        if match[1] in VERBS or "--" in match[2]
    ]


def test_enough_commands_are_found_to_mean_something() -> None:
    found = named()
    assert {"deploy", "trust", "bundle", "lab", "validate", "render"} <= {verb for _file, verb, _rest in found}
    assert any("--only" in rest for _file, _verb, rest in found)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_named_commands_exist_with_their_options(verb: str) -> None:
    found = command(verb)
    wrong = []
    for file, name, rest in named():
        if name != verb:
            continue
        words = rest.split()
        allowed = GLOBAL | options(found)
        parts = getattr(found, "commands", {})
        if words and words[0] in parts:
            allowed |= options(parts[words[0]])
        before = words[: words.index("--")] if "--" in words else words
        flags = [word.partition("=")[0] for word in before if word.startswith("--")]
        wrong += [f"{file}: g35ctl {verb}{rest}: {flag}" for flag in flags if flag not in allowed]
    assert not wrong


def test_named_verbs_exist() -> None:
    assert not [f"{file}: g35ctl {verb}{rest}" for file, verb, rest in named() if verb not in VERBS]
