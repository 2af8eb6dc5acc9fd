"""``g35ctl plan --diff``: what a deploy would change against the site's own records."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from g35ctl.cli.main import app
from g35ctl.engine.ledger import Ledger, content_digest, write_atomically
from g35ctl.engine.plan_diff import CHANGED, CONTENT, FOLLOWS, NEW, UNKNOWN, PlanDiff, diff
from g35ctl.engine.planning import make_plan
from g35ctl.engine.stages import APPLIED, stage_plans
from g35ctl.plan.model import Plan
from g35ctl.report.diff_text import diff_sections

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plan"))
from inventory import HOSTS, write_inventory

RUN = "20260101T000000.000Z-deploy"
WHEN = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("G35_STATE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_inventory(tmp_path / "site")


def deployed(site: Path, content: str = "", stages: tuple[str, ...] = APPLIED) -> Plan:
    """Record that the present plan was applied everywhere."""
    plan = make_plan(str(site))[1]
    state = site.parent / ".g35"
    ledger = Ledger(state / "ledger.json")
    for stage in stages:
        hosts = [host for host in plan.hosts if stage_plans(host, stage)]
        ledger.record(hosts, stage, content or content_digest(), WHEN, RUN)
    write_atomically(state / "runs" / RUN / "plan.json", plan.to_json())
    owners = {item.uuid: item.owner for item in plan.ownership}
    write_atomically(state / "ownership.json", {"namespaces": owners})
    return plan


def found(site: Path) -> PlanDiff:
    return diff(str(site), make_plan(str(site))[1])


def text(difference: PlanDiff) -> str:
    return "\n".join(
        " ".join(row) for section in diff_sections(difference) for row in ((section.title,), *section.rows)
    )


def test_before_the_first_deploy_everything_is_new(site: Path) -> None:
    difference = found(site)
    assert difference.first
    assert not difference.empty
    assert {item.why for item in difference.stages} == {NEW}
    assert difference.hosts_added == ()
    assert all(not item.before and not item.moves for item in difference.namespaces)
    assert "nothing was deployed yet" in text(difference)
    assert "get their first owner: 2 (gpu1 1, gpu2 1)" in text(difference)


def test_what_was_applied_from_this_plan_does_not_differ(site: Path) -> None:
    deployed(site)
    assert found(site).empty
    assert text(found(site)).endswith("site test: nothing to apply")


def test_a_changed_setting_is_shown_where_it_ends_and_what_stands_on_it_follows(site: Path) -> None:
    deployed(site)
    write_inventory(site.parent, HOSTS.replace("    g35_mooncake:", "    g35_nvme: {keep_alive: 9}\n    g35_mooncake:"))
    difference = found(site)
    by_stage = {(item.host, item.stage): item for item in difference.stages}
    assert {key: item.why for key, item in by_stage.items() if key[0] == "gpu1"} == {
        ("gpu1", "connect"): CHANGED,
        ("gpu1", "storage"): FOLLOWS,
        ("gpu1", "cache"): FOLLOWS,
    }
    change = next(field for field in by_stage["gpu1", "connect"].fields if "keep_alive" in field.path)
    assert (change.before, change.after) == ("5", "9")
    assert by_stage["gpu1", "connect"].run == RUN
    assert "gpu1, gpu2: connect.keep_alive" in text(difference)
    assert [step for step in difference.disruptive if step.stage == "fabric" and step.host != "ebof1"] == []


def test_new_modules_are_told_from_a_new_plan(site: Path) -> None:
    deployed(site, content="an earlier release")
    assert {item.why for item in found(site).stages} == {CONTENT}


def test_a_plan_that_was_rotated_away_or_damaged_is_not_guessed(site: Path) -> None:
    deployed(site, content="an earlier release")
    path = site.parent / ".g35" / "runs" / RUN / "plan.json"
    for content in ('{"hosts": 7}', "{half"):
        path.write_text(content, encoding="utf-8")
        assert {item.why for item in found(site).stages} == {UNKNOWN}
    path.unlink()
    assert {item.why for item in found(site).stages} == {UNKNOWN}


def test_hosts_that_come_and_go(site: Path) -> None:
    deployed(site)
    write_inventory(site.parent, HOSTS.replace("        gpu2:\n", "        gpu3:\n"))
    difference = found(site)
    assert difference.hosts_added == ("gpu3",)
    assert difference.hosts_removed == ("gpu2",)
    moved = [item for item in difference.namespaces if item.moves]
    assert [(item.before, item.after) for item in moved] == [("gpu2", "gpu3")]
    assert "an explicit act" in text(difference)
    assert "a deploy undoes nothing there" in text(difference)


def test_a_namespace_that_is_in_no_box_any_more_is_named(site: Path) -> None:
    deployed(site)
    state = site.parent / ".g35" / "ownership.json"
    owners = json.loads(state.read_text(encoding="utf-8"))["namespaces"]
    write_atomically(state, {"namespaces": {**owners, "11111111-2222-4333-8444-555555555555": "gpu1"}})
    (gone,) = found(site).namespaces
    assert (gone.before, gone.after, gone.moves) == ("gpu1", "", False)
    assert not found(site).empty
    assert not found(site).pending


def test_where_a_key_file_lies_asks_nothing_of_a_host(site: Path) -> None:
    plan = deployed(site)
    gpu1 = plan.host("gpu1")
    assert gpu1.connect is not None
    other = replace(gpu1, connect=replace(gpu1.connect, managed_nqns=("nqn.2026-01.io.g35ctl:other",)))
    changed = replace(plan, hosts=tuple(other if host.name == "gpu1" else host for host in plan.hosts))
    assert diff(str(site), changed).empty


def run(monkeypatch: pytest.MonkeyPatch, site: Path, *arguments: str):
    monkeypatch.setattr("sys.argv", ["g35ctl", "-i", str(site), "plan", *arguments])
    return CliRunner().invoke(app, ["-i", str(site), "plan", *arguments])


def test_the_verb_tells_and_exits(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    assert run(monkeypatch, site, "--diff").exit_code == 0
    done = run(monkeypatch, site, "--diff", "--exit-code", "-o", "json")
    assert done.exit_code == 10
    document = json.loads(done.stdout)
    assert document["ok"] is True
    assert document["changes_pending"] is True
    assert {"host": "gpu1", "stage": "cache", "why": NEW, "run": "", "time": "", "fields": []} in document["stages"]
    deployed(site)
    done = run(monkeypatch, site, "--diff", "--exit-code", "-o", "json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["changes_pending"] is False
