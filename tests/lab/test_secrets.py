"""Secrets in the lab: keys made and rotated between Debian 13 guests under a watch, planted secrets searched for in run
folders, reports, process lists and journals of every guest.

Beside test_6_mixed.py with a lab of its own, for the same reason: Debian 12's kernel cannot authenticate.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Tier

from g35ctl.lab import VmLab
from g35ctl.lab.topology import default_topology
from g35ctl.site.keys import read_key

pytestmark = [pytest.mark.lab, pytest.mark.soak]
GUESTS = ("ebof1", "gpu1", "gpu2")
STAGES = ("--only", "target", "--only", "fabric", "--only", "connect", "--yes")
# The files that are meant to hold keys; everything else on a guest is searched.
KEPT = ("/etc/g35ctl/connect-keys.json", "/etc/g35ctl/target-keys.json")


@pytest.fixture(scope="module")
def authenticated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    inventory = tmp_path_factory.mktemp("secrets") / "inventory"
    lab = VmLab("secrets", topology=default_topology("secrets", "trixie", {}), inventory_dir=inventory)
    lab.down(purge=True)
    lab.up(wait_seconds=600)
    variables = inventory / "group_vars" / "all.yml"
    variables.write_text(
        variables.read_text().replace(
            "g35_nvme:\n", "g35_nvme:\n  authentication: {mode: dhchap, controller_key_file: '.keys/{host}.box'}\n"
        )
    )
    yield Tier(lab, inventory)
    lab.down(purge=True)


def keys(tier: Tier) -> dict[str, str]:
    return {path.name: read_key(path) for path in sorted((tier.inventory / ".keys").glob("gpu*"))}


def in_force(tier: Tier, guest: str) -> set[str]:
    found = tier.ssh(
        guest, "sh", "-c", "cat /sys/class/nvme/nvme*/dhchap_secret /sys/class/nvme/nvme*/dhchap_ctrl_secret"
    )
    return set(found.split())


def search(tier: Tier, secrets: list[str]) -> list[str]:
    """Where secrets are on the controller or a guest besides their own files. They are handed over on stdin, so that
    the search finds no copy of its own."""
    found = [
        str(path)
        for path in (tier.inventory / ".g35").rglob("*")
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in secrets)
    ]
    patterns = "\n".join(secrets) + "\n"
    looks = {
        "journal": "journalctl --no-pager --quiet | grep -cFf /run/g35-patterns",
        "kernel log": "dmesg | grep -cFf /run/g35-patterns",
        "processes": "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null"
        " | tr '\\0' '\\n' | grep -cFf /run/g35-patterns",
        "files": "grep -rlFf /run/g35-patterns /etc /usr/lib/g35ctl /var/log /var/lib/g35 /tmp /root /home 2>/dev/null"
        + "".join(f" | grep -vx {path}" for path in KEPT)
        + " | wc -l",
    }
    for guest in GUESTS:
        done = tier.lab.ssh(guest, ["sh", "-c", "umask 077; cat > /run/g35-patterns"], stdin=patterns)
        assert done.returncode == 0, done.stderr
        for name, command in looks.items():
            script = tier.lab.ssh(guest, ["sh"], stdin=command + "\n")
            if script.stdout.strip() not in ("0", ""):
                found.append(f"{guest}: {name}: {script.stdout.strip()}")
        tier.ssh(guest, "rm", "-f", "/run/g35-patterns")
    return found


def test_keys_are_made_deployed_and_found_nowhere_else(authenticated: Tier) -> None:
    made = authenticated.g35("secrets", "init")
    assert made.code == 0 and len(made.data["made"]) == 4
    done = authenticated.g35("deploy", *STAGES)
    assert done.code == 0, done.failures()
    now = keys(authenticated)
    for guest in ("gpu1", "gpu2"):
        assert in_force(authenticated, guest) == {now[f"{guest}.key"], now[f"{guest}.box"]}
    assert search(authenticated, list(now.values())) == []


def test_a_rotation_loses_no_path_and_leaves_no_old_key(authenticated: Tier) -> None:
    old = keys(authenticated)
    before = {guest: authenticated.live_paths(guest) for guest in ("gpu1", "gpu2")}
    watches = {
        guest: subprocess.Popen(
            authenticated.lab.ssh_argv(
                guest, ["sh", "-c", "while sleep 0.2; do cat /sys/class/nvme/*/state | grep -c live; done"]
            ),
            stdout=subprocess.PIPE,
            text=True,
        )
        for guest in before
    }
    seen: list[bytes] = []
    stop = threading.Event()

    def watch_controller() -> None:
        while not stop.wait(0.1):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.append(path.read_bytes())
                except OSError:
                    continue

    watcher = threading.Thread(target=watch_controller, daemon=True)
    watcher.start()
    try:
        done = authenticated.g35("secrets", "rotate")
    finally:
        stop.set()
        watcher.join()
        for process in watches.values():
            process.terminate()
    assert done.code == 0, done.failures()
    counts = {guest: {int(line) for line in process.communicate()[0].split()} for guest, process in watches.items()}
    for guest, total in before.items():
        assert min(counts[guest]) >= total - 1, counts  # one path at a time, if any
    new = keys(authenticated)
    assert not set(new.values()) & set(old.values())
    for guest in before:
        assert in_force(authenticated, guest) == {new[f"{guest}.key"], new[f"{guest}.box"]}
    for path in KEPT:
        for guest in GUESTS:
            held = authenticated.ssh(guest, "cat", path, check=False)
            assert not any(key in held for key in old.values()), (guest, path)
    secrets = [*old.values(), *new.values()]
    assert not [line for line in seen for secret in secrets if secret.encode() in line]
    assert search(authenticated, secrets) == []
    assert not list((authenticated.inventory / ".keys").glob("*.previous"))


def test_a_killed_rotation_is_continued(authenticated: Tier) -> None:
    process = authenticated.start("secrets", "rotate", "--limit", "gpu1")
    assert process.stdout is not None
    for line in process.stdout:
        if '"stage": "connect"' in line and "stage_started" in line:
            break
    process.kill()
    process.communicate()
    done = authenticated.g35("secrets", "rotate", "--limit", "gpu1")
    assert done.code == 0, done.failures()
    now = keys(authenticated)
    assert in_force(authenticated, "gpu1") == {now["gpu1.key"], now["gpu1.box"]}
    assert not list((authenticated.inventory / ".keys").glob("*.previous"))
