"""One execution judges the system and all stages of a host, and hides nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import aggregate
from ansible.module_utils.g35.converge import Finding, Stage
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.schema import SchemaError

DEBIAN = 'ID=debian\nVERSION_ID="12"\n'


class Fixed(Stage):
    def __init__(self, host: Host, findings: list[Finding], error: Exception | None = None) -> None:
        super().__init__(host)
        self._findings = findings
        self._error = error

    def preflight(self) -> list[Finding]:
        return self._findings

    def read(self) -> dict[str, Any]:
        if self._error:
            raise self._error
        return {"read": True}

    def findings(self, state: dict[str, Any]) -> list[Finding]:
        return self._findings


def host(root: Path, release: str = DEBIAN, synchronized: str = "yes", tools: bool = True) -> Host:
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "os-release").write_text(release, encoding="utf-8")
    (root / "run/systemd/system").mkdir(parents=True)
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/osrelease").write_text("6.1.0\n", encoding="utf-8")
    if tools:
        for wanted in aggregate.TOOLS.values():
            for tool in wanted:
                path = root / (tool.paths[0] if tool.paths else f"/usr/sbin/{tool.name}").lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
    return Host(str(root), lambda argv, stdin, timeout: Result(argv, 0, synchronized + "\n", ""))


def finding(check: str, severity: str = "error") -> Finding:
    return Finding(check, "s", "o", "e", "r", severity)


@pytest.fixture(autouse=True)
def root_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregate.os, "geteuid", lambda: 0)


def checks(result: dict[str, Any]) -> list[str]:
    return [item["check"] for item in result["findings"]]


@pytest.mark.parametrize(
    "release",
    [
        DEBIAN, 'ID=debian\nVERSION_ID="13"\n', 'ID=ubuntu\nVERSION_ID="24.04"\n', 'ID="rocky"\nVERSION_ID="9.6"\n',
        'ID="openEuler"\nVERSION_ID="24.03"\n', 'ID="anolis"\nVERSION_ID="8.9"\n', 'ID="kos"\nVERSION_ID="5.8"\n',
    ],
)  # fmt: skip
def test_supported_systems_pass(tmp_path: Path, release: str) -> None:
    result = aggregate.preflight(host(tmp_path, release), {}, pytest.fail)
    assert checks(result) == []
    assert not result["failed"]


@pytest.mark.parametrize(
    "release", ['ID=debian\nVERSION_ID="11"\n', 'ID=fedora\nVERSION_ID="40"\n', 'ID="rhel"\nVERSION_ID="90.1"\n', ""]
)
def test_an_unsupported_system_is_an_error_and_never_passes_silently(tmp_path: Path, release: str) -> None:
    result = aggregate.preflight(host(tmp_path, release), {}, pytest.fail)
    assert "system.supported" in checks(result)
    assert result["failed"]
    assert "Debian 12" in result["msg"]


def test_all_missing_packages_are_one_finding_with_one_command(tmp_path: Path) -> None:
    plans = {"fabric": {"transport": "rdma"}, "connect": {"site": "x"}}
    result = aggregate.preflight(
        host(tmp_path, tools=False), plans, lambda name: lambda machine, plan: Fixed(machine, [])
    )
    (missing,) = [item for item in result["findings"] if item["check"] == "system.packages"]
    wanted = {tool.debian for stage in plans for tool in aggregate.TOOLS[stage]}
    assert wanted >= {"ethtool", "iproute2", "kmod", "nvme-cli"}
    assert missing["remedy"] == "apt-get install -y " + " ".join(sorted(wanted))
    assert "dcb" in missing["observed"]


def test_an_unsynchronized_clock_is_told_and_stops_nothing(tmp_path: Path) -> None:
    result = aggregate.preflight(host(tmp_path, synchronized="no"), {}, pytest.fail)
    assert [(item["check"], item["severity"]) for item in result["findings"]] == [("system.time", "warning")]
    assert not result["failed"]


def test_one_stage_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    def find(name: str) -> Any:
        error = OSError("sysfs went away") if name == "fabric" else None
        return lambda machine, plan: Fixed(machine, [finding(f"{name}.x", "warning")], error)

    result = aggregate.verify(host(tmp_path), {"connect": {"a": 1}, "fabric": {"a": 1}}, find)
    assert [(item["stage"], item["check"]) for item in result["findings"]] == [
        ("fabric", "fabric.read"), ("connect", "connect.x"),
    ]  # fmt: skip
    assert result["state"]["connect"] == {"read": True}
    assert result["failed"]
    assert "sysfs went away" in result["msg"]


def test_a_plan_that_does_not_load_is_a_finding_of_its_stage(tmp_path: Path) -> None:
    def find(name: str) -> Any:
        def build(machine: Host, plan: dict[str, Any]) -> Stage:
            if name == "cache":
                raise SchemaError("CachePlan", ["site: missing"])
            return Fixed(machine, [])

        return build

    result = aggregate.verify(host(tmp_path), {"cache": {"x": 1}, "storage": {"x": 1}}, find)
    assert checks(result) == ["cache.plan"]
    assert "storage" in result["state"]


def test_system_facts_are_part_of_the_state(tmp_path: Path) -> None:
    state = aggregate.verify(host(tmp_path), {}, pytest.fail)["state"]["system"]
    assert (state["id"], state["version"], state["kernel"]) == ("debian", "12", "6.1.0")
    assert state["python"].startswith(f"{sys.version_info[0]}.")
    assert state["time_synchronized"] is True
