"""A store in trouble: its flash is full, its mount is gone, its wheel is another one. ``status`` gives the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]
ENVIRONMENTS = "/opt/g35/mooncake"


def store_of(tier: Tier, guest: str) -> tuple[str, str]:
    """One of the guest's namespaces: its directory and its store's unit."""
    uuid = min(uuid for uuid, owner in tier.owners().items() if owner == guest)
    return f"/var/lib/g35/flash/{uuid}", f"g35-mooncake-store-{uuid}.service"


def problems(tier: Tier, guest: str, check: str) -> list[dict[str, Any]]:
    """What ``status`` says of that check on that guest; it must not call the tier healthy."""
    done = tier.g35("status")
    assert done.code == 1 and done.data["ok"] is False, done.out[-2000:]
    return [item for item in done.data["problems"] if item["check"].endswith(check) and guest in json.dumps(item)]


def healthy(tier: Tier) -> None:
    """A deploy finds what is left to repair, and ``status`` has nothing to say any more."""
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    assert tier.g35("status").code == 0


def broken(tier: Tier, guest: str, check: str, undo: Callable[[], object]) -> str:
    """The one problem's text; the fault is taken away again."""
    try:
        found = problems(tier, guest, check)
    finally:
        undo()
    assert found, f"status said nothing of {check} on {guest}"
    return json.dumps(found)


def test_full_flash_is_told_as_such(converged: Tier) -> None:
    directory, _ = store_of(converged, "gpu2")
    converged.lab.faults.fill("gpu2", directory)
    said = broken(converged, "gpu2", "cache.space", lambda: converged.lab.faults.unfill("gpu2", directory))
    assert directory in said
    healthy(converged)


def test_a_mount_that_was_pulled_stops_its_store_and_is_named(converged: Tier) -> None:
    directory, unit = store_of(converged, "gpu2")
    converged.ssh("gpu2", "umount", "-l", directory)
    converged.lab.ssh("gpu2", ["sleep", "5"])
    assert converged.lab.ssh("gpu2", ["systemctl", "is-active", unit]).stdout.strip() != "active"
    said = broken(converged, "gpu2", "cache.mount", lambda: None)
    assert directory in said
    healthy(converged)
    assert converged.ssh("gpu2", "systemctl", "is-active", unit).strip() == "active"


def test_a_store_does_not_start_from_another_wheel(converged: Tier) -> None:
    """The environment in use is a copy in which one file of Mooncake is not the wheel's."""
    _, unit = store_of(converged, "gpu2")
    current = converged.ssh("gpu2", "readlink", f"{ENVIRONMENTS}/current").strip()
    other = f"{ENVIRONMENTS}/other"
    client = f"$(find {other} -name mooncake_client -path '*mooncake*' -type f | head -1)"
    converged.ssh("gpu2", "cp", "-a", f"{ENVIRONMENTS}/{current}", other)
    converged.ssh("gpu2", "sh", "-c", f"printf x >> {client}; ln -sfn other {ENVIRONMENTS}/current")
    converged.ssh("gpu2", "systemctl", "restart", "--no-block", unit)
    converged.lab.ssh("gpu2", ["sleep", "30"])

    def undo() -> None:
        converged.ssh("gpu2", "sh", "-c", f"ln -sfn {current} {ENVIRONMENTS}/current; rm -rf {other}")

    try:
        assert converged.lab.ssh("gpu2", ["systemctl", "is-active", unit]).stdout.strip() != "active"
        found = problems(converged, "gpu2", "")
    finally:
        undo()
    said = json.dumps(found)
    assert any(word in said for word in ("cache.wheel", "cache.version", "cache.environment")), said
    healthy(converged)
