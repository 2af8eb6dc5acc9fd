"""The wheel carries everything: in an empty environment outside the checkout the offline verbs work."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(cwd), "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    import os

    for name, value in os.environ.items():
        if name.startswith(("PIP_", "SSL_")):  # where packages come from is the machine's business
            environment[name] = value
    return subprocess.run(
        [str(word) for word in argv], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=900
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    built = run(sys.executable, "-m", "build", "--wheel", "--outdir", directory, CHECKOUT, cwd=directory)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("elsewhere")
    assert run(sys.executable, "-m", "venv", directory / "venv", cwd=directory).returncode == 0
    done = run(directory / "venv/bin/pip", "install", "-q", wheel, cwd=directory)
    assert done.returncode == 0, done.stderr
    return directory


def test_wheel_carries_the_ansible_content(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for top in ("playbooks", "roles", "plugins", "templates", "inventories"):
        tracked = run("git", "ls-files", top, cwd=CHECKOUT).stdout.splitlines()
        assert tracked, f"{top}/ is empty"
        for name in tracked:
            if not name.startswith("plugins/typing/"):
                assert f"g35ctl/_content/{name}" in names
    report = run("git", "ls-files", "g35ctl/report", cwd=CHECKOUT).stdout.splitlines()
    assert any(name.endswith(".toml") for name in report)
    assert any(name.endswith(".otf") for name in report)
    assert set(report) <= names
    left_behind = ("lab_generated", "/.lab/", "/.g35/", "__pycache__", ".pyc")
    assert not [name for name in names if any(part in name for part in left_behind)]


def test_plan_and_render_work_outside_the_checkout(installed: Path) -> None:
    tool = installed / "venv/bin/g35ctl"
    inventory = next((installed / "venv/lib").glob("python3*/site-packages/g35ctl/_content/inventories/two-hosts"))
    plan = run(tool, "-i", inventory, "-o", "json", "plan", cwd=installed)
    assert plan.returncode == 0, plan.stderr
    assert json.loads(plan.stdout)["ok"] is True
    rendered = run(tool, "-i", inventory, "render", "out", cwd=installed)
    assert rendered.returncode == 0, rendered.stderr
    assert list((installed / "out/hosts").glob("*/etc/systemd/system/*.service"))


def test_init_check_plan_from_nothing(installed: Path) -> None:
    tool = installed / "venv/bin/g35ctl"
    assert run(tool, "init", "site", "--yes", cwd=installed).returncode == 0
    check = run(tool, "-i", "site", "check", cwd=installed)
    assert check.returncode == 0, check.stderr
    assert run(tool, "-i", "site", "plan", cwd=installed).returncode == 0


def test_help_imports_nothing_heavy(installed: Path) -> None:
    probe = (
        "import sys; sys.argv = ['g35ctl', '--help']\n"
        "from g35ctl.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'ansible', 'ansible_runner', 'paramiko', 'pydantic', 'rich.live', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = run(installed / "venv/bin/python", "-c", probe, cwd=installed)
    assert done.returncode == 0, done.stderr
