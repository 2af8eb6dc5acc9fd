"""A tier that already holds: repeating a deploy changes nothing and costs little, through either door."""

from __future__ import annotations

import re

import pytest
from conftest import GUESTS, Tier

pytestmark = pytest.mark.lab


def test_full_replay_changes_nothing_and_stays_within_twelve_module_executions(converged: Tier) -> None:
    before = converged.link_flaps()
    done = converged.g35("deploy", "--no-resume")
    assert done.code == 0, done.failures()
    assert done.data["changed"] == 0
    executions = done.data["module_executions"]
    assert set(executions) == set(GUESTS)
    assert max(executions.values()) <= 12, executions
    assert converged.link_flaps() == before


def test_redeploy_with_the_ledger_is_one_verify(converged: Tier) -> None:
    done = converged.g35("deploy")
    assert done.code == 0, done.failures()
    assert done.data["changed"] == 0
    assert max(done.data["module_executions"].values()) <= 3, done.data["module_executions"]


def test_check_mode_on_converged_hosts_finds_nothing_to_do(converged: Tier) -> None:
    done = converged.g35("deploy", "--check", "--no-resume")
    assert done.code == 0, done.failures()
    assert done.data["changed"] == 0


def test_plain_ansible_playbook_agrees(converged: Tier) -> None:
    done = converged.playbook("playbooks/site.yml")
    assert done.returncode == 0, done.stdout[-3000:]
    recap = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=0\s+failed=0", done.stdout, re.M)
    assert dict(recap).keys() == set(GUESTS)
    # The probe values of the validation are written and removed again; nothing else may change.
    assert {changed for _, changed in recap} <= {"0"}, done.stdout[-3000:]


def test_drift_is_found_and_repaired_on_the_one_host_that_has_it(converged: Tier) -> None:
    converged.ssh("gpu2", "ip", "link", "set", "eth2", "mtu", "1500")
    status = converged.g35("status")
    assert status.code == 1
    assert "gpu2" in status.out and "1500" in status.out
    done = converged.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    assert converged.read("gpu2", "/sys/class/net/eth2/mtu") == "4200"
    # Nothing is applied elsewhere: gpu1 is read twice and takes part in the proof (write, read, clean).
    assert done.data["module_executions"]["gpu1"] <= 5
    assert converged.live_paths("gpu2") == 4
