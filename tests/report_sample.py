"""Documents for report tests: a run with the published three-path figures, a failed one, and one with nothing in it."""

from __future__ import annotations

from dataclasses import replace

import tier_sample

from g35ctl.engine.run import Failure
from g35ctl.exits import Exit
from g35ctl.observe.tool_output import Latency
from g35ctl.report.document import Document, build
from g35ctl.report.results import Results, bench_commands, bench_part, serving_commands, serving_part
from g35ctl.validate.bench_result import BenchResult, CounterChange, Measurement
from g35ctl.validate.serving_result import (
    Agreement,
    CachePath,
    Distribution,
    Equality,
    PathSetting,
    PointResult,
    Row,
    ServingResult,
    TierTokens,
    TurnResult,
    Workload,
)
from g35ctl.verdict import Grade, Verdict

USERS = (8, 16, 32, 48)
#: TTFT mean and P99 in seconds and hit rate: at 48 users as published, below as the published range allows.
FIGURES = {
    CachePath.LOCAL: ((4.66, 6.02, 0.9844), (4.81, 6.21, 0.9844), (5.18, 6.9, 0.9839), (11.13, 53.76, 0.9281)),
    CachePath.MEMORY: ((4.64, 5.96, 0.9844), (4.79, 6.15, 0.9844), (4.97, 6.41, 0.9845), (5.11, 6.63, 0.9845)),
    CachePath.G35: ((4.68, 6.0, 0.9844), (4.82, 6.2, 0.9844), (4.95, 6.38, 0.9844), (5.04, 6.57, 0.9844)),
}
SPREAD = {(CachePath.LOCAL, 48): (6.65, 17.56)}
MIB = 2**20
GIGA = 1e9


def serving_result(users: tuple[int, ...] = USERS) -> ServingResult:
    """Three trials of three paths; 16 users of the memory path have too few samples for a P99."""
    workload = Workload(users, tuple(CachePath), 8.0, 2, 157_500, 8_000, 2_500, 100, 5, 3, 42, 64)
    points, rows = [], []
    order = 0
    for index, count in enumerate(users):
        for path in CachePath:
            mean, p99, hit = FIGURES[path][index]
            low, high = SPREAD.get((path, count), (mean * 0.98, mean * 1.02))
            samples = 60 if (path, count) == (CachePath.MEMORY, 16) else count * 12
            ttft = Distribution(samples, mean, mean * 0.97, mean * 1.15, p99, mean * 0.8, p99 * 1.02)
            cold = Distribution(count * 3, 41.0, 40.5, 44.0, 46.0, 38.0, 46.5)
            for trial in range(1, 4):
                turns = tuple(_turn(turn, count, hit, ttft, workload) for turn in range(workload.rounds))
                points.append(
                    PointResult(path, count, trial, order, "aiperf", count * 5, count * 5, 120.0, 16.0,
                                min(16.0, count / mean), ttft, cold, turns, None)
                )  # fmt: skip
                order += 1
            rows.append(
                Row(
                    path,
                    count,
                    3,
                    ttft,
                    cold,
                    low,
                    high,
                    hit,
                    _tokens(path, hit),
                    16.0,
                    min(16.0, count / mean),
                    0,
                    True,
                )
            )
    settings = (
        PathSetting(CachePath.LOCAL, 500 * 10**9, 0, 44.5, "250 GB of host memory and one SSD per node"),
        PathSetting(CachePath.MEMORY, 2_000 * 10**9, 0, 177.9, "stores with a segment of 1 TB per node"),
        PathSetting(CachePath.G35, 500 * 10**9, 90 * 10**12, 8_007.0, "the site as deployed"),
    )
    return ServingResult(
        workload,
        settings,
        tuple(points),
        tuple(rows),
        equalities=tuple(Equality(path, 8, 8) for path in CachePath),
        agreement=Agreement(8, 4.66, 4.68, 0.9844, 0.9844, "0.13.0", 0.05),
        engines=("sglang 0.5.16 on gpu1", "sglang 0.5.16 on gpu2"),
        commands=(
            "aiperf profile -m kimi-k2.5 --url http://192.0.2.21:30000 --user-centric-rate 8 --num-users 48 --streaming"
            " --shared-system-prompt-length 8000 --user-context-prompt-length 140000 --isl 2400 --osl 100",
        ),
    )


def _turn(turn: int, users: int, hit: float, ttft: Distribution, workload: Workload) -> TurnResult:
    prompt = users * workload.prompt_tokens(turn)
    share = 0.05 if turn == 0 else hit - 0.002 * (workload.rounds - 1 - turn)
    return TurnResult(turn, users, ttft, prompt, round(prompt * share))


def _tokens(path: CachePath, hit: float) -> TierTokens:
    total = 1_000_000
    device = 210_000
    cached = round(total * hit) - device
    shared = {CachePath.LOCAL: 0, CachePath.MEMORY: cached, CachePath.G35: round(cached * 0.35)}[path]
    flash = cached - shared if path is CachePath.G35 else 0
    host = cached if path is CachePath.LOCAL else 0
    return TierTokens(device, host, shared, flash, 0, total - device - cached)


def bench_result(*, emulated: bool = False) -> BenchResult:
    """Fabric, storage and store figures whose bandwidth grows with size the way published ones do."""
    found: list[Measurement] = []
    for test, best in (("write", 49.1), ("read", 48.2)):
        found += [
            Measurement("fabric", test, "perftest", "gpu1", "gpu2", "a", block_size=size, queue_depth=4,
                        bytes_per_second=best * GIGA * share, seconds=10.0, emulated=emulated, version="6.06",
                        command=f"ib_{test}_bw -d mlx5_0 -x 3 -q 4 -s {size} -D 10 -F --report_gbits --tclass=106",
                        evidence=f"fabric/{test}-{size}.json")
            for size, share in ((65536, 0.82), (262144, 0.94), (MIB, 0.99), (4 * MIB, 1.0))
        ]  # fmt: skip
    found.append(
        Measurement("fabric", "latency", "perftest", "gpu1", "gpu2", "a", block_size=64,
                    latency=Latency(2.4, 2.3, 3.1, 4.0, 100_000), emulated=emulated, version="6.06",
                    command="ib_write_lat -d mlx5_0 -x 3 -s 64 -F --tclass=106")
    )  # fmt: skip
    for depth, scale in ((1, 0.25), (8, 0.72), (32, 1.0)):
        for size, rate in ((131072, 4.1), (262144, 7.0), (MIB, 12.4), (4 * MIB, 13.6)):
            for number, host in ((1, "gpu1"), (3, "gpu2")):
                found.append(
                    Measurement(
                        "storage",
                        "namespace",
                        "fio",
                        host,
                        "ebof1",
                        tier_sample.uuid(number),
                        group=f"{depth}-{size}",
                        block_size=size,
                        queue_depth=depth,
                        bytes_per_second=rate * scale * GIGA,
                        latency=Latency(310.0, 290.0, 900.0, 1500.0, 40_000),
                        emulated=emulated,
                        version="fio-3.33",
                        command=f"fio --readonly --output-format=json+ --bs={size} --iodepth={depth} ns.fio",
                    )
                )
    for size, rate in ((131072, 31.0), (MIB, 47.0), (4 * MIB, 49.0)):
        found += [
            Measurement("storage", "aggregate", "fio", host, "ebof1", group=str(size), block_size=size, queue_depth=32,
                        bytes_per_second=rate / 2 * GIGA, emulated=emulated, version="fio-3.33",
                        command=f"fio --readonly --output-format=json+ --bs={size} --iodepth=32 all.fio")
            for host in ("gpu1", "gpu2")
        ]  # fmt: skip
    for test, tier, scale in (("put", "memory", 0.7), ("get", "memory", 1.0), ("get", "flash", 0.78)):
        found += [
            Measurement("store", test, "g35-store-bench", "gpu1", "gpu2", tier=tier, group=f"{test}-{size}",
                        block_size=size,
                        bytes_per_second=rate * scale * GIGA, verified=400, emulated=emulated, version="0.3.13.post1",
                        command=f"g35-store-bench --value-size {size} --batch 16")
            for size, rate in ((MIB, 21.0), (2 * MIB, 29.0), (4 * MIB, 34.0), (16 * MIB, 36.5))
        ]  # fmt: skip
    found.append(
        Measurement("store", "transfer", "transfer_engine_bench", "gpu2", "gpu1", block_size=MIB, emulated=emulated,
                    problem="the tool ended with status 1: no RDMA device named mlx5_9")
    )  # fmt: skip
    counters = (
        CounterChange("fabric", "gpu1", "eth1", "rx_prio3_pause", "pause", 10, 1_482),
        CounterChange("fabric", "gpu2", "eth1", "np_cnp_sent", "cnp", 0, 311),
    )
    return BenchResult(tuple(found), counters, {"fio": "fio-3.33", "perftest": "6.06"}, emulated)


PASSED = (
    Verdict("functional", "paths.live", Grade.PASS, "2 live on rails a, b", "2 live", "gpu1", tier_sample.nqn(1)),
    Verdict("functional", "paths.live", Grade.PASS, "2 live on rails a, b", "2 live", "gpu2", tier_sample.nqn(3)),
    Verdict("functional", "pool.capacity", Grade.PASS, "3.5 GiB", "3.5 GiB"),
    Verdict("storage", "storage.bandwidth", Grade.PASS, "12.4 GB/s at 1 MiB, depth 32", "at least 90 % of 13.5 GB/s",
            "gpu1", tier_sample.uuid(1), evidence="bench.json"),
    Verdict("serving", "serving.ttft_mean", Grade.PASS, "0.99 of the memory path at 48 users", "at most 1.10"),
    Verdict("serving", "serving.ttft_p99", Grade.SKIP, "60 samples at 16 users, memory path", "at least 100 samples"),
)  # fmt: skip
MISSED = (
    Verdict("functional", "paths.live", Grade.FAIL, "1 live on rail a", "2 live on rails a, b", "gpu2",
            tier_sample.nqn(3), "check the cable of eth2 on gpu2, then: g35ctl doctor", "state.json"),
    Verdict("functional", "paths.live", Grade.FAIL, "1 live on rail a", "2 live on rails a, b", "gpu2",
            tier_sample.nqn(4), "check the cable of eth2 on gpu2, then: g35ctl doctor", "state.json"),
    Verdict("functional", "fabric.mtu", Grade.WARN, "1500", "4200", "gpu2", "eth2", "set the MTU on the switch port"),
)  # fmt: skip


def results(*, emulated: bool = False) -> Results:
    """Both suites' figures, as if they had been read from a run folder."""
    serving, bench = serving_result(), bench_result(emulated=emulated)
    if emulated:
        serving = replace(serving, emulated=True, workload=replace(serving.workload, context=4_096, new_tokens=64))
    return Results(serving_part(serving), bench_part(bench), (*bench_commands(bench), *serving_commands(serving)))


def full(*, emulated: bool = False) -> Document:
    """A run of all suites in which everything holds."""
    verdicts = tuple(replace(item, emulated=True) for item in PASSED) if emulated else PASSED
    return build(
        tier_sample.run(), verdicts, tier_sample.plan(), tier_sample.site(), results(emulated=emulated),
        "g35ctl -i inventories/sample validate --suite all",
    )  # fmt: skip


def failed() -> Document:
    """A deploy that a host did not survive, with checks that fail and one that warns."""
    failures = (
        Failure("gpu2", "connect", "connect.path", "no answer from 198.51.100.11:4420", "2 live paths",
                "see the link of eth2 and the switch port", "rail b"),
    )  # fmt: skip
    return build(
        tier_sample.run(Exit.PARTIAL, failures), (*PASSED[:1], *MISSED), tier_sample.plan(), tier_sample.site(),
        command="g35ctl -i inventories/sample deploy",
    )  # fmt: skip


def minimal() -> Document:
    """A check run: nothing judged, nothing measured."""
    run = replace(tier_sample.run(Exit.CHANGES_PENDING), check=True)
    return build(run, (), tier_sample.plan(), tier_sample.site())


def slower() -> Document:
    """``full`` again, later and worse: the shared path lost its tail, one store figure fell, a path is down."""
    figures = results()
    assert figures.serving is not None
    assert figures.bench is not None
    rows = list(figures.serving.rows)
    shared = next(row for row in rows if (row.path, row.users) == ("g35", 48))
    assert shared.ttft is not None
    tail = replace(shared.ttft, mean=6.2, p99=9.1)
    rows[rows.index(shared)] = replace(shared, ttft=tail, mean_low=6.1, mean_high=6.3, hit_rate=0.9712)
    lines = tuple(
        replace(part, points=tuple((size, rate * 0.7) for size, rate in part.points)) if part.tier == "flash" else part
        for part in figures.bench.lines
    )
    later = replace(
        figures,
        serving=replace(figures.serving, rows=tuple(rows)),
        bench=replace(figures.bench, lines=lines),
    )
    run = replace(
        tier_sample.run(Exit.THRESHOLDS_MISSED), identifier="20261208T090000Z-validate", started="2026-12-08T09:00:00Z",
        versions={"g35ctl": "0.2.0", "ansible-core": "2.19.4"},
    )  # fmt: skip
    return build(run, (*PASSED[:1], MISSED[0], *PASSED[2:]), tier_sample.plan(), tier_sample.site(), later)
