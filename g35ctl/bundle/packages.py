"""System packages and container images for a bundle: collected with the distribution's own tools, never unpacked."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from g35ctl.errors import G35Error

Run = Callable[[Sequence[str]], bytes]
"""Runs a command and returns what it printed. Raises G35Error when it fails."""

_LICENCE = re.compile(r"^License: *(\S.*?) *$", re.MULTILINE)
_FIELDS = (
    "Package",
    "Version",
    "Architecture",
    "Depends",
    "Pre-Depends",
    "Provides",
    "Conflicts",
    "Breaks",
    "Replaces",
)
_APT_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Collected:
    """A file below the bundle's directory; ``licence`` is empty for an index."""

    path: str
    licence: str


class Repository(Protocol):
    """Packages for one system."""

    @property
    def system(self) -> str: ...

    def collect(self, into: Path) -> list[Collected]:
        """Fetch the packages below ``into``; paths are relative to the directory above it."""
        ...


def run_command(argv: Sequence[str]) -> bytes:
    """Run a command; G35Error names it and its last words when it is missing or fails."""
    try:
        done = subprocess.run(list(argv), capture_output=True, check=False)
    except FileNotFoundError as error:
        raise G35Error(f"{argv[0]} is not installed on this controller", next_command=f"install {argv[0]}") from error
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise G35Error(f"{argv[0]} failed while collecting a bundle", why="\n".join(words) or f"exit {done.returncode}")
    return done.stdout


@dataclass(frozen=True)
class DebianPackages:
    """Packages of a Debian or Ubuntu release with everything they depend on, as a flat repository.

    Needs apt on the controller, whose own state and sources are not touched. ``mirror`` is the archive's address.
    """

    release: str
    mirror: str
    names: tuple[str, ...]
    machine: str = "x86_64"
    keyring: str = "/usr/share/keyrings/debian-archive-keyring.gpg"
    run: Run = run_command

    @property
    def system(self) -> str:
        return f"debian-{self.release}-{self.machine}"

    def collect(self, into: Path) -> list[Collected]:
        place = into / self.system
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        with tempfile.TemporaryDirectory(prefix="g35-apt-") as temporary:
            root = Path(temporary)
            apt = ["apt-get", *self._options(root)]
            self.run([*apt, "update"])
            self.run([*apt, "install", "--yes", "--download-only", "--no-install-recommends", *self.names])
            for path in sorted((root / "archives").glob("*.deb")):
                shutil.copyfile(path, place / path.name.replace("%3a", ":"))
        found = sorted(place.glob("*.deb"))
        if not found:
            raise G35Error(f"apt brought no package of {self.release}", why=", ".join(self.names))
        index = place / "Packages"
        index.write_text("\n".join(self._stanza(path) for path in found), encoding="utf-8")
        prefix = f"{into.name}/{self.system}"
        listed = [Collected(f"{prefix}/{path.name}", self._licence(path)) for path in found]
        return [*listed, Collected(f"{prefix}/{index.name}", "")]

    def _options(self, root: Path) -> list[str]:
        """A private state: an empty system of that release, asked to download all it would need."""
        for name in ("lists/partial", "archives/partial"):
            (root / name).mkdir(parents=True)
        (root / "status").write_text("")
        (root / "sources.list").write_text(f"deb [signed-by={self.keyring}] {self.mirror} {self.release} main\n")
        options = {
            "Dir::State::lists": root / "lists",
            "Dir::State::status": root / "status",
            "Dir::Cache": root,
            "Dir::Cache::archives": root / "archives",
            "Dir::Etc::sourcelist": root / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "APT::Architecture": _APT_MACHINES[self.machine],
            "APT::Architectures": _APT_MACHINES[self.machine],
            "APT::Sandbox::User": "root",
        }
        return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

    def _stanza(self, path: Path) -> str:
        """An entry of the repository's index."""
        told = self.run(["dpkg-deb", "--field", str(path), *_FIELDS]).decode("utf-8", "replace").rstrip("\n")
        content = path.read_bytes()
        more = (("Filename", f"./{path.name}"), ("Size", len(content)), ("SHA256", hashlib.sha256(content).hexdigest()))
        return told + "\n" + "".join(f"{name}: {value}\n" for name, value in more)

    def _licence(self, path: Path) -> str:
        """The licences its copyright file names; machine readable in most packages."""
        named: dict[str, None] = {}
        with tarfile.open(fileobj=io.BytesIO(self.run(["dpkg-deb", "--fsys-tarfile", str(path)]))) as contents:
            for member in contents:
                if member.isfile() and re.search(r"usr/share/doc/[^/]+/copyright$", member.name):
                    handle = contents.extractfile(member)
                    text = handle.read().decode("utf-8", "replace") if handle is not None else ""
                    named |= dict.fromkeys(_LICENCE.findall(text))
        return "; ".join(named) or "see its copyright file"


@dataclass(frozen=True)
class RpmPackages:
    """Packages of an RPM distribution with everything they depend on, as dnf resolves them.

    Needs dnf and rpm on the controller, set up for that release; the controller's own packages do not count as there.
    """

    release: str
    names: tuple[str, ...]
    machine: str = "x86_64"
    run: Run = run_command

    @property
    def system(self) -> str:
        return f"rpm-{self.release}-{self.machine}"

    def collect(self, into: Path) -> list[Collected]:
        place = into / self.system
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        self.run(
            ["dnf", "download", "--resolve", "--alldeps", f"--releasever={self.release}", f"--forcearch={self.machine}",
             f"--destdir={place}", *self.names]
        )  # fmt: skip
        found = sorted(place.glob("*.rpm"))
        if not found:
            raise G35Error(f"dnf brought no package of release {self.release}", why=", ".join(self.names))
        prefix = f"{into.name}/{self.system}"
        query = ["rpm", "--query", "--package", "--queryformat", "%{LICENSE}"]
        return [
            Collected(f"{prefix}/{path.name}", self.run([*query, str(path)]).decode().strip() or "not stated")
            for path in found
        ]


@dataclass(frozen=True)
class Images:
    """Container images by name, each as one archive that podman load reads. Those that are not there are pulled."""

    names: tuple[str, ...]
    run: Run = run_command

    def collect(self, into: Path) -> list[Collected]:
        """Save the images below ``into``."""
        into.mkdir(parents=True, exist_ok=True)
        found = []
        for name in self.names:
            target = into / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.tar"
            target.unlink(missing_ok=True)
            try:
                self.run(["podman", "image", "inspect", name])
            except G35Error:
                self.run(["podman", "pull", "--quiet", name])
            self.run(["podman", "save", "--quiet", "--format", "oci-archive", "--output", str(target), name])
            label = '{{index .Labels "org.opencontainers.image.licenses"}}'
            licence = self.run(["podman", "image", "inspect", "--format", label, name]).decode().strip()
            found.append(Collected(f"{into.name}/{target.name}", licence or "not stated"))
        return found
