"""A store that died and comes back: never within its time to live, and then with everything that was on flash."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from conftest import Loop, ask, wait

pytestmark = pytest.mark.mooncake


def test_a_killed_store_that_is_started_at_once_keeps_its_flash(start: Callable[..., Loop]) -> None:
    loop = start()
    written = loop.probe("write")
    assert [value["problem"] for value in written["values"]] == [""] * 8, written
    assert {item["kind"] for value in written["values"] for item in value["replicas"]} == {"LOCAL_DISK"}
    loop.kill("h1", "g35-mooncake-store")
    began = time.monotonic()
    # What systemd would do at once, or an operator: the gatekeeper of the unit decides when.
    loop.start("h1", "g35-mooncake-store")
    waited = time.monotonic() - began
    store = loop.cache("h1").store
    assert store is not None
    wait(lambda: ask(f"http://{store.instances[0].address}:{store.instances[0].http_port}/health").get("code") == 0)
    # The time after which upstream's bug would have dropped every key.
    time.sleep(max(0.0, began + 12 - time.monotonic()))
    read = loop.probe("read")
    assert [value["problem"] for value in read["values"]] == [""] * 8, read
    assert waited >= 3, f"it was let go after {waited:.1f} s, within client_ttl of 5 s"


def test_a_killed_master_finds_what_is_on_flash_again(start: Callable[..., Loop]) -> None:
    loop = start()
    loop.probe("write")
    loop.kill("h1", "g35-mooncake-master")
    loop.start("h1", "g35-mooncake-master")
    wait(loop.leader)
    wait(lambda: "g35-probe-loop" in loop.text("h1", "/get_all_keys"))
    read = loop.probe("read")
    assert [value["problem"] for value in read["values"]] == [""] * 8, read
