"""One suite on one host: what it needs is looked for first, and everything is put away whatever happens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import bench, children
from ansible.module_utils.g35.bench import BenchFailed
from ansible.module_utils.g35.bench_jobs import BenchJob, FabricJob, GatePlan, StorageJob
from ansible.module_utils.g35.host import Host, Result

GATE = GatePlan("127.0.0.1", 0, "t", "gpu1", ("gpu1",), ("127.0.0.1",), patience=0)
FABRIC = BenchJob(fabric=FabricJob("gpu1", GATE, (), (), 5, 1000, 4, 128, 106, 18500))
STORAGE = BenchJob(storage=StorageJob("gpu1", "lab", GATE, (), (), 5, 2**20))


def host(tmp_path: Path, installed: bool = True, system: str = "debian") -> Host:
    (tmp_path / "run").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(f"ID={system}\n")

    def answer(argv: Any, stdin: str | None, timeout: float) -> Result:
        told = {"fio": "fio-3.33\n", "ib_write_bw": "Version: 6.06\n"}
        return Result(argv, 0, told[argv[0]], "") if installed else Result(argv, 127, "", "not installed")

    return Host(str(tmp_path), runner=answer, sleep=lambda _: None)


@pytest.mark.parametrize(("job", "versions"), [(FABRIC, {"perftest": "6.06"}), (STORAGE, {"fio": "fio-3.33"})])
def test_a_suite_brings_the_versions_of_its_tools_and_leaves_nothing(
    tmp_path: Path, job: BenchJob, versions: dict[str, str]
) -> None:
    here = host(tmp_path)
    state = bench.run(here, job, children.Stop())
    assert state["versions"] == versions
    assert state["host"] == "gpu1"
    assert not here.exists(children.RECORD)


@pytest.mark.parametrize(
    ("system", "remedy"), [("debian", "apt-get install -y perftest"), ("rocky", "dnf install -y perftest")]
)
def test_a_missing_tool_is_named_with_what_installs_it(tmp_path: Path, system: str, remedy: str) -> None:
    here = host(tmp_path, installed=False, system=system)
    with pytest.raises(BenchFailed, match="perftest is not installed") as caught:
        bench.run(here, FABRIC, children.Stop())
    assert remedy in caught.value.remedy
    assert not here.exists(children.RECORD)


def test_nobody_begins_while_a_host_lacks_a_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came = {"gpu1": {"missing": []}, "gpu2": {"missing": ["fio"]}}
    monkeypatch.setattr(bench.Gate, "meet", lambda self, name, payload: came)
    with pytest.raises(BenchFailed, match="fio is not installed on gpu2"):
        bench.run(host(tmp_path), STORAGE, children.Stop())


def test_a_benchmark_that_was_asked_to_stop_fails_and_puts_everything_away(tmp_path: Path) -> None:
    stop = children.Stop()
    stop.set()
    here = host(tmp_path)
    with pytest.raises(BenchFailed, match="stopped"):
        bench.run(here, FABRIC, stop)
    assert not here.exists(children.RECORD)


def test_who_measures_is_on_record_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = host(tmp_path)
    seen: list[str] = []
    monkeypatch.setattr(bench.FabricSuite, "run", lambda self: seen.append(here.read(children.RECORD) or "") or {})
    bench.run(here, FABRIC, children.Stop())
    assert f'"pid": {os.getpid()}' in seen[0]


def test_a_job_without_a_suite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match="names no suite"):
        bench.run(host(tmp_path), BenchJob(), children.Stop())
