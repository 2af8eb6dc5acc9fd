"""A box that is edited over and over while hosts use it: it ends as planned, and nobody is dropped without cause."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from conftest import OWNERS, Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]

EDITS = 50
PLAYBOOK = "tests/lab/playbooks/target_plan.yml"
# Never used by anybody: the SSDs are the hosts', so edits work on files.
FILES = tuple(f"/var/tmp/g35-edit-{number}.img" for number in range(3))


def controllers(tier: Tier) -> dict[str, list[str]]:
    """Each host's controllers as they were made: name, subsystem, address, identifier and state."""
    found = {}
    for guest in OWNERS:
        script = (
            'for c in /sys/class/nvme/nvme*; do echo "${c##*/} $(cat $c/subsysnqn $c/address $c/cntlid $c/state)"; done'
        )
        # A controller that came back has another cntlid, one that was made anew another name as well.
        found[guest] = tier.ssh(guest, "sh", "-c", script.replace("\n", " ")).split("\n")
    return found


def reconnects(tier: Tier) -> dict[str, str]:
    """Lines of the kernel log that tell of a lost or restored controller."""
    return {guest: tier.ssh(guest, "sh", "-c", "dmesg | grep -ci reconnect || true").strip() for guest in OWNERS}


def edited(plan: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """The plan with up to three further subsystems on files, in random shape; what hosts use is not touched."""
    namespaces = list(plan["namespaces"])
    for number, path in enumerate(FILES):
        if dice.random() < 0.3:
            continue
        uuid = f"7e57ed17-0000-4000-8000-{number:012d}"
        namespaces.append(
            {
                **namespaces[0],
                "nqn": f"nqn.2026-01.io.g35ctl:edit:{number}",
                "uuid": uuid,
                "nguid": uuid.replace("-", ""),
                "device": path,
                "serial": dice.choice(["EDIT1", "EDIT2"]),
                "ana_group": dice.randint(1, 3),
                "buffered_io": dice.random() < 0.5,
                "allowed_hosts": dice.sample([item["allowed_hosts"][0] for item in plan["namespaces"]], 1),
            }
        )
    states = ["optimized", "non-optimized", "inaccessible"]
    # Group 1 is the hosts': it stays optimized.
    ana = [{"group": group, "state": dice.choice(states)} for group in (2, 3) if dice.random() < 0.7]
    portals = [{**item, "ana": ana} for item in plan["portals"]]
    ids = dice.choice([None, {"lowest": 1, "highest": 65519}, {"lowest": 1000, "highest": 2000}])
    return {**plan, "namespaces": namespaces, "portals": portals, "controller_ids": ids}


def test_random_edits_end_as_planned_and_drop_nobody(converged: Tier, tmp_path: Any) -> None:
    dice = random.Random(35)
    made = converged.g35("plan")
    (box,) = [host for host in made.data["hosts"] if host["name"] == "ebof1"]
    original = box["target"]
    for path in FILES:
        converged.ssh("ebof1", "truncate", "--size", "16M", path)
    before, lost = controllers(converged), reconnects(converged)
    plans = [edited(original, dice) for _ in range(EDITS)] + [original]
    for number, plan in enumerate(plans):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps({"g35_target_plan": plan}))
        # Consent is given: what the edit does not concern must survive all the same.
        done = converged.playbook(PLAYBOOK, "-e", f"@{file}")
        assert done.returncode == 0, f"edit {number}: {done.stdout[-4000:]}"
        assert controllers(converged) == before, f"edit {number}"
        assert reconnects(converged) == lost, f"edit {number}"
    for path in FILES:
        converged.ssh("ebof1", "rm", path)
    assert converged.g35("deploy").code == 0
