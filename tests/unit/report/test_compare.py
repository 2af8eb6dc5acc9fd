"""Two runs side by side: what got worse is marked, noise and the incomparable are not."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_sample as sample
from ansible.module_utils.g35.schema import load
from hypothesis import given
from hypothesis import strategies as st
from test_figures import text_of
from test_report import parse

from g35ctl.report import compare_page
from g35ctl.report.compare import BETTER, SAME, SHOWN, TOLERANCES, WORSE, Comparison, FigureChange, compare, state
from g35ctl.report.document import Document
from g35ctl.report.strings import ENGLISH, catalogue


def figures(before: Document, after: Document, name: str) -> dict[tuple[str, int], FigureChange]:
    return {(item.path, item.users): item for item in compare(before, after).figures if item.figure == name}


def edit(document: Document, path: str, users: int, **changes: Any) -> Document:
    assert document.serving is not None
    rows = tuple(
        replace(row, **changes) if (row.path, row.users) == (path, users) else row for row in document.serving.rows
    )
    return replace(document, serving=replace(document.serving, rows=rows))


@given(st.sampled_from(sorted(TOLERANCES)), st.floats(0.1, 1e4), st.floats(0.1, 1e4))
def test_what_got_worse_one_way_got_better_the_other_way_or_stayed(name: str, old: float, new: float) -> None:
    forth, back = state(name, old, new), state(name, new, old)
    assert state(name, old, old) == SAME
    assert {forth, back} in ({WORSE, BETTER}, {SAME}, {WORSE, SAME}, {BETTER, SAME})


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("ttft_mean", 5.0, 5.49, SAME),
        ("ttft_mean", 5.0, 5.51, WORSE),
        ("ttft_mean", 5.0, 4.4, BETTER),
        ("hit_rate", 98.44, 97.95, SAME),
        ("hit_rate", 98.44, 97.9, WORSE),
        ("bandwidth", 10.0, 8.9, WORSE),
        ("errors", 0.0, 1.0, WORSE),
    ],
)
def test_tolerances(name: str, old: float, new: float, expected: str) -> None:
    assert state(name, old, new) == expected


def test_run_against_itself_shows_no_regression() -> None:
    found = compare(sample.full(), sample.full())
    assert not found.regressions
    assert {item.state for item in found.checks} == {SAME}
    assert {item.state for item in found.figures} == {SAME, SHOWN}  # P99 of few samples is shown
    assert found.cautions == found.versions == ()


def test_slower_run_is_marked_where_it_is_slower_and_nowhere_else() -> None:
    found = compare(sample.full(), sample.slower())
    assert found.regressions
    worse = [
        (item.figure, item.path, item.users, item.test, item.tier) for item in found.figures if item.state == WORSE
    ]
    assert worse[:3] == [
        ("ttft_mean", "g35", 48, "", ""),
        ("ttft_p99", "g35", 48, "", ""),
        ("hit_rate", "g35", 48, "", ""),
    ]
    assert worse[3:] == [("bandwidth", "", 0, "get", "flash")] * 4
    assert [(c.check, c.host, c.before, c.after) for c in found.checks if c.state == WORSE] == [
        ("paths.live", "gpu2", "PASS", "FAIL")
    ]
    assert [(item.component, item.before, item.after) for item in found.versions] == [("g35ctl", "0.1.0", "0.2.0")]
    better = compare(sample.slower(), sample.full())
    assert {item.state for item in better.figures} == {BETTER, SAME, SHOWN}
    assert "order" in [item.kind for item in better.cautions]


def test_mean_within_the_range_of_earlier_trials_has_not_moved() -> None:
    before = sample.full()  # the local path's trials at 48 users lay between 6.65 and 17.56 s
    row = before.serving.row("local", 48) if before.serving else None
    assert row is not None
    assert row.ttft is not None
    after = edit(before, "local", 48, ttft=replace(row.ttft, mean=16.0))
    assert figures(before, after, "ttft_mean")["local", 48].state == SAME
    after = edit(before, "local", 48, ttft=replace(row.ttft, mean=18.0))
    assert figures(before, after, "ttft_mean")["local", 48].state == WORSE


def test_p99_of_few_samples_is_not_judged() -> None:
    before = sample.full()
    row = before.serving.row("memory", 16) if before.serving else None
    assert row is not None
    assert row.ttft is not None
    after = edit(before, "memory", 16, ttft=replace(row.ttft, p99=60.0))
    assert figures(before, after, "ttft_p99")["memory", 16].state == SHOWN


def test_emulated_and_real_figures_are_never_judged_against_each_other() -> None:
    found = compare(sample.full(), sample.full(emulated=True))
    assert {item.kind for item in found.cautions} == {"emulated", "workload"}
    assert {item.state for item in found.figures} == {SHOWN}


def test_differing_workloads_are_named_and_not_judged_but_storage_is() -> None:
    before = sample.full()
    assert before.serving is not None
    workload = replace(before.serving.workload, new_tokens=5_000)
    after = replace(sample.slower(), serving=replace(before.serving, workload=workload))
    found = compare(before, after)
    assert [(item.kind, item.before) for item in found.cautions] == [("workload", "new_tokens")]
    assert {item.state for item in found.figures if item.suite == "serving"} == {SHOWN}
    assert WORSE in {item.state for item in found.figures if item.suite == "store"}


def checks(before: Document, after: Document) -> dict[tuple[str, str], str]:
    return {(item.check, item.subject): item.state for item in compare(before, after).checks}


def test_finding_that_comes_is_worse_and_one_that_goes_is_better() -> None:
    passed, failed = sample.full(), sample.failed()
    assert checks(passed, failed)["fabric.mtu", "eth2"] == WORSE
    assert checks(passed, failed)["connect.path", "rail b"] == WORSE  # a failure of a stage, not of a check
    assert checks(failed, passed)["connect.path", "rail b"] == BETTER


def test_failure_of_a_suite_that_was_not_run_again_is_not_mended() -> None:
    failed = sample.failed()
    found = checks(failed, replace(sample.minimal(), stages=()))
    assert set(found.values()) == {"vanished"}


def test_skipped_check_counts_as_not_made() -> None:
    before = sample.full()
    skipped = tuple(replace(check, grade="SKIP") for check in before.verdicts)
    found = compare(before, replace(before, verdicts=skipped))
    assert not found.regressions
    assert {item.state for item in found.checks} == {"vanished"}


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_page_is_complete_and_loads_nothing(language: str, tmp_path: Path) -> None:
    strings = catalogue(language)
    files = compare_page.write(tmp_path, sample.full(), sample.slower(), strings)
    html = files.html.read_text(encoding="utf-8")
    parsed = parse(html)
    assert parsed.loads == []
    assert "script" not in parsed.tags
    identifiers = [part.split('"')[0] for part in html.split(' id="')[1:]]
    assert len(identifiers) == len(set(identifiers))
    told = text_of(html)
    assert strings.compare.regressions["yes"] in told
    assert "check the cable of eth2 on gpu2" in told
    assert "+23.0 %" in told
    assert html.count("<figure>") == 2 * 7
    assert load(Comparison, json.loads(files.json.read_text(encoding="utf-8"))) == files.comparison


def test_terminal_tells_what_got_worse_with_its_remedy_and_where_the_files_are(tmp_path: Path) -> None:
    files = compare_page.write(tmp_path, sample.full(), sample.slower())
    stream = io.StringIO("\n".join(compare_page.summary_lines(files)))
    lines = stream.read().splitlines()
    assert lines[0].startswith("WORSE functional paths.live")
    assert "check the cable of eth2" in lines[0]
    assert "WORSE TTFT mean: G3.5, 48 users: 5.04 s -> 6.20 s (+23.0 %)" in lines
    assert lines[-3].startswith("REGRESSIONS: ")
    assert lines[-2:] == [str(files.html), str(files.json)]


def test_emulated_figures_are_called_that(tmp_path: Path) -> None:
    document = sample.full(emulated=True)
    files = compare_page.write(tmp_path, document, document)
    assert ENGLISH.emulated_note in files.html.read_text(encoding="utf-8")
    assert any(line.startswith("NO REGRESSION [emulated]") for line in compare_page.summary_lines(files))


def test_words_from_outside_are_escaped() -> None:
    before, after = sample.full(), sample.slower()
    hostile = replace(after.verdicts[1], observed="<script>", remedy="<script>", subject="<script>")
    after = replace(after, verdicts=(hostile,), run=replace(after.run, site="<script>"))
    html = compare_page.render(before, after, compare(before, after), ENGLISH)
    assert "script" not in parse(html).tags
