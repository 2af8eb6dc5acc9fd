"""Opening and closing a run: lock, folder, plan on record, and how it stops."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import tier_sample

from g35ctl.engine import folder, planning
from g35ctl.engine.events import TaskEvent
from g35ctl.engine.opening import open_session
from g35ctl.engine.progress import PlainLines
from g35ctl.engine.session import Interrupt
from g35ctl.errors import G35Error
from g35ctl.exits import Exit


class Listener(PlainLines):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def end(self) -> None:
        self.said.append("end")


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("G35_STATE", raising=False)
    monkeypatch.setattr(planning, "make_plan", lambda path: (tier_sample.site(), tier_sample.plan()))
    return str(tmp_path)


def test_the_plan_is_on_record_and_the_lock_is_held_while_it_runs(inventory: str) -> None:
    with open_session(inventory, "deploy", Listener()) as session:
        recorded = json.loads(session.folder.plan.read_text())
        assert recorded["site"] == tier_sample.plan().site
        assert session.folder.plan.stat().st_mode & 0o777 == 0o600
        with pytest.raises(G35Error) as caught, open_session(inventory, "validate", Listener()):
            pass
        assert caught.value.exit_code is Exit.LOCKED
    with open_session(inventory, "validate", Listener()):
        pass


def test_an_error_frees_the_lock_and_is_on_record(inventory: str) -> None:
    with pytest.raises(RuntimeError), open_session(inventory, "deploy", Listener()) as session:
        raise RuntimeError("boom")
    summary = session.folder.summary()
    assert summary["status"] == "error"
    assert "boom" in summary["why"]
    with open_session(inventory, "deploy", Listener()):
        pass


def test_a_run_that_was_cut_off_is_mentioned_once(inventory: str) -> None:
    cut = folder.create(folder.state_directory(inventory), "deploy")
    display = Listener()
    with open_session(inventory, "deploy", display) as session:
        session.folder.finish({"status": "finished"})
    assert any(cut.identifier in text for text in display.said)
    again = Listener()
    with open_session(inventory, "deploy", again):
        pass
    assert not any(cut.identifier in text for text in again.said)


def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    display = Listener()
    before = signal.getsignal(signal.SIGINT)
    with Interrupt(display) as interrupt:
        assert not interrupt.requested()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested()
        assert interrupt.requested()
        assert len(display.said) == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is before


def test_events_are_recorded_as_they_come(inventory: str) -> None:
    with open_session(inventory, "deploy", Listener()) as session:
        session._on_event(TaskEvent("connect", "gpu1", "T", "g35_connect", "ok", True, 1, state={"long": 1}))
        (line,) = session.folder.events.read_text().splitlines()
    record = json.loads(line)
    assert (record["host"], record["changed"], record["executions"]) == ("gpu1", True, 1)
    assert "long" not in line
