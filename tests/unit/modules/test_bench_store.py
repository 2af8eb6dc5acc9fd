"""The store suite: the worker against a pool, and the host's side against a worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.g35 import bench_store, kvprobe, probe, storebench
from ansible.module_utils.g35.bench_jobs import StoreJob
from ansible.module_utils.g35.bench_store import StoreSuite
from ansible.module_utils.g35.bench_transfer import Transfer
from ansible.module_utils.g35.children import Stopped
from ansible.module_utils.g35.gate import GateLost
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.kvprobe import Pool
from ansible.module_utils.g35.plans import ProbePlan
from ansible.module_utils.g35.storebench import Bench, Buffer
from bench_fakes import GATE, Meetings

SIZE = 4096


class Store:
    """A pool's client: values live in a dictionary, moved through the worker's own memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.buffer = Buffer(16 * SIZE)
        self.full = 0
        self.damaged = ""

    def put_from(self, key: str, address: int, size: int, config: Any) -> int:
        if self.full:
            self.full -= 1
            return kvprobe.NO_MEMORY
        start = address - self.buffer.address
        self.values[key] = self.buffer.memory[start : start + size]
        return 0

    def batch_put_from(self, keys: list[str], addresses: list[int], sizes: list[int], config: Any) -> list[int]:
        return [self.put_from(key, *rest, config) for key, *rest in zip(keys, addresses, sizes, strict=True)]

    def get_into(self, key: str, address: int, size: int) -> int:
        if key not in self.values:
            return -704
        start = address - self.buffer.address
        value = self.values[key]
        self.buffer.memory[start : start + size] = b"x" + value[1:] if key == self.damaged else value
        return len(value)

    def batch_get_into(self, keys: list[str], addresses: list[int], sizes: list[int]) -> list[int]:
        return [self.get_into(key, *rest) for key, *rest in zip(keys, addresses, sizes, strict=True)]

    def remove(self, key: str, force: bool) -> int:
        self.values.pop(key, None)
        return 0


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def bench(store: Store) -> Bench:
    ticks = iter(range(10**6))
    job = {"token": "t", "writer": "gpu1", "segments": {"gpu1": ["s1", "s2"]}}
    pool = Pool(store, lambda segment: segment, "admin", lambda url: "")
    return Bench(pool, job, store.buffer, clock=lambda: next(ticks) / 1000, sleep=lambda _: None)


@pytest.mark.parametrize("batch", [1, 4])
def test_values_come_back_equal_and_only_the_calls_are_timed(bench: Bench, store: Store, batch: int) -> None:
    put = bench.do({"do": "put", "size": SIZE, "count": 6, "batch": batch})
    assert len(put["keys"]) == len(store.values) == 6
    calls = 6 if batch == 1 else 2
    assert (put["calls"], put["bytes"], put["problem"]) == (calls, 6 * SIZE, "")
    assert put["bytes_per_second"] == pytest.approx(6 * SIZE / (calls * 0.001))
    got = bench.do({"do": "get", "keys": put["keys"], "batch": batch})
    assert (got["verified"], got["mismatched"], got["calls"]) == (6, 0, calls)
    bench.do({"do": "remove", "keys": [key for key, _ in put["keys"]]})
    assert store.values == {}


@pytest.mark.parametrize("batch", [1, 4])
def test_a_value_that_comes_back_wrong_is_counted(bench: Bench, store: Store, batch: int) -> None:
    keys = bench.do({"do": "put", "size": SIZE, "count": 4, "batch": batch})["keys"]
    store.damaged = keys[2][0]
    got = bench.do({"do": "get", "keys": keys, "batch": batch})
    assert (got["verified"], got["mismatched"]) == (3, 1)
    assert "not equal" in got["problem"]
    assert got["bytes"] == 3 * SIZE


def test_what_the_last_read_left_in_memory_does_not_pass_for_a_value(bench: Bench, store: Store) -> None:
    keys = bench.do({"do": "put", "size": SIZE, "count": 1, "batch": 1})["keys"]
    store.get_into = lambda key, address, size: size  # type: ignore[method-assign]
    got = bench.do({"do": "get", "keys": keys, "batch": 1})
    assert (got["verified"], got["mismatched"]) == (0, 1)


def test_a_value_that_is_gone_is_wrong(bench: Bench, store: Store) -> None:
    got = bench.do({"do": "get", "keys": [["nobody", SIZE]], "batch": 1})
    assert (got["mismatched"], got["problem"]) == (1, "nobody: error -704")


def test_a_full_pool_is_asked_again_and_the_waiting_is_not_timed(bench: Bench, store: Store) -> None:
    store.full = 3
    put = bench.do({"do": "put", "size": SIZE, "count": 2, "batch": 1})
    assert (put["calls"], put["seconds"]) == (2, 0.002)
    store.full = 1000
    assert "error -200" in bench.do({"do": "put", "size": SIZE, "count": 1, "batch": 1})["problem"]


class Worker:
    """A worker that does each order as ``answer`` says."""

    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        self.answer = answer
        self.orders: list[dict[str, Any]] = []
        self.over = False

    def __call__(self, argv: list[str], talking: bool) -> Worker:
        self.argv = argv
        return self

    def say(self, line: str) -> None:
        self.orders.append(json.loads(line))

    def listen(self, seconds: float, stopped: Callable[[], bool]) -> str | None:
        last = self.orders[-1]
        answer = {"ready": True} if "kvprobe" in last else self.answer(last)
        return None if answer is None else "G35 " + json.dumps(answer) + "\n"

    def wait(self, seconds: float, stopped: Callable[[], bool]) -> Result:
        return self.end()

    def end(self) -> Result:
        self.over = True
        return Result(self.argv, 1, "", "Mooncake: segmentation fault\n")


PROBE = ProbePlan("lab", "/opt/python", "192.0.2.21", "tcp", (), "192.0.2.21:50051", "192.0.2.21:9003")
KEYS = [["k1", SIZE], ["k2", SIZE]]


def job(**settings: Any) -> StoreJob:
    values: dict[str, Any] = {
        "host": "gpu1", "gate": GATE, "ports": (), "probe": PROBE, "source": "gpu2", "segments": ("s1",),
        "sizes": (SIZE,), "flash_sizes": (SIZE,), "bytes": 64 * SIZE, "budget": 16 * SIZE, "batch": 4,
        "flash_timeout": 60, "round_seconds": 30,
    }  # fmt: skip
    return StoreJob(**(values | settings))


def good(order: dict[str, Any]) -> dict[str, Any]:
    if order["do"] == "put":
        return {"keys": [["own", SIZE]], "calls": 1, "bytes": SIZE, "problem": ""}
    if order["do"] == "flash_write":
        return {"values": [{"key": "f1", "size": SIZE, "problem": ""}, {"key": "f2", "size": SIZE, "problem": ""}]}
    if order["do"] == "flash_push":
        return {
            "replicas": {"f1": [{"kind": "LOCAL_DISK", "segment": "s"}], "f2": [{"kind": "MEMORY", "segment": "s"}]}
        }
    return {"calls": 1, "bytes": SIZE, "verified": 1, "mismatched": 0, "problem": ""}


def suite(worker: Worker, what: StoreJob, meetings: Meetings | None = None, **options: Any) -> StoreSuite:
    meetings = meetings or Meetings({"gpu2": {"keys": KEYS}})
    return StoreSuite(Host("/nonexistent"), what, meetings, worker, **options)  # type: ignore[arg-type]


def test_a_host_writes_its_own_values_and_reads_those_of_another() -> None:
    worker = Worker(good)
    state = suite(worker, job()).run()
    assert [(item["test"], item["tier"], item["batch"]) for item in state["results"]] == [
        ("put", "memory", 1), ("get", "memory", 1), ("batch_put", "memory", 4), ("batch_get", "memory", 4),
        ("flash", "flash", 1), ("get", "flash", 1), ("batch_get", "flash", 4),
    ]  # fmt: skip
    gets = [order for order in worker.orders if order.get("do") == "get"]
    assert gets[0]["keys"] == KEYS
    assert [order["keys"] for order in gets[2:]] == [[KEYS[0]], [KEYS[1]]]  # no value is read from flash twice
    puts = [order for order in worker.orders if order.get("do") == "put"]
    assert puts[0]["count"] == 8  # the budget is shared by two tests
    assert worker.orders[-1] == {"do": "end"}
    assert worker.over


class Engine:
    """A program that says what it is told to, on standard error."""

    def __init__(self, said: str, code: int = 0) -> None:
        self.said, self.code, self.over, self.argv = said, code, False, [""]

    def __call__(self, argv: list[str], talking: bool = False) -> Engine:
        self.argv = argv
        return self

    def running(self) -> bool:
        return not self.over

    def errors(self) -> str:
        return self.said

    def wait(self, seconds: float, stopped: Callable[[], bool]) -> Result:
        return self.end()

    def end(self) -> Result:
        self.over = True
        return Result(self.argv, self.code, "", self.said)


def test_a_target_offers_where_it_listens_and_never_outlives_the_test() -> None:
    engine = Engine("... P2P handshake, listening on 192.0.2.21:15398\n")
    with Transfer(Host("/nonexistent"), job(transfer_seconds=5), engine) as transfer:  # type: ignore[arg-type]
        assert transfer.offer() == {"segment": "192.0.2.21:15398"}
        assert not engine.over
    assert engine.over
    assert "/opt/transfer_engine_bench" in engine.argv
    assert "setpriv" in engine.argv


def test_a_target_that_does_not_start_says_why() -> None:
    engine = Engine("F1201 cannot register memory\n")
    engine.over = True
    with Transfer(Host("/nonexistent"), job(transfer_seconds=5), engine) as transfer:  # type: ignore[arg-type]
        assert "cannot register memory" in transfer.offer()["problem"]


def test_an_initiator_reads_from_its_source() -> None:
    engine = Engine("Test completed: duration 5.00, batch count 9, throughput 1.00 MB/s")
    transfer = Transfer(Host("/nonexistent"), job(transfer_seconds=5), engine)  # type: ignore[arg-type]
    found = transfer.measure({"segment": "192.0.2.22:15000"})
    assert "Test completed" in found["out"]
    assert found["command"].startswith("/opt/transfer_engine_bench --mode=initiator")
    assert found["command"].endswith("--segment_id=192.0.2.22:15000")
    assert "did not come" in transfer.measure(None)["problem"]
    assert "no memory" in transfer.measure({})["problem"]


def test_only_values_that_are_on_flash_alone_are_offered_as_such() -> None:
    meetings = Meetings({"gpu2": {"keys": KEYS}})
    state = suite(Worker(good), job(), meetings).run()
    offered = meetings.payloads[meetings.names.index("flash read")]
    assert offered == {"keys": [["f1", SIZE]]}
    told = next(item for item in state["results"] if item["test"] == "flash")
    assert (told["values"], told["on_flash"]) == (2, 1)


def test_a_host_that_owns_nothing_only_reads() -> None:
    worker = Worker(good)
    suite(worker, job(segments=())).run()
    assert {order.get("do") for order in worker.orders[1:]} == {"get", "remove", "end"}


def test_a_worker_that_dies_is_told_once_and_the_others_are_not_kept_waiting() -> None:
    meetings = Meetings({"gpu2": {"keys": KEYS}})
    worker = Worker(lambda order: None)
    state = suite(worker, job(), meetings).run()
    assert "segmentation fault" in state["problem"]
    assert meetings.names[-1] == "end"
    assert all("segmentation fault" in item["problem"] for item in state["results"] if item["test"] != "flash")


def test_the_worker_is_ended_whatever_happens() -> None:
    worker = Worker(good)
    with pytest.raises(GateLost):
        suite(worker, job(), Meetings(lost=GateLost("gone"))).run()
    assert worker.over
    stopped = Worker(good)
    with pytest.raises(Stopped):
        suite(stopped, job(), stopped=lambda: True).run()
    assert stopped.over


def test_the_worker_runs_unprivileged_with_the_sources_that_came_along() -> None:
    worker = Worker(good)
    suite(worker, job()).run()
    assert worker.argv[worker.argv.index("--reuid") + 1] == "g35"
    assert worker.argv[-3:-1] == ["-I", "-c"]
    given = worker.orders[0]
    assert given["storebench"] == probe.source(storebench)
    assert given["job"]["segments"] == {"gpu1": ["s1"]}
    assert compile(bench_store.BOOT, "boot", "exec")
