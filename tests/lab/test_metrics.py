"""The metrics collector in the lab: installed with stage fabric, true to the kernel, without powers, and removable."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from conftest import GUESTS, Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]
DIRECTORY = "/var/lib/prometheus/node-exporter"
STAGES = ("--only", "target", "--only", "fabric", "--allow-disruptive", "--yes")


@pytest.fixture(scope="module")
def exporting(tier: Tier) -> Iterator[Tier]:
    """A converged tier whose hosts collect metrics every five seconds, and drift every thirty."""
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    variables = tier.inventory / "group_vars" / "all.yml"
    before = variables.read_text()
    variables.write_text(before + "\ng35_metrics:\n  enabled: true\n  interval: 5\n  drift_interval: 30\n")
    done = tier.g35("deploy", *STAGES)
    assert done.code == 0, done.failures()
    yield tier
    variables.write_text(before)
    done = tier.g35("deploy", *STAGES)
    assert done.code == 0, done.failures()
    for guest in GUESTS:
        assert tier.ssh(guest, "ls", DIRECTORY, check=False).split() == []
        assert tier.ssh(guest, "systemctl", "is-enabled", "g35-metrics.timer", check=False).strip() != "enabled"


def series(tier: Tier, guest: str) -> dict[str, str]:
    """What a fresh collection of a guest says."""
    tier.ssh(guest, "systemctl", "start", "g35-metrics.service")
    text = tier.ssh(guest, "cat", f"{DIRECTORY}/g35.prom", f"{DIRECTORY}/g35_drift.prom")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.rpartition(" ") for line in lines)}


def test_every_host_exports_and_every_source_can_be_read_without_capabilities(exporting: Tier) -> None:
    for guest in GUESTS:
        seen = series(exporting, guest)
        sources = {name: value for name, value in seen.items() if "source_success" in name}
        assert len(sources) == 4 and set(sources.values()) == {"1"}, sources
        drift = {name: value for name, value in seen.items() if name.startswith("g35_drift{")}
        assert drift and set(drift.values()) == {"0"}, drift
        timer = exporting.ssh(guest, "systemctl", "is-active", "g35-metrics.timer")
        assert timer.strip() == "active"


def test_paths_and_owners_are_those_of_the_kernel(exporting: Tier) -> None:
    for guest in ("gpu1", "gpu2"):
        seen = series(exporting, guest)
        up = [value for name, value in seen.items() if name.startswith("g35_nvme_path_up")]
        assert up == ["1"] * exporting.live_paths(guest)
        assert [value for name, value in seen.items() if "namespace_mounted" in name] == ["1", "1"]


def test_a_link_that_goes_down_is_a_path_that_is_down_and_drift(exporting: Tier) -> None:
    exporting.ssh("gpu2", "ip", "link", "set", "eth2", "down")
    try:
        deadline = time.monotonic() + 180
        while exporting.live_paths("gpu2") == 4 and time.monotonic() < deadline:
            time.sleep(2)
        exporting.ssh("gpu2", "rm", "-f", f"{DIRECTORY}/g35_drift.prom")
        seen = series(exporting, "gpu2")
        up = {name: value for name, value in seen.items() if name.startswith("g35_nvme_path_up")}
        assert sorted(up.values()) == ["0", "0", "1", "1"]
        assert all('rail="b"' in name for name, value in up.items() if value == "0")
        assert int(seen['g35_drift{stage="connect"}']) > 0
    finally:
        exporting.ssh("gpu2", "ip", "link", "set", "eth2", "up")
        done = exporting.g35("deploy", "--allow-disruptive", "--yes")
        assert done.code == 0, done.failures()
