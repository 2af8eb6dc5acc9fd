"""Two masters with etcd: the leader is killed under load, and the pool goes on with everything that was on flash."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ETCD, Loop

pytestmark = pytest.mark.mooncake

LOAD = """
import sys, time
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
code = store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1])
if code:
    sys.exit("setup: %d" % code)
number = 0
while True:
    number += 1
    key, value = "load-%d" % number, b"%09d" % number * 7000
    if store.put(key, value) == 0 and store.get(key) == value:
        print("%f" % time.monotonic(), flush=True)
    time.sleep(0.05)
"""


@pytest.mark.skipif(not Path(ETCD).exists(), reason="etcd-server is not installed")
def test_a_killed_leader_is_followed_within_twenty_seconds_and_nothing_on_flash_is_lost(
    start: Callable[..., Loop],
) -> None:
    loop = start(masters=2, etcd=3)
    written = loop.probe("write")
    assert [value["problem"] for value in written["values"]] == [""] * 8, written
    rpc = loop.plan.host("h1").probe.master_rpc  # type: ignore[union-attr]
    load = loop.python(LOAD, rpc)
    assert load.stdout is not None
    try:
        for _ in range(10):
            load.stdout.readline()
        leader = loop.leader()
        loop.kill(leader, "g35-mooncake-master")
        killed = time.monotonic()
        gap = 0.0
        last = killed
        for line in load.stdout:
            gap, last = max(gap, float(line) - max(last, killed)), float(line)
            if last > killed + 1 and loop.leader() not in ("", leader):
                break
        assert last - killed <= 20 and gap <= 20, f"served again after {last - killed:.1f} s"
    finally:
        load.kill()
        load.wait(30)
    print(f"served again {last - killed:.1f} s after the leader was killed; longest pause {gap:.1f} s")
    read = loop.probe("read")
    assert [value["problem"] for value in read["values"]] == [""] * 8, read
