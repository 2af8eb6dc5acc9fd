"""All hosts of a small site in one process, with a real gate: every step is measured against a running server."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import tier_sample
from ansible.module_utils.g35.bench_fabric import FabricSuite
from ansible.module_utils.g35.bench_jobs import FabricJob
from ansible.module_utils.g35.gate import Gate, Keeper
from ansible.module_utils.g35.host import Host, Result

from g35ctl.plan.bench import fabric_jobs


class Cluster:
    """Every program of every host: who serves at which address and port, and who found nobody there."""

    def __init__(self) -> None:
        self.serving: set[tuple[str, str]] = set()
        self.measured: list[str] = []
        self.alone: list[str] = []
        self.guard = threading.Lock()


class Program:
    def __init__(self, cluster: Cluster, argv: list[str]) -> None:
        self.cluster = cluster
        words = dict(word.partition("=")[::2] for word in argv if word.startswith("--"))
        port = argv[argv.index("-p") + 1]
        self.server = argv[-1].count(".") != 3
        self.place = (words["--source_ip"] if self.server else argv[-1], port)
        self.argv = argv
        self.over = False
        with cluster.guard:
            if self.server:
                cluster.serving.add(self.place)
            elif self.place in cluster.serving:
                cluster.measured.append(" ".join(argv))
            else:
                cluster.alone.append(" ".join(argv))

    def running(self) -> bool:
        return not self.over

    def wait(self, seconds: float, stopped: Any) -> Result:
        return self.end()

    def end(self) -> Result:
        with self.cluster.guard:
            self.over = True
            self.cluster.serving.discard(self.place)
        return Result(self.argv, 0, "", "")


class Tools(Host):
    """A host whose servers listen as soon as they are started."""

    def __init__(self, root: Path, cluster: Cluster) -> None:
        super().__init__(str(root), runner=lambda argv, stdin, timeout: Result(argv, 0, "--source_ip", ""))
        self.cluster = cluster
        for netdev in ("eth1", "eth2"):
            (root / f"sys/class/net/{netdev}/device/infiniband/mlx_{netdev}").mkdir(parents=True)


class Suite(FabricSuite):
    def _listens(self, address: str, port: int) -> bool:
        return (address, str(port)) in self.host.cluster.serving  # type: ignore[attr-defined]


def test_every_step_finds_its_server_and_no_server_is_left(tmp_path: Path) -> None:
    plan, site = tier_sample.plan(), tier_sample.site()
    jobs = {host: job.fabric for host, job in fabric_jobs(plan, site, "t").items() if job.fabric is not None}
    cluster = Cluster()
    told: dict[str, dict[str, Any]] = {}
    where = next(iter(jobs.values())).gate
    keeper = Keeper(replace(where, address="127.0.0.1", port=0, addresses=("127.0.0.1",)))
    keeper.start()
    where = replace(keeper.plan, port=keeper.address[1], conductor="somebody else")

    def one(job: FabricJob) -> None:
        host = Tools(tmp_path / job.host, cluster)
        gate = Gate(where, job.host, sleep=lambda _: time.sleep(0.01))
        told[job.host] = Suite(host, job, gate, lambda argv: Program(cluster, argv), free=lambda *_: True).run()  # type: ignore[arg-type,return-value]

    threads = [threading.Thread(target=one, args=(job,), daemon=True) for job in jobs.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    keeper.stop()
    steps = {step.key for job in jobs.values() for item in job.rounds for step in item.steps}
    done = [item for state in told.values() for item in state["steps"]]
    assert {item["key"] for item in done} == steps
    assert [item for item in done if item["problem"]] == []
    assert cluster.alone == []
    assert len(cluster.measured) == len(steps)
    assert cluster.serving == set()
