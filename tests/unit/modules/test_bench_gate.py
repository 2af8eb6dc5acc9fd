"""The gate of a benchmark: nobody goes on alone, nobody waits for ever, strangers are not answered."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from ansible.module_utils.g35.bench_jobs import GatePlan
from ansible.module_utils.g35.gate import Gate, GateLost, Keeper

MEMBERS = ("a", "b", "c")


@pytest.fixture
def gate() -> Iterator[GatePlan]:
    """A gate kept on a free loopback port."""
    plan = GatePlan("127.0.0.1", 0, "secret", "nobody", MEMBERS, ("127.0.0.1",), patience=20)
    keeper = Keeper(plan)
    keeper.start()
    yield replace(plan, port=keeper.address[1])
    keeper.stop()


def come(plan: GatePlan, *members: str, name: str = "round") -> dict[str, dict[str, Any]]:
    """All these members at once; what each was told."""
    told: dict[str, dict[str, Any]] = {}

    def one(member: str) -> None:
        told[member] = Gate(plan, member, sleep=lambda _: None).meet(name, {"from": member})

    threads = [threading.Thread(target=one, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return told


def test_everybody_is_let_through_together_with_what_the_others_brought(gate: GatePlan) -> None:
    told = come(gate, *MEMBERS)
    everything = {member: {"from": member} for member in MEMBERS}
    assert told == dict.fromkeys(MEMBERS, everything)


def test_who_does_not_come_is_waited_for_once() -> None:
    keeper = Keeper(GatePlan("127.0.0.1", 0, "t", "a", ("a", "b"), ()))
    assert keeper.meet("a", "first", {}, patience=0.0) == {"a": {}}
    assert keeper.meet("a", "second", {}, patience=600.0) == {"a": {}}  # at once
    keeper.meet("b", "second", {"late": True}, patience=600.0)  # told at once as well, and back from now on
    assert keeper.meet("a", "third", {}, patience=0.01) == {"a": {}}


def test_who_leaves_is_not_waited_for_and_may_come_back(gate: GatePlan) -> None:
    Gate(gate, "c").stop()
    assert set(come(gate, "a", "b")["a"]) <= {"a", "b"}
    assert set(come(gate, *MEMBERS, name="later")["c"]) == set(MEMBERS)


@pytest.mark.parametrize(
    "question", [{"token": "wrong", "member": "a"}, {"token": "secret", "member": "x"}, "no object"]
)
def test_strangers_are_not_answered(gate: GatePlan, question: Any) -> None:
    if isinstance(question, dict):
        question = {**question, "name": "round", "patience": 1}
    with socket.create_connection(("127.0.0.1", gate.port), timeout=5) as connection:
        connection.sendall(json.dumps(question).encode() + b"\n")
        assert connection.recv(100) == b""


def test_a_gate_that_is_closed_has_answered_everybody_who_had_come() -> None:
    """The keeper's process may end right after; an answer that is lost would be taken for a gate that is gone."""
    for _ in range(20):
        keeper = Keeper(GatePlan("127.0.0.1", 0, "t", "a", ("a", "b"), ("127.0.0.1",), patience=20))
        keeper.start()
        plan = replace(keeper.plan, port=keeper.address[1], conductor="somebody else")
        told: list[dict[str, Any]] = []
        other = threading.Thread(target=lambda p=plan, t=told: t.append(Gate(p, "b", sleep=lambda _: None).meet("end")))
        other.start()
        keeper.meet("a", "end", {}, 20)
        keeper.stop()
        assert keeper._answering == 0
        other.join(10)
        assert [set(item) for item in told] == [{"a", "b"}]


def test_addresses_that_are_not_members_are_not_answered() -> None:
    keeper = Keeper(GatePlan("127.0.0.1", 0, "secret", "a", MEMBERS, ("192.0.2.21",)))
    keeper.start()
    with socket.create_connection(keeper.address, timeout=5) as connection:
        assert connection.recv(100) == b""
    keeper.stop()


def test_a_gate_that_is_not_there_says_which_ports_to_open() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        plan = GatePlan("127.0.0.1", taken.getsockname()[1], "t", "gpu1", ("a",), ("127.0.0.1",), patience=3)
        seconds = iter(range(100))
        with pytest.raises(GateLost, match="open TCP"):
            Gate(plan, "a", sleep=lambda _: None, clock=lambda: float(next(seconds))).meet("round")


def test_a_gate_that_has_gone_is_not_looked_for_long() -> None:
    plan = GatePlan("127.0.0.1", 0, "t", "gpu1", ("a",), ("127.0.0.1",), patience=600)
    keeper = Keeper(plan)
    keeper.start()
    seconds = iter(range(1000))
    gate = Gate(replace(plan, port=keeper.address[1]), "a", sleep=lambda _: None, clock=lambda: float(next(seconds)))
    assert gate.meet("first") == {"a": {}}
    keeper.stop()
    with pytest.raises(GateLost):
        gate.meet("second")
    assert next(seconds) < 100


def test_a_stopped_member_does_not_wait() -> None:
    plan = GatePlan("127.0.0.1", 0, "t", "a", ("a", "b"), ("127.0.0.1",), patience=600)
    gate = Gate(plan, "a", stopped=lambda: True)
    with pytest.raises(GateLost, match="stopped"):
        gate.meet("round")


def test_the_gate_is_bound_to_its_address_and_says_when_it_cannot_be() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        plan = GatePlan("127.0.0.1", taken.getsockname()[1], "t", "a", ("a",), ())
        with pytest.raises(GateLost, match="cannot listen at 127"):
            Gate(plan, "a").start()
