"""Measured figures in the report: from result files to the published table, with every label, in both languages."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import report_sample as sample
import tier_sample
from test_report import parse, schema

from g35ctl import report
from g35ctl.report import csv_text, page, png, tables
from g35ctl.report.document import Document
from g35ctl.report.results import collect
from g35ctl.report.strings import ENGLISH, catalogue
from g35ctl.validate import bench_result, serving_result

CHINESE = catalogue("zh-CN")
HOSTILE = "<script>alert(1)</script>"


class _Text(HTMLParser):
    """The words of a page, without its style sheet."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.skip = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.skip = tag == "style"

    def handle_data(self, data: str) -> None:
        if not self.skip:
            self.words.append(data)


def text_of(html: str) -> str:
    parser = _Text()
    parser.feed(html)
    return " ".join(" ".join(parser.words).split())


def serving_of(document: Document) -> Any:
    assert document.serving is not None
    return document.serving


def with_serving(document: Document, **changes: Any) -> Document:
    return replace(document, serving=replace(serving_of(document), **changes))


@pytest.mark.parametrize("document", [sample.full(), sample.full(emulated=True), sample.failed(), sample.minimal()])
def test_documents_fit_the_published_schema_and_survive_json(document: Document) -> None:
    data = json.loads(json.dumps(document.to_json()))
    jsonschema.validate(data, schema(), cls=jsonschema.Draft202012Validator)
    assert Document.from_json(data) == document


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [("rows", "path", "gpu"), ("rows", "hit_rate", 98.44), ("turns", "requests", -1), ("rows", "ttft", {"mean": 1})],
)
def test_schema_refuses_figures_that_cannot_be(part: str, key: str, value: Any) -> None:
    data = sample.full().to_json()
    data["serving"][part][0][key] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema())


def test_report_written_before_there_were_figures_still_opens() -> None:
    data = sample.failed().to_json()
    for key in ("serving", "bench", "commands", "problems"):
        del data[key]
    del data["run"]["command"]
    jsonschema.validate(data, schema())
    assert Document.from_json(data).serving is None


def test_three_path_table_is_the_published_one() -> None:
    row = tables.three_paths(serving_of(sample.full()), ENGLISH)[-1]
    assert row.users == "48"
    assert row.means == ("11.13", "5.11", "5.04")
    assert row.p99s == ("53.76", "6.63", "6.57")
    assert row.hits == ("92.81", "98.45", "98.44")
    assert (row.mean_ratio, row.p99_ratio, row.hit_difference) == ("0.99 ×", "0.99 ×", "\N{MINUS SIGN}0.01 pp")  # noqa: RUF001


def test_p99_of_few_samples_and_incomplete_rows_are_marked_wherever_they_stand() -> None:
    document = sample.full()
    rows = serving_of(document).rows
    document = with_serving(document, rows=(replace(rows[0], complete=False), *rows[1:]))
    first = tables.three_paths(serving_of(document), ENGLISH)[0]
    assert first.means[0] == "4.66‡"
    assert first.p99s == ("6.02†‡", "5.96†", "6.00†")
    told = text_of(page.render(document))
    assert ENGLISH.serving.few_samples.format(count=100) in told
    assert ENGLISH.serving.incomplete in told
    assert ENGLISH.serving.incomplete not in text_of(page.render(sample.full()))


def test_what_was_not_measured_is_a_dash_and_never_a_zero() -> None:
    document = sample.full()
    rows = tuple(row for row in serving_of(document).rows if (row.path, row.users) != ("memory", 48))
    document = with_serving(document, rows=rows, missing=("48 users, memory: the engine on gpu2 was killed",))
    last = tables.three_paths(serving_of(document), ENGLISH)[-1]
    assert last.means == ("11.13", "–", "5.04")  # noqa: RUF001
    assert last.mean_ratio == last.hit_difference == "–"  # noqa: RUF001
    told = text_of(page.render(document))
    assert ENGLISH.serving.missing_heading in told
    assert "the engine on gpu2 was killed" in told
    assert "TTFT mean, G3.5 against memory, 32 users" in told  # the largest number that both paths served


def test_one_path_alone_is_not_compared_with_what_is_not_there() -> None:
    document = sample.full()
    document = with_serving(document, rows=tuple(row for row in serving_of(document).rows if row.path == "g35"))
    html = page.render(document)
    assert ENGLISH.serving.against_memory not in text_of(html)
    parse(html)


def test_suite_that_measured_nothing_still_has_its_section() -> None:
    document = with_serving(sample.full(), rows=(), turns=(), paths=(), missing=("everything: no engine answered",))
    html = page.render(document)
    assert "everything: no engine answered" in html
    parse(html)


def test_key_figures_say_what_they_are_made_of() -> None:
    found = {item.label: (item.value, item.note) for item in tables.key_figures(sample.full(), ENGLISH)}
    assert found["TTFT mean, G3.5 against memory, 48 users"] == ("0.99 ×", "5.04 s : 5.11 s")  # noqa: RUF001
    assert found["KV hit rate of G3.5, 48 users"][0] == "98.44 %"
    assert found["Best read from the store"] == ("36.5 GB/s", "16 MiB")
    assert found["Storage cost, memory against shared flash"] == ("20 ×", "15 : 0.75 USD/GB, 2026-12-01")  # noqa: RUF001
    assert tables.key_figures(sample.failed(), ENGLISH) == ()
    labels = [(item.emulated, item.predicted) for item in tables.key_figures(sample.full(emulated=True), ENGLISH)]
    assert labels == [(True, False)] * 3 + [(False, True)] + [(True, False)] * 2


def test_emulated_and_scaled_are_said_at_every_heading_of_figures() -> None:
    html = page.render(sample.full(emulated=True))
    for heading in (ENGLISH.serving.heading, ENGLISH.bench.heading):
        assert re.search(rf"<h2>{heading} <span class=\"badge\">emulated", html)
    told = text_of(html)
    assert "contexts of 4,096 tokens instead of the published 160,000" in told
    assert told.count("[emulated") >= 8
    assert 'badge">emulated' not in page.render(sample.full())


def test_knee_is_labelled_predicted_in_the_table() -> None:
    assert re.search(r"Knee \(users\) <span class=\"badge\">predicted</span>", page.render(sample.full()))


def test_every_command_line_and_version_is_on_the_page() -> None:
    document = sample.full()
    told = text_of(page.render(document))
    assert len(document.commands) > 15
    for command in document.commands:
        assert command.command in told
        assert command.version in told
    assert "g35ctl -i inventories/sample validate --suite all" in told
    fio = [item for item in document.commands if item.tool == "fio" and "--bs=1048576 --iodepth=8" in item.command]
    assert [item.hosts for item in fio] == [("gpu1", "gpu2")]


def test_command_lines_of_a_fleet_are_cut_on_the_page_and_counted() -> None:
    document = sample.full()
    commands = tuple(replace(document.commands[0], command=f"ib_write_bw 192.0.2.{number}") for number in range(1000))
    html = page.render(replace(document, commands=commands))
    assert html.count("<code>ib_write_bw") == tables.MAX_COMMANDS
    assert "and 700 more: report.json" in text_of(html)


def test_counters_that_rose_and_measurements_without_a_figure_are_shown() -> None:
    told = text_of(page.render(sample.full()))
    assert "rx_prio3_pause PFC pause 1,472" in told
    assert "no RDMA device named mlx5_9" in told


def test_long_tables_are_cut_but_never_before_what_is_wrong() -> None:
    document = sample.full()
    assert document.bench is not None
    item = document.bench.measurements[0]
    many = (*(replace(item, host=f"gpu{n}") for n in range(100)), replace(item, host="late", problem="port down"))
    table = tables.bench_tables(replace(document.bench, measurements=many), ENGLISH)[0]
    assert (len(table.rows), table.more) == (tables.MAX_MEASUREMENTS, 41)
    assert table.rows[0][1] == "late"


def test_cost_is_made_of_the_sites_prices_and_says_that_it_is_assumed() -> None:
    told = text_of(page.render(sample.full()))
    assert "costs 20 times what it costs in shared flash (6.67 to 66.7). Assumed, not measured: 15 and 0.75 USD" in told


def test_replayed_trace_has_no_number_of_users() -> None:
    serving = serving_of(sample.full())
    rows = tuple(replace(row, users=0) for row in serving.rows if row.users == 48)
    turns = tuple(replace(turn, users=0) for turn in serving.turns if turn.users == 48)
    workload = replace(serving.workload, users=(0,), trace="conversation-50.jsonl")
    html = page.render(with_serving(sample.full(), rows=rows, turns=turns, workload=workload))
    told = text_of(html)
    assert "Trace conversation-50.jsonl replayed on 2 nodes" in told
    assert "0 users" not in told
    assert "trace 11.13" in told
    parse(html)


def test_site_that_was_not_put_back_is_said_loudly() -> None:
    assert ENGLISH.serving.not_restored in text_of(page.render(with_serving(sample.full(), restored=False)))


def test_page_is_signed_only_where_something_was_judged() -> None:
    told = text_of(page.render(sample.full()))
    assert ENGLISH.sign_note.format(run="20261201T120000Z-deploy", site="sample", verdict="PASS") in told
    assert ENGLISH.sign_signature not in text_of(page.render(sample.minimal()))


@pytest.mark.parametrize("document", [sample.full(emulated=True), sample.failed(), sample.minimal()])
def test_chinese_page_holds_no_english_sentence_of_ours(document: Document) -> None:
    html = page.render(document, CHINESE)
    parse(html)
    assert '<html lang="zh-CN">' in html
    told = text_of(html)
    assert CHINESE.verdicts[document.verdict] in told
    from test_strings import texts

    for key, text in texts("en").items():
        if len(text) > 14 and "{" not in text and key not in ("overline", "master"):
            assert text not in told, key


def test_words_from_engines_and_tools_are_escaped() -> None:
    document = with_serving(sample.full(), missing=(HOSTILE,), engines=(HOSTILE,))
    commands = (replace(document.commands[0], command=HOSTILE, version=HOSTILE, tool=HOSTILE),)
    html = page.render(replace(document, commands=commands, problems=(HOSTILE,)))
    assert "script" not in parse(html).tags
    assert HOSTILE not in html


def rows(document: Document) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text.render(document))))


def test_csv_holds_every_check_and_figure_with_its_origin() -> None:
    found = rows(sample.full())
    assert sum(row["kind"] == "check" for row in found) == 6
    (mean,) = [r for r in found if (r["name"], r["path"], r["users"], r["statistic"]) == ("ttft", "g35", "48", "mean")
               and not r["turn"]]  # fmt: skip
    assert (mean["value"], mean["unit"], mean["samples"], mean["origin"]) == ("5.04", "s", "576", "measured")
    (knee,) = [row for row in found if row["name"] == "knee" and row["path"] == "local"]
    assert (knee["value"], knee["origin"]) == ("44.5", "predicted")
    depth = [
        r
        for r in found
        if r["name"] == "namespace.bandwidth" and (r["block_bytes"], r["queue_depth"]) == ("1048576", "8")
    ]
    assert [row["value"] for row in depth] == ["8.928", "8.928"]
    assert {row["origin"] for row in rows(sample.full(emulated=True)) if row["suite"] == "serving"} >= {"scaled"}


def test_csv_of_a_plain_deploy_has_its_checks() -> None:
    assert {row["grade"] for row in rows(sample.failed())} == {"PASS", "WARN", "FAIL"}


def test_csv_holds_no_formula() -> None:
    document = sample.failed()
    checks = tuple(replace(check, observed='=HYPERLINK("x")', subject="-2+3") for check in document.verdicts)
    for row in rows(replace(document, verdicts=checks)):
        assert row["observed"].startswith("'=")
        assert row["subject"] == "'-2+3"


def test_results_are_read_from_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(png, "render", str.encode)  # drawing is tested with the charts
    bench_result.write(tmp_path, sample.bench_result())
    serving_result.write(tmp_path, sample.serving_result())
    paths = report.write(tmp_path, tier_sample.run(), sample.PASSED, tier_sample.plan(), tier_sample.site())
    assert paths.problems == ()
    stored = report.read(tmp_path)
    assert stored.serving == sample.full().serving
    assert stored.serving is not None
    assert stored.serving.cost is not None
    assert stored.bench == sample.full().bench
    assert sorted(path.name for path in paths.charts) == sorted(f"{name}.png" for name in (
        "ttft-mean", "ttft-p99", "hit-rate", "hit-per-turn", "tiers", "fabric-bandwidth", "storage-bandwidth",
        "store-bandwidth"))  # fmt: skip
    assert paths.named()[-1] == str(tmp_path / "charts")


def test_suite_that_was_killed_while_writing_costs_only_its_own_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(png, "render", str.encode)
    bench_result.write(tmp_path, sample.bench_result())
    (tmp_path / serving_result.FILE).write_text('{"workload": {"us', encoding="utf-8")
    found = collect(tmp_path)
    assert found.bench is not None
    assert found.serving is None
    assert "serving.json" in found.problems[0]
    report.write(tmp_path, tier_sample.run(), sample.PASSED, tier_sample.plan(), tier_sample.site())
    assert "serving.json" in text_of((tmp_path / "report.html").read_text(encoding="utf-8"))
