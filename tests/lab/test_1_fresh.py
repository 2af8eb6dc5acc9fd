"""From nothing to a working tier: what a first deploy must do, and must not do."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import GUESTS, OWNERS, Tier, until_stage

pytestmark = pytest.mark.lab


def test_check_mode_on_fresh_hosts_tells_and_touches_nothing(tier: Tier) -> None:
    done = tier.g35("deploy", "--check")
    assert done.code == 10, done.failures()
    assert done.data["changed"] > 0
    for guest in GUESTS:
        assert tier.ssh(guest, "find", "/etc/g35ctl", "/usr/lib/g35ctl", check=False) == ""
        assert tier.read(guest, "/sys/class/net/eth1/mtu") == "1500"


def test_unsupported_system_is_refused_by_name(tier: Tier) -> None:
    tier.ssh("gpu2", "cp", "-a", "--remove-destination", "/usr/lib/os-release", "/etc/os-release")
    tier.ssh("gpu2", "sed", "-i", "s/^ID=.*/ID=plan9/", "/etc/os-release")
    try:
        done = tier.g35("deploy")
        assert done.code == 4, done.failures()
        failure = next(item for item in done.data["failures"] if item["host"] == "gpu2")
        assert "plan9" in failure["observed"]
        assert failure["remedy"]
        # Preflight failed, so nothing was changed anywhere.
        assert tier.read("gpu1", "/sys/class/net/eth1/mtu") == "1500"
    finally:
        tier.ssh("gpu2", "ln", "-sf", "../usr/lib/os-release", "/etc/os-release")


def test_interrupted_deploy_stops_cleanly_and_says_how_to_go_on(tier: Tier) -> None:
    process = tier.start("deploy")
    until_stage(process, "connect")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 130, err
    end = json.loads(out.splitlines()[-1])
    assert end["ok"] is False
    # Nobody holds the site any more: the next deploy is not refused (exit 8) but continues.


def test_deploy_continues_and_ends_green(tier: Tier) -> None:
    done = tier.g35("deploy")
    assert done.code == 0, done.failures()
    assert done.data["ok"] is True
    assert {stage["stage"] for stage in done.data["stages"]} >= {"connect", "storage", "cache", "validate"}


def test_report_is_written_in_three_forms(tier: Tier) -> None:
    folder = sorted((tier.inventory / ".g35" / "runs").iterdir())[-1]
    report = json.loads((folder / "report.json").read_text())
    grades = {item["grade"] for item in report["verdicts"]}
    assert grades <= {"PASS", "SKIP", "WARN"}
    assert "PASS" in grades
    page = (folder / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    suites = ElementTree.parse(folder / "junit.xml").getroot()
    assert suites.tag == "testsuites"
    assert (folder.stat().st_mode & 0o777) == 0o700


def test_what_the_report_says_is_so_on_the_hosts(tier: Tier) -> None:
    for owner in OWNERS:
        assert tier.live_paths(owner) == 4  # two namespaces over two rails
        assert tier.ssh(owner, "findmnt", "-n", "-t", "xfs", "-o", "TARGET").count("/var/lib/g35/flash/") == 2
    for guest in GUESTS:
        for netdev in ("eth1", "eth2"):
            assert tier.read(guest, f"/sys/class/net/{netdev}/mtu") == "4200"
            pfc = tier.ssh(guest, "dcb", "pfc", "show", "dev", netdev, "prio-pfc")
            assert re.findall(r"(\d):on", pfc) == ["3"]
    for folder in Path(tier.inventory, ".g35", "runs").iterdir():
        assert not list(folder.rglob("command")), "runner artifacts with the environment must not stay"


def test_stores_answer_to_nobody_but_the_site(tier: Tier) -> None:
    rules = tier.ssh("gpu1", "nft", "list", "table", "inet", "g35")
    assert "9003" in rules and "drop" in rules
    listening = tier.ssh("gpu1", "ss", "-Hltn")
    master = [line for line in listening.splitlines() if ":50051" in line or ":9003" in line]
    assert master and all("192.0.2.21:" in line for line in master)
