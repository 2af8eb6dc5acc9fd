"""Fleet life in the lab: drain under read load, reboot, undrain; a death; a host that comes back and must not write.

Values are put on flash once and must be read back after everything.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BOOKS, CHECKOUT, Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]
#: a store keeps the names of removed values, so a name is used once
KEPT = f"kept=life-{time.time_ns()}"


def holds_nothing(tier: Tier, host: str) -> None:
    assert tier.live_paths(host) == 0
    assert "/flash/" not in tier.ssh(host, "cat", "/proc/self/mounts")
    assert (
        tier.ssh(host, "systemctl", "list-units", "--plain", "--no-legend", "g35-mooncake-store-*", check=False) == ""
    )


@pytest.fixture(scope="module")
def before(tier: Tier) -> dict[str, str]:
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    tier.play("keep_keys.yml", "-e", KEPT)
    return tier.owners()


@pytest.fixture
def reading(tier: Tier) -> Iterator[subprocess.Popen[str]]:
    """Reads the kept values on gpu1, again and again."""
    program = Path(sys.executable).with_name("ansible-playbook")
    loop = f"while :; do {program} -i {tier.inventory} {BOOKS / 'read_kept.yml'} -e {KEPT} --limit gpu1; done"
    process = subprocess.Popen(
        ["sh", "-c", loop], cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    yield process
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=60)


def test_a_host_is_drained_under_read_load(tier: Tier, before: dict[str, str], reading: subprocess.Popen[str]) -> None:
    done = tier.g35("drain", "gpu2", timeout=3000)
    assert done.code == 0, done.failures()
    assert done.data["verdicts"]["FAIL"] == 0
    holds_nothing(tier, "gpu2")
    assert set(tier.owners().values()) == {"gpu1"}
    assert tier.live_paths("gpu1") == 8


def test_every_key_is_there_and_a_deploy_has_nothing_to_do(tier: Tier, before: dict[str, str]) -> None:
    tier.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")
    done = tier.g35("deploy", "--check")
    assert done.code == 0, done.failures()


def test_a_drained_host_may_be_rebooted_and_stays_empty(tier: Tier, before: dict[str, str]) -> None:
    tier.lab.faults.reboot("gpu2")
    tier.lab.ssh("gpu2", ["sleep", "30"])
    holds_nothing(tier, "gpu2")
    tier.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")


def test_undrain_brings_everything_home(tier: Tier, before: dict[str, str]) -> None:
    done = tier.g35("undrain", "gpu2", timeout=3000)
    assert done.code == 0, done.failures()
    assert tier.owners() == before
    tier.play("read_keys.yml", "-e", KEPT)
    done = tier.g35("deploy", "--check")
    assert done.code == 0, done.failures()


@pytest.mark.parametrize("step", ["release", "target", "storage"])
def test_a_drain_that_is_killed_is_finished_by_the_same_command(tier: Tier, before: dict[str, str], step: str) -> None:
    process = tier.start("drain", "gpu2")
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event.get("event") == "stage_started" and event.get("stage") == step:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=180)
    told = tier.g35("plan")
    assert any("drain gpu2" in text for text in told.data["warnings"])
    done = tier.g35("drain", "gpu2", timeout=3000)
    assert done.code == 0, done.failures()
    holds_nothing(tier, "gpu2")
    tier.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")
    back = tier.g35("undrain", "gpu2", timeout=3000)
    assert back.code == 0, back.failures()
    assert tier.owners() == before


def test_a_living_host_is_not_failed_over(tier: Tier, before: dict[str, str]) -> None:
    done = tier.g35("failover", "gpu2")
    assert done.code == 4 and "drain gpu2" in done.err
    assert tier.owners() == before


def test_a_dead_hosts_flash_comes_back_with_another_owner(tier: Tier, before: dict[str, str]) -> None:
    tier.lab.faults.poweroff("gpu2")
    done = tier.g35("failover", "gpu2", timeout=3000)
    assert done.code == 0, done.failures()
    assert set(tier.owners().values()) == {"gpu1"}
    assert tier.live_paths("gpu1") == 8
    tier.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")


def test_a_host_that_comes_back_cannot_write_to_what_it_lost(tier: Tier, before: dict[str, str]) -> None:
    lost = [uuid for uuid, owner in before.items() if owner == "gpu2"]
    tier.lab.faults.start("gpu2")
    tier.lab.ssh("gpu2", ["sleep", "60"])  # its boot units and its timer try
    assert tier.live_paths("gpu2") == 0
    assert "/flash/" not in tier.ssh("gpu2", "cat", "/proc/self/mounts")
    for uuid in lost:
        assert tier.lab.ssh("gpu2", ["test", "-e", f"/dev/disk/by-id/nvme-uuid.{uuid}"]).returncode != 0
        marker = json.loads(tier.read("gpu1", f"/var/lib/g35/flash/{uuid}/.g35-owner.json"))
        assert marker["owner"] == "gpu1"
    log = tier.ssh("ebof1", "dmesg", check=False)
    host_nqn = tier.read("gpu2", "/etc/nvme/hostnqn")
    assert re.search(rf"{re.escape(host_nqn)} for subsystem \S+ not allowed", log)
    tier.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")


def test_deploy_cleans_it_and_undrain_gives_it_back(tier: Tier, before: dict[str, str]) -> None:
    done = tier.g35("deploy", timeout=3000)
    assert done.code == 0, done.failures()
    holds_nothing(tier, "gpu2")
    done = tier.g35("undrain", "gpu2", timeout=3000)
    assert done.code == 0, done.failures()
    assert tier.owners() == before
    tier.play("read_keys.yml", "-e", KEPT)


def test_a_living_host_that_is_shut_out_cannot_write(tier: Tier, before: dict[str, str]) -> None:
    """Split brain: the host lives on, its ssh server too, and is fenced in the middle of writing."""
    lost = [uuid for uuid, owner in before.items() if owner == "gpu2"]
    tier.ssh("gpu2", "systemctl", "stop", "g35-mooncake-store-*")  # its stores are dead, the host is not
    done = tier.g35("failover", "gpu2", "--force", timeout=3000)
    assert done.code == 0, done.failures()
    wrote = tier.lab.ssh(
        "gpu2", ["timeout", "20", "dd", "if=/dev/zero", f"of=/var/lib/g35/flash/{lost[0]}/x", "bs=4k", "oflag=direct"]
    )
    assert wrote.returncode != 0
    assert tier.lab.ssh("gpu1", ["test", "-e", f"/var/lib/g35/flash/{lost[0]}/x"]).returncode != 0
    tier.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")
    done = tier.g35("deploy", timeout=3000)
    assert done.code == 0, done.failures()
    done = tier.g35("undrain", "gpu2", timeout=3000)
    assert done.code == 0, done.failures()
    assert tier.owners() == before


def test_a_rolling_deploy_proves_each_batch(tier: Tier, before: dict[str, str]) -> None:
    done = tier.g35("deploy", "--batch", "1", "--no-resume", timeout=3000)
    assert done.code == 0, done.failures()
    tier.play("read_keys.yml", "-e", KEPT)


def test_a_teardown_leaves_nothing_but_the_data(tier: Tier, before: dict[str, str]) -> None:
    refused = tier.g35("teardown")
    assert refused.code == 2 and tier.live_paths("gpu1") == 4
    site = tier.g35("plan").data["site"]
    done = tier.g35("teardown", "--confirm", site, timeout=3000)
    assert done.code == 0, done.failures()
    for host in ("gpu1", "gpu2"):
        holds_nothing(tier, host)
        left = tier.ssh(host, "find", "/etc/systemd/system", "/etc/g35ctl", "-name", "g35-*", check=False)
        assert left == "", left
    assert tier.ssh("ebof1", "ls", "/sys/kernel/config/nvmet/subsystems") == ""
    again = tier.g35("deploy", "--allow-disruptive", "--yes", timeout=3000)
    assert again.code == 0, again.failures()
    assert tier.owners() == before
    tier.play("read_keys.yml", "-e", KEPT)


def test_what_was_destroyed_by_name_is_free_for_the_next_deploy(tier: Tier, before: dict[str, str]) -> None:
    site = tier.g35("plan").data["site"]
    done = tier.g35("teardown", "--yes-destroy", site, timeout=3000)
    assert done.code == 0, done.failures()
    again = tier.g35("deploy", "--allow-disruptive", "--yes", timeout=3000)
    assert again.code == 0, again.failures()
    assert sorted(tier.owners()) == sorted(before)
    assert tier.playbook(str(BOOKS / "read_keys.yml"), "-e", KEPT).returncode != 0  # they are gone
