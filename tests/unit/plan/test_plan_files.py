"""Rendering: files.yml in every form it allows, and values that try to escape."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.g35.plans import File, Unit
from sites import lab_site

from g35ctl.errors import G35Error
from g35ctl.plan import files
from g35ctl.plan.build import build
from g35ctl.plan.files import exec_quote, lines, render, unit_escape, unit_quote


@pytest.fixture
def templates(tmp_path, monkeypatch):
    """An empty content tree in place of the shipped one."""
    monkeypatch.setattr(files, "content_root", lambda: tmp_path)
    for cached in (files._environment, files._manifest):
        cached.cache_clear()
    yield tmp_path / "templates"
    for cached in (files._environment, files._manifest):
        cached.cache_clear()


def write(folder: Path, **contents: str) -> None:
    folder.mkdir(parents=True)
    for name, text in contents.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def rendered(stage: str = "fabric", host: str = "gpu1", **changes: object) -> tuple[tuple[File, ...], tuple[Unit, ...]]:
    site = lab_site()
    member = site.host(host)
    plan = build(site).host(host)
    return render(stage, getattr(plan, stage), site, member)


def test_one_file_per_item_with_its_own_path(templates):
    write(
        templates / "fabric",
        files__yml="""
files:
  - {template: port.conf, path: "/etc/g35/{{ item.netdev }}.conf", mode: "0640", group: adm, each: plan.ports}
  - {template: port.conf, path: /never, when: plan.transport == "tcp", each: plan.ports}
  - {template: site.conf, path: "/etc/{{ site.identity.name }}-{{ host.name }}"}
units:
  - name: "g35@{{ item.netdev }}.service"
    each: plan.ports
    when: item.rail == "b"
    restart_on: ["/x/{{ item.rail }}"]
  - {name: plain.timer, enabled: false, active: false}
""",
        port__conf="mtu = {{ item.mtu }}\n",
        site__conf="{% for port in plan.ports %}\n{{ port.address }}\n{% endfor %}\n",
    )
    found, units = rendered()
    assert found == (
        File("/etc/g35/eth1.conf", "mtu = 4200\n", "0640", "root", "adm"),
        File("/etc/g35/eth2.conf", "mtu = 4200\n", "0640", "root", "adm"),
        File("/etc/test-gpu1", "192.0.2.21\n198.51.100.21\n"),
    )
    assert units == (Unit("g35@eth2.service", restart_on=("/x/b",)), Unit("plain.timer", False, False))


def test_a_stage_without_templates_has_no_files(templates):
    templates.mkdir()
    assert rendered() == ((), ())


@pytest.mark.parametrize("text", ["{{ plan.nothing }}", "{{ unknown }}", "{% if plan.nothing %}{% endif %}", "{{"])
def test_undefined_names_and_broken_templates_are_named(templates, text):
    write(templates / "fabric", files__yml="files: [{template: a.j2, path: /a}]", a__j2=text)
    with pytest.raises(G35Error) as caught:
        rendered()
    assert caught.value.what == "cannot render the files of stage fabric for ebof1"
    assert "templates/fabric/a.j2" in caught.value.why


@pytest.mark.parametrize("value", ["a\nExecStart=/bin/sh", "a\rb", "a\x00b", "a\x1b[31m", "a\u2028b"])
def test_a_value_never_starts_a_line_of_its_own(templates, value):
    write(templates / "fabric", files__yml="files: [{template: a.j2, path: /a}]", a__j2="x = {{ plan.site }}\n")
    site = lab_site()
    plan = build(site).host("gpu1").fabric
    assert plan is not None
    object.__setattr__(plan, "site", value)
    with pytest.raises(G35Error, match="cannot render"):
        render("fabric", plan, site, site.host("gpu1"))


def test_paths_are_checked_like_contents(templates):
    write(templates / "fabric", files__yml='files: [{template: a.j2, path: "/a/{{ plan.nothing }}"}]', a__j2="x")
    with pytest.raises(G35Error):
        rendered()


@pytest.mark.parametrize("entry", ["{template: a.j2, path: /a, mod: '0644'}", "{template: a.j2, path: /a, mode: 0644}"])
def test_mistakes_in_files_yml_are_refused(templates, entry):
    write(templates / "fabric", files__yml=f"files: [{entry}]", a__j2="x")
    with pytest.raises(G35Error, match=r"files\.yml"):
        rendered()


def test_several_lines_only_on_purpose(templates):
    write(
        templates / "fabric",
        files__yml="files: [{template: a.j2, path: /a}]",
        a__j2="{{ plan.ports | map(attribute='netdev') | lines }}\n",
    )
    assert rendered()[0][0].content == "eth1\neth2\n"
    with pytest.raises(ValueError, match="line break"):
        lines(["a\nb"])


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("plain", '"plain"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("100%h", '"100%%h"'),
        ("$HOME", '"$HOME"'),
        (7, '"7"'),
    ],
)
def test_words_of_units_are_quoted(value, quoted):
    assert unit_quote(value) == quoted


def test_words_of_exec_lines_expand_nothing():
    assert exec_quote("$HOME/%h") == '"$$HOME/%%h"'


@pytest.mark.parametrize(
    ("path", "escaped"),
    [
        ("/var/lib/g35/flash", "var-lib-g35-flash"),
        ("/a-b/c", "a\\x2db-c"),
        ("/", "-"),
        ("//x//y/", "x-y"),
        ("/.hidden/.x", "\\x2ehidden-.x"),
        ("/ä", "\\xc3\\xa4"),
    ],
)
def test_paths_are_escaped_as_systemd_does(path, escaped):
    assert unit_escape(path) == escaped


def test_the_shipped_templates_render_for_every_stage():
    plan = build(lab_site())
    for host in plan.hosts:
        for stage in ("target", "fabric", "connect", "storage", "cache"):
            part = getattr(host, stage)
            if part is not None:
                assert all(file.path.startswith("/") and file.content for file in part.files), (host.name, stage)
                assert len({file.path for file in part.files}) == len(part.files)
