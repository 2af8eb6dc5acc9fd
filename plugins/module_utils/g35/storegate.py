"""Holds a Mooncake store back until it may start: run by its unit before the store itself.

Usage: ``python3 -I storegate.py --admin ADDRESS:PORT --segment ADDRESS:PORT [--mount DIRECTORY] --seconds N``

Two things must be true. The flash directory lies on its own mount, or Mooncake would fill the root file system. And the
master no longer lists a segment of this store: after a store died without saying goodbye, the master keeps it for the
client's time to live, and a store that comes back within that time loses all its flash keys when the old entry
expires, with the files still there. Exit 0 when it may start, 1 when the time is up (the unit tries again).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.request
from typing import Callable, List, Optional


def fetch(url: str) -> Optional[str]:
    """The body of ``url`` or None; never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None


def obstacle(admin: str, segment: str, mount: str, ask: Callable[[str], Optional[str]] = fetch) -> str:
    """What keeps the store from starting, in words; empty when nothing does."""
    if mount and not os.path.ismount(mount):
        return "%s is not a mount point" % mount
    health = ask("http://%s/health" % admin)
    try:
        state = json.loads(health or "{}")
    except ValueError:
        state = {}
    if state.get("role") != "leader" or state.get("service_ready") is not True:
        return "the master at %s is not serving" % admin
    names = ask("http://%s/get_all_segments" % admin)
    if names is None:
        return "the master at %s does not list its segments" % admin
    if segment in names.split():
        return "the master still lists %s: an earlier run of this store has not expired" % segment
    return ""


def wait(
    admin: str,
    segment: str,
    mount: str,
    seconds: float,
    ask: Callable[[str], Optional[str]] = fetch,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Wait at most ``seconds`` until nothing is in the way; returns what still is, or an empty text."""
    deadline = clock() + seconds
    told = ""
    while True:
        found = obstacle(admin, segment, mount, ask)
        if not found or clock() >= deadline:
            return found
        if found != told:
            print("waiting: %s" % found, flush=True)
            told = found
        sleep(1.0)


def main(arguments: List[str]) -> int:
    """Parse the arguments, wait, and say what was in the way."""
    parser = argparse.ArgumentParser(description="Hold a Mooncake store back until it may start")
    for name in ("--admin", "--segment"):
        parser.add_argument(name, required=True)
    parser.add_argument("--mount", default="", help="not given: a local directory, on whatever file system it lies")
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args(arguments)
    found = wait(given.admin, given.segment, given.mount, given.seconds)
    if found:
        print("not starting: %s" % found, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
