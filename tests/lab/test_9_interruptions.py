"""The interruption matrix: a deploy that is cut off in any stage, in any way, is finished by running it again.

Each case first takes the stage under test off the hosts, so that the deploy has real work there, starts the deploy,
waits until that stage is under way, and interrupts it. Part of ``make soak``.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from conftest import Tier, until_stage

pytestmark = [pytest.mark.lab, pytest.mark.soak]

APPLIED = ("target", "fabric", "connect", "storage", "cache")
STAGES = ("preflight", *APPLIED, "validate")
#: Seconds from a stage's start to the interruption: Ansible takes about three until its module is at work in a guest.
UNDER_WAY = 4.0


@pytest.fixture
def prepared(tier: Tier, request: pytest.FixtureRequest) -> Iterator[Tier]:
    """A converged tier from which the stage of the case, and what stands on it, was removed again."""
    if not tier.green:
        done = tier.g35("deploy", "--allow-disruptive", "--yes")
        assert done.code == 0, done.failures()
    tier.green = False
    stage = request.node.callspec.params["stage"]
    if stage in APPLIED:
        removed = tier.playbook("tests/lab/playbooks/remove.yml", "-e", f"first={stage}")
        assert removed.returncode == 0, removed.stdout[-3000:]
    yield tier
    for guest in tier.lab.topology.guests:
        if not tier.lab.running(guest):
            tier.lab.faults.start(guest.name)


def start_and_wait(tier: Tier, stage: str) -> subprocess.Popen[str]:
    """A deploy that is in the middle of a stage."""
    # Of the stages that nothing was taken off of, a resumed deploy keeps what its ledger says.
    again = [] if stage in APPLIED else ["--no-resume"]
    process = tier.start("deploy", "--allow-disruptive", "--yes", *again)
    until_stage(process, stage)
    time.sleep(UNDER_WAY)
    return process


def finish(tier: Tier) -> None:
    """The same command again ends green: its last stage reads everything back, values on flash included."""
    again = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert again.code == 0, again.failures()
    assert again.data["ok"] is True
    for owner in ("gpu1", "gpu2"):
        assert tier.live_paths(owner) == 4
    tier.green = True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("stage", STAGES)
def test_interrupted_run_is_finished_by_the_next(prepared: Tier, stage: str, how: signal.Signals) -> None:
    process = start_and_wait(prepared, stage)
    process.send_signal(how)
    process.communicate(timeout=180)
    assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
    finish(prepared)


@pytest.mark.parametrize("stage", STAGES)
def test_host_lost_in_a_stage_is_named_and_the_next_run_is_green(prepared: Tier, stage: str) -> None:
    victim = "ebof1" if stage == "target" else "gpu2"
    process = start_and_wait(prepared, stage)
    prepared.lab.faults.poweroff(victim)
    out, err = process.communicate(timeout=900)
    assert process.returncode in (1, 4, 5, 6, 7), err
    assert victim in out.splitlines()[-1]
    prepared.lab.faults.start(victim)
    finish(prepared)
