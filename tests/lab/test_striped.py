"""Striped sets in the lab: made, read through, one rail down, owner and box rebooted, drained, kept, destroyed by name.

A lab of its own: what another file has put on the namespaces would have to be named for destruction first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import OWNERS, Tier

from g35ctl.lab import VmLab

pytestmark = [pytest.mark.lab, pytest.mark.soak]
KEPT = f"kept=striped-{time.time_ns()}"
LAYOUT = "g35_storage: {layout: striped}\n"


@pytest.fixture(scope="module")
def striped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    """The lab's topology, every owner with one set over its two namespaces."""
    inventory = tmp_path_factory.mktemp("striped") / "inventory"
    lab = VmLab("striped", inventory_dir=inventory)
    lab.down(purge=True)
    lab.up(install_prerequisites=True)
    variables = inventory / "group_vars" / "all.yml"
    variables.write_text(variables.read_text() + LAYOUT)
    made = Tier(lab, inventory)
    bundle = made.g35("bundle", "create")
    assert bundle.code == 0, bundle.err
    yield made
    lab.down(purge=True)


def sets(tier: Tier, host: str) -> list[dict[str, Any]]:
    """What the plan says of a host's sets."""
    plan = tier.g35("plan").data
    found = next(item for item in plan["hosts"] if item["name"] == host)
    return list(found["storage"]["sets"])


def arrays(tier: Tier, guest: str) -> list[str]:
    """md devices of a guest, by kernel name."""
    return [name for name in tier.ssh(guest, "ls", "/sys/block").split() if name.startswith("md")]


def in_service(tier: Tier, host: str, count: int = 1) -> None:
    """As many arrays of two members, each mounted once under one store."""
    found = arrays(tier, host)
    assert len(found) == count
    for name in found:
        base = f"/sys/block/{name}"
        assert tier.read(host, f"{base}/md/level") == "raid0"
        assert tier.read(host, f"{base}/md/raid_disks") == "2"
        assert tier.read(host, f"{base}/md/chunk_size") == str(512 * 1024)
        assert tier.read(host, f"{base}/md/array_state") == "clean"
        assert len(tier.ssh(host, "ls", f"{base}/slaves").split()) == 2
    mounts = [line.split() for line in tier.ssh(host, "cat", "/proc/self/mounts").splitlines()]
    flash = [fields for fields in mounts if fields[1].startswith("/var/lib/g35/flash/")]
    assert sorted(fields[0] for fields in flash) == sorted(f"/dev/{name}" for name in found)
    listed = tier.ssh(
        host, "systemctl", "list-units", "--plain", "--no-legend", "--state=active", "g35-mooncake-store-*", check=False
    )
    assert len(listed.splitlines()) == count


def until_quiet(tier: Tier) -> None:
    """Wait until a deploy finds everything as planned."""
    for _ in range(20):
        if tier.g35("status").code == 0:
            return
        time.sleep(15)
    pytest.fail(tier.g35("status").out)


def test_every_owner_gets_one_array_one_file_system_and_one_store(striped: Tier) -> None:
    done = striped.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    for host in OWNERS:
        in_service(striped, host)
        assert striped.live_paths(host) == 4
        (planned,) = sets(striped, host)
        marker = json.loads(striped.read(host, f"{planned['mount_point']}/.g35-owner.json"))
        assert (marker["owner"], marker["namespace"]) == (host, planned["uuid"])
        assert marker["namespaces"] == planned["members"]
    # The box holds the very SSDs and has mdadm too; it leaves them alone.
    assert arrays(striped, "ebof1") == []
    striped.play("keep_keys.yml", "-e", KEPT)
    striped.play("read_keys.yml", "-e", KEPT)


def test_a_second_deploy_changes_nothing(striped: Tier) -> None:
    done = striped.g35("deploy", "--no-resume", "--yes")
    assert done.code == 0, done.failures()
    assert done.data["changed"] == 0
    assert striped.g35("deploy", "--check").code == 0


def test_one_rail_down_leaves_the_array_in_service(striped: Tier) -> None:
    striped.lab.faults.cut_rail("gpu1", "b")
    try:
        striped.lab.ssh("gpu1", ["sleep", "30"])
        in_service(striped, "gpu1")
        striped.play("read_keys.yml", "-e", KEPT)
        validated = striped.g35("validate", "--suite", "functional")
        assert validated.code == 7, validated.failures()
    finally:
        striped.lab.faults.restore_rail("gpu1", "b")
    until_quiet(striped)
    assert striped.live_paths("gpu1") == 4


def test_an_owner_that_reboots_assembles_mounts_and_serves(striped: Tier) -> None:
    striped.lab.faults.reboot("gpu2")
    until_quiet(striped)
    in_service(striped, "gpu2")
    for item in sets(striped, "gpu2"):
        unit = f"g35-stripe-{item['uuid']}.service"
        assert striped.ssh("gpu2", "systemctl", "is-active", unit).strip() == "active"
    striped.play("read_keys.yml", "-e", KEPT)


def test_a_box_that_reboots_never_assembles_what_it_exports(striped: Tier) -> None:
    striped.lab.faults.reboot("ebof1")
    until_quiet(striped)
    assert arrays(striped, "ebof1") == []
    for host in OWNERS:
        in_service(striped, host)
    striped.play("read_keys.yml", "-e", KEPT)


def test_an_array_that_was_taken_apart_by_hand_is_put_back(striped: Tier) -> None:
    (planned,) = sets(striped, "gpu1")
    striped.ssh("gpu1", "systemctl", "stop", f"g35-stripe-{planned['uuid']}.service")
    assert arrays(striped, "gpu1") == []
    assert striped.g35("status").code == 1
    done = striped.g35("deploy", "--yes")
    assert done.code == 0, done.failures()
    in_service(striped, "gpu1")
    striped.play("read_keys.yml", "-e", KEPT)


def test_a_set_moves_as_a_whole_and_comes_home(striped: Tier) -> None:
    before = json.loads((striped.inventory / ".g35" / "ownership.json").read_text())
    done = striped.g35("drain", "gpu2", timeout=3000)
    assert done.code == 0, done.failures()
    assert arrays(striped, "gpu2") == [] and striped.live_paths("gpu2") == 0
    left = striped.ssh("gpu2", "find", "/etc/systemd/system", "-name", "g35-stripe-*", check=False)
    assert left == ""
    in_service(striped, "gpu1", 2)
    striped.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")
    back = striped.g35("undrain", "gpu2", timeout=3000)
    assert back.code == 0, back.failures()
    for host in OWNERS:
        in_service(striped, host)
    after = json.loads((striped.inventory / ".g35" / "ownership.json").read_text())
    assert (after["namespaces"], after["sets"]) == (before["namespaces"], before["sets"])
    striped.play("read_keys.yml", "-e", KEPT)


def test_a_dead_owners_set_comes_back_with_another(striped: Tier) -> None:
    striped.lab.faults.poweroff("gpu2")
    done = striped.g35("failover", "gpu2", timeout=3000)
    assert done.code == 0, done.failures()
    in_service(striped, "gpu1", 2)
    striped.play("read_kept.yml", "-e", KEPT, "--limit", "gpu1")
    striped.lab.faults.start("gpu2")
    striped.lab.ssh("gpu2", ["sleep", "60"])  # its boot units try
    assert arrays(striped, "gpu2") == []
    cleaned = striped.g35("deploy", timeout=3000)
    assert cleaned.code == 0, cleaned.failures()
    back = striped.g35("undrain", "gpu2", timeout=3000)
    assert back.code == 0, back.failures()
    in_service(striped, "gpu2")


def test_another_layout_regroups_nothing(striped: Tier) -> None:
    variables: Path = striped.inventory / "group_vars" / "all.yml"
    text = variables.read_text()
    variables.write_text(text.replace(LAYOUT, ""))
    try:
        plan = striped.g35("plan")
        assert any("keeps it" in warning for warning in plan.data["warnings"])
        assert striped.g35("deploy", "--check").code == 0
    finally:
        variables.write_text(text)


def test_what_is_destroyed_by_name_leaves_no_array_behind(striped: Tier) -> None:
    site = striped.g35("plan").data["site"]
    done = striped.g35("teardown", "--yes-destroy", site, timeout=3000)
    assert done.code == 0, done.failures()
    for host in OWNERS:
        assert arrays(striped, host) == [] and striped.live_paths(host) == 0
        assert striped.ssh(host, "find", "/etc/udev/rules.d", "-name", "*g35*", check=False) == ""
    assert "linux_raid_member" not in striped.ssh("ebof1", "blkid", "-o", "export", check=False)
