"""Secrets that the user hands over in files: read, never shown, and only from files that nobody else can read."""

from __future__ import annotations

from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.exits import Exit


def read_password(path: Path) -> str:
    """The first line of a file that its owner alone may read. Raises G35Error (usage)."""
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise G35Error(f"{path} cannot be read", why=str(error), exit_code=Exit.USAGE) from error
    if mode & 0o077:
        raise G35Error(
            f"{path} can be read by others", why=f"mode {mode & 0o777:04o}", next_command=f"chmod 600 {path}",
            exit_code=Exit.USAGE,
        )  # fmt: skip
    if not lines or not lines[0]:
        raise G35Error(f"{path} holds no password", why="its first line is empty", exit_code=Exit.USAGE)
    return lines[0]
