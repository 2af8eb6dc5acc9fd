"""The serving lab end to end: containers, a real engine on the CPU, the pool between two of them, three cache paths.

A lab of its own, apart from one that someone uses. ``G35_TEST_LAB_KEEP=1`` keeps it before and after. Native speed on
two idle cores: about ten minutes, most of them the engines' starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from g35ctl.engine.folder import runs
from g35ctl.engine.ssh import Target, logins, tunnels
from g35ctl.lab.container import ContainerLab
from g35ctl.validate import serving_result
from g35ctl.validate.serving.prompts import text
from g35ctl.validate.serving.streaming import Answer, ask
from g35ctl.validate.serving_result import CachePath

pytestmark = pytest.mark.serving

CHECKOUT = Path(__file__).resolve().parents[2]
KEEP = os.environ.get("G35_TEST_LAB_KEEP") == "1"
ENGINES = {"gpu1": "192.0.2.21", "gpu2": "192.0.2.22"}
BLOCK = 128


@dataclass
class Serving:
    """The lab, the command line under test, and the engines."""

    lab: ContainerLab
    inventory: Path

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "g35ctl.cli.main", "-i", str(self.inventory), "-o", "json", *words]

    def g35(self, *words: str, timeout: float = 1800) -> tuple[int, dict[str, Any], str]:
        done = subprocess.run(
            self.argv(*words), cwd=CHECKOUT, capture_output=True, text=True, timeout=timeout, check=False
        )
        data = json.loads(done.stdout) if done.stdout.strip() else {}
        return done.returncode, data, done.stderr[-3000:]

    def shell(self, guest: str, *words: str) -> str:
        done = self.lab.ssh(guest, words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, guest: str, prompt: str, tokens: int = 16) -> Answer:
        state = self.inventory / ".g35"
        target = Target(guest, ENGINES[guest], 8100)
        body = {
            "model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
            "stream": True, "stream_options": {"include_usage": True},
        }  # fmt: skip
        with tunnels(logins(str(self.inventory), state, [guest]), [target]) as ways:
            host, port = ways[target]
            return asyncio.run(ask(host, port, "/v1/completions", body, timeout=300))

    def keys(self) -> set[str]:
        """The keys that the master knows."""
        program = "import urllib.request as u; print(u.urlopen('http://192.0.2.11:9003/get_all_keys').read().decode())"
        return set(self.shell("head1", "python3", "-c", program).split())

    def result(self) -> serving_result.ServingResult:
        found = serving_result.read(runs(self.inventory / ".g35")[-1].path)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    root = CHECKOUT / ".lab-test" if KEEP else tmp_path_factory.mktemp("lab")
    made = ContainerLab("test", state_dir=root / "container" / "test", inventory_dir=root / "serving-inventory")
    made.up()
    yield Serving(made, made.inventory_path)
    if not KEEP:
        made.down(purge=True)


@pytest.fixture(scope="module")
def deployed(serving: Serving) -> Serving:
    code, data, err = serving.g35("deploy", "--allow-disruptive")
    assert code == 0, json.dumps(data.get("failures"), indent=1) + err
    return serving


def test_stages_that_a_container_cannot_do_are_not_planned(deployed: Serving) -> None:
    code, plan, err = deployed.g35("plan")
    assert code == 0, err
    told = plan.get("stage_hosts") or plan["plan"]["stage_hosts"]
    assert {name for name, hosts in told.items() if hosts} == {"preflight", "cache", "inference", "validate"}


def test_a_second_deploy_changes_nothing(deployed: Serving) -> None:
    code, data, err = deployed.g35("deploy")
    assert code == 0, err
    assert data["changed"] == 0


def test_what_one_engine_computed_another_finds(deployed: Serving) -> None:
    deployed.ask("gpu1", text("warm", 300))
    deployed.ask("gpu2", text("warm too", 300))
    prompt = text(f"cross {time.time()}", 4096)
    cold = deployed.ask("gpu1", prompt)
    time.sleep(2)
    found = deployed.ask("gpu2", prompt)
    blocks = 4096 // BLOCK
    assert cold.cached_tokens == 0
    assert found.cached_tokens >= (blocks - 1) / blocks * 4096
    assert found.text == cold.text
    assert found.ttft is not None and cold.ttft is not None
    assert found.ttft <= cold.ttft / 4


def test_flash_serves_what_memory_has_evicted(deployed: Serving) -> None:
    first = text(f"flash {time.time()}", 4096)
    cold = deployed.ask("gpu1", first)
    # Three times what both stores hold in memory.
    for number in range(24):
        deployed.ask("gpu1", text(f"filler {number} {time.time()}", 4096), 1)
        time.sleep(0.2)
    time.sleep(4)
    since = deployed.shell("gpu2", "date", "+%s").strip()
    found = deployed.ask("gpu2", first)
    log = deployed.shell("gpu2", "journalctl", "-u", "g35-vllm-*", f"--since=@{since}", "-o", "cat", "--no-pager")
    loads = [line for line in log.splitlines() if "Mooncake load tier summary" in line]
    assert found.cached_tokens >= 31 / 32 * 4096
    assert any("disk_keys=0 " not in line for line in loads), loads
    assert found.text == cold.text


def test_an_owner_that_was_killed_brings_its_flash_back(deployed: Serving) -> None:
    store = "g35-mooncake-store-var-lib-g35-flash-ssd1.service"
    prompt = text(f"owner {time.time()}", 4096)
    known = deployed.keys()
    cold = deployed.ask("gpu1", prompt)
    time.sleep(2)
    own = deployed.keys() - known
    assert len(own) >= 4096 // BLOCK - 1
    for number in range(24):
        deployed.ask("gpu1", text(f"more {number} {time.time()}", 4096), 1)
        time.sleep(0.2)
    time.sleep(4)
    for guest in ENGINES:
        deployed.shell(guest, "systemctl", "kill", "--signal=KILL", store)
    # The units wait until the master has forgotten the dead stores, and start them by themselves.
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        states = [deployed.lab.ssh(guest, ["systemctl", "is-active", store]).stdout.strip() for guest in ENGINES]
        if states == ["active", "active"] and own <= deployed.keys():
            break
        time.sleep(2)
    missing = own - deployed.keys()
    assert not missing, f"{len(missing)} of {len(own)} blocks did not come back from flash"
    found = deployed.ask("gpu2", prompt)
    assert found.cached_tokens >= 31 / 32 * 4096
    assert found.text == cold.text


def test_requests_are_answered_while_the_master_is_away(deployed: Serving) -> None:
    master = "g35-mooncake-master.service"
    deployed.shell("head1", "systemctl", "stop", master)
    try:
        away = [deployed.ask(guest, text(f"away {guest} {time.time()}", 1024)) for guest in ENGINES]
    finally:
        deployed.shell("head1", "systemctl", "start", master)
    assert all(item.output_tokens == 16 for item in away)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        prompt = text(f"back {time.time()}", 1024)
        deployed.ask("gpu1", prompt, 1)
        time.sleep(1)
        if deployed.ask("gpu2", prompt, 1).cached_tokens >= 7 * BLOCK:
            return
    pytest.fail("the engines did not find the pool again within two minutes")


def test_three_paths_and_the_site_as_it_was(deployed: Serving) -> None:
    before = deployed.shell("gpu1", "cat", "/etc/systemd/system/g35-mooncake-store-var-lib-g35-flash-ssd1.service")
    code, data, err = deployed.g35("validate", "--suite", "serving", timeout=3000)
    found = deployed.result()
    assert code in (0, 7), json.dumps(data.get("failures"), indent=1) + err
    assert found.missing == ()
    assert found.restored and found.emulated
    after = deployed.shell("gpu1", "cat", "/etc/systemd/system/g35-mooncake-store-var-lib-g35-flash-ssd1.service")
    assert after == before
    most = max(found.workload.users)
    rows = {path: found.row(path, most) for path in CachePath}
    local, memory, g35 = rows[CachePath.LOCAL], rows[CachePath.MEMORY], rows[CachePath.G35]
    assert local is not None and memory is not None and g35 is not None
    # The knee of the small path, and none of the other two.
    assert (local.hit_rate or 0) < 0.6 * found.workload.ceiling
    assert (memory.hit_rate or 0) > 0.9 * found.workload.ceiling
    assert (g35.hit_rate or 0) > 0.9 * found.workload.ceiling
    for point in found.points:
        assert point.errors == ()
        # The engines' own counters agree with what their answers said.
        assert point.tokens is not None
        told = sum(turn.cached_tokens for turn in point.turns)
        assert point.tokens.prompt - point.tokens.computed == pytest.approx(told, rel=0.02, abs=2048)
    assert all(item.equal == item.asked for item in found.equalities)
    assert g35.tokens is not None and g35.tokens.flash > 0


def test_a_killed_controller_leaves_a_site_that_the_next_command_puts_back(deployed: Serving) -> None:
    unit = "/etc/systemd/system/g35-mooncake-store-var-lib-g35-flash-ssd1.service"
    before = deployed.shell("gpu2", "cat", unit)
    process = subprocess.Popen(
        deployed.argv("validate", "--suite", "serving"), cwd=CHECKOUT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    journal = deployed.inventory / ".g35" / "journal.json"
    deadline = time.monotonic() + 300
    while deployed.shell("gpu2", "cat", unit) == before and time.monotonic() < deadline:
        time.sleep(1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert journal.exists()
    assert deployed.shell("gpu2", "cat", unit) != before
    code, data, err = deployed.g35("deploy", "--skip", "validate")
    assert code == 0, json.dumps(data.get("failures"), indent=1) + err
    assert deployed.shell("gpu2", "cat", unit) == before
    assert not journal.exists()
