"""A lab that exists on paper only: state and image cache in a temporary directory, keys that are just text."""

from __future__ import annotations

from pathlib import Path

import pytest

from g35ctl.lab import Topology, VmLab, default_topology


@pytest.fixture
def topology() -> Topology:
    return default_topology()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VmLab:
    monkeypatch.setenv("G35_LAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("G35_LAB_CACHE", str(tmp_path / "cache"))
    said: list[str] = []
    made = VmLab("default", inventory_dir=tmp_path / "inventory", say=said.append)
    made.said = said  # type: ignore[attr-defined]
    made.paths.root.mkdir(parents=True)
    keys = [made.paths.user_key]
    for number, guest in enumerate(made.topology.guests):
        files = made.paths.guest(guest.name)
        files.root.mkdir(parents=True)
        files.port.write_text(f"{22100 + number}\n")
        keys.append(files.host_key)
    for number, key in enumerate(keys):
        key.write_text(f"PRIVATE {number}\n")
        key.with_name(key.name + ".pub").write_text(f"ssh-ed25519 AAAA{number} comment\n")
    return made
