"""The status screen: what it counts, and which exit code it means."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import tier_sample as tier
import tier_states

from g35ctl.engine.run import Failure
from g35ctl.exits import Exit
from g35ctl.observe import readings
from g35ctl.observe.details import PortCounters
from g35ctl.report.status import Status, build, lines, with_rates
from g35ctl.validate.functional import judge
from g35ctl.validate.look import Look
from g35ctl.verdict import Grade, Verdict


def status(states: dict[str, dict[str, Any]], silent: tuple[str, ...] = ()) -> Status:
    return build(look_of(states, silent))


def look_of(states: dict[str, dict[str, Any]], silent: tuple[str, ...] = ()) -> Look:
    plan = tier.plan()
    answered = {host: state for host, state in states.items() if host not in silent}
    findings: dict[str, list[dict[str, Any]]] = {host: [] for host in answered}
    failures = tuple(Failure(host, "verify", "ssh.connect", "timed out", "a connection", "power") for host in silent)
    verdicts = judge(plan, answered, findings, None)
    taken = datetime(2026, 12, 1, 12, tzinfo=UTC)
    return Look(tier.site(), plan, readings.read(plan, answered), verdicts, failures, taken)


def test_healthy_tier_is_one_screen_without_findings() -> None:
    found = status(tier_states.states())
    text = lines(found)
    assert found.exit_code is Exit.OK
    assert text[0].startswith("HEALTHY: site sample, rdma")
    rows = [line.split() for line in text]
    assert ["ebof1", "4", "4", "4", "gpu1", "2,", "gpu2", "2"] in rows
    assert ["gpu1", "4/4", "live", "2/2", "1", "GiB", "of", "2", "GiB", "2/2", "healthy", "-", "master"] in rows
    assert any("segments 4/4 over rdma" in line and "used of 3.516 GiB" in line for line in text)
    assert not any(line.startswith(("FAIL", "WARN")) for line in text)
    assert len(text) < 24


def test_lost_path_is_counted_named_and_exits_with_1() -> None:
    states = tier_states.states()
    states["gpu2"]["connect"]["paths"][1].update(state="connecting")
    found = status(states)
    assert found.exit_code is Exit.DEPLOY_FAILED
    assert any(line.split()[:2] == ["gpu2", "3/4"] for line in lines(found))
    assert any(line.startswith("FAIL paths.live on gpu2 ") and "nvme1 connecting" in line for line in lines(found))


def test_silent_host_exits_with_5_and_says_why() -> None:
    found = status(tier_states.states(), silent=("gpu2",))
    assert found.exit_code is Exit.UNREACHABLE
    assert any(line.split()[:3] == ["gpu2", "no", "answer"] for line in lines(found))
    assert any(line.startswith("not read: gpu2: timed out") for line in lines(found))


def pool(**metrics: int) -> dict[str, dict[str, Any]]:
    states = tier_states.states()
    for host in ("gpu1", "gpu2"):
        states[host]["cache"]["master"]["metrics"].update(metrics)
    return states


def test_the_share_of_questions_that_had_an_answer_is_shown() -> None:
    found = status(pool(gets=200, gets_found=197, file_hit_bytes=3 * 2**30, memory_hit_bytes=2**20))
    assert found.pool is not None and found.pool.hit_rate == 0.985
    line = next(line for line in lines(found) if line.startswith("READS"))
    assert line == ("READS since the master started: 98.5% of questions found; from flash 3 GiB, from memory 1 MiB")
    assert "nothing asked" in next(line for line in lines(status(pool(gets=0))) if line.startswith("READS"))


def later(states: dict[str, dict[str, Any]], moved: int | None = None, minutes: int = 0) -> Status:
    counters = {} if moved is None else {"gpu1": (PortCounters("eth1", roce_bytes=moved), PortCounters("eth2"))}
    found = build(replace(look_of(states), counters=counters))
    return replace(found, taken=datetime(2026, 12, 1, 12, minutes, tzinfo=UTC).isoformat(timespec="seconds"))


def test_two_looks_give_throughput_and_the_hit_rate_between_them() -> None:
    first = later(pool(gets=1000, gets_found=10, file_hit_bytes=0, memory_hit_bytes=0), 2**30)
    second = later(pool(gets=1100, gets_found=110, file_hit_bytes=120 * 2**20, memory_hit_bytes=0), 61 * 2**30, 1)
    found = with_rates(first, second)
    assert found.pool is not None and (found.pool.hit_rate, found.pool.file_rate) == (1.0, 2 * 2**20)
    assert {host.name: host.roce_rate for host in found.hosts} == {"gpu1": 2**30, "gpu2": None}
    text = lines(found)
    assert any(line.startswith("READS since the look before: 100.0%") and "flash 2 MiB/s" in line for line in text)
    assert any(line.startswith("gpu1") and "1 GiB/s" in line for line in text)


def test_a_restart_between_two_looks_gives_no_rate() -> None:
    first = later(pool(gets=1000, gets_found=900, file_hit_bytes=500, memory_hit_bytes=0), 1000)
    found = with_rates(first, later(pool(gets=5, gets_found=5, file_hit_bytes=10, memory_hit_bytes=0), 10, 1))
    assert found.pool is not None and found.pool.file_rate is None
    assert found.hosts[0].roce_rate is None
    assert with_rates(first, first) == first


def test_warnings_are_counted_and_leave_the_exit_code_alone() -> None:
    found = status(tier_states.states())
    warned = replace(found, problems=(Verdict("functional", "x", Grade.WARN, "o", "e"),))
    assert (warned.exit_code, warned.warnings) == (Exit.OK, 1)
    assert lines(warned)[0].startswith("HEALTHY, 1 warning:")


def test_json_has_the_common_form() -> None:
    states = tier_states.states()
    states["gpu1"]["fabric"]["ports"]["eth1"]["mtu"] = 1500
    data = json.loads(json.dumps(status(states).to_json()))
    assert (data["schema_version"], data["ok"]) == (1, False)
    assert data["failures"] == [
        {
            "host": "gpu1",
            "stage": "verify",
            "check": "fabric.mtu",
            "subject": "eth1",
            "observed": "1500",
            "expected": "4200",
            "remedy": data["failures"][0]["remedy"],
        }
    ]
    assert data["hosts"][0]["paths_live"] == 4


def test_same_check_on_many_subjects_is_told_once() -> None:
    states = tier_states.states()
    for host in ("gpu1", "gpu2"):
        for path in states[host]["connect"]["paths"]:
            path.update(state="connecting")
    told = [line for line in lines(status(states)) if line.startswith("FAIL")]
    assert len(told) == 1
    assert told[0].startswith("FAIL paths.live on gpu1, gpu2 (4 times), first nqn.")
