"""A directory of wheels from which a host's Mooncake environment is built without internet.

A wheelhouse holds the wheels of one distribution and version with everything they need, for one Python and machine or
several (its targets), and ``manifest.json`` with the digest, size, licence and targets of each. The controller pushes
it to hosts as one tar file (``archive``), made once; a host's plan names the wheels that are its own. The same wheels
always give the same manifest and archive.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from ansible.module_utils.g35.plans import Wheel

from g35ctl.bundle import manifest
from g35ctl.bundle.manifest import MANIFEST, file_digest
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

ARCHIVE = "wheelhouse.tar"
#: Debian 12's system Python; wheels of Mooncake exist for CPython 3.10 to 3.13
PYTHON = "3.11"
MACHINES = ("x86_64", "aarch64")
#: what the wheels may be built against: glibc 2.28 is in every supported distribution
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
#: time stamp of every file of a wheelhouse: when it was downloaded must not change what is made of it
_EPOCH = 315532800

Pip = Callable[[Sequence[str]], None]


@dataclass(frozen=True)
class Target:
    """A Python (``3.N``) on a machine (x86_64 or aarch64) that wheels are collected for."""

    python: str = PYTHON
    machine: str = "x86_64"

    def __str__(self) -> str:
        return f"{self.python}/{self.machine}"

    @staticmethod
    def parse(text: str) -> Target:
        """``3.11`` or ``3.11/aarch64``. Raises G35Error (usage)."""
        python, _, machine = text.partition("/")
        if not re.fullmatch(r"3\.\d{1,2}", python) or (machine or "x86_64") not in MACHINES:
            why = f"targets are 3.N or 3.N/MACHINE, machines {', '.join(MACHINES)}"
            raise G35Error(f"{text!r} is no Python that wheels can be collected for", why=why, exit_code=Exit.USAGE)
        return Target(python, machine or "x86_64")

    def fits(self, wheel: str) -> bool:
        """Whether a wheel can be installed on this target, by the tags in its file name."""
        _, pythons, abi, platforms = wheel.removesuffix(".whl").rsplit("-", 3)
        minor = int(self.python.partition(".")[2])
        exact = {f"cp3{minor}", f"py3{minor}", "py3"}
        built = set(pythons.split("."))
        stable = abi == "abi3" and any(re.fullmatch(r"cp3\d+", tag) and int(tag[3:]) <= minor for tag in built)
        here = any(tag == "any" or tag.endswith(f"_{self.machine}") for tag in platforms.split("."))
        return here and (stable or bool(built & exact))


@dataclass(frozen=True)
class Entry:
    """One wheel of a wheelhouse: file name, SHA-256 in hexadecimal, size in bytes, licence from its metadata, and the
    targets it was collected for."""

    name: str
    sha256: str
    size: int
    licence: str
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wheelhouse:
    """A wheelhouse on the controller, as its manifest describes it."""

    directory: str
    distribution: str
    version: str
    targets: tuple[str, ...]
    wheels: tuple[Entry, ...]
    extras: tuple[str, ...] = ()
    """Further requirements that were collected with it, NAME==VERSION each."""

    def plan_wheels(self, target: str = "") -> tuple[Wheel, ...]:
        """The wheels as stage plans carry them: those of one target, or all."""
        return tuple(Wheel(item.name, item.sha256) for item in self.wheels if not target or target in item.targets)


def default_directory(distribution: str, version: str) -> Path:
    """Where a wheelhouse is kept when nothing else is said: below $XDG_CACHE_HOME or ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "g35ctl" / "wheelhouse" / f"{distribution}-{version}"


def read(directory: str | Path, distribution: str, version: str, target: str = "") -> tuple[Wheel, ...]:
    """The wheels of ``directory`` with their digests; digests are kept in this process until a file changes.

    ``target`` (``3.11/x86_64``) selects the wheels of one Python and machine; empty takes all where the wheelhouse has
    one target, else those of the default one. Also sees to it that the archive which is pushed to hosts is there, where
    the directory can be written to. Raises G35Error when the directory has no such wheel of that distribution.
    """
    folder = Path(directory)
    files = sorted(folder.glob("*.whl"))
    chosen = _chosen(folder, files, target)
    prefix = f"{distribution.replace('-', '_')}-{version}-"
    if not any(path.name.startswith(prefix) for path in chosen):
        wanted = f" for Python {target}" if target else ""
        more = f" --python {target}" if target else ""
        raise G35Error(
            f"the wheelhouse has no {distribution} {version}{wanted}",
            why=f"{folder}: " + (f"{len(files)} wheels, none named {prefix}* fits" if files else "no wheels there"),
            next_command=f"g35ctl bundle create --output {folder}{more}",
            exit_code=Exit.SITE_INVALID,
        )
    if os.access(folder, os.W_OK):
        archive(folder)
    return tuple(Wheel(path.name, file_digest(path)) for path in chosen)


def _chosen(folder: Path, files: Sequence[Path], target: str) -> Sequence[Path]:
    """The wheels of a target: as the manifest says, else by their names (a directory that somebody filled by hand)."""
    listed: dict[str, tuple[str, ...]] = {}
    targets: tuple[str, ...] = ()
    if (folder / MANIFEST).is_file():
        house = load(folder)
        targets, listed = house.targets, {entry.name: entry.targets for entry in house.wheels}
    if not target and len(targets) < 2:
        return files
    wanted = Target.parse(target) if target else Target()
    return [
        path
        for path in files
        if str(wanted) in listed.get(path.name, ()) or (not listed.get(path.name) and wanted.fits(path.name))
    ]


def create(
    directory: str | Path,
    distribution: str,
    version: str,
    targets: Sequence[Target] = (Target(),),
    pip: Pip | None = None,
    extras: Sequence[str] = (),
) -> Wheelhouse:
    """Make ``directory`` a complete wheelhouse for ``targets``; does nothing, and needs no network, when it already is
    one. Targets that it already had are kept, and so are ``extras``: further requirements, NAME==VERSION each.

    Raises G35Error when pip cannot get a wheel, or when the directory holds another wheelhouse.
    """
    folder = Path(directory)
    wanted = {str(target): target for target in targets}
    more = tuple(sorted(set(extras)))
    if (folder / MANIFEST).is_file():
        have = load(folder)
        if (have.distribution, have.version) != (distribution, version):
            raise G35Error(
                f"{folder} already holds {have.distribution} {have.version}",
                why=f"asked for {distribution} {version}",
                next_command="name another directory with --output",
                exit_code=Exit.USAGE,
            )
        if set(wanted) <= set(have.targets) and set(more) <= set(have.extras) and not problems(folder):
            archive(folder)
            return have
        more = tuple(sorted({*more, *have.extras}))
        wanted = {name: Target.parse(name) for name in have.targets} | wanted
    folder.mkdir(parents=True, exist_ok=True)
    # Downloaded beside its place and moved file by file: an interrupted download never looks complete,
    # because the manifest is written last.
    served: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as scratch:
        for name, target in sorted(wanted.items()):
            place = Path(scratch) / name.replace("/", "-")
            place.mkdir()
            (pip or _run_pip)(_pip_arguments(str(place), distribution, version, target, more))
            for path in place.glob("*.whl"):
                served.setdefault(path.name, []).append(name)
        for stale in folder.glob("*.whl"):
            stale.unlink()
        for path in sorted(Path(scratch).glob("*/*.whl")):
            os.utime(path, (_EPOCH, _EPOCH))
            path.replace(folder / path.name)
    entries = tuple(_entry(path, tuple(served[path.name])) for path in sorted(folder.glob("*.whl")))
    made = Wheelhouse(str(folder), distribution, version, tuple(sorted(wanted)), entries, more)
    data = asdict(made)
    del data["directory"]
    for name in made.targets:  # raises where pip brought something else; makes the archive
        _require(folder, made, name)
    archive(folder)
    _write_atomically(folder / MANIFEST, json.dumps({"schema_version": 2, **data}, indent=1, sort_keys=True) + "\n")
    return made


def _require(folder: Path, made: Wheelhouse, target: str) -> None:
    prefix = f"{made.distribution.replace('-', '_')}-{made.version}-"
    if not any(wheel.name.startswith(prefix) for wheel in made.plan_wheels(target)):
        raise G35Error(
            f"pip brought no {made.distribution} {made.version} for Python {target}",
            why=f"{folder}: no wheel there is named {prefix}*",
            next_command="g35ctl bundle create again, with another release or Python",
        )


def load(directory: str | Path) -> Wheelhouse:
    """Read the manifest of a wheelhouse. Raises G35Error when it is absent or not ours."""

    def made(data: dict[str, Any]) -> Wheelhouse:
        # Before several targets were possible, a manifest named its one Python.
        targets = tuple(data["targets"]) if "targets" in data else (f"{data['python']}/x86_64",)
        entries = tuple(Entry(**{**entry, "targets": tuple(entry.get("targets", targets))}) for entry in data["wheels"])
        extras = tuple(data.get("extras", ()))
        return Wheelhouse(str(directory), data["distribution"], data["version"], targets, entries, extras)

    return manifest.read(directory, "wheelhouse", made, f"g35ctl bundle create --output {directory}")


def problems(directory: str | Path) -> tuple[str, ...]:
    """Everything that differs between a wheelhouse and its manifest; empty when it is complete and unaltered."""
    house = load(directory)
    folder = Path(directory)
    found = manifest.altered(folder, ((entry.name, entry.size, entry.sha256) for entry in house.wheels))
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


def _pip_arguments(
    place: str, distribution: str, version: str, target: Target, extras: Sequence[str] = ()
) -> list[str]:
    arguments = ["download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--dest", place]
    for platform in PLATFORMS:
        arguments += ["--platform", f"{platform}_{target.machine}"]
    return [
        *arguments,
        "--implementation",
        "cp",
        "--python-version",
        target.python,
        *extras,
        f"{distribution}=={version}",
    ]


def _run_pip(arguments: Sequence[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise G35Error(
            f"pip could not download {arguments[-1]}",
            why="\n".join(errors[-3:]),
            next_command="check the package index pip uses (pip config list), then run the command again",
        )


def _entry(path: Path, targets: tuple[str, ...]) -> Entry:
    return Entry(path.name, file_digest(path), path.stat().st_size, _licence(path), targets)


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


def _write_atomically(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(content, encoding="utf-8")
    temporary.replace(path)
