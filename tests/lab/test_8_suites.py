"""The benchmark suites on a running tier: real tools over soft-RoCE and NVMe-oF, and nothing is left behind."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import GUESTS, OWNERS, Done, Tier

from g35ctl.validate import bench_result
from g35ctl.validate.bench_result import BenchResult

pytestmark = [pytest.mark.lab, pytest.mark.soak]

# In brackets, so that pgrep's own command line does not match.
TOOLS = "[i]b_(write|read|send)_|[f]io --output|[g]35_bench|[s]torebench|[t]ransfer_engine_bench"


def measured(done: Done) -> BenchResult:
    found = bench_result.read(done.data["folder"])
    assert found is not None
    return found


def ran(tier: Tier, suite: str) -> tuple[Done, BenchResult]:
    """One suite, whose every planned figure came, with its evidence, told as emulated."""
    done = tier.g35("validate", "--suite", suite)
    assert done.code == 0, done.failures()
    result = measured(done)
    assert result.emulated
    assert [item for item in result.measurements if item.problem] == []
    assert all(item.emulated and item.command for item in result.measurements)
    folder = Path(done.data["folder"])
    assert all((folder / item.evidence).is_file() for item in result.measurements)
    report = json.loads((folder / "report.json").read_text())
    verdicts = [item for item in report["verdicts"] if item["suite"] == suite]
    assert verdicts
    assert all(item["emulated"] for item in verdicts)
    assert {item["grade"] for item in verdicts} <= {"PASS", "WARN"}
    return done, result


def nothing_is_left(tier: Tier) -> None:
    """No tool runs, nothing listens, no file or value of ours is there on any guest."""
    for guest in GUESTS:
        assert tier.ssh(guest, "pgrep", "-fl", TOOLS, check=False).strip() == "", guest
        listening = tier.ssh(guest, "ss", "-Hltn", "sport >= :18500 and sport <= :18699")
        assert listening.strip() == "", guest
        assert tier.ssh(guest, "ls", "/run/g35ctl-bench.json", "/run/g35ctl-bench", check=False).strip() == "", guest
    for guest in OWNERS:
        left = tier.ssh(guest, "find", "/var/lib/g35/flash", "-maxdepth", "2", "-name", ".g35-bench")
        assert left.strip() == "", guest


def of(result: BenchResult, test: str) -> list[Any]:
    return [item for item in result.measurements if item.test == test]


def test_fabric(converged: Tier) -> None:
    _, result = ran(converged, "fabric")
    # Three pairs on the rail the lab's inventory names: host to host, and each host with the box.
    for test in ("write", "read"):
        assert len(of(result, test)) == 3
        assert all(0 < item.bytes_per_second < 1e10 for item in of(result, test))
    assert len(of(result, "latency")) == 3
    assert all(item.latency.mean > 0 and item.latency.samples == 200 for item in of(result, "latency"))
    assert len({item.group for item in of(result, "incast")}) == 2
    assert len(of(result, "incast")) == 4
    assert "6.06" in result.versions["perftest"]
    nothing_is_left(converged)


def test_storage(converged: Tier) -> None:
    done, result = ran(converged, "storage")
    namespaces = {item.subject for item in result.measurements}
    assert len(namespaces) == 4
    settings = {(item.subject, item.block_size, item.queue_depth) for item in of(result, "namespace")}
    assert settings == {(uuid, size, depth) for uuid in namespaces for size in (131072, 524288) for depth in (1, 4)}
    assert {item.subject for item in of(result, "aggregate")} == namespaces
    assert [item.host for item in of(result, "local")] == ["ebof1"]
    assert [item.host for item in of(result, "remote")] == [of(result, "remote")[0].host]
    assert of(result, "write") == []
    checks = {item["check"] for item in json.loads((Path(done.data["folder"]) / "report.json").read_text())["verdicts"]}
    assert {"storage.namespace", "storage.box", "storage.fairness", "storage.latency", "storage.counters"} <= checks
    nothing_is_left(converged)
    assert converged.g35("status").code == 0


def test_store(converged: Tier) -> None:
    _, result = ran(converged, "store")
    for host in OWNERS:
        for tier in ("memory", "flash"):
            reads = [item for item in result.measurements if (item.host, item.tier) == (host, tier) and item.verified]
            assert reads, f"{host} read nothing from {tier}"
            assert all(item.mismatched == 0 and item.peer != host for item in reads)
    nothing_is_left(converged)


def test_writing_is_measured_on_a_named_namespace_only(converged: Tier) -> None:
    plan = converged.g35("plan").data
    named = plan["ownership"][0]
    done = converged.g35("validate", "--suite", "storage", "--write-namespace", named["uuid"])
    assert done.code == 0, done.failures()
    assert [(item.host, item.subject) for item in of(measured(done), "write")] == [(named["owner"], named["uuid"])]
    refused = converged.g35("validate", "--suite", "storage", "--write-namespace", str(named["uuid"])[:-1] + "x")
    assert refused.code == 2
    nothing_is_left(converged)


def test_a_missing_tool_is_a_failure_to_run_and_names_what_installs_it(converged: Tier) -> None:
    converged.ssh("gpu2", "mv", "/usr/bin/fio", "/usr/bin/fio.away")
    try:
        done = converged.g35("validate", "--suite", "storage")
    finally:
        converged.ssh("gpu2", "mv", "/usr/bin/fio.away", "/usr/bin/fio")
    assert done.code == 1
    assert "apt-get install -y fio" in done.failures()
    nothing_is_left(converged)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_suite_that_is_cut_off_leaves_nothing_running(converged: Tier, number: signal.Signals) -> None:
    process = converged.start("validate", "--suite", "storage")
    until = time.monotonic() + 300
    while "fio" not in converged.ssh("gpu1", "pgrep", "-l", "fio", check=False):
        assert process.poll() is None
        assert time.monotonic() < until
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == (130 if number is signal.SIGINT else -signal.SIGKILL)
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if not any(converged.ssh(guest, "pgrep", "-f", TOOLS, check=False).strip() for guest in GUESTS):
            break
    nothing_is_left(converged)
