"""Running other programs: argument lists only, output kept for the message when one fails."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.exits import Exit

Say = Callable[[str], None]
"""Where progress goes: one line of talk at a time."""


def run(
    argv: Sequence[str],
    *,
    what: str,
    next_command: str = "",
    timeout: float | None = None,
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
) -> str:
    """Run ``argv`` and return its standard output; ``what`` names the step.

    Raises :class:`G35Error` with its last words when it fails or takes longer than ``timeout`` seconds.
    """
    try:
        done = subprocess.run(
            list(argv),
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            pass_fds=tuple(pass_fds),
            cwd=cwd,
        )
    except FileNotFoundError as error:
        raise G35Error(f"{what} failed", why=f"{argv[0]} is not installed", next_command="g35ctl lab up") from error
    except subprocess.TimeoutExpired as error:
        raise G35Error(f"{what} failed", why=f"{argv[0]} gave no result within {timeout} s") from error
    if done.returncode != 0:
        tail = (done.stderr.strip() or done.stdout.strip()).splitlines()[-6:]
        raise G35Error(
            f"{what} failed",
            why=f"{argv[0]} exited {done.returncode}: " + " / ".join(tail),
            next_command=next_command,
        )
    return done.stdout


def run_logged(argv: Sequence[str], log: Path, *, what: str) -> None:
    """Run a long step with its output in ``log``. Raises :class:`G35Error` that quotes the end of the log."""
    with log.open("ab") as sink:
        sink.write(("+ " + " ".join(argv) + "\n").encode())
        sink.flush()
        done = subprocess.run(list(argv), check=False, stdout=sink, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        tail = log.read_text(errors="replace").strip().splitlines()[-8:]
        raise G35Error(
            f"{what} failed",
            why=f"{argv[0]} exited {done.returncode}: " + " / ".join(tail),
            next_command=f"read {log}, then g35ctl lab up (finished steps are not repeated)",
        )


@contextlib.contextmanager
def locked(path: Path, *, what: str, say: Say | None = None) -> Iterator[None]:
    """Hold an exclusive lock on ``path``.

    Without ``say`` a lock held elsewhere is a :class:`G35Error` (exit 8); with it the wait is announced and waited out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if say is None:
                raise G35Error(
                    f"{what} is being changed by another command",
                    why=f"{path} is locked",
                    next_command="wait for it to end, then try again",
                    exit_code=Exit.LOCKED,
                ) from error
            say(f"waiting for another command that works on {what}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
