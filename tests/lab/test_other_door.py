"""The same deployment from nothing with plain ansible-playbook; the command line then finds nothing left to do.

A lab of its own, because the hosts must be fresh.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import GUESTS, OWNERS, Tier

from g35ctl.lab import VmLab

pytestmark = [pytest.mark.lab, pytest.mark.soak]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    inventory = tmp_path_factory.mktemp("door") / "inventory"
    lab = VmLab("door", inventory_dir=inventory)
    lab.down(purge=True)
    lab.up(install_prerequisites=True)
    tier = Tier(lab, inventory)
    bundle = tier.g35("bundle", "create")
    assert bundle.code == 0, bundle.err
    yield tier
    lab.down(purge=True)


def test_ansible_playbook_deploys_fresh_hosts(fresh: Tier) -> None:
    for guest in GUESTS:
        assert fresh.ssh(guest, "find", "/etc/g35ctl", check=False) == ""
    done = fresh.playbook("playbooks/site.yml")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    for owner in OWNERS:
        assert fresh.live_paths(owner) == 4
        assert fresh.ssh(owner, "findmnt", "-n", "-t", "xfs", "-o", "TARGET").count("/var/lib/g35/flash/") == 2


def test_the_command_line_finds_nothing_to_change_and_proves_the_tier(fresh: Tier) -> None:
    done = fresh.g35("deploy")
    assert done.code == 0, done.failures()
    assert done.data["changed"] == 0
    assert done.data["ok"] is True
