"""``g35ctl check`` and ``g35ctl init`` as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from site_files import ALL, BOX, SiteFiles

from g35ctl.exits import Exit


def g35ctl(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    root = Path(__file__).resolve().parents[3]
    return subprocess.run(
        [sys.executable, "-m", "g35ctl.cli.main", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=directory or root,
        env={**environment, "PYTHONPATH": str(root)},
        check=False,
    )


def test_a_valid_site_is_one_sentence_on_stdout(site: SiteFiles) -> None:
    done = g35ctl("-i", str(site.root), "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout == "site test is valid: 1 box, 2 namespaces (8 GiB), 2 GPU hosts, 2 cache owners, 2 rails, rdma\n"
    )


def test_an_invalid_site_exits_3_and_keeps_stdout_clean(site: SiteFiles) -> None:
    site.replace(ALL, "mtu", "mut")
    done = g35ctl("check", "-i", "site", directory=site.root.parent)
    assert (done.returncode, done.stdout) == (Exit.SITE_INVALID, "")
    _, line, column = site.position(ALL, "mut")
    assert f"site/group_vars/all.yml:{line}:{column}: error: g35_fabric.mut: unknown key 'mut'" in done.stderr
    assert "did you mean 'mtu'?" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("next: ")


def test_json_holds_every_problem(site: SiteFiles) -> None:
    site.replace(BOX, "size: 4GiB", "size: 4GX")
    done = g35ctl("-i", str(site.root), "-o", "json", "check")
    document = json.loads(done.stdout)
    assert done.returncode == Exit.SITE_INVALID
    assert (document["schema_version"], document["ok"], document["site"]) == (1, False, None)
    file, line, column = site.position(BOX, "4GX")
    problem = document["problems"][0]
    assert (problem["file"], problem["line"], problem["column"]) == (file, line, column)
    assert set(document["failures"][0]) == {"host", "stage", "check", "observed", "expected", "remedy"}


def test_init_then_check_without_a_terminal_asks_nothing(tmp_path: Path) -> None:
    done = g35ctl("init", str(tmp_path / "rack-7"), "--hosts", "3", "--rail", "a=192.0.2.0/24=eth1")
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "rack-7" / "hosts.yml") in done.stdout.splitlines()
    checked = g35ctl("check", "-i", str(tmp_path / "rack-7"))
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.startswith("site rack-7 is valid: 1 box, 4 namespaces")
    again = g35ctl("init", str(tmp_path / "rack-7"))
    assert again.returncode == Exit.USAGE
    assert "--force" in again.stderr
