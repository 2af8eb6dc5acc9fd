"""The plan on a terminal: styled, unless NO_COLOR asks for none of that."""

from __future__ import annotations

import io

import pytest
import tier_sample

from g35ctl.report.plan_text import sections
from g35ctl.report.sections import write


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, no_color: str) -> str:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    stream = Terminal()
    write(sections(tier_sample.plan(), ()), stream)
    return stream.getvalue()


def test_no_color_means_no_escape_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    told = shown(monkeypatch, "1")
    assert "\x1b" not in told
    assert "gpu1" in told


def test_a_terminal_gets_bold_heads_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" in shown(monkeypatch, "")
