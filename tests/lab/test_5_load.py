"""Faults while fio writes and verifies on a namespace: paths may go and come back, but no byte is ever wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import Tier
from test_5_doctor import doctor, named

pytestmark = [pytest.mark.lab, pytest.mark.soak]

UNIT = "g35-test-fio.service"
RESULT = "/run/g35-test-fio.json"
#: all paths of a subsystem may be gone this long before the kernel gives a command back with an error; the lab's own
#: ctrl_loss_tmo is 600 s, so that a target that reboots costs time and nothing else
PATIENCE_SECONDS = 420


def mount_of(tier: Tier, guest: str) -> str:
    """A mounted namespace of the guest."""
    return sorted(tier.ssh(guest, "findmnt", "-n", "-t", "xfs", "-o", "TARGET", "-l").split())[0]


@contextmanager
def fio(tier: Tier, guest: str, seconds: int) -> Iterator[None]:
    """fio writes random blocks with checksums on the guest and reads them back; its verdict is asserted at the end."""
    directory = f"{mount_of(tier, guest)}/g35-test-fio"
    tier.ssh(guest, "mkdir", "-p", directory)
    argv = ["systemd-run", f"--unit={UNIT}", "--collect", "--quiet", "--property=TimeoutStopSec=5"]
    job = [
        "fio", "--name=verified", f"--directory={directory}", "--size=48M", "--rw=randwrite", "--bsrange=4k-128k",
        "--ioengine=libaio", "--direct=1", "--iodepth=4", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=64",
        "--do_verify=1", "--time_based", f"--runtime={seconds}", "--output-format=json", f"--output={RESULT}",
    ]  # fmt: skip
    tier.ssh(guest, "rm", "-f", RESULT)
    tier.ssh(guest, *argv, *job)
    try:
        yield
        deadline = time.monotonic() + seconds + PATIENCE_SECONDS
        while tier.ssh(guest, "systemctl", "is-active", UNIT, check=False).strip() in ("active", "activating"):
            assert time.monotonic() < deadline, "fio did not end: its commands wait for a path"
            time.sleep(2)
        text = tier.read(guest, RESULT)
        job_done = json.loads(text[text.index("{") :])["jobs"][0]
        assert job_done["error"] == 0, job_done
        assert job_done["write"]["io_bytes"] > 0
        assert job_done["read"]["io_bytes"] > 0, "nothing was verified"
    finally:
        tier.ssh(guest, "systemctl", "stop", UNIT, check=False)
        tier.ssh(guest, "rm", "-rf", directory)


def repaired(tier: Tier) -> None:
    """deploy ends green and all paths are live."""
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    assert tier.live_paths("gpu1") == 4
    assert tier.live_paths("gpu2") == 4


def test_flapping_path_for_two_minutes(converged: Tier) -> None:
    with fio(converged, "gpu1", 120):
        for turn in range(6):
            rail = "ab"[turn % 2]
            converged.lab.faults.cut_rail("gpu1", rail)
            time.sleep(8)
            converged.lab.faults.restore_rail("gpu1", rail)
            # Never both at once: the other path has to be back first.
            time.sleep(12)
    repaired(converged)


def test_target_rebooted_under_load(converged: Tier) -> None:
    with fio(converged, "gpu1", 90):
        converged.lab.faults.reboot("ebof1")
    repaired(converged)


def test_target_made_anew_under_load(converged: Tier) -> None:
    """Its configuration is built again from nothing, as after a firmware change: the same exports, a new generation."""
    with fio(converged, "gpu1", 60):
        converged.ssh("ebof1", "systemctl", "restart", "g35-target.service")
    repaired(converged)


def test_wrong_allowed_host_is_named_and_repaired(converged: Tier) -> None:
    nvmet = "/sys/kernel/config/nvmet"
    stranger = "nqn.2014-08.org.example:wrong"
    subsystem = converged.ssh("ebof1", "ls", f"{nvmet}/subsystems").split()[0]
    allowed = f"{nvmet}/subsystems/{subsystem}/allowed_hosts"
    owner = converged.ssh("ebof1", "ls", allowed).split()[0]
    script = (
        f"mkdir {nvmet}/hosts/{stranger}; ln -s {nvmet}/hosts/{stranger} {allowed}/{stranger}; rm {allowed}/{owner}"
    )
    converged.ssh("ebof1", "sh", "-c", script)
    named(doctor(converged), "fence.open")
    repaired(converged)
    assert converged.ssh("ebof1", "ls", allowed).split() == [owner]


def test_moved_pfc_priority_and_mtu_are_repaired(converged: Tier) -> None:
    """What doctor names (test_5_doctor), deploy mends: these settings are g35ctl's own."""
    converged.ssh("gpu2", "sh", "-c", "dcb pfc set dev eth1 prio-pfc all:off 4:on; ip link set eth2 mtu 1500")
    found = {item["cause"] for item in doctor(converged).data["diagnoses"] if item["severity"] == "error"}
    assert {"pfc.priority", "mtu.port"} <= found
    repaired(converged)
    healthy = doctor(converged)
    assert not [item for item in healthy.data["diagnoses"] if item["severity"] == "error"], healthy.out
