"""NVMe/TCP with TLS between Debian 13 guests: deployed, read back, sealed on the wire, and a wrong key refused.

A lab of its own with its own inventory: Debian 12's kernel has no TLS for NVMe, and the other lab uses RDMA.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from ansible.module_utils.g35 import dhchap, tlspsk
from conftest import Tier

from g35ctl.lab import VmLab
from g35ctl.lab.topology import default_topology

pytestmark = [pytest.mark.lab, pytest.mark.soak]
STAGES = ("--only", "target", "--only", "fabric", "--only", "connect", "--yes")
BOOT = ("/usr/bin/python3", "-I", "/usr/lib/g35ctl/g35/boot.py", "connect")
KEPT, PLANNED = "/etc/g35ctl/connect-psk.json", "/etc/g35ctl/connect.json"
PATHS = 8


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    """All guests on Debian 13, transport tcp; gpu1 alone owns flash and connects with TLS."""
    inventory = tmp_path_factory.mktemp("tls") / "inventory"
    lab = VmLab("tls", topology=default_topology("tls", "trixie", {}), inventory_dir=inventory)
    lab.down(purge=True)
    lab.up(wait_seconds=600)
    hosts = inventory / "hosts.yml"
    hosts.write_text(hosts.read_text() + "cache_owners:\n  hosts:\n    gpu1:\n")
    variables = inventory / "group_vars" / "all.yml"
    text = variables.read_text().replace("g35_nvme:\n", "g35_nvme:\n  tls: {mode: psk}\n")
    variables.write_text(text.replace("transport: rdma", "transport: tcp"))
    yield Tier(lab, inventory)
    lab.down(purge=True)


def put(tier: Tier, path: str, text: str) -> None:
    done = tier.lab.ssh("gpu1", ["tee", path], stdin=text + "\n")
    assert done.returncode == 0, done.stderr


def tls_keys(tier: Tier) -> list[str]:
    return tier.ssh("gpu1", "sh", "-c", "cat /sys/class/nvme/nvme*/tls_key", check=False).split()


def test_secrets_and_deploy_bring_every_path_up_with_tls(sealed: Tier) -> None:
    assert sealed.g35("secrets", "init").code == 0
    done = sealed.g35("deploy", *STAGES)
    assert done.code == 0, done.failures()
    assert sealed.live_paths("gpu1") == PATHS and len(tls_keys(sealed)) == PATHS
    held = sealed.ssh("gpu1", "cat", "/proc/keys")
    assert all(f"{int(serial, 16):08x}" in held for serial in tls_keys(sealed)) and "NVMe1R01 " in held
    ports = sealed.ssh("ebof1", "sh", "-c", "cat /sys/kernel/config/nvmet/ports/*/addr_t[sr]*")
    assert "tls1.3" in ports and "not required" not in ports
    key = (sealed.inventory / ".keys" / "gpu1.psk").read_text().strip()
    for folder in (sealed.inventory / ".g35").rglob("*"):
        assert not folder.is_file() or key.encode() not in folder.read_bytes(), folder


def test_a_second_deploy_changes_nothing(sealed: Tier) -> None:
    done = sealed.g35("deploy", *STAGES)
    assert done.code == 0, done.failures()
    assert len(tls_keys(sealed)) == PATHS


def test_plain_text_is_not_let_in(sealed: Tier) -> None:
    plan = json.loads(sealed.read("gpu1", PLANNED))
    path = plan["paths"][0]
    sealed.ssh("gpu1", "systemctl", "stop", "g35-connect-heal.timer")
    argv = [
        "nvme", "connect", "-t", "tcp", "-a", path["address"], "-s", str(path["port"]), "-n", path["nqn"],
        "-q", "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-4111-8111-111111111111",
        "-I", "11111111-1111-4111-8111-111111111111",
    ]  # fmt: skip
    assert sealed.lab.ssh("gpu1", argv, timeout=120).returncode != 0
    sealed.ssh("gpu1", "systemctl", "start", "g35-connect-heal.timer")
    assert sealed.live_paths("gpu1") == PATHS


def test_a_key_the_box_does_not_have_costs_one_path_and_is_explained(sealed: Tier) -> None:
    kept, planned = sealed.read("gpu1", KEPT), sealed.read("gpu1", PLANNED)
    wrong, plan = tlspsk.generate(), json.loads(planned)
    plan["tls"]["digest"] = dhchap.digest(wrong)
    put(sealed, KEPT, json.dumps({plan["host_nqn"]: {"psk": wrong}}))
    put(sealed, PLANNED, json.dumps(plan))
    done = sealed.lab.ssh("gpu1", list(BOOT), timeout=300)
    assert done.returncode != 0 and "TLS handshake failed" in done.stdout + done.stderr
    assert wrong not in done.stdout + done.stderr and sealed.live_paths("gpu1") >= PATHS - 1
    put(sealed, KEPT, kept)
    put(sealed, PLANNED, planned)
    assert sealed.lab.ssh("gpu1", list(BOOT), timeout=600).returncode == 0
    assert sealed.live_paths("gpu1") == PATHS


def test_a_new_key_is_deployed_to_both_ends(sealed: Tier) -> None:
    before = set(tls_keys(sealed))
    file = sealed.inventory / ".keys" / "gpu1.psk"
    file.write_text(tlspsk.generate() + "\n")
    file.chmod(0o600)
    done = sealed.g35("deploy", "--only", "target", "--only", "connect", "--yes")
    assert done.code == 0, done.failures()
    assert len(tls_keys(sealed)) == PATHS and not before & set(tls_keys(sealed))
