"""The report: one document, four renderings, nothing from outside unescaped and nothing fetched."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tier_sample

from g35ctl import report
from g35ctl.engine.run import Failure, Run
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.report import junit, page, terminal
from g35ctl.report.document import Document, build
from g35ctl.report.strings import ENGLISH
from g35ctl.report.topology import lay_out
from g35ctl.verdict import Grade, Verdict

HOSTILE = "<script>alert('x')</script>&\"\x07"

GOOD = (
    Verdict("functional", "paths.live", Grade.PASS, "2 live on rails a, b", "2 live", "gpu1", tier_sample.nqn(1)),
    Verdict("functional", "pool.capacity", Grade.PASS, "3.5 GiB", "3.5 GiB"),
)
BAD = Verdict(
    "functional", "paths.live", Grade.FAIL, "1 live on rail a", "2 live", "gpu2", tier_sample.nqn(3),
    "check the cable of eth2", "verify.json",
)  # fmt: skip


def make(verdicts: tuple[Verdict, ...] = GOOD, run: Run | None = None) -> Document:
    return build(run or tier_sample.run(), verdicts, tier_sample.plan(), tier_sample.site())


def schema() -> dict[str, Any]:
    text = resources.files("g35ctl.report").joinpath("schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def lay(document: Document) -> Any:
    return lay_out(document, owns="owns {count}", owns_none="none", master="master")


class _Page(HTMLParser):
    """Collects tags, the addresses a browser would load, and checks that every element is closed."""

    VOID = frozenset({"meta", "link", "br", "col", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def parse(html: str) -> _Page:
    parser = _Page()
    parser.feed(html)
    parser.close()
    assert not parser.open, f"left open: {parser.open}"
    return parser


@pytest.mark.parametrize("verdicts", [GOOD, (*GOOD, BAD), ()])
def test_document_fits_its_published_schema_and_survives_json(verdicts: tuple[Verdict, ...]) -> None:
    document = make(verdicts)
    data = json.loads(json.dumps(document.to_json()))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(data, schema(), cls=jsonschema.Draft202012Validator)
    assert Document.from_json(data) == document


def test_schema_refuses_what_the_document_never_holds() -> None:
    data = make().to_json()
    data["verdicts"][0]["grade"] = "MAYBE"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema())


@pytest.mark.parametrize(
    ("verdicts", "run", "expected"),
    [
        (GOOD, tier_sample.run(), "PASS"),
        ((*GOOD, replace(BAD, grade=Grade.WARN)), tier_sample.run(), "WARN"),
        ((*GOOD, BAD), tier_sample.run(), "FAIL"),
        (GOOD, tier_sample.run(Exit.UNREACHABLE), "FAIL"),
        ((), tier_sample.run(), "NONE"),
        ((), tier_sample.run(Exit.CHANGES_PENDING), "NONE"),
        ((replace(BAD, grade=Grade.SKIP),), tier_sample.run(), "NONE"),
    ],
)
def test_overall_verdict(verdicts: tuple[Verdict, ...], run: Run, expected: str) -> None:
    document = make(verdicts, run)
    assert document.verdict == expected
    assert document.ok is (expected != "FAIL")


def test_failed_verdict_is_a_failure_and_is_not_told_twice() -> None:
    told = Failure("gpu2", "connect", BAD.check, BAD.observed, BAD.expected, BAD.remedy, BAD.subject)
    assert len(make((BAD,)).failures) == 1
    assert len(make((BAD,), tier_sample.run(Exit.DEPLOY_FAILED, (told,))).failures) == 1


def test_page_is_complete_and_loads_nothing() -> None:
    html = page.render(make((*GOOD, BAD)))
    parsed = parse(html)
    assert parsed.loads == []
    assert not {"script", "link", "iframe", "img", "object"} & set(parsed.tags)
    assert "svg" in parsed.tags
    # A style sheet may load too.
    assert not re.search(r"url\(|@import|https?://", html)
    for text in (ENGLISH.verdicts["FAIL"], "check the cable of eth2", tier_sample.nqn(3), "192.0.2.21", "2.19.4"):
        assert text in html


def test_verdict_comes_before_everything_else() -> None:
    html = page.render(make((*GOOD, BAD)))
    order = [html.index(f'id="{name}"') for name in ("failures", "topology", "checks", "stages", "run")]
    assert [html.index('class="verdict FAIL"'), *order] == sorted([html.index('class="verdict FAIL"'), *order])


def test_hostile_text_is_escaped_everywhere() -> None:
    verdict = Verdict(HOSTILE, HOSTILE, Grade.FAIL, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    run = replace(tier_sample.run(), site=HOSTILE, verb=HOSTILE, versions={HOSTILE: HOSTILE})
    document = make((verdict,), run)
    html = page.render(document)
    assert "script" not in parse(html).tags
    assert "alert('x')" not in html
    root = ET.fromstring(junit.render(document))
    assert any(HOSTILE[:-1] in (case.get("name") or "") for case in root.iter("testcase"))


def test_emulation_is_said_on_the_page_and_on_the_terminal() -> None:
    emulated = make(tuple(replace(verdict, emulated=True) for verdict in GOOD))
    assert ENGLISH.emulated_note in page.render(emulated)
    assert ENGLISH.emulated_note not in page.render(make())
    assert "[emulated]" in terminal.summary_lines(emulated)[-1]


def test_same_failure_on_many_hosts_is_told_once() -> None:
    verdicts = tuple(replace(BAD, host=f"gpu{number}") for number in range(40))
    document = make(verdicts)
    assert len(page.group_failures(document)) == 1
    assert page.render(document).count('<div class="failure">') == 1
    assert sum("gpu39" in line for line in terminal.summary_lines(document)) == 1


def test_junit_has_a_suite_per_stage_and_per_validation_suite() -> None:
    failure = Failure("gpu2", "connect", "connect.path", "not live", "live", "see the switch", "rail b")
    skip = replace(BAD, grade=Grade.SKIP, observed="no DCB by consent")
    root = ET.fromstring(junit.render(make((*GOOD, BAD, skip), tier_sample.run(Exit.PARTIAL, (failure,)))))
    suites = {suite.get("name"): suite for suite in root.iter("testsuite")}
    assert set(suites) == {"stage.preflight", "stage.target", "stage.connect", "functional"}
    assert (suites["functional"].get("tests"), suites["functional"].get("failures")) == ("4", "1")
    assert suites["functional"].get("skipped") == "1"
    versions = {item.get("name"): item.get("value") for item in suites["functional"].iter("property")}
    assert versions["ansible-core"] == "2.19.4"
    told = suites["stage.connect"].find("testcase/failure")
    assert told is not None
    assert "see the switch" in (told.text or "")
    assert (root.get("tests"), root.get("failures")) == ("10", "2")


def test_topology_shows_owners_and_marks_what_failed() -> None:
    drawing = lay(make((*GOOD, BAD)))
    assert [chip.label for chip in drawing.boxes[0].chips] == ["1", "1", "2", "2"]
    assert [(frame.name, frame.bad) for frame in drawing.hosts] == [("gpu1", False), ("gpu2", True)]
    rails = {rail.x for rail in drawing.rails}
    assert {link.x2 for frame in drawing.hosts + drawing.boxes for link in frame.links} == rails
    assert all(frame.y + frame.height < drawing.height for frame in drawing.hosts + drawing.boxes)


def test_big_topology_is_cut_and_says_so() -> None:
    document = make()
    host = document.topology.hosts[0]
    many = tuple(replace(host, name=f"gpu{number}") for number in range(200))
    drawing = lay(replace(document, topology=replace(document.topology, hosts=many)))
    assert drawing.more_hosts == 200 - len(drawing.hosts)
    assert drawing.more_hosts > 0


def test_report_can_be_rebuilt_from_what_is_stored(tmp_path: Path) -> None:
    paths = report.write(tmp_path / "run", tier_sample.run(), (*GOOD, BAD), tier_sample.plan(), tier_sample.site())
    before = [Path(name).read_bytes() for name in paths.named()]
    for path in (paths.html, paths.junit):
        path.unlink()
    again = report.rebuild(tmp_path / "run")
    assert [Path(name).read_bytes() for name in again.named()] == before
    assert paths.html.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("stored", [None, "{", "[]", '{"schema_version": 99}', '{"schema_version": 1, "ok": true}'])
def test_missing_or_damaged_report_says_what_to_do(tmp_path: Path, stored: str | None) -> None:
    if stored is not None:
        (tmp_path / "report.json").write_text(stored, encoding="utf-8")
    with pytest.raises(G35Error) as caught:
        report.rebuild(tmp_path)
    assert caught.value.next_command
    assert caught.value.why


def test_summary_ends_with_verdict_and_files_and_is_plain_off_a_terminal() -> None:
    stream = io.StringIO()
    terminal.print_summary(make((*GOOD, BAD)), stream, ("/runs/1/report.html",))
    lines = stream.getvalue().splitlines()
    assert lines[-1] == "/runs/1/report.html"
    assert lines[-2].startswith("FAIL: sample, deploy, 1 min 15 s")
    assert "\x1b" not in stream.getvalue()
    assert any("check the cable of eth2" in line for line in lines)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (75.3, "1 min 15 s"), (3725, "1 h 02 min 05 s")]
)
def test_duration(seconds: float, text: str) -> None:
    assert page.duration(seconds) == text
