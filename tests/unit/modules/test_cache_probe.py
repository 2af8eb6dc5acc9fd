"""The functional probe against a pool that behaves as Mooncake was seen to behave."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible.module_utils.g35 import kvprobe, probe
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.kvprobe import Pool, Writer
from ansible.module_utils.g35.plans import ProbePlan

SEGMENTS = {"a": ["192.0.2.21:50052"], "b": ["192.0.2.22:50052", "192.0.2.22:50053"]}
ALL = [name for names in SEGMENTS.values() for name in names]


class Mooncake:
    """Evicts unleased values to flash, whole buckets of four at a time, once memory is fuller than its watermark."""

    def __init__(self, capacity: int = 60, bucket: int = 4) -> None:
        self.capacity = capacity
        self.bucket = bucket
        self.memory: dict[str, tuple[str, bytes]] = {}
        self.flash: dict[str, tuple[str, bytes]] = {}
        self.leased: set[str] = set()
        self.waiting: dict[str, list[str]] = {name: [] for name in ALL}
        self.attempts = 0
        self.hits = 0
        self.now = 0.0
        self.damaged = False
        self.fuller_at: list[float] = []
        self.misplace = 0
        self.other = 1.0

    def put(self, key: str, value: bytes, segment: str) -> int:
        if len(self.memory) >= self.capacity:
            return kvprobe.NO_MEMORY
        if self.misplace and segment == ALL[0]:
            self.misplace -= 1
            segment = ALL[1]
        self.memory[key] = (segment, value)
        return 0

    def get(self, key: str) -> bytes:
        if key not in self.memory:
            self.hits += 1
        value = self.memory.get(key) or self.flash.get(key) or ("", b"")
        return b"\0" + value[1][1:] if self.damaged else value[1]

    def remove(self, key: str, force: bool) -> int:
        self.memory.pop(key, None)
        self.flash.pop(key, None)
        return 0

    def remove_by_regex(self, pattern: str, force: bool) -> int:
        keys = [key for key in {**self.memory, **self.flash} if re.match(pattern, key)]
        for key in keys:
            self.remove(key, force)
        return len(keys)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.other and self.now >= self.other:
            self.memory["g35-probe-t1~1~b~~ready"] = (ALL[1], b"ready")
        if len(self.memory) <= self.capacity * 0.8:
            return
        self.attempts += 1
        for key, (segment, _) in list(self.memory.items()):
            if key not in self.leased and key not in self.waiting[segment]:
                self.waiting[segment].append(key)
        for segment, keys in self.waiting.items():
            keys[:] = [key for key in keys if key in self.memory]
            while len(keys) >= self.bucket:
                for key in keys[: self.bucket]:
                    self.flash[key] = self.memory.pop(key)
                del keys[: self.bucket]
            assert segment in ALL

    def ask(self, url: str) -> str:
        path = url.partition("9003")[2]
        if path == "/get_segments_detail":
            return json.dumps(
                {"segments": [{"te_endpoint": f"te-{n}", "client_id": f"c-{n}", "segment_name": n} for n in ALL]}
            )
        if path == "/metrics":
            return (
                f"master_attempted_evictions_total {self.attempts}\nfile_cache_hit_nums_ {self.hits}\n"
                f"master_total_capacity_bytes {self.capacity}\nmaster_allocated_bytes {len(self.memory)}\n"
            )
        if path == "/get_all_keys":
            return "\n".join({**self.memory, **self.flash})
        if path.startswith("/query_key?key="):
            self.leased.add(path.partition("=")[2])
            self.fuller_at.append(self.now)
            return "{}"
        data: dict[str, Any] = {}
        for key in path.partition("=")[2].split(","):
            data[key] = {
                "values": [{"transport_endpoint_": f"te-{self.memory[key][0]}"}] if key in self.memory else [],
                "local_disk_values": [{"client_id": f"c-{self.flash[key][0]}"}] if key in self.flash else None,
            }
        return json.dumps({"data": data})


def job(**changes: Any) -> dict[str, Any]:
    return {
        "token": "t1", "writer": "a", "seconds": 300, "segments": SEGMENTS, "value_size": 4096, "keys": 3,
        "segment_size": 65536, "bucket_size": 16384, **changes,
    }  # fmt: skip


def pool_of(cluster: Mooncake) -> Pool:
    return Pool(cluster, lambda segment: segment, "192.0.2.21:9003", cluster.ask)


def write(cluster: Mooncake, **changes: Any) -> dict[str, Any]:
    return Writer(pool_of(cluster), job(**changes), cluster.sleep, lambda: cluster.now, lambda: cluster.now).run()


def test_every_value_ends_only_on_flash_of_the_segment_it_was_written_to() -> None:
    cluster = Mooncake()
    answer = write(cluster)
    assert {(value["owner"], value["segment"]) for value in answer["values"]} == {
        ("a", ALL[0]), ("b", ALL[1]), ("b", ALL[2]),
    }  # fmt: skip
    assert len(answer["values"]) == 6
    for value in answer["values"]:
        assert value["problem"] == ""
        assert value["replicas"] == [{"kind": "LOCAL_DISK", "segment": value["segment"]}]


def test_helpers_are_gone_afterwards_and_values_stay() -> None:
    cluster = Mooncake()
    answer = write(cluster)
    left = {key for key in {**cluster.memory, **cluster.flash} if not key.endswith("~b~~ready")}
    assert left == {value["key"] for value in answer["values"]}


def test_a_value_stuck_in_an_incomplete_bucket_is_freed() -> None:
    # Buckets far larger than the plan says: companions of one planned bucket do not fill one.
    cluster = Mooncake(capacity=80, bucket=11)
    answer = write(cluster)
    assert all(replica["kind"] == "LOCAL_DISK" for value in answer["values"] for replica in value["replicas"])


def test_a_value_that_landed_elsewhere_is_put_again() -> None:
    cluster = Mooncake()
    cluster.misplace = 2
    answer = write(cluster)
    assert all(value["problem"] == "" for value in answer["values"])


def test_time_running_out_is_told_by_where_the_values_are() -> None:
    cluster = Mooncake(bucket=10**6)
    answer = write(cluster, seconds=30)
    assert {replica["kind"] for value in answer["values"] for replica in value["replicas"]} == {"MEMORY"}


def test_nobody_fills_memory_before_the_others_have_written() -> None:
    cluster = Mooncake()
    cluster.other = 20.0
    answer = write(cluster)
    assert answer["filler_bytes"] > 0
    assert min(cluster.fuller_at) >= 20.0


def test_a_silent_other_host_does_not_hold_the_probe_up_for_ever() -> None:
    cluster = Mooncake()
    cluster.other = 0.0
    answer = write(cluster)
    assert all(replica["kind"] == "LOCAL_DISK" for value in answer["values"] for replica in value["replicas"])


def test_names_are_never_used_twice() -> None:
    cluster = Mooncake()
    first = {value["key"] for value in write(cluster)["values"]}
    cluster.now += 1
    assert not first & {value["key"] for value in write(cluster)["values"]}


def test_reading_compares_every_value_and_counts_hits() -> None:
    cluster = Mooncake()
    written = write(cluster)
    answer = kvprobe.read(pool_of(cluster), job(), lambda: 0.0)
    assert [value["key"] for value in answer["values"]] == sorted(value["key"] for value in written["values"])
    assert all(value["equal"] for value in answer["values"])
    assert answer["hits_after"] - answer["hits_before"] == len(answer["values"])


def test_a_single_wrong_byte_is_not_equal() -> None:
    cluster = Mooncake()
    write(cluster)
    cluster.damaged = True
    answer = kvprobe.read(pool_of(cluster), job(), lambda: 0.0)
    assert not any(value["equal"] for value in answer["values"])
    assert answer["values"][0]["problem"] == "4096 bytes, not equal"


@pytest.mark.parametrize("token", ["t1", "20261201T120000.123Z-deploy"])
def test_cleaning_takes_this_run_and_earlier_ones_and_leaves_what_was_kept(token: str) -> None:
    cluster = Mooncake()
    write(cluster, token=token)
    for key in (
        "engine-key",
        "g35-probe-reboot~1~a~a~0",
        "g35-probe-20261130T110000~1~a~a~0",
        "g35-probe-20261130T110000.001Z-validate~1~a~~helper~1",
    ):
        cluster.memory[key] = (ALL[0], b"kv")
    kvprobe.clean(pool_of(cluster), token)
    left = {key for key in {**cluster.memory, **cluster.flash} if not key.endswith("~~ready")}
    assert left == {"engine-key", "g35-probe-reboot~1~a~a~0"}


PLAN = ProbePlan(
    site="lab", python="/opt/g35/mooncake/current/bin/python", local_address="192.0.2.21", protocol="rdma",
    devices=("eth1", "eth2"), master_rpc="192.0.2.21:50051", master_admin="192.0.2.21:9003",
    segments={"a": (ALL[0],)}, tos=106,
)  # fmt: skip


def host_with(tmp_path: Any, answer: Result, seen: list[list[str]]) -> Host:
    def runner(argv: Any, stdin: Any, timeout: float) -> Result:
        seen.append([*argv, stdin or ""])
        return answer

    for device in ("eth1", "eth2"):
        (tmp_path / f"sys/class/infiniband/rxe_{device}").mkdir(parents=True)
        (tmp_path / f"sys/class/infiniband/rxe_{device}/parent").write_text(device + "\n")
    return Host(str(tmp_path), runner=runner)


def test_the_probe_runs_without_privileges_over_the_rdma_devices_of_the_rails(tmp_path: Any) -> None:
    seen: list[list[str]] = []
    answer = Result([], 0, 'noise\n{"action": "read", "values": []}\n', "")
    state = probe.run(host_with(tmp_path, answer, seen), PLAN, "read", "t1", "gpu1", 30)
    assert state == {"action": "read", "values": [], "host": "gpu1"}
    command = seen[0]
    assert command[command.index("--reuid") + 1] == "g35"
    assert "MC_FORCE_HCA=1" in command
    assert json.loads(command[-2])["devices"] == "rxe_eth1,rxe_eth2"
    assert "def main(" in command[-1]


def test_a_probe_without_an_answer_says_the_last_words_of_its_log(tmp_path: Any) -> None:
    answer = Result([], 1, "", "I1201 ok\nE1201 no route to master\n")
    try:
        probe.run(host_with(tmp_path, answer, []), PLAN, "read", "t1", "gpu1", 30)
    except probe.ProbeFailed as error:
        assert "no route to master" in str(error)
    else:
        raise AssertionError("a probe without an answer passed")
