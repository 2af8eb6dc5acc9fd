"""What a program that asks for JSON can rely on, whatever the verb and however it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from g35ctl.cli.main import asked_output

ROOT = Path(__file__).resolve().parents[3]
FAILURE = {"host", "stage", "check", "observed", "expected", "remedy"}


def g35ctl(*arguments: str, state: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "g35ctl.cli.main", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), "G35_STATE": str(state)},
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        ([], "text"),
        (["-o", "json", "plan"], "json"),
        (["plan", "--output=jsonl"], "jsonl"),
        (["-ojson", "plan"], "json"),
        (["-o", "json", "plan", "-o", "text"], "text"),
        (["-o", "json", "bundle", "create", "--output", "/srv/wheels"], "json"),
    ],
)
def test_the_last_form_that_was_asked_for_counts(arguments: list[str], form: str) -> None:
    assert asked_output(arguments) == form


@pytest.mark.parametrize("verb", [["plan"], ["render", "out"], ["deploy"], ["validate"], ["status"]])
def test_an_invalid_site_is_told_as_one_json_object_with_its_failures(verb: list[str], tmp_path: Path) -> None:
    site = tmp_path / "hosts.yml"
    site.write_text("all: {vars: {g35_site: {name: x}}, hosts: {a: }}\n", encoding="utf-8")
    done = g35ctl("-i", str(site), *verb, "-o", "json", state=tmp_path / "state")
    assert done.returncode == 3
    told = json.loads(done.stdout)
    assert (told["schema_version"], told["ok"], told["exit_code"]) == (1, False, 3)
    assert told["failures"]
    assert all(set(item) >= FAILURE for item in told["failures"])
    assert "is not valid" in done.stderr


def test_other_errors_have_the_same_form_and_jsonl_ends_with_it(tmp_path: Path) -> None:
    inventory = str(ROOT / "inventories" / "two-hosts")
    done = g35ctl("-i", inventory, "-o", "jsonl", "report", "nonesuch", state=tmp_path)
    assert done.returncode == 2
    (line,) = done.stdout.splitlines()
    told = json.loads(line)
    assert told["event"] == "end"
    assert told["failures"][0]["remedy"] == "g35ctl runs"


def test_success_carries_the_same_fields(tmp_path: Path) -> None:
    inventory = str(ROOT / "inventories" / "two-hosts")
    for verb in (["check"], ["plan"], ["render", str(tmp_path / "out")], ["runs"]):
        done = g35ctl("-i", inventory, "-o", "json", *verb, state=tmp_path / "state")
        told = json.loads(done.stdout)
        assert (told["schema_version"], told["ok"], told["failures"]) == (1, True, []), verb


def test_text_is_not_mixed_with_json(tmp_path: Path) -> None:
    done = g35ctl("-i", str(tmp_path / "none"), "plan", state=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""


def test_help_stays_light(tmp_path: Path) -> None:
    """The figure is a design target (a quarter of `ansible --version`); what costs the time is what is imported."""
    program = (
        "import sys; sys.argv = ['g35ctl', '--help']\n"
        "from g35ctl.cli import main\n"
        "try: main.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'ansible', 'ansible_runner', 'paramiko', 'pydantic', 'jinja2', 'yaml'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.strip() == "[]"
