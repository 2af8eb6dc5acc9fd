"""Faults put in one at a time: the doctor names the cause, not its symptoms, and is quiet again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import Done, Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]


def doctor(tier: Tier, seconds: int = 0) -> Done:
    """One sample is enough for everything but counters."""
    return tier.g35("doctor", "--seconds", str(seconds))


def named(done: Done, cause: str) -> dict[str, Any]:
    """The diagnosis of that cause. Fails with all that were made when it is not there."""
    found: list[dict[str, Any]] = done.data.get("diagnoses", [])
    matching = [item for item in found if item["cause"] == cause]
    assert matching, f"no {cause} in {[(item['cause'], item['title']) for item in found]}\n{done.err[-2000:]}"
    assert done.code == 1, done.code
    assert matching[0]["evidence"]
    assert matching[0]["remedy"]
    return matching[0]


def causes(done: Done, severity: str = "error") -> set[str]:
    return {item["cause"] for item in done.data["diagnoses"] if item["severity"] == severity}


@contextmanager
def changed(tier: Tier, guest: str, do: str, undo: str) -> Iterator[None]:
    """A shell line on a guest, undone afterwards."""
    tier.ssh(guest, "sh", "-c", do)
    try:
        yield
    finally:
        tier.ssh(guest, "sh", "-c", undo)


def test_healthy_tier_has_no_errors(converged: Tier) -> None:
    done = doctor(converged, seconds=5)
    assert causes(done) == set(), done.out
    assert done.code in (0, 1)
    assert done.data["seconds_between_samples"] >= 5


def test_cut_rail_is_one_cause(converged: Tier) -> None:
    converged.lab.faults.cut_rail("gpu1", "b")
    try:
        converged.lab.ssh("gpu1", ["sleep", "20"])  # until the keep-alive notices; the guest's own clock
        done = doctor(converged)
    finally:
        converged.lab.faults.restore_rail("gpu1", "b")
    found = named(done, "rail.cut")
    assert found["hosts"] == ["gpu1"]
    assert "rail b" in found["title"]
    assert any("198.51.100.11" in line for line in found["evidence"])
    assert not causes(done) & {"path.missing", "path.reconnecting", "finding.connect.path"}


def test_mtu_of_one_guest_is_named_and_its_lost_packets_with_it(converged: Tier) -> None:
    with changed(converged, "gpu1", "ip link set eth1 mtu 1500", "ip link set eth1 mtu 4200"):
        done = doctor(converged)
    found = named(done, "mtu.port")
    assert found["hosts"] == ["gpu1"]
    assert "1500" in found["title"]
    assert "mtu.way" not in causes(done)


def test_pfc_on_another_priority_names_the_host_and_what_the_others_have(converged: Tier) -> None:
    def pfc(priority: int) -> str:
        return f"dcb pfc set dev eth1 prio-pfc all:off {priority}:on"

    with changed(converged, "gpu2", pfc(4), pfc(3)):
        done = doctor(converged)
    found = named(done, "pfc.priority")
    assert found["hosts"] == ["gpu2"]
    assert any("5 of 6 ports have priority 3" in line for line in found["evidence"])


def test_two_hosts_with_one_host_nqn(converged: Tier) -> None:
    first = converged.read("gpu1", "/etc/nvme/hostnqn")
    second = converged.read("gpu2", "/etc/nvme/hostnqn")
    with changed(converged, "gpu2", f"echo {first} >/etc/nvme/hostnqn", f"echo {second} >/etc/nvme/hostnqn"):
        done = doctor(converged)
    found = named(done, "identity.shared")
    assert set(found["hosts"]) == {"gpu1", "gpu2"}
    assert "--limit gpu2" in found["remedy"]


def test_foreign_initiator_is_named(converged: Tier) -> None:
    stranger = "nqn.2014-08.org.example:stranger"
    nvmet = "/sys/kernel/config/nvmet"
    subsystem = converged.ssh("ebof1", "ls", f"{nvmet}/subsystems").split()[0]
    link = f"{nvmet}/subsystems/{subsystem}/allowed_hosts/{stranger}"
    make = f"mkdir {nvmet}/hosts/{stranger} && ln -s {nvmet}/hosts/{stranger} {link}"
    with changed(converged, "ebof1", make, f"rm {link} && rmdir {nvmet}/hosts/{stranger}"):
        done = doctor(converged)
    found = named(done, "fence.open")
    assert found["hosts"] == ["ebof1"]
    assert any(stranger in line for line in found["evidence"])


def test_host_that_is_off_is_named_and_the_rest_is_judged(converged: Tier) -> None:
    converged.lab.faults.poweroff("gpu2")
    try:
        done = doctor(converged)
    finally:
        converged.lab.faults.start("gpu2")
    assert done.code == 5, done.out
    silent = [item for item in done.data["diagnoses"] if item["cause"] == "host.unreachable"]
    assert [item["hosts"] for item in silent] == [["gpu2"]]
    assert "rail.down" not in causes(done)
