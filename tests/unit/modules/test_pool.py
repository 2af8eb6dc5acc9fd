"""The pool is emptied until nothing exists only in a closing memory, and keys are compared one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from ansible.module_utils.g35 import pool, poolwork
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import ProbePlan

A, B = "192.0.2.21:50052", "192.0.2.22:50052"
PLAN = ProbePlan("lab", "/opt/python", "192.0.2.21", "tcp", (), "192.0.2.21:50051", "192.0.2.21:9003")


class Master:
    """A master with two stores: values by key as (kind, segment); a drain job moves those that are not leased."""

    def __init__(self) -> None:
        self.status = {A: "OK", B: "OK"}
        self.places: dict[str, list[tuple[str, str]]] = {}
        self.leased: set[str] = set()
        self.serving = True
        self.jobs: list[Mapping[str, Any]] = []
        self.canceled: list[str] = []
        self.evicted = 5
        self.now = 0.0

    def ask(self, url: str, timeout: float) -> str | None:
        path, _, query = url.partition(":9003")[2].partition("?")
        if path == "/health":
            return json.dumps({"role": "leader", "service_ready": self.serving})
        if path == "/get_segments_detail":
            return json.dumps(
                {"segments": [
                    {"segment_name": name, "client_id": f"client-{name}", "te_endpoint": f"te-{name}", "status": status,
                     "allocator_used_bytes": 0 if status != "OK" else 1}
                    for name, status in self.status.items()
                ]}
            )  # fmt: skip
        if path == "/get_all_keys":
            return "".join(f"{key}\n" for key in self.places)
        if path == "/batch_query_keys":
            keys = [unquote(key) for key in query.removeprefix("keys=").split(",")]
            return json.dumps({"data": {key: self.entry(key) for key in keys if key in self.places}})
        if path == "/metrics":
            return f"master_evicted_key_count {self.evicted}\n"
        if path == "/api/v1/drain_jobs/query":
            return json.dumps({"success": True, "status_name": "RUNNING", "blocked_units": len(self.leased)})
        return None

    def entry(self, key: str) -> dict[str, Any]:
        where = self.places[key]
        return {
            "ok": True,
            "values": [{"transport_endpoint_": f"te-{name}"} for kind, name in where if kind == "MEMORY"],
            "local_disk_values": [{"client_id": f"client-{name}"} for kind, name in where if kind == "LOCAL_DISK"],
        }

    def send(self, url: str, body: Mapping[str, Any]) -> str:
        if "/cancel" in url:
            self.canceled.append(url)
            self.status = dict.fromkeys(self.status, "OK")
            return '{"success": true}'
        self.jobs.append(body)
        for name in body["segments"]:
            self.status[name] = "DRAINING"
        return '{"success": true, "job_id": "7-8"}'

    def sleep(self, seconds: float) -> None:
        """Time in which the job moves one more value."""
        self.now += seconds
        for key, where in self.places.items():
            if ("MEMORY", A) in where and self.status[A] == "DRAINING" and key not in self.leased:
                self.places[key] = [("MEMORY", B), *(item for item in where if item[0] != "MEMORY")]
                return

    def pool(self) -> pool.Pool:
        return pool.Pool("192.0.2.21:9003", self.ask, self.send, self.sleep, lambda: self.now)


class Client(Host):
    """The master's host: its client copies what it is told to, and gives digests."""

    def __init__(self, root: Path, master: Master) -> None:
        super().__init__(str(root), self.answer, master.sleep, lambda: master.now)
        self.master = master
        self.values: dict[str, str] = {}
        self.jobs: list[dict[str, Any]] = []

    def answer(self, argv: Any, stdin: str | None, timeout: float) -> Result:
        job = json.loads(argv[-1])
        self.jobs.append(job)
        assert stdin and "create_copy_task" in stdin
        if job["action"] == "copy":
            for key in job["keys"]:
                self.master.places[key].append(("MEMORY", job["targets"][0]))
            return Result(argv, 0, 'noise\n{"action": "copy", "failed": {}}\n', "")
        return Result(
            argv,
            0,
            json.dumps({"action": "digest", "digests": {key: self.values.get(key, "") for key in job["keys"]}}),
            "",
        )


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def work(tmp_path: Path, master: Master) -> poolwork.Work:
    return poolwork.Work(Client(tmp_path, master), PLAN, "act", master.pool())


def test_what_is_only_in_memory_is_moved_and_what_is_on_flash_is_not_waited_for(work, master) -> None:
    master.places = {"m1": [("MEMORY", A)], "m2": [("MEMORY", A)], "both": [("MEMORY", A), ("LOCAL_DISK", A)],
                     "b": [("MEMORY", B)]}  # fmt: skip
    master.leased = {"both"}
    done = work.run("empty", [A], 300)
    assert master.jobs[0]["segments"] == [A] and master.jobs[0]["target_segments"] == [B]
    assert done["left"] == [] and done["copied"] == 0 and done["job"] == "7-8"
    assert master.places["m1"] == master.places["m2"] == [("MEMORY", B)]
    assert done["status"] == {A: "DRAINING"}


def test_values_that_are_being_read_are_copied(work, master) -> None:
    master.places = {"hot": [("MEMORY", A)], "cold": [("MEMORY", A)]}
    master.leased = {"hot"}
    done = work.run("empty", [A], 60)
    assert done["left"] == [] and done["copied"] == 1
    assert ("MEMORY", B) in master.places["hot"]
    assert [job["keys"] for job in work.host.jobs] == [["hot"]]


def test_what_cannot_be_moved_is_told(work, master, monkeypatch) -> None:
    master.places = {"stuck": [("MEMORY", A)]}
    master.leased = {"stuck"}
    monkeypatch.setattr(poolwork.Work, "_client", lambda self, job: {"failed": {"stuck": "error -200"}})
    done = work.run("empty", [A], 60)
    assert done["left"] == ["stuck"] and done["left_count"] == 1 and done["refused"] == {"stuck": "error -200"}


def test_emptying_again_asks_for_no_second_job_and_a_store_that_is_gone_needs_none(work, master) -> None:
    master.places = {"m1": [("MEMORY", A)]}
    work.run("empty", [A], 60)
    work.run("empty", [A], 60)
    assert len(master.jobs) == 1
    del master.status[A]
    assert work.run("empty", [A], 60)["left"] == []


def test_a_pool_of_one_store_cannot_be_emptied(work, master) -> None:
    del master.status[B]
    with pytest.raises(pool.PoolError, match="no other segment"):
        work.run("empty", [A], 60)


def test_a_closed_store_opens_again(work, master) -> None:
    master.places = {"m1": [("MEMORY", A)]}
    work.run("empty", [A], 60)
    assert work.run("reopen", [A], job="7-8")["closed"] == []
    assert master.canceled and "7-8" in master.canceled[0]


def test_missing_and_changed_keys_are_told(work, master) -> None:
    master.places = {f"k/{n},": [("LOCAL_DISK", A)] for n in range(90)}
    work.host.values = dict.fromkeys(master.places, "digest")
    noted = work.run("note", [A], sample=4)
    assert noted["keys"] == 90 and len(noted["digests"]) == 4
    again = work.run("compare", [], digests=noted["digests"])
    assert (again["lost"], again["different"], again["unreadable"], again["read"]) == (0, [], [], 4)
    first, second, third = sorted(noted["digests"])[:3]
    del master.places[first]
    work.host.values |= {second: "other", third: ""}
    master.evicted = 6
    told = work.run("compare", [], digests=noted["digests"])
    assert (told["lost"], told["first"], told["evicted"]) == (1, [first], 1)
    assert told["different"] == [second] and told["unreadable"] == [third]


def test_the_list_of_an_interrupted_act_is_the_one_that_counts(work, master) -> None:
    master.places = {"k1": [("MEMORY", A)]}
    work.run("note", [A])
    del master.places["k1"]
    work.run("note", [A])
    assert work.run("compare", [])["lost"] == 1
    work.run("forget", [])
    assert work.run("compare", [])["noted"] is False


def test_waiting_for_segments_ends(work, master) -> None:
    assert work.run("gone", [A], 3)["left"] == [A]
    assert work.run("present", [A, "192.0.2.99:1"], 3)["left"] == ["192.0.2.99:1"]
    del master.status[A]
    assert work.run("gone", [A], 3)["left"] == []


def test_a_master_that_does_not_serve_is_an_error(work, master) -> None:
    master.serving = False
    with pytest.raises(pool.PoolError, match="not serving"):
        work.run("note", [A])
