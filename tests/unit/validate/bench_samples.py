"""What hosts bring from the benchmark suites: states in the modules' form, in the form the tools give."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tier_sample
from ansible.module_utils.g35.bench_jobs import BenchJob

from g35ctl.engine.bench import Measured
from g35ctl.engine.run import Failure, StageResult
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site, Validation

RULE = "-" * 87
SPEED = 100_000  # Mb/s


def lab(**settings: Any) -> tuple[Plan, Site]:
    site = tier_sample.site().model_copy(update={"validation": Validation.model_validate(settings)})
    return tier_sample.plan(), site


def measured(states: Mapping[str, Mapping[str, Any]], failures: tuple[Failure, ...] = ()) -> Measured:
    evidence = {host: f"bench/suite/{host}.json" for host in states}
    return Measured(states, failures, StageResult("validate", dict.fromkeys(states, "ok"), 1.0), evidence)


def port(**counters: int) -> dict[str, dict[str, Any]]:
    """Counters of eth1 in which only these are not zero."""
    return {"eth1": {"ethtool": dict(counters), "rdma": {}, "link": {}, "device": "mlx5_0"}}


def bandwidth(size: int, gigabits: float) -> str:
    rate = gigabits * 1e9 / 8 / size
    mebibytes = gigabits * 1e9 / 8 / 2**20
    return (
        " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n"
        f" {size}      1000             0.00               {mebibytes:.2f}  \t\t     {rate / 1e6:.6f}\n{RULE}\n"
    )


def latency(mean: float, p99: float) -> str:
    return (
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
        "99% percentile[usec]   99.9% percentile[usec] \n"
        f" 64      1000          1.00         9.00      {mean:.2f}  \t       {mean:.2f}     \t0.10 \t\t{p99:.2f}"
        " \t\t9.00\n"
        f"{RULE}\n"
    )


def fabric_states(
    jobs: Mapping[str, BenchJob], gigabits: float = 98.0, mean: float = 2.0, device: str = "mlx5_0"
) -> dict[str, dict[str, Any]]:
    """Every step as its client would tell it; incast shares the receiver's port."""
    found: dict[str, dict[str, Any]] = {}
    for host, job in jobs.items():
        assert job.fabric is not None
        steps = []
        for item in job.fabric.rounds:
            for step in item.steps:
                if step.client != host:
                    continue
                share = gigabits / 2 if step.test == "incast" else gigabits
                out = latency(mean, 2 * mean) if step.test == "latency" else bandwidth(step.size, share)
                steps.append({"key": step.key, "test": step.test, "tool": "ib_write_bw", "command": "ib_write_bw ...",
                              "code": 0, "out": out, "err": "", "problem": ""})  # fmt: skip
        found[host] = {
            "suite": "fabric",
            "host": host,
            "steps": steps,
            "speeds": {"eth1": SPEED, "eth2": SPEED},
            "devices": {"eth1": device, "eth2": device},
            "counters": {"before": port(), "after": port()},
            "versions": {"perftest": "6.06"},
        }
    return found


def fio_report(uuids: list[str], bytes_per_second: float, mean_us: float, direction: str = "read") -> str:
    def section(uuid: str) -> dict[str, Any]:
        part = {
            "io_bytes": int(bytes_per_second * 5), "bw_bytes": int(bytes_per_second), "iops": 10.0, "runtime": 5000,
            "total_ios": 50, "clat_ns": {},
            "lat_ns": {"mean": mean_us * 1000, "percentile": {"50.000000": mean_us * 900, "99.000000": mean_us * 3000}},
        }  # fmt: skip
        return {"jobname": uuid, "error": 0, direction: part}

    return json.dumps(
        {
            "fio version": "fio-3.33",
            "jobs": [section(uuid) for uuid in uuids],
            "disk_util": [{"name": "nvme0n1", "read_ios": 9, "write_ios": 0}],
        }
    )


def storage_states(
    jobs: Mapping[str, BenchJob], alone: float = 6.5e9, together: float = 5e9, remote: float = 95.0, local: float = 80.0
) -> dict[str, dict[str, Any]]:
    """Every planned run; bandwidths are bytes per second and namespace, latencies microseconds."""
    found: dict[str, dict[str, Any]] = {}
    for host, job in jobs.items():
        assert job.storage is not None
        runs = []
        for item in job.storage.rounds:
            for point in item.points if item.targets and item.test != "layout" else ():
                uuids = [target.uuid for target in item.targets]
                figure = {"aggregate": together, "namespace": alone}.get(item.test, 1e8)
                mean = {"remote": remote, "local": local}.get(item.test, 100.0)
                for part in [uuids] if item.test in ("aggregate", "write") else [[uuid] for uuid in uuids]:
                    direction = "write" if item.test == "write" else "read"
                    runs.append({
                        "test": item.test, "round": item.name, "targets": part, "block_size": point.block_size,
                        "queue_depth": point.queue_depth, "command": "fio ...", "problem": "",
                        "out": fio_report(part, figure, mean, direction),
                    })  # fmt: skip
        found[host] = {
            "suite": "storage",
            "host": host,
            "runs": runs,
            "speeds": {"eth1": SPEED, "eth2": SPEED},
            "counters": {"before": port(), "after": port()},
            "versions": {"fio": "fio-3.33"},
        }
    return found


def store_states(jobs: Mapping[str, BenchJob], bytes_per_second: float = 20e9) -> dict[str, dict[str, Any]]:
    from g35ctl.validate.bench_store import planned

    found: dict[str, dict[str, Any]] = {}
    for host, job in jobs.items():
        assert job.store is not None
        results: list[dict[str, Any]] = [
            {
                "test": test, "tier": tier, "size": size, "batch": batch, "calls": 10, "bytes": 10 * size,
                "seconds": 10 * size / bytes_per_second, "bytes_per_second": bytes_per_second, "mean_us": 100.0,
                "p50_us": 90.0, "p99_us": 300.0, "problem": "",
                **({"verified": 10, "mismatched": 0} if "get" in test else {}),
                "out": f"Test completed: duration 5.00, batch count 9, throughput {bytes_per_second / 1e6:.2f} MB/s",
            }
            for test, tier, size, batch in planned(job.store)
        ]  # fmt: skip
        results.append({"test": "flash", "tier": "flash", "size": 0, "batch": 1, "values": 8, "on_flash": 8})
        found[host] = {
            "suite": "store", "host": host, "results": results, "command": "python -I", "problem": "",
            "speeds": {"eth1": SPEED, "eth2": SPEED}, "devices": ["mlx5_0"], "versions": {},
        }  # fmt: skip
    return found
