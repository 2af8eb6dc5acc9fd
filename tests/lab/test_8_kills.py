"""g35ctl killed at twenty random moments of four verbs: the same command again finishes, and every value is there.

The seed is printed; ``G35_KILL_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from conftest import OWNERS, Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]
#: a store keeps the names of removed values, so a name is used once
KEPT = f"kept=kill-{time.time_ns()}"
SEED = int(os.environ.get("G35_KILL_SEED") or time.time_ns() % 1_000_000)
#: Seconds that each verb takes in a quiet lab, a little less: the moment of the kill is drawn from them.
SECONDS = {"deploy": 60.0, "drain": 150.0, "failover": 100.0, "upgrade": 150.0}
MOMENTS = [
    (verb, round(dice.uniform(0.5, longest), 1))
    for dice in [random.Random(SEED)]
    for verb, longest in SECONDS.items()
    for _ in range(5)
]


def killed(tier: Tier, moment: float, *words: str) -> bool:
    """Start a verb and kill it at that moment; False when it had ended by then."""
    process = tier.start(*words)
    try:
        process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=180)
        return True
    return False


@pytest.fixture(scope="module")
def filled(tier: Tier) -> Iterator[Tier]:
    """A converged tier with values on every owner's flash and a second wheelhouse to upgrade to."""
    print(f"seed {SEED}")
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    tier.play("keep_keys.yml", "-e", KEPT)
    yield tier


@pytest.mark.parametrize(("verb", "moment"), MOMENTS)
def test_the_next_command_finishes_what_was_killed(filled: Tier, verb: str, moment: float) -> None:
    words = {
        "deploy": ("deploy", "--no-resume", "--allow-disruptive", "--yes"),
        "drain": ("drain", "gpu2"),
        "failover": ("failover", "gpu2"),
        "upgrade": ("upgrade", "--allow-disruptive"),
    }[verb]
    if verb == "failover":
        filled.lab.faults.poweroff("gpu2")
    if verb == "upgrade":
        other_wheels(filled, moment)
    killed(filled, moment, *words)
    done = filled.g35(*words, timeout=3000)
    assert done.code == 0, f"seed {SEED}, {moment} s: {done.failures()}"
    filled.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")
    if verb in ("drain", "failover"):
        if verb == "failover":
            filled.lab.faults.start("gpu2")
            cleaned = filled.g35("deploy", timeout=3000)
            assert cleaned.code == 0, cleaned.failures()
        back = filled.g35("undrain", "gpu2", timeout=3000)
        assert back.code == 0, back.failures()
    for owner in OWNERS:
        assert filled.live_paths(owner) == 4
        filled.play("read_kept.yml", "-e", KEPT, "--limit", owner)


def other_wheels(tier: Tier, moment: float) -> None:
    """Name a wheelhouse with other contents, so that an upgrade has an environment to build."""
    house = tier.inventory / f".wheels-{moment}"
    extra = random.Random(moment).choice(["iniconfig==2.0.0", "iniconfig==2.1.0", "pluggy==1.5.0", "pluggy==1.6.0"])
    made = tier.g35("bundle", "create", "--output", str(house), "--with", extra)
    assert made.code == 0, made.err
    variables = tier.inventory / "group_vars" / "all.yml"
    lines = [line for line in variables.read_text().splitlines() if not line.startswith("  wheelhouse:")]
    lines.insert(lines.index("g35_mooncake:") + 1, f"  wheelhouse: {house}")
    variables.write_text("\n".join(lines) + "\n")
