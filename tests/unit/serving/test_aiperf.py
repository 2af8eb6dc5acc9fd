"""aiperf's command line and records: what is asked for, turns and units read right, damage refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from g35ctl.errors import G35Error
from g35ctl.validate.serving import aiperf
from g35ctl.validate.serving.aiperf import Profile


def line(turn: int, start: int, *, conversation: str = "c1", error: object = None, ttft: float = 120.0) -> str:
    metrics = {
        "time_to_first_token": {"value": ttft, "unit": "ms"},
        "request_latency": {"value": 200.0, "unit": "ms"},
        "usage_prompt_tokens": {"value": 1000, "unit": "tokens"},
        "usage_prompt_cache_read_tokens": {"value": 900 if turn else 0, "unit": "tokens"},
        "usage_completion_tokens": {"value": 4, "unit": "tokens"},
    }
    metadata = {
        "turn_index": turn,
        "conversation_id": conversation,
        "request_start_ns": start,
        "benchmark_phase": "profiling",
    }
    return json.dumps({"metadata": metadata, "metrics": {} if error else metrics, "error": error})


def test_the_command_line_asks_for_every_turn_of_every_user(tmp_path: Path) -> None:
    profile = Profile("http://127.0.0.1:1", "tiny", 8, 2.0, 4096, 512, 64, 4, 4, 7, tmp_path)
    argv = aiperf.command("/bin/aiperf", profile)
    value = {name: argv[place + 1] for place, name in enumerate(argv) if name.startswith("--")}
    assert value["--request-count"] == "32"
    assert value["--num-users"] == value["--num-sessions"] == "8"
    assert int(value["--user-context-prompt-length"]) + int(value["--shared-system-prompt-length"]) + 64 == 4096
    assert "--use-server-token-count" in argv


def test_records(tmp_path: Path) -> None:
    lines = [
        line(0, 10**9),
        line(1, 3 * 10**9),
        line(0, 2 * 10**9, conversation="c2"),
        line(1, 4 * 10**9, error={"type": "X"}),
    ]
    (tmp_path / aiperf.RECORDS).write_text("\n".join(lines) + "\n")
    found = aiperf.read(tmp_path)
    assert [(item.user, item.turn, item.start) for item in found] == [
        (0, 0, 0.0),
        (0, 1, 2.0),
        (1, 0, 1.0),
        (0, 1, 3.0),
    ]
    assert [item.ttft for item in found] == [0.12, 0.12, 0.12, None]
    assert [item.cached_tokens for item in found] == [0, 900, 0, 0]
    assert found[3].error == "X"


@pytest.mark.parametrize("text", ["{", '{"metadata": {}}', "[]"])
def test_cut_off_records_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / aiperf.RECORDS).write_text(line(0, 1) + "\n" + text)
    with pytest.raises(G35Error, match="aiperf's records"):
        aiperf.read(tmp_path)


def test_no_records(tmp_path: Path) -> None:
    with pytest.raises(G35Error):
        aiperf.read(tmp_path)
    assert aiperf.version(tmp_path) == ""


def test_the_tokenizer_is_laid_out_as_a_hub_keeps_it(tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.mkdir()
    with pytest.raises(G35Error, match="no tokenizer"):
        aiperf.tokenizer_home(tmp_path / "home", source)
    (source / "tokenizer.json").write_text("{}")
    variables = aiperf.tokenizer_home(tmp_path / "home", source)
    assert variables["HF_HUB_OFFLINE"] == "1"
    model = tmp_path / "home/hub/models--local--tokenizer"
    revision = (model / "refs/main").read_text()
    assert (model / "snapshots" / revision / "tokenizer.json").exists()
