"""The ledger knows exactly what was applied, from what, and survives what happens to files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tier_sample
from ansible.module_utils.g35.plans import File

from g35ctl.engine.ledger import (
    Ledger,
    content_digest,
    first_stage_to_apply,
    read_json,
    save_ownership,
    stage_digest,
    write_atomically,
)
from g35ctl.errors import G35Error


@pytest.fixture
def plan():
    return tier_sample.plan()


def test_a_recorded_stage_matches_until_its_plan_or_the_content_changes(tmp_path: Path, plan) -> None:
    gpu1 = plan.host("gpu1")
    ledger = Ledger(tmp_path / "ledger.json")
    assert not ledger.matches(gpu1, "connect", "c1")
    ledger.record([gpu1], "connect", "c1", "2026-01-01T00:00:00+00:00", "run")
    again = Ledger(tmp_path / "ledger.json")
    assert again.matches(gpu1, "connect", "c1")
    assert not again.matches(gpu1, "connect", "c2")
    assert not again.matches(gpu1, "storage", "c1")
    assert not again.matches(replace(gpu1, connect=replace(gpu1.connect, io_queues=17)), "connect", "c1")
    assert again.matches(replace(gpu1, connect=replace(gpu1.connect, managed_nqns=())), "connect", "c1")


def test_stage_target_of_a_box_covers_its_roce_settings(plan) -> None:
    box = plan.host("ebof1")
    before = stage_digest(box, "target", "c")
    assert stage_digest(replace(box, fabric=replace(box.fabric, dscp=24)), "target", "c") != before


def test_a_stage_that_is_about_to_be_applied_is_forgotten(tmp_path: Path, plan) -> None:
    hosts = [plan.host("gpu1"), plan.host("gpu2")]
    ledger = Ledger(tmp_path / "ledger.json")
    for stage in ("fabric", "connect"):
        ledger.record(hosts, stage, "c", "t", "run")
    ledger.forget(["gpu1"], ["connect"])
    again = Ledger(tmp_path / "ledger.json")
    assert again.entry("gpu1", "connect") is None
    assert again.entry("gpu1", "fabric") is not None
    assert again.entry("gpu2", "connect") is not None


def test_a_damaged_ledger_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_text("{half", encoding="utf-8")
    with pytest.raises(G35Error) as caught:
        Ledger(path)
    assert str(path) in caught.value.what
    assert "move" in caught.value.next_command


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_atomically(path, {"a": 1})
    with pytest.raises(TypeError):
        write_atomically(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_ownership_is_added_and_never_dropped(tmp_path: Path) -> None:
    path = tmp_path / "ownership.json"
    save_ownership(path, {"u1": "gpu1"})
    save_ownership(path, {"u2": "gpu2"})
    assert read_json(path, "record") == {"namespaces": {"u1": "gpu1", "u2": "gpu2"}}


def test_the_first_stage_that_does_not_hold_is_where_a_host_continues(plan) -> None:
    gpu1 = plan.host("gpu1")
    assert first_stage_to_apply(gpu1, ()) == "fabric"
    assert first_stage_to_apply(gpu1, ("fabric", "storage", "cache")) == "connect"
    assert first_stage_to_apply(gpu1, ("fabric", "connect", "storage", "cache")) == ""
    assert first_stage_to_apply(plan.host("ebof1"), ("target",)) == ""


def test_the_content_digest_moves_with_what_travels_to_hosts(tmp_path: Path) -> None:
    module = tmp_path / "plugins" / "modules" / "g35_x.py"
    module.parent.mkdir(parents=True)
    module.write_text("a", encoding="utf-8")
    before = content_digest(tmp_path)
    (tmp_path / "plugins" / "modules" / "notes.txt").write_text("x", encoding="utf-8")
    assert content_digest(tmp_path) == before
    module.write_text("b", encoding="utf-8")
    assert content_digest(tmp_path) != before


def test_what_reaches_no_host_makes_nothing_apply_again(tmp_path: Path) -> None:
    """Switch templates and rendered files: the first reach no host, the second are part of the plan's own digest."""
    role = tmp_path / "roles" / "nvme_host" / "tasks" / "main.yml"
    quiet = [
        tmp_path / "templates" / "switch" / "eos" / "config.j2",
        tmp_path / "templates" / "connect" / "hostnqn.j2",
        tmp_path / "roles" / "switch_config" / "tasks" / "main.yml",
        tmp_path / "playbooks" / "switches.yml",
        tmp_path / "playbooks" / "validate.yml",
    ]
    for path in (role, *quiet):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a", encoding="utf-8")
    before = content_digest(tmp_path)
    for path in quiet:
        path.write_text("b", encoding="utf-8")
    assert content_digest(tmp_path) == before
    role.write_text("b", encoding="utf-8")
    assert content_digest(tmp_path) != before


def test_a_file_that_templates_write_is_part_of_its_stage_digest(plan) -> None:
    gpu1 = plan.host("gpu1")
    file = replace(gpu1.connect.files[0], content="other") if gpu1.connect.files else File("/etc/x", "other")
    changed = replace(gpu1, connect=replace(gpu1.connect, files=(file, *gpu1.connect.files[1:])))
    assert stage_digest(changed, "connect", "c") != stage_digest(gpu1, "connect", "c")
