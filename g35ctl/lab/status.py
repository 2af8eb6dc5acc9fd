"""What a lab reports about itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class GuestStatus:
    """What is so for one guest right now."""

    name: str
    running: bool
    pid: int | None
    port: int | None
    login: bool
    suite: str
    addresses: tuple[str, ...]
    rails_cut: tuple[str, ...]
    console: str


@dataclass(frozen=True)
class LabStatus:
    """What is so for the lab right now. ``ok`` means that every guest runs and lets root in."""

    schema_version: int
    name: str
    ok: bool
    namespace: str | None
    inventory: str | None
    state: str
    guests: tuple[GuestStatus, ...]

    def as_json(self) -> dict[str, object]:
        """The status as plain data for ``-o json``."""
        return asdict(self)
