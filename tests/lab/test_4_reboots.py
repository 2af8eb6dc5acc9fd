"""Each guest is rebooted in turn: without g35ctl, everything comes back, and every key on flash with it."""

from __future__ import annotations

import json
import time

import pytest
from conftest import GUESTS, Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]


def settled(tier: Tier, seconds: float = 240) -> str:
    """Wait until status finds nothing wrong; returns the last findings otherwise. Nothing is repaired meanwhile."""
    deadline = time.monotonic() + seconds
    told = ""
    while time.monotonic() < deadline:
        status = tier.g35("status")
        if status.code == 0:
            return ""
        told = json.dumps(status.data.get("failures") or status.data.get("findings"), indent=1)
        time.sleep(5)
    return told


@pytest.mark.parametrize("guest", GUESTS)
def test_guest_comes_back_by_itself(converged: Tier, guest: str) -> None:
    # A name that was never used: removed values of an earlier one return when a store reads its files again.
    name = f"kept={guest}-{time.time_ns()}"
    kept = converged.playbook("tests/lab/playbooks/keep_keys.yml", "-e", name)
    assert kept.returncode == 0, kept.stdout[-4000:]
    converged.lab.faults.reboot(guest)
    assert settled(converged) == ""
    # 32 values: each of two hosts wrote eight to the flash of each of two owners.
    read = converged.playbook("tests/lab/playbooks/read_keys.yml", "-e", name)
    assert read.returncode == 0, read.stdout[-4000:]
    done = converged.g35("validate", "--suite", "functional")
    assert done.code == 0, done.failures()
