"""What wheelhouses and bundles share: files on record by digest and size, and whether they are still those."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from g35ctl.errors import G35Error
from g35ctl.exits import Exit

#: name of the record, in the directory that it is about
MANIFEST = "manifest.json"
T = TypeVar("T")


def read(directory: str | Path, what: str, make: Callable[[dict[str, Any]], T], next_command: str) -> T:
    """What ``make`` makes of a directory's manifest. Raises G35Error (usage) when it is absent or not of that kind."""
    path = Path(directory) / MANIFEST
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise G35Error(
            f"{directory} is not a {what}", why=f"{path}: {error}", next_command=next_command, exit_code=Exit.USAGE
        ) from error


def altered(folder: Path, records: Iterable[tuple[str, int, str]]) -> list[str]:
    """Files (path in ``folder``, size in bytes, SHA-256) that are missing or are not what is on record, in words."""
    found = []
    for name, size, sha256 in records:
        path = folder / name
        if not path.is_file():
            found.append(f"{name}: missing")
        elif path.stat().st_size != size or file_digest(path) != sha256:
            found.append(f"{name}: its content is not what the manifest records")
    return found


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal; read once as long as it does not change."""
    status = path.stat()
    return _cached_digest(str(path), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _cached_digest(path: str, modified: int, size: int) -> str:
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
