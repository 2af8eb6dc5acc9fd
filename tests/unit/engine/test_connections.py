"""Asking a hundred hosts at once: a silent one costs its timeout, once."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest

from g35ctl.engine import connections
from g35ctl.engine.connections import Connection, answering

HOSTS = 100


class Greeting:
    """A connected socket that greets."""

    def __enter__(self) -> Greeting:
        return self

    def __exit__(self, *_: object) -> None: ...

    def settimeout(self, _: float) -> None: ...

    def recv(self, _: int) -> bytes:
        return b"SSH-2.0-x\r\n"


def fleet(port: int = 22) -> list[Connection]:
    return [
        Connection(f"host{number}", f"127.0.{number // 100 + 7}.{number % 100 + 1}", port) for number in range(HOSTS)
    ]


def test_all_hosts_are_asked_at_the_same_time_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is answered before everybody has been asked: in turns, this would never end."""
    together = threading.Barrier(HOSTS, timeout=20)
    asked: list[str] = []

    def connect(address: tuple[str, int], timeout: float) -> Any:
        asked.append(address[0])
        together.wait()
        if address[0].endswith(".5"):
            raise TimeoutError("timed out")
        return Greeting()

    monkeypatch.setattr(connections.socket, "create_connection", connect)
    failures = answering(fleet())
    assert [item.host for item in failures] == ["host4"]
    assert sorted(asked) == sorted(item.address for item in fleet())


def test_closed_and_silent_ports_on_a_hundred_addresses_cost_one_timeout() -> None:
    with ExitStack() as stack:
        silent = fleet(_closed())[: HOSTS // 2]
        for item in silent:  # the kernel accepts, nobody ever greets
            listener = stack.enter_context(socket.socket())
            listener.bind((item.address, item.port))
            listener.listen()
        started = time.monotonic()
        failures = answering([*silent, *fleet(_closed())[HOSTS // 2 :]], seconds=1.0)
        took = time.monotonic() - started
    assert len(failures) == HOSTS
    assert took < 15


def _closed() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_hosts_behind_a_jump_host_are_left_to_ssh() -> None:
    assert answering([Connection("a", "127.0.7.1", _closed(), direct=False)], seconds=0.2) == ()
