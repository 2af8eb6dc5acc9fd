"""Switches in an inventory: checked with positions, kept away from everything that connects, written by every door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from g35ctl.engine.stages import select_hosts
from g35ctl.errors import G35Error
from g35ctl.plan.build import build
from g35ctl.plan.digest import plan_digest
from g35ctl.plan.model import Plan
from g35ctl.report.plan_text import sections
from g35ctl.report.tree import write_tree
from g35ctl.site.load import inspect, load
from g35ctl.site.problems import Problem
from g35ctl.site.scaffold import Answers, write

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOK = ROOT / "playbooks" / "switches.yml"
LEAF = """\
g35_switch:
  vendor: sonic
  ports:
    - {name: Ethernet0, speed: 100G}
    - {name: Ethernet4, speed: 400G}
"""


class Files:
    """The files of a site with one switch; ``problems`` are those of severity error, as text."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.leaf = root / "host_vars" / "leaf1.yml"
        self.all = root / "group_vars" / "all.yml"
        self.hosts = root / "hosts.yml"

    def errors(self) -> list[Problem]:
        return [problem for problem in inspect(str(self.root))[1] if problem.severity == "error"]

    def warnings(self) -> list[Problem]:
        return [problem for problem in inspect(str(self.root))[1] if problem.severity == "warning"]

    def one(self, text: str) -> Problem:
        (problem,) = self.errors()
        assert text in problem.what, problem.what
        return problem

    def change(self, path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text, old
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def line(self, path: Path, text: str) -> int:
        return next(n for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if text in line)


@pytest.fixture
def site(tmp_path, monkeypatch) -> Files:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "site"
    write(root, Answers(name="test", ssds=2, ssd_size="4GiB", driver="nvmet"))
    found = Files(root)
    data = yaml.safe_load(found.hosts.read_text(encoding="utf-8"))
    data["switches"] = {"hosts": {"leaf1": None}}
    found.hosts.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    found.leaf.write_text(LEAF, encoding="utf-8")
    return found


def test_a_switch_is_no_host(site):
    found = load(str(site.root))
    assert [item.name for item in found.switches] == ["leaf1"]
    assert "leaf1" not in {host.name for host in found.hosts}
    plan = build(found)
    assert "leaf1" not in {host.name for host in plan.hosts}
    assert all("leaf1" not in hosts for hosts in plan.stage_hosts.values())
    assert "leaf1" not in select_hosts(found, plan, "")
    with pytest.raises(G35Error):
        select_hosts(found, plan, "leaf1")


def test_a_switch_changes_no_digest_and_survives_json(site):
    plan = build(load(str(site.root)))
    without = replace(plan, switches=())
    assert plan_digest(plan.hosts) == plan.digest == without.digest
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_switch_needs_none_of_the_cluster_wide_variables(site):
    text = site.all.read_text(encoding="utf-8")
    site.all.unlink()
    data = yaml.safe_load(site.hosts.read_text(encoding="utf-8"))
    for name in [group for group in data if group not in ("switches", "all")]:
        data[name]["vars"] = yaml.safe_load(text)
    site.hosts.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    assert site.errors() == []


def test_render_writes_the_switches_and_a_second_time_nothing(site, tmp_path):
    plan = build(load(str(site.root)))
    done = write_tree(plan, tmp_path / "out")
    assert {"switches/sonic/leaf1.json", "switches/sonic/leaf1.verify.txt"} <= set(done.written)
    assert write_tree(plan, tmp_path / "out").written == ()
    gone = write_tree(replace(plan, switches=()), tmp_path / "out")
    assert gone.removed == ("switches/sonic/leaf1.json", "switches/sonic/leaf1.verify.txt")
    assert not (tmp_path / "out" / "switches").exists()


def test_plan_lists_the_switches(site):
    (shown,) = [item for item in sections(build(load(str(site.root)))) if item.title.startswith("Switches")]
    assert shown.rows == (("leaf1", "sonic", "", "9216", "2", "100G 1048576-2097152, 400G 1048576-2097152"),)


def play(site: Files, folder: Path) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(site.root), str(PLAYBOOK)],
        capture_output=True, text=True, check=False, timeout=180, cwd=folder,
        env={
            "PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8",
            "ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1", "XDG_CACHE_HOME": str(folder / "cache"),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_role_writes_what_render_writes_once_and_connects_to_nothing(site, tmp_path):
    """leaf1 has no address: a task that connected to it would fail."""
    assert "changed=2" in play(site, tmp_path)
    (switch,) = build(load(str(site.root))).switches
    for file in switch.files:
        assert (site.root / ".g35" / "switches" / file.path).read_text(encoding="utf-8") == file.content
    assert inspect(str(site.root))[0] is not None, "the files are not read as inventory"
    assert "changed=0" in play(site, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "what", "at"),
    [
        ("{name: Ethernet4, speed: 400G}", "{name: Ethernet4, speed: 800G}", "no published ECN threshold", "800G"),
        ("{name: Ethernet4, speed: 400G}", "{name: Ethernet0, speed: 400G}", "is listed twice", "speed: 400G"),
        ("  ports:", "  mtu: 8999\n  ports:", "MTU 8999 is smaller", "mtu: 8999"),
        ("  ports:", "  watchdog: {poll_ms: 300}\n  ports:", "more than half of 400", "poll_ms"),
        (
            "  ports:",
            "  thresholds: [{speed: 100G, ecn_min: 2MB, ecn_max: 2MB, probability: 5}]\n  ports:",
            "is not below ecn_max",
            "ecn_min",
        ),
        ("  ports:", "  xoff: 1MiB\n  ports:", "before ECN marks 100G", "xoff"),
        ("vendor: sonic", "vendor: onyx", "is not one of", "vendor"),
        ("speed: 100G", "sped: 100G", "unknown key 'sped'", "sped"),
    ],
)
def test_problems_of_a_switch_have_its_position(site, old, new, what, at):
    if "xoff" in new:
        site.change(site.leaf, "400G", "100G")
    site.change(site.leaf, old, new)
    found = [problem for problem in site.errors() if what in problem.what]
    assert len(found) == 1, [problem.what for problem in site.errors()]
    assert found[0].position.file == str(site.leaf)
    assert found[0].position.line == site.line(site.leaf, at)
    assert found[0].hosts == ("leaf1",)


@pytest.mark.parametrize(
    ("vendor", "traffic", "what", "at"),
    [
        ("sonic", "{dscp: 26, priority: 5}", "cannot make priority 5 lossless", "priority: 5"),
        ("nvue", "{dscp: 26, priority: 0}", "cannot make priority 0 lossless", "priority: 0"),
        ("eos", "{priority: 4, cnp_priority: 2}", "serves a strict queue only above", "cnp_priority: 2"),
        ("comware", "{priority: 3, cnp_priority: 0}", "priority 0 share the class of all other", "cnp_priority: 0"),
        ("cloudengine", "{priority: 3, cnp_priority: 3}", "share priority 3", "cnp_priority: 3"),
    ],
)
def test_a_contract_that_a_switch_cannot_express_is_reported_where_it_stands(site, vendor, traffic, what, at):
    site.change(site.leaf, "vendor: sonic", f"vendor: {vendor}")
    text = yaml.safe_load(site.all.read_text(encoding="utf-8"))
    text["g35_fabric"]["traffic"] = "TRAFFIC"
    site.all.write_text(yaml.safe_dump(text).replace("TRAFFIC", traffic), encoding="utf-8")
    problem = site.one(what)
    assert problem.position.file == str(site.all)
    assert problem.position.line == site.line(site.all, at)


def test_a_switch_may_say_what_its_buffers_are_laid_out_for(site):
    text = yaml.safe_load(site.all.read_text(encoding="utf-8"))
    text["g35_fabric"]["traffic"] = {"priority": 5}
    site.all.write_text(yaml.safe_dump(text), encoding="utf-8")
    site.change(site.leaf, "  ports:", "  lossless_priorities: [5]\n  ports:")
    assert site.errors() == []


def test_a_vendor_that_counts_headers_needs_room_for_them(site):
    site.change(site.leaf, "vendor: sonic", "vendor: comware\n  mtu: 9010")
    assert "22 bytes of headers" in site.one("MTU 9010 is smaller").what


def test_a_vendor_with_a_lower_limit_is_told_so(site):
    site.change(site.leaf, "vendor: sonic", "vendor: eos")
    text = yaml.safe_load(site.all.read_text(encoding="utf-8"))
    text["g35_fabric"]["mtu"] = 9216
    site.all.write_text(yaml.safe_dump(text), encoding="utf-8")
    assert "ends at 9214" in site.one("MTU 9214 is smaller").what


def test_a_missing_threshold_is_cured_by_the_sites_own(site):
    site.change(site.leaf, "400G", "800G")
    own = "  thresholds: [{speed: 800G, ecn_min: 1MB, ecn_max: 2MB, probability: 10}]\n  ports:"
    site.change(site.leaf, "  ports:", own)
    assert site.errors() == []


def test_group_and_variable_go_together(site):
    site.leaf.unlink()
    assert site.one("g35_switch is not set").hosts == ("leaf1",)


def test_a_host_with_a_switch_variable_is_refused(site):
    (site.root / "host_vars" / "gpu1.yml").open("a", encoding="utf-8").write(LEAF)
    assert site.one("not in group switches").hosts == ("gpu1",)


def test_a_switch_plays_no_other_part(site):
    data = yaml.safe_load(site.hosts.read_text(encoding="utf-8"))
    data["mooncake_masters"]["hosts"]["leaf1"] = None
    site.hosts.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    assert "also in group mooncake_masters" in next(problem.what for problem in site.errors())


def test_what_is_odd_but_possible_is_a_warning(site):
    site.change(site.leaf, "  ports:", "  watchdog: {enabled: false}\n  ports:")
    text = yaml.safe_load(site.all.read_text(encoding="utf-8"))
    text["g35_fabric"]["transport"] = "tcp"
    site.all.write_text(yaml.safe_dump(text), encoding="utf-8")
    said = " ".join(problem.what for problem in site.warnings())
    assert "without the PFC watchdog" in said
    assert "transport is tcp" in said
