"""Hit rate against capacity on a trace: kvcache-simulator is driven, and believed only when it read everything."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from g35ctl.cli.main import app
from g35ctl.content import content_root
from g35ctl.engine import hitrate
from g35ctl.engine.hitrate import HitCurve, hit_curve
from g35ctl.errors import G35Error
from g35ctl.report.workload_text import curve_sections
from g35ctl.site.model_shape import ModelShape

TRACE = Path(__file__).resolve().parents[2] / "fixtures" / "traces" / "mooncake-fast25-conversation-50.jsonl"
SHAPE = ModelShape.fixed(70_272)


def found_by_an_unlimited_cache(trace: Path, block: int = 512) -> float:
    """Prefix hits of the second half of a trace, counted by hand."""
    requests = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    seen: set[tuple[int, ...]] = set()
    hits = total = 0
    for place, request in enumerate(requests):
        ids, length = request["hash_ids"], request["input_length"]
        for number in range(1, len(ids) + 1):
            tokens = min(block, length - (number - 1) * block)
            prefix = tuple(ids[:number])
            if place >= len(requests) // 2:
                total += tokens
                hits += tokens if prefix in seen else 0
        seen |= {tuple(ids[:number]) for number in range(1, len(ids) + 1)}
    return hits / total


def curve(trace: Path = TRACE, **sizes: int) -> HitCurve:
    return hit_curve(trace, SHAPE, "bf16", sizes or {"small": 2 * 10**9, "pool": 10**13})


def test_the_real_simulator_agrees_with_counting_by_hand() -> None:
    found = curve()
    assert found.requests == 50
    assert found.mean_tokens == pytest.approx(601_420 / 50)
    assert found.ceiling == pytest.approx(found_by_an_unlimited_cache(TRACE), abs=1e-9)
    assert [(point.name, point.full) for point in found.points] == [("small", True), ("pool", False)]
    told = " ".join(" ".join(row) for section in curve_sections(found) for row in section.rows)
    assert "holds the whole trace" in told
    assert "50 requests" in told


def test_a_cache_that_is_too_small_for_users_in_turn_finds_nothing(tmp_path: Path) -> None:
    """Ten contexts of ten blocks in turn: with room for half of them the oldest is always the next one wanted."""
    trace = tmp_path / "turns.jsonl"
    ids = [[user * 10 + block for block in range(10)] for user in range(10)] * 4
    lines = [json.dumps({"timestamp": n, "input_length": 5120, "hash_ids": found}) for n, found in enumerate(ids)]
    trace.write_text("\n".join(lines), encoding="utf-8")
    block = 512 * 70_272
    found = curve(trace, none=0, half=50 * block, pool=200 * block)
    half, pool = found.points
    assert found.ceiling == 1
    assert half.lru == 0
    assert 0.3 < half.optimal < 1
    assert (pool.lru, pool.full) == (1, False)


def test_what_is_missing_is_told_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(G35Error) as caught:
        curve()
    assert "g35ctl[planning]" in caught.value.next_command


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("", "no requests"),
        ('{"input_length": 5}', "line 1"),
        ('{"timestamp": 0, "input_length": 5, "hash_ids": [0]}\n{"timestamp": 1, "input_le', "line 2"),
        (
            '{"timestamp": 9, "input_length": 5,"hash_ids": [0]}\n{"timestamp": 1, "input_length": 5, "hash_ids": [1]}',
            "earlier",
        ),
        ('{"input_length": "many", "hash_ids": [0]}', "line 1"),
        ('{"input_length": 5, "hash_ids": []}', "line 1"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path, lines: str, told: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(G35Error) as caught:
        curve(path)
    assert told in caught.value.why


def answering(monkeypatch: pytest.MonkeyPatch, data: Any, code: int = 0) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("--output") + 1]).write_text(json.dumps(data), encoding="utf-8")
        return subprocess.CompletedProcess(command, code, "", "Traceback: boom")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(hitrate.subprocess, "run", run)


@pytest.mark.parametrize(
    ("data", "code", "told"),
    [
        ({}, 1, "boom"),
        ({"hitRateCeiling": 0.5}, 0, "another form"),
        ({"hitRateCeiling": 0.5, "metadata": {"requestCount": 49}, "points": []}, 0, "read 49 of 50"),
        ([], 0, "another form"),
    ],
)
def test_an_answer_that_is_not_whole_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, data: Any, code: int, told: str
) -> None:
    answering(monkeypatch, data, code)
    with pytest.raises(G35Error) as caught:
        curve()
    assert told in caught.value.why


def test_the_verb_shows_the_curve_of_a_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("G35_STATE", str(tmp_path))
    inventory = content_root() / "inventories" / "published"
    arguments = ["-i", str(inventory), "plan", "--trace", str(TRACE)]
    monkeypatch.setattr("sys.argv", ["g35ctl", *arguments])
    answering(monkeypatch, {"hitRateCeiling": 0.5, "metadata": {"requestCount": 50}, "points": []})
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "shared flash" in done.stdout
    assert "memory of one host" in done.stdout
    document = json.loads(CliRunner().invoke(app, [*arguments, "-o", "json"]).stdout)
    assert document["predicted"] is True
    assert {point["lru"] for point in document["points"]} == {0.5}
    two_hosts = ["-i", str(content_root() / "inventories" / "two-hosts"), "plan", "--trace", str(TRACE)]
    assert "states no workload" in str(CliRunner().invoke(app, two_hosts).exception)
