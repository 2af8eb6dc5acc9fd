"""One Chromium for all tests, and the sample reports written once.

What the tests need on the machine is installed by ``make browser``; nothing here is skipped without it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import report_sample
from chromium import Browser, launch

from g35ctl.report import compare_page, page
from g35ctl.report.compare import compare
from g35ctl.report.strings import catalogue, languages

TOOLS = ("chromium", "pdftotext", "pdfinfo")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    assert not missing, f"not installed: {', '.join(missing)}; run: make browser (or tools/browser.sh)"
    with launch(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sample reports as files: ``full.en``, ``failed.zh-CN`` and so on, and the comparison."""
    folder = tmp_path_factory.mktemp("reports")
    documents = {
        "full": report_sample.full(),
        "emulated": report_sample.full(emulated=True),
        "failed": report_sample.failed(),
        "minimal": report_sample.minimal(),
    }
    before, after = report_sample.full(), report_sample.slower()
    comparison = compare(before, after)
    texts = {}
    for language in languages():
        strings = catalogue(language)
        texts |= {f"{name}.{language}": page.render(document, strings) for name, document in documents.items()}
        texts[f"compare.{language}"] = compare_page.render(before, after, comparison, strings)
    files = {name: folder / f"{name}.html" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text, encoding="utf-8")
    return files
