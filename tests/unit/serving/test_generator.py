"""The built-in generator against an engine on loopback: who asks what and when, and what is recorded."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mock_engine import BLOCK, MockEngine, serving

from g35ctl.errors import G35Error
from g35ctl.validate.serving import load, records
from g35ctl.validate.serving.generator import Generator, Job, Replayed, main
from g35ctl.validate.serving.prompts import Conversation, text
from g35ctl.validate.serving.record import Record


def job(port: int, **changes: object) -> Job:
    base = Job(
        "127.0.0.1", port, "tiny", "", users=3, rate=1000.0, rounds=4, context=40, new=8, output_tokens=2, seed="s"
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def run(wanted: Job) -> list[Record]:
    sink = io.StringIO()
    asyncio.run(Generator(wanted, sink).run())
    return [Record(**json.loads(line)) for line in sink.getvalue().splitlines()]


def test_every_user_asks_every_turn_and_returning_ones_find_their_context() -> None:
    engine = MockEngine()
    with serving(engine) as port:
        found = run(job(port))
    assert {(item.user, item.turn) for item in found} == {(user, turn) for user in range(3) for turn in range(4)}
    assert all(item.answered and item.output_tokens == 2 for item in found)
    for item in found:
        assert item.prompt_tokens == 40 + 8 * item.turn
        known = (40 + 8 * (item.turn - 1)) // BLOCK * BLOCK if item.turn else 0
        assert item.cached_tokens == known
    assert sum(item.cached_tokens for item in found) == engine.hits
    turns = records.turns(found)
    assert [turn.requests for turn in turns] == [3, 3, 3, 3]
    assert turns[0].hit_rate == 0


def test_chat_times_the_first_token_and_not_the_first_event() -> None:
    with serving(MockEngine()) as port:
        found = run(job(port, chat=True, users=1, rounds=1))
    assert found[0].answered and found[0].prompt_tokens == 40


def test_shared_prefix_is_found_by_everybody_but_the_first() -> None:
    engine = MockEngine()
    with serving(engine) as port:
        run(job(port, users=1, rounds=1, shared=20))
        found = run(job(port, users=2, rounds=1, shared=20))
    assert sorted(item.cached_tokens for item in found) == [20, 36]


@pytest.mark.parametrize(
    ("wrong", "told"), [("500", "HTTP 500"), ("cut", "the answer was cut off"), ("hang", "timeout")]
)
def test_errors_are_recorded_with_their_kind(wrong: str, told: str) -> None:
    with serving(MockEngine(wrong)) as port:
        found = run(job(port, users=1, rounds=2, timeout=0.2 if wrong == "hang" else 30.0))
    assert [(item.answered, item.error) for item in found] == [(False, told)] * 2
    assert records.errors(found)[0].count == 2
    assert records.turns(found) == ()


def test_nobody_listens() -> None:
    with serving(MockEngine()) as port:
        pass
    found = run(job(port, users=2, rounds=1))
    assert {item.error for item in found} == {"connection refused"}


def test_users_begin_one_after_the_other_and_wait_between_turns() -> None:
    with serving(MockEngine()) as port:
        found = run(job(port, users=2, rounds=2, rate=20.0))
    starts = {(item.user, item.turn): item.start for item in found}
    assert starts[1, 0] - starts[0, 0] >= 0.045
    assert starts[0, 1] - starts[0, 0] >= 0.095


def test_a_trace_is_replayed_with_its_repetitions() -> None:
    engine = MockEngine()
    pieces = (("block-1", 16), ("block-2", 16))
    with serving(engine) as port:
        first = Replayed(0.0, pieces, 1)
        found = run(job(port, trace=(first, Replayed(0.05, (*pieces, ("block-3", 4)), 3))))
    assert [item.cached_tokens for item in sorted(found, key=lambda item: item.start)] == [0, 32]


def test_as_a_process_of_its_own(tmp_path: Path) -> None:
    engine = MockEngine()
    with serving(engine) as port:
        wanted = job(port, records=str(tmp_path / "p.jsonl"))
        loaded = load.builtin(wanted, tmp_path, "p", lambda: False)
    assert loaded.problem == ""
    assert len(loaded.records) == 12
    assert loaded.evidence == "p.jsonl"


def test_stopped_by_the_user_keeps_what_was_recorded(tmp_path: Path) -> None:
    with serving(MockEngine()) as port:
        wanted = job(port, records=str(tmp_path / "p.jsonl"), users=2, rate=0.01)
        path = tmp_path / "p.jsonl"
        loaded = load.builtin(wanted, tmp_path, "p", lambda: path.exists() and path.stat().st_size > 0)
    assert loaded.problem == "stopped by the user"
    assert len(loaded.records) == 1


def test_a_killed_generator_says_so(tmp_path: Path) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    told = load.run([sys.executable, "-S", "-c", script], {}, tmp_path / "log", lambda: False)
    assert told == "the generator was killed by SIGKILL"
    told = load.run([sys.executable, "-S", "-c", "raise SystemExit('no')"], {}, tmp_path / "log", lambda: False)
    assert told == "the generator ended with 1: no"
    assert "cannot be started" in load.run(["/nowhere/aiperf"], {}, tmp_path / "log", lambda: False)


def test_a_job_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.json").write_text("{}")
    assert main(str(tmp_path / "job.json")) == 2
    assert "job.json" in capsys.readouterr().err


def test_jobs_survive_their_file(tmp_path: Path) -> None:
    wanted = job(1, trace=(Replayed(0.5, (("a", 3),), 2),))
    wanted.write(tmp_path / "job.json")
    assert Job.read(tmp_path / "job.json") == wanted


def test_the_last_line_of_a_killed_generator_is_left_out(tmp_path: Path) -> None:
    line = Record(0, 0, 0.0, 1.0, 0.5, 10, 0, 1).line()
    path = tmp_path / "records.jsonl"
    path.write_text(f"{line}\n{line[:20]}")
    assert len(records.read(path)) == 1
    path.write_text(f"{line[:20]}\n{line}\n")
    with pytest.raises(G35Error, match="cannot be read"):
        records.read(path)
    with pytest.raises(G35Error):
        records.read(tmp_path / "absent")


@settings(max_examples=40)
@given(st.text(min_size=1, max_size=8), st.integers(0, 200), st.integers(0, 50), st.integers(1, 30), st.integers(1, 5))
def test_each_prompt_begins_with_the_one_before(seed: str, context: int, shared: int, new: int, turns: int) -> None:
    talk = Conversation(seed, 1, context, new, min(shared, context))
    before = talk.prompt
    assert len(before) == context
    for _ in range(turns):
        talk.proceed()
        assert talk.prompt.startswith(before)
        assert len(talk.prompt) == len(before) + new
        before = talk.prompt


def test_prompts_are_their_seeds() -> None:
    assert text("a", 64) == text("a", 64) != text("b", 64)
    assert text("a", 64).startswith(text("a", 10))
