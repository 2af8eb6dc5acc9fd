"""One run at a time per site: a lock file whose holder can be asked for."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from g35ctl.errors import G35Error
from g35ctl.exits import Exit


class SiteLock:
    """Context manager that holds ``<state>/lock``.

    The kernel's lock on the file decides, and it goes away with the process that holds it: after a crash nothing has to
    be cleaned up. The text in the file only says who holds it. Raises G35Error (exit 8) when another run has it.
    """

    def __init__(self, state: Path, verb: str) -> None:
        self.path = state / "lock"
        self.verb = verb
        self._descriptor = -1

    def __enter__(self) -> SiteLock:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise self._refusal(read_holder(self.path)) from None
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "user": getpass.getuser(),
            "verb": self.verb,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, (json.dumps(holder) + "\n").encode(), 0)
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The file stays: removing it would let two runs lock two different files of the same name.
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def _refusal(self, holder: dict[str, Any]) -> G35Error:
        if not holder:
            why = "its holder has not said who it is"
        else:
            why = "held by {verb} (pid {pid}, user {user}, on {host}) since {since}".format(**holder)
        return G35Error(
            "another run is working on this site",
            why=f"{why}\nlock: {self.path}",
            next_command=f"wait for it, or look at it with: ps -p {holder.get('pid', 'PID')} -o pid,etime,args",
            exit_code=Exit.LOCKED,
        )


def read_holder(path: Path) -> dict[str, Any]:
    """Who holds (or, after a crash, last held) the lock; empty when nobody says so."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    complete = isinstance(data, dict) and {"pid", "host", "user", "verb", "since"} <= set(data)
    return data if complete else {}
