"""Where a site's state lives, and the folder of each run: created, finished, listed, rotated."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from g35ctl.engine.ledger import write_atomically
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

KEEP_RUNS = 20
_NAME = re.compile(r"^\d{8}T\d{6}(\.\d+)?Z-[a-z]+$")


def state_directory(inventory: str) -> Path:
    """``$G35_STATE``, else ``.g35`` beside the inventory (inside it when it is a directory)."""
    override = os.environ.get("G35_STATE")
    if override:
        return Path(override).absolute()
    path = Path(inventory).absolute()
    return (path if path.is_dir() else path.parent) / ".g35"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run (mode 0700)."""

    path: Path

    @property
    def identifier(self) -> str:
        return self.path.name

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    def log(self, stage: str) -> Path:
        return self.path / "logs" / f"{stage}.log"

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the run's last word; a folder without it belongs to a run that was cut off."""
        write_atomically(self.path / "run.json", dict(summary))

    def summary(self) -> dict[str, Any]:
        """What :meth:`finish` wrote, or what :func:`create` wrote when the run never finished."""
        try:
            data = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    @property
    def unfinished(self) -> bool:
        return self.summary().get("status") == "running"


def create(state: Path, verb: str, now: datetime | None = None) -> RunFolder:
    """Make the folder of a new run, and drop the oldest beyond ``KEEP_RUNS``."""
    now = now or datetime.now(UTC)
    root = state / "runs"
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        path = root / f"{now.strftime('%Y%m%dT%H%M%S.%f')[:-3]}Z-{verb}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            now = datetime.now(UTC)
            continue
        break
    (path / "logs").mkdir(mode=0o700)
    folder = RunFolder(path)
    folder.finish({"status": "running", "verb": verb, "started": now.isoformat(timespec="seconds")})
    rotate(state)
    return folder


def runs(state: Path) -> tuple[RunFolder, ...]:
    """All run folders, oldest first."""
    root = state / "runs"
    if not root.is_dir():
        return ()
    found = sorted(path for path in root.iterdir() if path.is_dir() and _NAME.match(path.name))
    return tuple(RunFolder(path) for path in found)


def find(state: Path, identifier: str) -> RunFolder:
    """The run of that name, a unique beginning of it, or ``last``. Raises G35Error (usage)."""
    known = runs(state)
    matching = known[-1:] if identifier == "last" else [run for run in known if run.identifier.startswith(identifier)]
    if len(matching) != 1:
        raise G35Error(
            f"{'no run' if not matching else 'more than one run'} is named {identifier}",
            why=f"runs are in {state / 'runs'}",
            next_command="g35ctl runs",
            exit_code=Exit.USAGE,
        )
    return matching[0]


def rotate(state: Path, keep: int = KEEP_RUNS) -> None:
    """Remove the oldest run folders so that ``keep`` are left."""
    for folder in runs(state)[:-keep]:
        shutil.rmtree(folder.path, ignore_errors=True)


def unfinished_run(state: Path) -> RunFolder | None:
    """The latest run when it was cut off. Only meaningful while holding the site's lock."""
    known = runs(state)
    return known[-1] if known and known[-1].unfinished else None
