"""``g35ctl plan`` and ``g35ctl render``: what they print, write and exit with."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from inventory import HOSTS, write_inventory
from sites import lab_site
from typer.testing import CliRunner

from g35ctl.cli.main import app
from g35ctl.engine.planning import is_site, make_plan
from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.report.plan_text import sections
from g35ctl.report.sections import listed, write


@pytest.fixture
def site(tmp_path) -> Path:
    return write_inventory(tmp_path / "site")


def run(monkeypatch, site: Path, *arguments: str):
    monkeypatch.setattr("sys.argv", ["g35ctl", "-i", str(site), *arguments])  # main.py looks for the verb here
    return CliRunner().invoke(app, ["-i", str(site), *arguments])


def text_of(plan: Plan, pending: tuple[tuple[str, str], ...] = ()) -> str:
    stream = io.StringIO()
    write(sections(plan, pending), stream)
    return stream.getvalue()


def test_the_text_shows_everything_a_deploy_would_decide():
    text = text_of(build(lab_site()), (("gpu1", "cache"),))
    for wanted in (
        "1 box, 2 owners, 4 namespaces, 8 NVMe paths",
        "rated 360 GB/s",
        "to apply: 1 stage on 1 host",
        "192.0.2.11:4420",
        "50053",
        "validate       2  gpu1, gpu2",
        "fabric on gpu1, gpu2: MTU, PFC",
        "g35ctl bundle create",
    ):
        assert wanted in text
    assert text.count("planned") == 4
    assert text.count("nqn.2014-08.org.nvmexpress:uuid:") == 2
    assert "\x1b" not in text


def test_columns_line_up():
    rows = text_of(build(lab_site())).split("Ownership\n")[1].split("\n\n")[0].splitlines()
    assert len({row.index("gpu" if place else "owner") for place, row in enumerate(rows)}) == 1


def test_long_lists_are_cut_and_counted():
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(n) for n in range(12)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 4 more"


def test_json_is_the_whole_plan(monkeypatch, site):
    done = run(monkeypatch, site, "plan", "-o", "json")
    document = json.loads(done.stdout)
    assert document["ok"] is True
    assert {"host": "gpu1", "stage": "cache"} in document["pending"]
    for key in ("failures", "ok", "pending", "schema_version"):
        del document[key]
    assert Plan.from_json(document) == make_plan(str(site))[1]


def test_pending_changes_have_an_exit_code_of_their_own(monkeypatch, site):
    assert run(monkeypatch, site, "plan").exit_code == 0
    assert run(monkeypatch, site, "plan", "--exit-code").exit_code == 10


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_render_writes_each_file_at_its_place_and_changes_nothing_the_second_time(monkeypatch, site, tmp_path):
    target = tmp_path / "out"
    assert run(monkeypatch, site, "render", str(target)).exit_code == 0
    first = files_below(target)
    plan = make_plan(str(site))[1]
    for host in plan.hosts:
        for stage in host.stages():
            for file in getattr(getattr(host, stage), "files", ()):
                assert first[f"hosts/{host.name}{file.path}"] == file.content.encode()
    assert json.loads(first["hosts/gpu1/etc/g35ctl/connect.json"])["host_nqn"] == plan.host("gpu1").connect.host_nqn
    stamps = {path: path.stat().st_mtime_ns for path in target.rglob("hosts/**/*")}
    again = run(monkeypatch, site, "render", str(target))
    assert "0 files written" in again.stdout
    assert files_below(target) == first
    assert {path: path.stat().st_mtime_ns for path in target.rglob("hosts/**/*")} == stamps


def test_render_removes_what_it_wrote_and_nothing_else(monkeypatch, site, tmp_path):
    target = tmp_path / "out"
    run(monkeypatch, site, "render", str(target))
    note = target / "hosts" / "gpu2" / "note.txt"
    note.write_text("mine", encoding="utf-8")
    write_inventory(site.parent, HOSTS.replace("        gpu2:\n", "        gpu3:\n"))
    assert run(monkeypatch, site, "render", str(target)).exit_code == 0
    assert [path for path in files_below(target) if path.startswith("hosts/gpu2/")] == ["hosts/gpu2/note.txt"]
    assert (target / "hosts" / "gpu3" / "etc" / "g35ctl" / "connect.json").is_file()


def test_render_refuses_a_directory_of_others(monkeypatch, site, tmp_path):
    target = tmp_path / "precious"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work", encoding="utf-8")
    done = run(monkeypatch, site, "render", str(target))
    assert done.exit_code != 0
    assert files_below(target) == {"thesis.txt": b"years of work"}


def test_a_forged_manifest_cannot_reach_outside(monkeypatch, site, tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    outside = tmp_path / "outside.txt"
    outside.write_text("stays", encoding="utf-8")
    manifest = {"files": ["../outside.txt", str(outside), "hosts/x/old"]}
    (target / ".g35-render.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert run(monkeypatch, site, "render", str(target)).exit_code == 0
    assert outside.read_text(encoding="utf-8") == "stays"


def test_planning_keeps_recorded_owners_and_reports_what_holds(site):
    state = site.parent / ".g35"
    state.mkdir()
    before = make_plan(str(site))[1]
    swapped = {item.uuid: "gpu2" if item.owner == "gpu1" else "gpu1" for item in before.ownership}
    (state / "ownership.json").write_text(json.dumps({"namespaces": swapped}), encoding="utf-8")
    after = make_plan(str(site))[1]
    assert {item.uuid: item.owner for item in after.ownership} == swapped
    assert {item.since for item in after.ownership} == {"kept"}


def test_sites_are_told_from_other_inventories(tmp_path, site):
    assert is_site(str(site))
    assert is_site(str(site.parent))
    other = tmp_path / "other.ini"
    other.write_text("[web]\nlocalhost\n", encoding="utf-8")
    assert not is_site(str(other))
    assert not is_site(str(tmp_path / "absent"))
    assert not is_site("localhost,")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o755)
    assert is_site(str(script))
