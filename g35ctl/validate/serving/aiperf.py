"""aiperf as load generator: its command line, and its records read into ours. Facts: aiperf 0.13.0.

Its exit code 0 does not promise that the asked number of requests was made: records are counted against what was asked.
It reads a tokenizer from a directory only in the layout of a model hub's cache, which :func:`tokenizer_home` makes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g35ctl.errors import G35Error
from g35ctl.validate.serving.record import Record

TOKENIZER = "local/tokenizer"
RECORDS = "profile_export.jsonl"
SUMMARY = "profile_export_aiperf.json"
_SNAPSHOT = "0" * 40


@dataclass(frozen=True)
class Profile:
    """One run of aiperf; lengths in tokens, ``rate`` in requests per second over all users."""

    url: str
    model: str
    users: int
    rate: float
    context: int
    shared: int
    new: int
    output_tokens: int
    rounds: int
    seed: int
    folder: Path


def find() -> str | None:
    """The program, or None where it is not installed."""
    return shutil.which("aiperf")


def command(program: str, profile: Profile) -> list[str]:
    """The command line: every user asks ``rounds`` times, and no user is replaced by another."""
    return [
        program, "profile",
        "--model", profile.model,
        "--tokenizer", TOKENIZER,
        "--url", profile.url,
        "--endpoint-type", "chat",
        "--streaming",
        "--user-centric-rate", f"{profile.rate:g}",
        "--num-users", str(profile.users),
        "--num-sessions", str(profile.users),
        "--session-turns-mean", str(profile.rounds),
        "--session-turns-stddev", "0",
        "--shared-system-prompt-length", str(profile.shared),
        "--user-context-prompt-length", str(max(1, profile.context - profile.shared - profile.new)),
        "--isl", str(profile.new),
        "--isl-stddev", "0",
        "--osl", str(profile.output_tokens),
        "--osl-stddev", "0",
        "--extra-inputs", "ignore_eos:true",
        "--extra-inputs", "temperature:0",
        "--use-server-token-count",
        "--random-seed", str(profile.seed),
        "--request-count", str(profile.users * profile.rounds),
        "--export-level", "records",
        "--no-gpu-telemetry",
        "--ui", "none",
        "--output-artifact-dir", str(profile.folder),
    ]  # fmt: skip


def tokenizer_home(home: Path, tokenizer: Path) -> Mapping[str, str]:
    """Lay the tokenizer out below ``home`` and return the variables that make aiperf find it without a network.

    Raises G35Error when the directory holds no tokenizer.
    """
    files = [path for path in sorted(tokenizer.glob("tokenizer*")) if path.is_file()] if tokenizer.is_dir() else []
    if not any(path.name == "tokenizer.json" for path in files):
        raise G35Error(
            "aiperf has no tokenizer",
            why=f"{tokenizer} holds no tokenizer.json",
            next_command="set g35_validate.serving.tokenizer to the model's directory, or generator to builtin",
        )
    model = home / "hub" / f"models--{TOKENIZER.replace('/', '--')}"
    snapshot = model / "snapshots" / _SNAPSHOT
    snapshot.mkdir(parents=True, exist_ok=True)
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / "main").write_text(_SNAPSHOT)
    for path in [*files, *tokenizer.glob("config.json")]:
        shutil.copyfile(path, snapshot / path.name)
    return {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}


def read(folder: Path) -> tuple[Record, ...]:
    """The records of a run. Raises G35Error when they are absent or damaged."""
    path = folder / RECORDS
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        kept = [line for line in lines if line["metadata"].get("benchmark_phase", "profiling") == "profiling"]
        begun = min((int(line["metadata"]["request_start_ns"]) for line in kept), default=0)
        users = {line["metadata"]["conversation_id"]: 0 for line in kept}
        numbers = {name: number for number, name in enumerate(users)}
        return tuple(_record(line, begun, numbers) for line in kept)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise G35Error(
            "aiperf's records cannot be read",
            why=f"{path}: {type(error).__name__}: {error}",
            next_command=f"see {folder / 'logs'}",
        ) from error


def version(folder: Path) -> str:
    """The release that a run's summary names; empty when it does not."""
    try:
        data = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        return str(data.get("run_info", {}).get("aiperf_version") or data.get("aiperf_version") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def _record(line: Mapping[str, Any], begun: int, numbers: Mapping[str, int]) -> Record:
    metadata, metrics = line["metadata"], line.get("metrics") or {}
    error = line.get("error")
    first = _seconds(metrics, "time_to_first_token")
    return Record(
        user=numbers[metadata["conversation_id"]],
        turn=int(metadata["turn_index"]),
        start=(int(metadata["request_start_ns"]) - begun) / 1e9,
        seconds=_seconds(metrics, "request_latency") or 0.0,
        ttft=first,
        prompt_tokens=_count(metrics, "usage_prompt_tokens"),
        cached_tokens=_count(metrics, "usage_prompt_cache_read_tokens"),
        output_tokens=_count(metrics, "usage_completion_tokens"),
        error=_told(error) if error else "",
    )


def _told(error: Any) -> str:
    if isinstance(error, Mapping):
        return str(error.get("type") or error.get("code") or error.get("message") or "error")[:160]
    return str(error)[:160]


_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}


def _seconds(metrics: Mapping[str, Any], name: str) -> float | None:
    if name not in metrics:
        return None
    return float(metrics[name]["value"]) * _UNITS[metrics[name].get("unit", "ms")]


def _count(metrics: Mapping[str, Any], name: str) -> int:
    return int(metrics[name]["value"]) if name in metrics else 0
