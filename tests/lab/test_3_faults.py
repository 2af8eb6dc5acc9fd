"""Faults: no command may call a broken tier good, and every one must name what is broken."""

from __future__ import annotations

import pytest
from conftest import Tier

pytestmark = pytest.mark.lab


def test_one_rail_down_is_never_success(converged: Tier) -> None:
    converged.lab.faults.cut_rail("gpu1", "b")
    try:
        converged.lab.ssh("gpu1", ["sleep", "30"])  # until the keep-alive notices; the guest's own clock
        validated = converged.g35("validate", "--suite", "functional")
        assert validated.code == 7, validated.failures()
        assert "gpu1" in validated.out and "198.51.100.11" in validated.out + validated.err
        deployed = converged.g35("deploy")
        assert deployed.code not in (0, 10), deployed.out
        assert any(item["host"] == "gpu1" for item in deployed.data["failures"])
    finally:
        converged.lab.faults.restore_rail("gpu1", "b")
    done = converged.g35("deploy")
    assert done.code == 0, done.failures()
    assert converged.live_paths("gpu1") == 4


@pytest.mark.soak
def test_connecting_to_a_target_that_exports_nothing_is_never_success(converged: Tier) -> None:
    # In this order: a file system whose paths are all gone cannot be unmounted until they are back or given up.
    converged.ssh("gpu2", "systemctl", "stop", "g35-connect.service")
    converged.ssh("ebof1", "systemctl", "stop", "g35-target.service")
    done = converged.g35("deploy", "--only", "connect", "--limit", "gpu2")
    assert done.code not in (0, 10), done.out
    failure = next(item for item in done.data["failures"] if item["host"] == "gpu2")
    assert failure["remedy"]
    assert converged.live_paths("gpu2") == 0
    # The whole deploy repairs what is g35ctl's own.
    repaired = converged.g35("deploy", "--allow-disruptive", "--yes")
    assert repaired.code == 0, repaired.failures()
    assert converged.live_paths("gpu2") == 4


@pytest.mark.soak
def test_host_that_is_off_is_named_and_the_others_are_left_working(converged: Tier) -> None:
    converged.lab.faults.poweroff("gpu2")
    try:
        done = converged.g35("deploy")
        assert done.code in (5, 6), done.out
        assert {item["host"] for item in done.data["failures"]} == {"gpu2"}
        assert converged.live_paths("gpu1") == 4
    finally:
        converged.lab.faults.start("gpu2")
    repaired = converged.g35("deploy")
    assert repaired.code == 0, repaired.failures()
