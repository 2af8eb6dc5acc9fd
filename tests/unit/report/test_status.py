"""The status screen: what it counts, and which exit code it means."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import tier_sample as tier
import tier_states

from g35ctl.engine.run import Failure
from g35ctl.exits import Exit
from g35ctl.observe import readings
from g35ctl.report.status import Status, build, lines
from g35ctl.validate.functional import judge
from g35ctl.validate.look import Look


def status(states: dict[str, dict[str, Any]], silent: tuple[str, ...] = ()) -> Status:
    plan = tier.plan()
    answered = {host: state for host, state in states.items() if host not in silent}
    findings: dict[str, list[dict[str, Any]]] = {host: [] for host in answered}
    failures = tuple(Failure(host, "verify", "ssh.connect", "timed out", "a connection", "power") for host in silent)
    verdicts = judge(plan, answered, findings, None)
    taken = datetime(2026, 12, 1, 12, tzinfo=UTC)
    return build(Look(tier.site(), plan, readings.read(plan, answered), verdicts, failures, taken))


def test_healthy_tier_is_one_screen_without_findings() -> None:
    found = status(tier_states.states())
    text = lines(found)
    assert found.exit_code is Exit.OK
    assert text[0].startswith("HEALTHY: site sample, rdma")
    rows = [line.split() for line in text]
    assert ["ebof1", "4", "4", "4"] in rows
    assert ["gpu1", "4/4", "live", "2/2", "1", "GiB", "of", "2", "GiB", "2/2", "healthy", "master"] in rows
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
