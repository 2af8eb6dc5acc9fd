"""Holds an inference engine back until the KV pool can take it: run by its unit before the engine itself.

Usage: ``python3 -I enginegate.py --admin ADDRESS:PORT [--seconds N]``

An engine's client joins the pool once, when the engine starts, and the engine ends where that fails: without a master
that serves, or (SGLang, which writes a value to try) without any store. Exit 0 when both are there, 1 when the time is
up; the unit tries again, and the log says what is missing.
"""

from __future__ import annotations

import argparse
import json
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


def obstacle(admins: List[str], ask: Callable[[str], Optional[str]] = fetch) -> str:
    """What keeps an engine from joining the pool, in words; empty when nothing does. One leading master is enough."""
    for admin in admins:
        try:
            state = json.loads(ask("http://%s/health" % admin) or "{}")
        except ValueError:
            state = {}
        if state.get("role") != "leader" or state.get("service_ready") is not True:
            continue
        names = ask("http://%s/get_all_segments" % admin)
        return "" if names and names.split() else "the master at %s lists no store yet" % admin
    return "no master serves at %s" % ", ".join(admins)


def wait(
    admins: List[str],
    seconds: float,
    ask: Callable[[str], Optional[str]] = fetch,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Wait at most ``seconds`` until nothing is in the way; returns what still is, or an empty text."""
    deadline = clock() + seconds
    told = ""
    while True:
        found = obstacle(admins, ask)
        if not found or clock() >= deadline:
            return found
        if found != told:
            print("waiting: %s" % found, flush=True)
            told = found
        sleep(1.0)


def main(arguments: List[str]) -> int:
    """Parse the arguments, wait, and say what was in the way."""
    parser = argparse.ArgumentParser(description="Hold an inference engine back until the KV pool can take it")
    parser.add_argument("--admin", action="append", required=True)
    parser.add_argument("--seconds", type=float, default=180.0)
    given = parser.parse_args(arguments)
    found = wait(given.admin, given.seconds)
    if found:
        print("not starting: %s" % found, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
