"""The gatekeeper of a store: it starts only on its own mount and never within an earlier run's time to live."""

from __future__ import annotations

import os

import pytest
from ansible.module_utils.g35 import storegate

SEGMENT = "192.0.2.21:50052"


class Master:
    """Answers as a master that forgets the old store after ``expires`` seconds and serves from ``serves`` on."""

    def __init__(self, serves: float = 0, expires: float = 0) -> None:
        self.now = 0.0
        self.serves = serves
        self.expires = expires

    def ask(self, url: str) -> str | None:
        if self.now < self.serves:
            return None
        if url.endswith("/health"):
            return '{"role": "leader", "service_ready": true}'
        return "192.0.2.22:50052\n" + (SEGMENT if self.now < self.expires else "")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, seconds: float = 60) -> str:
        return storegate.wait("m:9003", SEGMENT, "/mnt", seconds, self.ask, self.sleep, lambda: self.now)


@pytest.fixture(autouse=True)
def _mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == "/mnt")


def test_nothing_in_the_way_starts_at_once() -> None:
    master = Master()
    assert master.wait() == "" and master.now == 0


def test_it_waits_until_the_earlier_run_has_expired() -> None:
    master = Master(expires=9.5)
    assert master.wait() == "" and master.now >= 9.5


def test_it_waits_for_a_master_that_comes_up_later() -> None:
    master = Master(serves=30)
    assert master.wait() == "" and master.now >= 30


def test_the_wait_is_bounded_and_says_why() -> None:
    assert "still lists" in Master(expires=1000).wait(60)
    assert "not serving" in Master(serves=1000).wait(60)


def test_an_unmounted_directory_is_never_written_to() -> None:
    master = Master()
    found = storegate.wait("m:9003", SEGMENT, "/elsewhere", 5, master.ask, master.sleep, lambda: master.now)
    assert found == "/elsewhere is not a mount point"


def test_a_port_that_only_begins_alike_is_another_store() -> None:
    assert storegate.obstacle("m:9003", "192.0.2.22:5005", "/mnt", Master().ask) == ""
