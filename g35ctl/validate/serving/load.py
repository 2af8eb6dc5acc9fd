"""Runs a load generator as a process of its own, to its end or until the user asks to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import g35ctl
from g35ctl.errors import G35Error
from g35ctl.validate.serving import aiperf, records
from g35ctl.validate.serving.generator import Job
from g35ctl.validate.serving.record import Record


@dataclass(frozen=True)
class Loaded:
    """What a generator brought. ``problem`` says why it is not all; empty when it is."""

    records: tuple[Record, ...]
    evidence: str
    problem: str = ""
    version: str = ""


def builtin(job: Job, folder: Path, name: str, stopped: Callable[[], bool]) -> Loaded:
    """Run the built-in generator; its job and records stay in ``folder``."""
    path = folder / f"{name}.job.json"
    job.write(path)
    environment = {**os.environ, "PYTHONPATH": str(Path(g35ctl.__file__).resolve().parent.parent)}
    argv = [sys.executable, "-m", "g35ctl.validate.serving.generator", str(path)]
    problem = run(argv, environment, folder / f"{name}.log", stopped)
    try:
        found = records.read(Path(job.records))
    except G35Error as error:
        return Loaded((), Path(job.records).name, problem or f"{error.what}: {error.why}")
    return Loaded(found, Path(job.records).name, problem)


def profile(
    program: str, wanted: aiperf.Profile, tokenizer: Path, folder: Path, name: str, stopped: Callable[[], bool]
) -> Loaded:
    """Run aiperf. Raises G35Error when it has no tokenizer."""
    environment = {**os.environ, **aiperf.tokenizer_home(folder / "tokenizer", tokenizer)}
    problem = run(aiperf.command(program, wanted), environment, folder / f"{name}.log", stopped)
    try:
        found = aiperf.read(wanted.folder)
    except G35Error as error:
        return Loaded((), f"{wanted.folder.name}/{aiperf.RECORDS}", problem or f"{error.what}: {error.why}")
    return Loaded(found, f"{wanted.folder.name}/{aiperf.RECORDS}", problem, aiperf.version(wanted.folder))


def run(argv: Sequence[str], environment: Mapping[str, str], log: Path, stopped: Callable[[], bool]) -> str:
    """Run a generator; empty when it ended well, else why not. Nothing of it is left when this returns."""
    with log.open("ab") as sink:
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=dict(environment),
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return f"the generator cannot be started: {error}"
        try:
            while process.poll() is None:
                if stopped():
                    return "stopped by the user"
                time.sleep(0.1)
        finally:
            _end(process)
    if process.returncode < 0:
        return f"the generator was killed by {signal.Signals(-process.returncode).name}"
    if process.returncode:
        tail = log.read_text(errors="replace").strip().splitlines()[-1:]
        return f"the generator ended with {process.returncode}: {' '.join(tail)[:200] or 'without a word'}"
    return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the generator and whatever it started: its session is its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return
