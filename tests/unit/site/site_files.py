"""The files of a site that tests break, one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from g35ctl.site.load import inspect
from g35ctl.site.model import Site
from g35ctl.site.problems import Problem

ALL = "group_vars/all.yml"
BOX = "host_vars/ebof1.yml"
HOST1 = "host_vars/gpu1.yml"
HOST2 = "host_vars/gpu2.yml"
HOSTS = "hosts.yml"


@dataclass
class SiteFiles:
    """The files of a site, with the position of any text in them."""

    root: Path

    def replace(self, file: str, old: str, new: str) -> SiteFiles:
        """Replace the first occurrence."""
        text = self.read(file)
        assert old in text, f"{old!r} is not in {file}"
        (self.root / file).write_text(text.replace(old, new, 1))
        return self

    def append(self, file: str, text: str) -> SiteFiles:
        """Add text at the end of a file, which may be new."""
        path = self.root / file
        path.write_text((path.read_text() if path.exists() else "") + text)
        return self

    def read(self, file: str) -> str:
        """A file's text."""
        return (self.root / file).read_text()

    def position(self, file: str, text: str) -> tuple[str, int, int]:
        """File, line and column (from 1) where a text first stands."""
        for number, line in enumerate(self.read(file).splitlines(), 1):
            if text in line:
                return str(self.root / file), number, line.index(text) + 1
        raise AssertionError(f"{text!r} is not in {file}")

    def inspect(self) -> tuple[Site | None, tuple[Problem, ...]]:
        """What the loader makes of the files."""
        return inspect(str(self.root))
