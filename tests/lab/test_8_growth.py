"""A tier that grows: an SSD, then a fourth guest as a host. What has an owner stays there, and nobody is disturbed.

A lab of its own that begins with three SSDs and two hosts; values put on flash before are read back after every step.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from conftest import Tier

from g35ctl.lab import VmLab, default_topology
from g35ctl.lab.topology import GuestSpec

pytestmark = [pytest.mark.lab, pytest.mark.soak]
#: a store keeps the names of removed values, so a name is used once
KEPT = f"kept=grow-{time.time_ns()}"
NEW_HOST = GuestSpec("gpu3", 23, 2048, ("gpu_hosts",))
LAST_SSD = "7042e1ab-f962-5282-8bf7-af84731361c1"


def undisturbed(tier: Tier, host: str) -> dict[str, str]:
    """What changes when a controller is connected anew or a store restarted: controller and process identifiers."""
    controllers = 'for c in /sys/class/nvme/nvme*; do echo "$(cat $c/subsysnqn $c/address) $(cat $c/cntlid)"; done'
    units = "$(systemctl list-units --plain --no-legend 'g35-mooncake-store-*' | cut -d' ' -f1)"
    stores = f'for u in {units}; do echo "$u $(systemctl show -p MainPID --value $u)"; done'
    found = {}
    for line in tier.ssh(host, "sh", "-c", f"{controllers}; {stores}").splitlines():
        name, _, number = line.strip().rpartition(" ")
        if name:
            found[name] = number
    return found


def host_variables(tier: Tier, host: str, edit: Any) -> None:
    file = tier.inventory / "host_vars" / f"{host}.yml"
    data = yaml.safe_load(file.read_text()) if file.exists() else {}
    edit(data)
    file.write_text("---\n" + yaml.safe_dump(data, sort_keys=False))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    """Deployed with three of the box's four SSDs on two hosts, values on the flash of both."""
    inventory = tmp_path_factory.mktemp("growth") / "inventory"
    lab = VmLab("growth", topology=default_topology("growth"), inventory_dir=inventory)
    lab.down(purge=True)
    lab.up(install_prerequisites=True)
    tier = Tier(lab, inventory)
    held: list[Any] = []
    host_variables(tier, "ebof1", lambda data: held.append(data["g35_ebof"]["namespaces"].pop()))
    assert held[0]["uuid"] == LAST_SSD
    (inventory / "last-ssd.json").write_text(json.dumps(held[0]))
    (inventory / "last-ssd.json").rename(inventory.parent / "last-ssd.json")
    assert tier.g35("bundle", "create").code == 0
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    tier.play("keep_keys.yml", "-e", KEPT)
    yield tier
    VmLab("growth", inventory_dir=inventory).down(purge=True)


def test_an_ssd_is_added_and_what_is_there_stays(small: Tier) -> None:
    before, running = small.owners(), {host: undisturbed(small, host) for host in ("gpu1", "gpu2")}
    ssd = json.loads((small.inventory.parent / "last-ssd.json").read_text())
    host_variables(small, "ebof1", lambda data: data["g35_ebof"]["namespaces"].append(ssd))
    planned = small.g35("plan")
    assert planned.code == 0, planned.err
    assert not planned.data.get("disruptive"), planned.data["disruptive"]
    done = small.g35("deploy", "--yes")
    assert done.code == 0, done.failures()
    after = small.owners()
    assert {uuid: after[uuid] for uuid in before} == before and set(after) - set(before) == {LAST_SSD}
    for host, known in running.items():
        now = undisturbed(small, host)
        assert {name: now.get(name) for name in known} == known, host
        assert small.live_paths(host) == 4
    for host in ("gpu1", "gpu2"):
        small.play("read_kept.yml", "-e", KEPT, "--limit", host)


def test_a_host_is_added_and_takes_nothing_from_anybody(small: Tier) -> None:
    before, running = small.owners(), {host: undisturbed(small, host) for host in ("gpu1", "gpu2")}
    four = replace(small.lab.topology, guests=(*small.lab.topology.guests, NEW_HOST))
    grown = VmLab("growth", topology=four, inventory_dir=small.inventory)
    grown.up()
    small.lab = grown
    ports = [{"netdev": rail.netdev, "rail": rail.name, "address": four.address(NEW_HOST, rail)} for rail in four.rails]
    host_variables(small, "gpu3", lambda data: data.update(g35_ports=ports))
    hosts = small.inventory / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("    gpu2:\n", "    gpu2:\n    gpu3:\n", 1))
    done = small.g35("deploy", "--yes", timeout=2400)
    assert done.code == 0, done.failures()
    assert small.owners() == before
    for host, known in running.items():
        assert undisturbed(small, host) == known, host
    small.play("read_kept.yml", "-e", KEPT, "--limit", "gpu3")


def test_rebalancing_proposes_first_and_then_moves_one_namespace(small: Tier) -> None:
    before = small.owners()
    proposed = small.g35("rebalance")
    assert proposed.code == 10 and small.owners() == before
    done = small.g35("rebalance", "--yes", timeout=3000)
    assert done.code == 0, done.failures()
    after = small.owners()
    moved = {uuid for uuid in before if after[uuid] != before[uuid]}
    assert len(moved) == 1 and {after[uuid] for uuid in moved} == {"gpu3"}
    assert small.live_paths("gpu3") == 2
    for host in ("gpu1", "gpu2", "gpu3"):
        small.play("read_kept.yml", "-e", KEPT, "--limit", host)
    settled = small.g35("rebalance")
    assert settled.code == 0 and small.owners() == after
