"""Progress of a run: a live stage x host table on a terminal, plain lines elsewhere, JSON lines on request.

Talk goes to stderr; only the JSON lines, which are data, go to stdout.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TextIO

from g35ctl.engine.events import TaskEvent
from g35ctl.engine.run import StageResult

#: more hosts than this are told as counts per stage, one row each would not fit
MOST_ROWS = 30
_MARKS = {
    "ok": ("ok", "green"), "changed": ("changed", "yellow"), "failed": ("FAILED", "bold red"),
    "unreachable": ("UNREACHABLE", "bold red"), "skipped": ("-", "dim"), "held": ("holds", "green"),
    "running": ("...", "cyan"), "interrupted": ("interrupted", "red"), "waiting": ("", ""),
}  # fmt: skip


class Display(Protocol):
    """What a run tells while it goes on. Calls may come from several threads."""

    def begin(self, title: str, stages: Sequence[str], hosts: Sequence[str]) -> None: ...

    def stage_started(self, stage: str, hosts: Sequence[str]) -> None: ...

    def task(self, event: TaskEvent) -> None: ...

    def stage_ended(self, result: StageResult) -> None: ...

    def say(self, text: str) -> None: ...

    def end(self) -> None: ...


def make_display(output: str) -> Display:
    """The display for ``-o`` and this terminal."""
    if output == "jsonl":
        return JsonLines(sys.stdout)
    if output == "text" and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveTable(sys.stderr)
    return PlainLines(sys.stderr)


class PlainLines:
    """One line per stage begun and ended, and per host that changed or failed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._guard = threading.Lock()
        self._started = time.monotonic()

    def begin(self, title: str, stages: Sequence[str], hosts: Sequence[str]) -> None:
        self.say(f"{title}: {_hosts(len(hosts))}, stages {', '.join(stages)}")

    def stage_started(self, stage: str, hosts: Sequence[str]) -> None:
        self.say(f"{stage}: started on {_hosts(len(hosts))}")

    def task(self, event: TaskEvent) -> None:
        if event.outcome in ("failed", "unreachable") or event.changed:
            first = (event.message.splitlines() or [""])[0][:200]
            how = "changed" if event.changed else event.outcome
            self.say(f"{event.stage}: {event.host}: {how}: {event.task}" + (f": {first}" if how != "changed" else ""))

    def stage_ended(self, result: StageResult) -> None:
        self.say(f"{result.stage}: {counts(result.hosts)} in {result.seconds:.1f} s")

    def say(self, text: str) -> None:
        with self._guard:
            self._stream.write(f"[{time.monotonic() - self._started:7.1f}] {text}\n")
            self._stream.flush()

    def end(self) -> None:
        self._stream.flush()


class JsonLines:
    """Every event as one JSON object per line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._guard = threading.Lock()

    def begin(self, title: str, stages: Sequence[str], hosts: Sequence[str]) -> None:
        self._write({"event": "begin", "title": title, "stages": list(stages), "hosts": list(hosts)})

    def stage_started(self, stage: str, hosts: Sequence[str]) -> None:
        self._write({"event": "stage_started", "stage": stage, "hosts": list(hosts)})

    def task(self, event: TaskEvent) -> None:
        self._write(event.record())

    def stage_ended(self, result: StageResult) -> None:
        self._write({"event": "stage_ended", **vars(result)})

    def say(self, text: str) -> None:
        self._write({"event": "message", "text": text})

    def end(self) -> None:
        self._stream.flush()

    def _write(self, data: Mapping[str, Any]) -> None:
        with self._guard:
            self._stream.write(json.dumps(data, sort_keys=True, default=list) + "\n")
            self._stream.flush()


class LiveTable:
    """The stage x host table, redrawn in place; messages scroll by above it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        # NO_COLOR is honoured by rich itself.
        self._console = Console(file=stream, highlight=False)
        self._guard = threading.RLock()
        self._cells: dict[str, dict[str, str]] = {}
        self._seconds: dict[str, float] = {}
        self._stages: tuple[str, ...] = ()
        self._hosts: tuple[str, ...] = ()
        self._title = ""
        self._current: dict[str, str] = {}
        self._live: Any = None
        self._began = time.monotonic()

    def begin(self, title: str, stages: Sequence[str], hosts: Sequence[str]) -> None:
        from rich.live import Live

        self._title, self._stages, self._hosts = title, tuple(stages), tuple(hosts)
        self._live = Live(
            console=self._console, get_renderable=self._table, refresh_per_second=4, redirect_stdout=False
        )
        self._live.start()

    def stage_started(self, stage: str, hosts: Sequence[str]) -> None:
        with self._guard:
            self._cells[stage] = dict.fromkeys(hosts, "running")
            self._seconds[stage] = -time.monotonic()

    def task(self, event: TaskEvent) -> None:
        with self._guard:
            self._current[event.host] = event.task
            if event.outcome in ("failed", "unreachable") and not event.ignored:
                self._cells.setdefault(event.stage, {})[event.host] = event.outcome

    def stage_ended(self, result: StageResult) -> None:
        with self._guard:
            self._cells[result.stage] = dict(result.hosts)
            self._seconds[result.stage] = result.seconds

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        with self._guard:
            table = Table(title=f"{self._title}  {time.monotonic() - self._began:.0f} s", title_justify="left")
            table.add_column("host")
            for stage in self._stages:
                table.add_column(stage)
            if len(self._hosts) <= MOST_ROWS:
                for host in self._hosts:
                    marks = [_MARKS[self._cells.get(stage, {}).get(host, "waiting")] for stage in self._stages]
                    table.add_row(host, *(Text(text, style=style) for text, style in marks))
            else:
                table.add_row(
                    f"{len(self._hosts)} hosts", *(counts(self._cells.get(stage, {}), "\n") for stage in self._stages)
                )
            table.add_row("seconds", *(self._spent(stage) for stage in self._stages), style="dim")
        return table

    def _spent(self, stage: str) -> str:
        seconds = self._seconds.get(stage)
        if seconds is None:
            return ""
        return f"{time.monotonic() + seconds:.0f}" if seconds < 0 else f"{seconds:.1f}"


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def counts(hosts: Mapping[str, str], separator: str = ", ") -> str:
    """``3 ok, 1 failed`` from a stage's host outcomes."""
    total: dict[str, int] = {}
    for how in hosts.values():
        total[how] = total.get(how, 0) + 1
    order = ("ok", "changed", "held", "skipped", "running", "interrupted", "failed", "unreachable")
    return separator.join(f"{total[how]} {how}" for how in order if how in total) or "no hosts"
