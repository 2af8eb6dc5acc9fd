"""Charts: every point drawn where its value says, nothing predicted or emulated without its label."""

from __future__ import annotations

import re
import struct
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib import resources
from itertools import pairwise
from typing import Any

import pytest
import report_sample as sample
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.report import png
from g35ctl.report.charts import lines, svg
from g35ctl.report.charts.gallery import Picture, pairs, pictures
from g35ctl.report.charts.lines import Line, LineChart, Point, Rule, Tick
from g35ctl.report.charts.scales import Scale, spread, ticks
from g35ctl.report.document import Document
from g35ctl.report.strings import ENGLISH, catalogue

NAMES = (
    "ttft-mean", "ttft-p99", "hit-rate", "hit-per-turn", "tiers", "fabric-bandwidth", "storage-bandwidth",
    "store-bandwidth",
)  # fmt: skip


def drawn(document: Document, language: str = "en") -> dict[str, Picture]:
    return {item.identifier: item for item in pictures(document, catalogue(language))}


def marks(picture: Picture) -> list[ET.Element]:
    return [item for item in ET.fromstring(picture.svg).iter() if item.get("class") == "mark"]


def words(picture: Picture) -> str:
    return " ".join("".join(item.itertext()) for item in ET.fromstring(picture.svg).iter() if item.tag.endswith("text"))


def chart(**changes: Any) -> LineChart:
    line = Line("one", "3", (Point(1, 1), Point(2, 3)), svg.BLUE)
    base = LineChart("c", "Title", "unit", "x", (line,), (Tick(1, "1"), Tick(2, "2")), 0, 3)
    return replace(base, **changes)


@given(st.floats(0, 1e4), st.floats(1e-2, 1e6))
def test_ticks_enclose_what_is_shown_and_are_evenly_spaced(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert found[0] <= low + 1e-6 * span
    assert found[-1] >= low + span - 1e-6 * span
    assert 2 <= len(found) <= 12
    steps = [after - before for before, after in pairwise(found)]
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=12))
def test_labels_never_overlap_keep_their_order_and_stay_on_the_chart_where_they_fit(wanted: list[float]) -> None:
    placed = spread(wanted, 17, 0, 300)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    assert all(placed[b] - placed[a] >= 17 - 1e-6 for a, b in pairwise(order))
    assert min(placed) >= -1e-6
    assert max(placed) <= 300 + 1e-6


def test_labels_that_have_room_stay_where_their_lines_end() -> None:
    assert spread([10, 100, 200], 17, 0, 300) == (10, 100, 200)


def test_scales_are_linear_or_by_powers_of_two() -> None:
    assert Scale(0, 10, 100, 0)(2.5) == 75
    assert Scale(2**17, 2**21, 0, 100, logarithmic=True)(2**19) == pytest.approx(50)
    assert Scale(5, 5, 0, 100)(5) == 50


def test_full_run_has_every_chart_and_a_deploy_has_none() -> None:
    assert tuple(drawn(sample.full())) == NAMES
    assert pictures(sample.failed(), ENGLISH) == ()


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_every_point_is_drawn(language: str) -> None:
    document = sample.full()
    assert document.serving is not None
    assert document.bench is not None
    found = drawn(document, language)
    rows = len(document.serving.rows)
    for name in ("ttft-mean", "ttft-p99", "hit-rate"):
        assert len(marks(found[name])) == rows
    assert len(marks(found["hit-per-turn"])) == 3 * document.serving.workload.rounds
    shares = sum(share > 0 for row in document.serving.rows for share in row.tiers.values())
    assert len(marks(found["tiers"])) == shares
    for suite in ("fabric", "storage", "store"):
        points = sum(len(part.points) for part in document.bench.lines if part.suite == suite)
        assert len(marks(found[f"{suite}-bandwidth"])) == points


def test_values_are_drawn_to_scale() -> None:
    found = drawn(sample.full())["ttft-mean"]
    squares = [item for item in marks(found) if item.tag.endswith("rect")]  # the local path
    y = [float(item.get("y") or 0) + float(item.get("height") or 0) / 2 for item in squares]
    zero = 272.0  # the axis: top 52, height 220
    assert (zero - y[3]) / (zero - y[0]) == pytest.approx(11.13 / 4.66, rel=0.01)


def test_knee_lies_between_the_user_counts_it_is_predicted_for_and_is_called_predicted() -> None:
    for name in ("ttft-mean", "ttft-p99", "hit-rate"):
        picture = drawn(sample.full())[name]
        told = words(picture)
        assert "predicted knee, Local SSD: 44.5" in told
        assert "Predicted knee of G3.5: 8,007 users, to the right of this chart." in told
        rules = [item for item in ET.fromstring(picture.svg).iter() if item.get("stroke-dasharray") == "2 3"]
        centres = sorted({float(item.get("x") or 0) for item in marks(picture) if item.tag.endswith("rect")})
        assert centres[2] < float(rules[0].get("x1") or 0) < centres[3] + 9


def test_ceiling_is_drawn_and_called_computed() -> None:
    assert "workload's ceiling (computed): 98.46 %" in words(drawn(sample.full())["hit-rate"])


def test_axis_that_does_not_start_at_zero_says_so() -> None:
    assert "The axis starts at 90 %." in words(drawn(sample.full())["hit-rate"])
    assert "The axis starts" not in words(drawn(sample.full())["hit-per-turn"])


def test_p99_of_few_samples_is_hollow_and_explained() -> None:
    picture = drawn(sample.full())["ttft-p99"]
    assert sum(item.get("fill") == svg.PAPER for item in marks(picture)) == 4  # 8 users, and 60 samples at 16
    assert "Hollow points: fewer than 100 samples." in words(picture)
    assert "Hollow" not in words(drawn(sample.full())["ttft-mean"])


def test_spread_of_trials_is_drawn_as_whiskers() -> None:
    picture = drawn(sample.full())["ttft-mean"]
    assert "Whiskers: lowest and highest mean of a single trial." in words(picture)
    group = next(item for item in ET.fromstring(picture.svg).iter() if item.get("class") == "series")
    assert sum(item.tag.endswith("line") for item in group) > 3


def test_emulated_and_scaled_figures_say_so_on_every_chart() -> None:
    for name, picture in drawn(sample.full(emulated=True)).items():
        wanted = "[emulated]" if name.endswith("bandwidth") else "[emulated, scaled]"
        assert wanted in words(picture), name
    assert all("[emulated" not in words(picture) for picture in drawn(sample.full()).values())


def test_lines_that_coincide_can_still_be_told_apart() -> None:
    root = ET.fromstring(drawn(sample.full())["ttft-mean"].svg)
    polylines = [item for item in root.iter() if item.tag.endswith("polyline")]
    assert len({item.get("stroke") for item in polylines}) == 3
    assert (
        len({item.get("stroke-width") for item in polylines} | {item.get("stroke-dasharray") for item in polylines}) > 2
    )
    tags = {re.sub("{.*}", "", item.tag) for item in root.iter() if item.get("class") == "mark"}
    assert tags == {"rect", "circle", "polygon"}


@given(st.lists(st.floats(0, 3), max_size=2), st.lists(st.floats(1, 2), max_size=3))
def test_labels_of_rules_never_lie_on_each_other(across: list[float], up: list[float]) -> None:
    horizontal = tuple(Rule(value, "rule", svg.INK, vertical=False) for value in across[:1])
    vertical = tuple(Rule(value, "rule", svg.INK, vertical=True) for value in up)
    root = ET.fromstring(lines.draw(chart(rules=horizontal + vertical)))
    places = sorted(float(t.get("y") or 0) for t in root.iter() if t.text == "rule" and not t.get("aria-hidden"))
    assert len(places) == len(horizontal + vertical)
    assert all(after - before >= 13 for before, after in pairwise(places))


def test_words_from_outside_are_escaped() -> None:
    hostile = "<script>&\"'"
    text = lines.draw(
        chart(title=hostile, subtitle=hostile, lines=(Line(hostile, hostile, (Point(1, 1, hostile),), svg.BLUE),),
              rules=(Rule(1.5, hostile, svg.BLUE, vertical=True),), notes=(hostile,))
    )  # fmt: skip
    assert "<script" not in text
    assert hostile in "".join(ET.fromstring(text).itertext())


@pytest.mark.parametrize(
    "changes",
    [
        {"lines": (Line("one", "0", (Point(8, 0),), svg.BLUE),), "x_ticks": (Tick(8, "8"),), "y_high": 0.0},
        {"lines": ()},
        {"x_ticks": tuple(Tick(float(n), f"{n} users") for n in range(1, 200))},
    ],
)
def test_odd_data_still_make_a_picture(changes: dict[str, Any]) -> None:
    text = lines.draw(chart(**changes))
    ET.fromstring(text)
    assert "nan" not in text
    assert "inf" not in text


def test_tick_labels_are_thinned_before_they_touch() -> None:
    root = ET.fromstring(lines.draw(chart(x_ticks=tuple(Tick(float(n), f"{n} users") for n in range(1, 200)))))
    labels = [item for item in root.iter() if (item.text or "").endswith(" users")]
    places = [float(item.get("x") or 0) for item in labels]
    assert 2 < len(places) < 30
    assert all(after - before > 30 for before, after in pairwise(places))


def test_compared_runs_share_their_axes() -> None:
    found = pairs(sample.full(), sample.slower(), ENGLISH)
    assert [pair[0].identifier.removeprefix("before-") for pair in found] == [name for name in NAMES if name != "tiers"]

    def scale(picture: Picture) -> list[str]:
        return [t.text or "" for t in ET.fromstring(picture.svg).iter() if t.get("text-anchor") == "end"]

    assert all(scale(before) == scale(after) for before, after in found)


def test_png_is_drawn_at_twice_the_size_in_both_languages() -> None:
    for language in ("en", "zh-CN"):
        picture = drawn(sample.full(), language)["ttft-mean"]
        data = png.render(picture.svg)
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        box = (ET.fromstring(picture.svg).get("viewBox") or "").split()
        assert (width, height) == (round(2 * float(box[2])), round(2 * float(box[3])))


def test_every_character_of_a_chart_is_in_the_font_that_png_is_drawn_with() -> None:
    package = resources.files("g35ctl.report")
    known = set(package.joinpath("fonts/characters.txt").read_text(encoding="utf-8"))
    for language in ("en", "zh-CN"):
        told = "".join(
            "".join(ET.fromstring(picture.svg).itertext()) for picture in drawn(sample.full(), language).values()
        )
        assert not set(told) - known
        texts = tomllib.loads(package.joinpath(f"catalogues/{language}.toml").read_text(encoding="utf-8"))
        wanted = str([texts[key] for key in ("paths", "tiers", "serving", "bench", "emulated", "scaled", "predicted")])
        assert not set(wanted) - known - {"\\"}, "run tools/chart_fonts.py"
