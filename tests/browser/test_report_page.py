"""The report as a browser shows and prints it: silent, alone, drawn to the last mark, readable on paper."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, open_page

from g35ctl.report.strings import catalogue

LANGUAGES = ("en", "zh-CN")
PAGES = [
    f"{name}.{language}" for name in ("full", "emulated", "failed", "minimal", "compare") for language in LANGUAGES
]
CHARTS = {"full": 8, "emulated": 8, "compare": 14, "failed": 0, "minimal": 0}

#: Of every chart: its marks, those not visible or outside of the picture, and words that leave it or touch each other.
LOOK = """
Array.from(document.querySelectorAll('svg.chart')).map(svg => {
  const frame = svg.getBoundingClientRect();
  const inside = r => r.left >= frame.left - 1 && r.right <= frame.right + 1
    && r.top >= frame.top - 1 && r.bottom <= frame.bottom + 1;
  const marks = Array.from(svg.querySelectorAll('.mark')).map(m => m.getBoundingClientRect());
  const words = Array.from(svg.querySelectorAll('text:not([aria-hidden])'))
    .map(t => ({text: t.textContent, box: t.getBoundingClientRect()}));
  const touching = [];
  words.forEach((a, i) => words.slice(i + 1).forEach(b => {
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (wide > 1 && high > 4) touching.push(a.text + ' | ' + b.text);
  }));
  return {id: svg.id, marks: marks.length,
    hidden: marks.filter(r => r.width <= 0 || r.height <= 0 || !inside(r)).length,
    outside: words.filter(w => w.box.width > 0 && !inside(w.box)).map(w => w.text), touching};
})
"""


def address(path: Path) -> str:
    return path.as_uri()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_silent_alone_drawn_and_fits(name: str, browser: Browser, reports: dict[str, Path]) -> None:
    with open_page(browser, address(reports[name])) as page:
        assert page.complaints() == []
        assert page.requests() == [address(reports[name])]
        charts: list[dict[str, Any]] = page.evaluate(LOOK)
        assert len(charts) == CHARTS[name.partition(".")[0]]
        for chart in charts:
            assert chart["marks"] > 0, chart
            assert chart["hidden"] == 0, chart
            assert chart["outside"] == [], chart
            assert chart["touching"] == [], chart
        assert page.evaluate("document.documentElement.lang") == name.partition(".")[2]
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_page_fits_a_narrow_screen(browser: Browser, reports: dict[str, Path]) -> None:
    with open_page(browser, address(reports["full.en"]), width=420) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_watch_would_see_a_request_and_a_complaint(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(
        "<img src='http://127.0.0.1:9/pixel.png'><script>console.error('loud')</script>", encoding="utf-8"
    )
    with open_page(browser, address(tmp_path / "bad.html")) as page:
        assert "http://127.0.0.1:9/pixel.png" in page.requests()
        assert any("loud" in text for text in page.complaints())


def printed(page_bytes: bytes, folder: Path) -> tuple[str, dict[str, str]]:
    """The text of a PDF as it is laid out, and what pdfinfo says about it."""
    path = folder / "report.pdf"
    path.write_bytes(page_bytes)
    text = subprocess.run(["pdftotext", "-layout", str(path), "-"], check=True, capture_output=True, text=True).stdout
    facts = subprocess.run(["pdfinfo", str(path)], check=True, capture_output=True, text=True).stdout
    return text, {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in facts.splitlines())}


@pytest.mark.parametrize("language", LANGUAGES)
def test_printed_report_is_readable_on_a4(
    language: str, browser: Browser, reports: dict[str, Path], tmp_path: Path
) -> None:
    strings = catalogue(language)
    with open_page(browser, address(reports[f"full.{language}"])) as page:
        text, facts = printed(page.pdf(), tmp_path)
    assert "A4" in facts["Page size"]
    pages = int(facts["Pages"])
    assert 4 <= pages <= 12
    flat = "".join(text.split())
    assert all(f"{number}/{pages}" in flat for number in range(1, pages + 1))
    for wanted in (
        strings.verdicts["PASS"], strings.serving.heading, strings.serving.chart_mean, strings.serving.chart_hit,
        strings.bench.charts["storage"], strings.topology_heading, strings.commands_heading, strings.sign_signature,
        "53.76", "98.44", "192.0.2.21", "--user-centric-rate 8",
    ):  # fmt: skip
        assert "".join(wanted.split()) in flat, wanted
    # The table of the three paths stays one line a row on paper.
    assert any(line.split()[:4] == ["48", "11.13", "5.11", "5.04"] for line in text.splitlines())


def test_printed_failures_carry_their_remedies(browser: Browser, reports: dict[str, Path], tmp_path: Path) -> None:
    with open_page(browser, address(reports["failed.en"])) as page:
        text, _ = printed(page.pdf(), tmp_path)
    first = text.split("\f")[0]
    assert "FAIL" in first
    assert "check the cable of eth2 on gpu2" in " ".join(first.split())
