"""What every stage plan is made of: files, systemd units, and the documentation of fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Tuple


def doc(text: str) -> Mapping[str, str]:
    """Metadata of a field: one line that the argument specs and the variable reference show."""
    return {"doc": text}


@dataclass(frozen=True)
class File:
    """A file that g35ctl owns on a host, rendered on the controller."""

    path: str = field(metadata=doc("Absolute path on the host"))
    content: str = field(metadata=doc("The whole content"))
    mode: str = field(default="0644", metadata=doc("Mode, four octal digits"))
    owner: str = field(default="root", metadata=doc("Owning user"))
    group: str = field(default="root", metadata=doc("Owning group"))


@dataclass(frozen=True)
class Unit:
    """A systemd unit and what must be true of it."""

    name: str = field(metadata=doc("Name with its suffix"))
    enabled: bool = field(default=True, metadata=doc("Whether it must be enabled"))
    active: bool = field(default=True, metadata=doc("Whether it must be active"))
    restart_on: Tuple[str, ...] = field(default=(), metadata=doc("Paths of files whose change calls for a restart"))
