"""In-band authentication between Debian 13 guests beside a Debian 12 one: set, changed under load, refused.

A lab of its own with its own inventory, because Debian 12's kernel cannot authenticate and the image is another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils.g35 import dhchap
from conftest import CHECKOUT, Tier

from g35ctl.lab import VmLab
from g35ctl.lab.topology import default_topology

pytestmark = [pytest.mark.lab, pytest.mark.soak]
STAGES = ("--only", "target", "--only", "fabric", "--only", "connect", "--yes")
BOOT = ("/usr/bin/python3", "-I", "/usr/lib/g35ctl/g35/boot.py", "connect")
KEPT = "/etc/g35ctl/connect-keys.json"


def write_key(tier: Tier, key: str) -> None:
    file = tier.inventory / ".keys" / "gpu1.key"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(key + "\n")
    file.chmod(0o600)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    """ebof1 and gpu1 on Debian 13, gpu2 on Debian 12; gpu1 alone owns flash and authenticates."""
    inventory = tmp_path_factory.mktemp("mixed") / "inventory"
    topology = default_topology("mixed", "trixie", {"gpu2": "bookworm"})
    lab = VmLab("mixed", topology=topology, inventory_dir=inventory)
    lab.down(purge=True)
    lab.up(wait_seconds=600)
    hosts = inventory / "hosts.yml"
    hosts.write_text(hosts.read_text() + "cache_owners:\n  hosts:\n    gpu1:\n")
    variables = inventory / "group_vars" / "all.yml"
    text = variables.read_text()
    variables.write_text(text.replace("g35_nvme:\n", "g35_nvme:\n  authentication: {mode: dhchap}\n"))
    yield Tier(lab, inventory)
    lab.down(purge=True)


def keys_in_force(tier: Tier) -> set[str]:
    found = tier.ssh("gpu1", "sh", "-c", "cat /sys/class/nvme/nvme*/dhchap_secret", check=False)
    return set(found.split())


def test_hosts_of_both_releases_deploy_and_authenticate(mixed: Tier) -> None:
    key = dhchap.generate()
    write_key(mixed, key)
    done = mixed.g35("deploy", *STAGES)
    assert done.code == 0, done.failures()
    assert mixed.live_paths("gpu1") == 8 and keys_in_force(mixed) == {key}
    for folder in (mixed.inventory / ".g35").rglob("*"):
        assert not folder.is_file() or key.encode() not in folder.read_bytes(), folder


def test_a_new_key_is_taken_over_without_losing_a_path(mixed: Tier) -> None:
    before = mixed.ssh("gpu1", "ls", "/sys/class/nvme")
    key = dhchap.generate()
    write_key(mixed, key)
    watch = subprocess.Popen(
        mixed.lab.ssh_argv(
            "gpu1", ["sh", "-c", "while sleep 0.2; do cat /sys/class/nvme/*/state | grep -c live; done"]
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        done = mixed.g35("deploy", "--only", "target", "--only", "connect", "--yes")
    finally:
        watch.terminate()
        counts = {int(line) for line in watch.communicate()[0].split()}
    assert done.code == 0, done.failures()
    assert keys_in_force(mixed) == {key} and mixed.ssh("gpu1", "ls", "/sys/class/nvme") == before
    assert min(counts) >= 7  # one path at a time, if any


def test_a_key_the_box_does_not_have_costs_one_path_and_is_explained(mixed: Tier) -> None:
    kept, planned = mixed.read("gpu1", KEPT), mixed.read("gpu1", "/etc/g35ctl/connect.json")
    wrong, plan, keys = dhchap.generate(), json.loads(planned), json.loads(kept)
    plan["authentication"]["digest"] = dhchap.digest(wrong)
    keys[plan["host_nqn"]]["key"] = wrong
    put(mixed, KEPT, json.dumps(keys))
    put(mixed, "/etc/g35ctl/connect.json", json.dumps(plan))
    done = mixed.lab.ssh("gpu1", list(BOOT), timeout=300)
    assert done.returncode != 0 and "authentication failed" in done.stdout + done.stderr
    assert mixed.live_paths("gpu1") >= 7
    put(mixed, KEPT, kept)
    put(mixed, "/etc/g35ctl/connect.json", planned)
    assert mixed.lab.ssh("gpu1", list(BOOT), timeout=300).returncode == 0
    assert mixed.live_paths("gpu1") == 8


def put(tier: Tier, path: str, text: str) -> None:
    done = tier.lab.ssh("gpu1", ["tee", path], stdin=text + "\n")
    assert done.returncode == 0, done.stderr


def test_the_command_line_refuses_a_key_that_others_can_read(mixed: Tier) -> None:
    key = mixed.inventory / ".keys" / "gpu1.key"
    key.chmod(0o644)
    argv = [sys.executable, "-m", "g35ctl.cli.main", "-i", str(mixed.inventory), "check"]
    done = subprocess.run(argv, cwd=Path(CHECKOUT), capture_output=True, text=True, check=False)
    key.chmod(0o600)
    assert done.returncode == 3 and "chmod 600" in done.stdout + done.stderr
