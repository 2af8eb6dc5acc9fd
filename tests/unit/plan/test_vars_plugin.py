"""Plain ansible-playbook gets the plans: computed from the inventory, or from the file that a run names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from inventory import HOSTS, write_inventory

ROOT = Path(__file__).resolve().parents[3]
PLAY = """\
- hosts: all
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.debug:
        msg: "{{ {'connect': g35_connect_plan | default(none), 'target': g35_target_plan | default(none)} | to_json }}"
"""


def play(folder: Path, *inventories: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    playbook = folder / "play.yml"
    playbook.write_text(PLAY, encoding="utf-8")
    sources = [word for path in inventories for word in ("-i", str(path))]
    return subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), *sources, str(playbook)],
        capture_output=True, text=True, check=False, timeout=120, cwd=folder,
        env={
            "PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8",
            "ANSIBLE_HOME": str(folder / "ansible"),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "ANSIBLE_STDOUT_CALLBACK": "default", "ANSIBLE_NOCOLOR": "1", **environment,
        },
    )  # fmt: skip


def plans(done: subprocess.CompletedProcess[str]) -> dict[str, dict]:
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for block in done.stdout.split("ok: [")[1:]:
        name, _, rest = block.partition("] => ")
        message = json.JSONDecoder().raw_decode(rest)[0]["msg"]
        found[name] = json.loads(message) if isinstance(message, str) else message
    return found


def test_each_host_gets_the_plan_that_the_inventory_asks_for(tmp_path):
    found = plans(play(tmp_path, write_inventory(tmp_path / "site")))
    assert [path["source_address"] for path in found["gpu1"]["connect"]["paths"]] == ["192.0.2.21", "198.51.100.21"]
    assert found["gpu1"]["target"] is None
    allowed = {name["allowed_hosts"][0] for name in found["ebof1"]["target"]["namespaces"]}
    assert allowed == {found["gpu1"]["connect"]["host_nqn"], found["gpu2"]["connect"]["host_nqn"]}


def test_recorded_owners_are_kept(tmp_path):
    site = write_inventory(tmp_path / "site")
    (site.parent / ".g35").mkdir()
    record = {"namespaces": {"0d1f7e1c-30a5-4a7b-8a51-6d9d4f1b0001": "gpu2"}}
    (site.parent / ".g35" / "ownership.json").write_text(json.dumps(record), encoding="utf-8")
    found = plans(play(tmp_path, site))
    assert {path["nqn"][-4:] for path in found["gpu2"]["connect"]["paths"]} == {"ssd1"}


def test_a_named_plan_is_taken_as_it_is_and_never_templated(tmp_path):
    plan = tmp_path / "plan.json"
    hosts = [{"name": "gpu1", "target": None, "connect": {"site": "{{ 6 * 7 }}"}}, {"name": "gpu2"}]
    plan.write_text(json.dumps({"hosts": hosts}), encoding="utf-8")
    found = plans(play(tmp_path, write_inventory(tmp_path / "site"), G35_PLAN_FILE=str(plan)))
    assert found["gpu1"]["connect"] == {"site": "{{ 6 * 7 }}"}
    assert found["gpu2"]["connect"] is None


def test_what_is_no_plan_says_so(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text("[]", encoding="utf-8")
    done = play(tmp_path, write_inventory(tmp_path / "site"), G35_PLAN_FILE=str(plan))
    assert done.returncode != 0
    assert "is not a plan of g35ctl" in done.stdout + done.stderr


def test_an_invalid_site_stops_the_play_with_its_problems(tmp_path):
    broken = HOSTS.replace("size: 1GiB", "size: 1Gib2", 1).replace("mtu:", "mtuu:")
    done = play(tmp_path, write_inventory(tmp_path / "site", broken))
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "mtuu" in said
    assert "1Gib2" in said


def test_other_inventories_are_left_alone(tmp_path):
    other = tmp_path / "other" / "hosts.ini"
    other.parent.mkdir()
    other.write_text("[web]\nlocalhost\n", encoding="utf-8")
    assert plans(play(tmp_path, other))["localhost"] == {"connect": None, "target": None}


def test_no_plan_is_made_when_told_so(tmp_path):
    found = plans(play(tmp_path, write_inventory(tmp_path / "site"), G35_PLAN_FILE="none"))
    assert found["gpu1"]["connect"] is None


def test_a_named_plan_does_not_leak_into_the_site(tmp_path):
    site = write_inventory(tmp_path / "site")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"hosts": [{"name": "gpu1", "connect": {"site": "x"}}]}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "g35ctl.cli.main", "-i", str(site), "plan"], capture_output=True, text=True, check=False,
        cwd=ROOT, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "G35_PLAN_FILE": str(plan)}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 namespaces" in done.stdout


def test_two_inventories_are_not_planned_by_halves(tmp_path):
    more = "all: {children: {gpu_hosts: {hosts: {gpu3: {g35_ports: []}}}}}"
    for text in (HOSTS, more):
        done = play(tmp_path, write_inventory(tmp_path / "one"), write_inventory(tmp_path / "two", text))
        assert done.returncode != 0
        assert "one directory" in done.stdout + done.stderr


def test_an_inventory_that_says_nothing_of_the_site_may_come_along(tmp_path):
    other = write_inventory(tmp_path / "other", "all: {vars: {molecule_file: x}}")
    found = plans(play(tmp_path, other, write_inventory(tmp_path / "site")))
    assert found["gpu1"]["connect"] is not None
