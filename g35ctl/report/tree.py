"""Every planned file below one directory, so that it can be read, compared and kept under version control.

``hosts/<host>/<absolute path>`` for each file, ``hosts/<host>/etc/g35ctl/<stage>.json`` for each stage plan (the boot
units apply it), and ``switches/<vendor>/<switch>.*``. A manifest lists what was written: a second rendering into the
same directory removes what the plan no longer has, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ansible.module_utils.g35.schema import dump

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import HostPlan, Plan

MANIFEST = ".g35-render.json"


@dataclass(frozen=True)
class Rendering:
    """What a rendering did, as paths relative to the directory."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]


def tree(plan: Plan) -> dict[str, str]:
    """Relative path to content of every file of the plan, in order of the paths."""
    found = {path: content for host in plan.hosts for path, content in _of_host(host)}
    found |= {f"switches/{file.path}": file.content for switch in plan.switches for file in switch.files}
    return dict(sorted(found.items()))


def write_tree(plan: Plan, directory: Path) -> Rendering:
    """Write the tree. Raises G35Error when ``directory`` holds files that no rendering made."""
    files = tree(plan)
    before = _before(directory)
    written, unchanged = [], []
    for name, content in files.items():
        path = directory / name
        if path.is_file() and not path.is_symlink() and path.read_bytes() == content.encode():
            unchanged.append(name)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        written.append(name)
    removed = sorted(before - set(files))
    for name in removed:
        path = directory / name
        path.unlink(missing_ok=True)
        _remove_empty(path.parent, directory)
    directory.mkdir(parents=True, exist_ok=True)
    manifest = {"schema_version": 1, "site": plan.site, "files": list(files)}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return Rendering(tuple(written), tuple(unchanged), tuple(removed))


def _of_host(host: HostPlan) -> Iterator[tuple[str, str]]:
    root = PurePosixPath("hosts") / host.name
    for stage in host.stages():
        part = getattr(host, stage)
        for file in getattr(part, "files", ()):
            yield str(root / file.path.lstrip("/")), file.content
        data = dump(part)
        for name in ("files", "units"):
            if name in data:
                data[name] = []
        yield str(root / "etc" / "g35ctl" / f"{stage}.json"), json.dumps(data, indent=1, sort_keys=True) + "\n"


def _before(directory: Path) -> set[str]:
    """What the last rendering into this directory wrote."""
    if not directory.exists():
        return set()
    if not directory.is_dir():
        raise G35Error(f"{directory} is not a directory", exit_code=Exit.USAGE)
    if not any(directory.iterdir()):
        return set()
    try:
        data = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        return {name for name in data["files"] if _inside(name)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise G35Error(
            f"{directory} holds files that g35ctl render did not write",
            why=f"no usable {MANIFEST} in it: {error}",
            next_command="name an empty or a new directory",
            exit_code=Exit.USAGE,
        ) from error


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _remove_empty(folder: Path, directory: Path) -> None:
    while folder != directory and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
