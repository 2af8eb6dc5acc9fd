"""A directory of wheels from which a host's Mooncake environment is built without internet.

A wheelhouse holds the wheels of one distribution and version with everything they need, and ``manifest.json`` with the
digest, size and licence of each. The controller pushes it to hosts as one tar file (``archive``), made once.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path

from ansible.module_utils.g35.plans import Wheel

from g35ctl.errors import G35Error
from g35ctl.exits import Exit

MANIFEST = "manifest.json"
ARCHIVE = "wheelhouse.tar"
#: Debian 12's system Python; wheels of Mooncake exist for CPython 3.10 to 3.13
PYTHON = "3.11"
#: what the wheels may be built against: glibc 2.28 is in every supported distribution
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")

Pip = Callable[[Sequence[str]], None]


@dataclass(frozen=True)
class Entry:
    """One wheel of a wheelhouse: file name, SHA-256 in hexadecimal, size in bytes, licence from its metadata."""

    name: str
    sha256: str
    size: int
    licence: str


@dataclass(frozen=True)
class Wheelhouse:
    """A wheelhouse on the controller, as its manifest describes it."""

    directory: str
    distribution: str
    version: str
    python: str
    wheels: tuple[Entry, ...]

    def plan_wheels(self) -> tuple[Wheel, ...]:
        """The wheels as stage plans carry them."""
        return tuple(Wheel(entry.name, entry.sha256) for entry in self.wheels)


def default_directory(distribution: str, version: str) -> Path:
    """Where a wheelhouse is kept when nothing else is said: below $XDG_CACHE_HOME or ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "g35ctl" / "wheelhouse" / f"{distribution}-{version}"


def read(directory: str | Path, distribution: str, version: str) -> tuple[Wheel, ...]:
    """The wheels of ``directory`` with their digests; digests are kept in this process until a file changes.

    Also sees to it that the archive which is pushed to hosts is there, where the directory can be written to.
    Raises G35Error when the directory has no wheel of that distribution and version.
    """
    folder = Path(directory)
    files = sorted(folder.glob("*.whl"))
    prefix = f"{distribution.replace('-', '_')}-{version}-"
    if not any(path.name.startswith(prefix) for path in files):
        raise G35Error(
            f"the wheelhouse has no {distribution} {version}",
            why=f"{folder}: " + (f"{len(files)} wheels, none named {prefix}*" if files else "no wheels there"),
            next_command=f"g35ctl bundle create --output {folder}",
            exit_code=Exit.SITE_INVALID,
        )
    if os.access(folder, os.W_OK):
        archive(folder)
    return tuple(Wheel(path.name, _file_digest(path)) for path in files)


def create(
    directory: str | Path, distribution: str, version: str, python: str = PYTHON, pip: Pip | None = None
) -> Wheelhouse:
    """Make ``directory`` a complete wheelhouse; does nothing, and needs no network, when it already is one.

    Raises G35Error when pip cannot get a wheel, or when the directory holds another wheelhouse.
    """
    folder = Path(directory)
    if (folder / MANIFEST).is_file():
        have = load(folder)
        if (have.distribution, have.version, have.python) != (distribution, version, python):
            raise G35Error(
                f"{folder} already holds {have.distribution} {have.version} for Python {have.python}",
                why=f"asked for {distribution} {version} for Python {python}",
                next_command="name another directory with --output",
                exit_code=Exit.USAGE,
            )
        if not problems(folder):
            archive(folder)
            return have
    folder.mkdir(parents=True, exist_ok=True)
    # Downloaded beside its place and moved file by file: an interrupted download never looks complete,
    # because the manifest is written last.
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as scratch:
        (pip or _run_pip)(_pip_arguments(scratch, distribution, version, python))
        fresh = sorted(Path(scratch).glob("*.whl"))
        for stale in folder.glob("*.whl"):
            stale.unlink()
        for path in fresh:
            path.replace(folder / path.name)
    entries = tuple(_entry(path) for path in sorted(folder.glob("*.whl")))
    made = Wheelhouse(str(folder), distribution, version, python, entries)
    read(folder, distribution, version)  # raises where pip brought something else; makes the archive
    data = asdict(made)
    del data["directory"]
    _write_atomically(folder / MANIFEST, json.dumps({"schema_version": 1, **data}, indent=1, sort_keys=True) + "\n")
    return made


def load(directory: str | Path) -> Wheelhouse:
    """Read the manifest of a wheelhouse. Raises G35Error when it is absent or not ours."""
    path = Path(directory) / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = tuple(Entry(**entry) for entry in data["wheels"])
        return Wheelhouse(str(directory), data["distribution"], data["version"], data["python"], entries)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise G35Error(
            f"{directory} is not a wheelhouse",
            why=f"{path}: {error}",
            next_command=f"g35ctl bundle create --output {directory}",
            exit_code=Exit.USAGE,
        ) from error


def problems(directory: str | Path) -> tuple[str, ...]:
    """Everything that differs between a wheelhouse and its manifest; empty when it is complete and unaltered."""
    house = load(directory)
    folder = Path(directory)
    found: list[str] = []
    for entry in house.wheels:
        path = folder / entry.name
        if not path.is_file():
            found.append(f"{entry.name}: missing")
        elif path.stat().st_size != entry.size or _file_digest(path) != entry.sha256:
            found.append(f"{entry.name}: its content is not what the manifest records")
    listed = {entry.name for entry in house.wheels}
    found += [f"{path.name}: not in the manifest" for path in sorted(folder.glob("*.whl")) if path.name not in listed]
    return tuple(found)


def archive(directory: str | Path) -> Path:
    """One uncompressed tar of the wheels, which the mooncake role pushes in one transfer; remade only when stale."""
    folder = Path(directory)
    target = folder / ARCHIVE
    wheels = sorted(folder.glob("*.whl"))
    if _archive_holds(target, wheels):
        return target
    descriptor, temporary = tempfile.mkstemp(prefix=".archive-", dir=folder)
    with os.fdopen(descriptor, "wb") as handle, tarfile.open(fileobj=handle, mode="w") as tar:
        for path in wheels:
            member = tarfile.TarInfo(path.name)
            member.size = path.stat().st_size
            member.mtime = int(path.stat().st_mtime)
            with path.open("rb") as content:
                tar.addfile(member, content)
    Path(temporary).chmod(0o644)
    Path(temporary).replace(target)
    return target


def _archive_holds(target: Path, wheels: Sequence[Path]) -> bool:
    try:
        with tarfile.open(target) as tar:
            seen = {(member.name, member.size, int(member.mtime)) for member in tar.getmembers()}
    except (OSError, tarfile.TarError):
        return False
    return seen == {(path.name, path.stat().st_size, int(path.stat().st_mtime)) for path in wheels}


def _pip_arguments(target: str, distribution: str, version: str, python: str) -> list[str]:
    arguments = ["download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--dest", target]
    for platform in PLATFORMS:
        arguments += ["--platform", platform]
    return [*arguments, "--implementation", "cp", "--python-version", python, f"{distribution}=={version}"]


def _run_pip(arguments: Sequence[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise G35Error(
            f"pip could not download {arguments[-1]}",
            why="\n".join(errors[-3:]),
            next_command="check the package index pip uses (pip config list), then run the command again",
        )


def _entry(path: Path) -> Entry:
    return Entry(path.name, _file_digest(path), path.stat().st_size, _licence(path))


def _licence(path: Path) -> str:
    """The licence a wheel's metadata states: its SPDX expression, its licence line, or its classifiers."""
    with zipfile.ZipFile(path) as wheel:
        name = next(item for item in wheel.namelist() if item.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(wheel.read(name).decode("utf-8", "replace"))
    stated = metadata.get("License-Expression") or (metadata.get("License") or "").strip().split("\n")[0]
    if stated:
        return stated
    classifiers = [item for item in metadata.get_all("Classifier", []) if item.startswith("License ::")]
    return "; ".join(item.rpartition(":: ")[2] for item in classifiers) or "not stated"


def _file_digest(path: Path) -> str:
    status = path.stat()
    return _cached_digest(str(path), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _cached_digest(path: str, modified: int, size: int) -> str:
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _write_atomically(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(content, encoding="utf-8")
    temporary.replace(path)
