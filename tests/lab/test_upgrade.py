"""An upgrade in the lab: the same release from other wheels, so that a second environment is built beside the first,
one host at a time, with every value that was on flash still there; and back again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import OWNERS, Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]


def environment(tier: Tier, guest: str) -> str:
    return tier.ssh(guest, "readlink", "/opt/g35/mooncake/current").strip()


@pytest.fixture(scope="module")
def other_wheels(tier: Tier) -> Iterator[Tier]:
    """A converged tier whose site names a wheelhouse with one wheel more."""
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    house = tier.inventory / ".wheels"
    made = tier.g35("bundle", "create", "--output", str(house), "--with", "iniconfig==2.0.0")
    assert made.code == 0, made.err
    variables = tier.inventory / "group_vars" / "all.yml"
    before = variables.read_text()
    variables.write_text(before.replace("g35_mooncake:\n", f"g35_mooncake:\n  wheelhouse: {house}\n", 1))
    yield tier
    variables.write_text(before)
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()


def test_an_upgrade_needs_consent_and_goes_host_by_host(other_wheels: Tier) -> None:
    before = {guest: environment(other_wheels, guest) for guest in OWNERS}
    refused = other_wheels.g35("upgrade")
    assert refused.code == 2 and {guest: environment(other_wheels, guest) for guest in OWNERS} == before
    done = other_wheels.g35("upgrade", "--allow-disruptive")
    assert done.code == 0, done.failures()
    after = {guest: environment(other_wheels, guest) for guest in OWNERS}
    assert all(after[guest] != before[guest] for guest in OWNERS)
    for guest in OWNERS:
        kept = other_wheels.ssh(guest, "ls", f"/opt/g35/mooncake/{before[guest]}/.g35-complete")
        assert kept.strip()
    judged = other_wheels.g35("validate")
    assert judged.code == 0, judged.failures()
    assert other_wheels.g35("upgrade").data["changed"] == 0


def test_the_environment_before_is_returned_to(other_wheels: Tier) -> None:
    """With the first wheelhouse named again: its environment lies on the hosts, nothing is pushed or built."""
    before = {guest: environment(other_wheels, guest) for guest in OWNERS}
    variables = other_wheels.inventory / "group_vars" / "all.yml"
    text = variables.read_text()
    variables.write_text("\n".join(line for line in text.splitlines() if "wheelhouse:" not in line) + "\n")
    try:
        done = other_wheels.g35("upgrade", "--rollback", "--allow-disruptive")
        assert done.code == 0, done.failures()
        assert all(environment(other_wheels, guest) != before[guest] for guest in OWNERS)
        assert other_wheels.g35("upgrade", "--rollback", "--allow-disruptive").code == 2
        judged = other_wheels.g35("validate")
        assert judged.code == 0, judged.failures()
    finally:
        variables.write_text(text)
