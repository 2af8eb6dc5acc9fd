"""Accelerated by mitogen, the real modules find, read and judge exactly what they do without."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from g35ctl.content import content_root
from g35ctl.engine import environment, folder
from g35ctl.engine.ledger import write_atomically
from g35ctl.engine.planning import make_plan
from g35ctl.engine.runner import Play, run_play
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

mitogen = pytest.mark.skipif(importlib.util.find_spec("ansible_mitogen") is None, reason="mitogen is not installed")
# Two roles on one host, in check mode: both fail here for want of a tier, after all their code was imported.
PLAYBOOK = """\
- hosts: gpu1
  gather_facts: false
  ignore_errors: true
  roles: [roce_host, mooncake]
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    shutil.copytree(
        content_root() / "inventories" / "lab", site, ignore=shutil.ignore_patterns(".lab", ".g35", "lab_*", ".keys")
    )
    (site / "host_vars" / "gpu1.yml").open("a").write(
        f"\nansible_connection: local\nansible_become: false\nansible_python_interpreter: {sys.executable}\n"
    )
    (tmp_path / "roles.yml").write_text(PLAYBOOK)
    return site


def played(site: Path, accelerate: str) -> list[tuple[Any, ...]]:
    run = folder.create(site / ".g35", "deploy")
    write_atomically(run.plan, make_plan(str(site))[1].to_json())
    play = Play("connect", str(site.parent / "roles.yml"), ("gpu1",), check=True)
    done = run_play(play, run, site / ".g35", str(site), lambda _: None, accelerate=accelerate)
    assert [event.action for event in done.events if event.findings], done.talk
    return [
        (event.action, event.outcome, event.changed, [dict(item) for item in event.findings], sorted(event.state))
        for event in done.events
        if event.action.startswith("g35_")
    ]


@mitogen
def test_every_stage_tells_the_same_with_and_without(site: Path) -> None:
    without, accelerated = played(site, ""), played(site, "mitogen")
    assert [item[0] for item in without] == ["g35_fabric", "g35_cache"]
    assert accelerated == without


@mitogen
def test_the_source_that_hosts_boot_with_is_the_same(site: Path) -> None:
    """A module that only tells what it would carry to a host."""
    (site.parent / "library").mkdir()
    (site.parent / "library" / "carried.py").write_text(
        "from __future__ import annotations\n"
        "from ansible.module_utils.basic import AnsibleModule\n"
        "from ansible.module_utils.g35 import managed\n"
        "from ansible.module_utils.g35.plans import Unit\n"
        "def main():\n"
        "    module = AnsibleModule(argument_spec={})\n"
        "    files = managed.boot_files('x', Unit('u'), ())\n"
        "    module.exit_json(state={item.path: item.content for item in files})\n"
        "main()\n"
    )
    (site.parent / "carried.yml").write_text("- {hosts: gpu1, gather_facts: false, tasks: [{carried: }]}\n")
    seen = []
    for accelerate in ("", "mitogen"):
        run = folder.create(site / ".g35", "deploy")
        play = Play("connect", str(site.parent / "carried.yml"), ("gpu1",))
        done = run_play(play, run, site / ".g35", str(site), lambda _: None, accelerate=accelerate)
        assert done.code == 0, [event.message for event in done.events] + done.talk
        seen.append(dict(done.events[0].state))
    assert seen[0] == seen[1] and len(seen[0]["/usr/lib/g35ctl/g35/managed.py"]) > 1000


def test_it_is_off_by_default_and_a_missing_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = environment.ansible_environment(run_folder=tmp_path, state=tmp_path, forks=1)
    assert not [name for name in plain if "STRATEGY" in name]
    with pytest.raises(G35Error, match="accelerates nothing"):
        environment.check_accelerator("magic")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(G35Error) as caught:
        environment.check_accelerator("mitogen")
    assert caught.value.exit_code is Exit.USAGE and "g35ctl[mitogen]" in caught.value.next_command
