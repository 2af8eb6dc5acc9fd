"""Holds a Mooncake store back until it may start: run by its unit before the store itself.

Usage: ``python3 -I storegate.py --admin ADDRESS:PORT[,ADDRESS:PORT] --segment ADDRESS:PORT [--mount DIRECTORY]
[--namespace UUID] [--owner HOST] [--environment DIRECTORY --wheel NAME==VERSION] [--unit NAME --ttl N] --seconds N``

These must be true. The environment holds the planned wheel and no other. The flash directory lies on its own mount, or
Mooncake would fill the root file system, and the marker on it names the planned namespace and this host. And the
serving master has forgotten the earlier run of this store: it keeps that for the client's time to live, also after a
stop in good order (the segment is gone from its list at once, the entry of the flash is not), and a store that comes
back within that time loses all its flash keys when the old entry expires, with the files still there. Exit 0 when it
may start, 1 when the time is up (the unit tries again).
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import subprocess
import sys
import time
import urllib.request
from typing import Callable, List, Optional

#: seconds beyond the time to live: the master looks once a second
MARGIN = 3.0


def fetch(url: str) -> Optional[str]:
    """The body of ``url`` or None; never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None


def obstacle(
    admin: str,
    segment: str,
    mount: str,
    ask: Callable[[str], Optional[str]] = fetch,
    namespace: str = "",
    owner: str = "",
) -> str:
    """What keeps the store from starting, in words; empty when nothing does. ``admin`` lists every master, with commas
    between them."""
    if mount and not os.path.ismount(mount):
        return "%s is not a mount point" % mount
    if namespace and marked(mount) != namespace.lower():
        return "%s is marked for %s, not for namespace %s" % (mount, marked(mount) or "nobody", namespace)
    if owner and marked(mount, "owner") != owner.lower():
        return "%s is marked for host %s, not for %s" % (mount, marked(mount, "owner") or "nobody", owner)
    serving = [item for item in admin.split(",") if leads(item, ask)]
    if not serving:
        return "the master at %s is not serving" % admin.replace(",", " or ")
    names = ask("http://%s/get_all_segments" % serving[0])
    if names is None:
        return "the master at %s does not list its segments" % serving[0]
    if segment in names.split():
        return "the master still lists %s: an earlier run of this store has not expired" % segment
    return ""


def leads(admin: str, ask: Callable[[str], Optional[str]]) -> bool:
    """Whether the master there leads and accepts requests."""
    try:
        state = json.loads(ask("http://%s/health" % admin) or "{}")
    except ValueError:
        return False
    return state.get("role") == "leader" and state.get("service_ready") is True


def marked(mount: str, member: str = "namespace") -> str:
    """The namespace, or another member, that the marker in the root of the file system names, or empty."""
    try:
        with open(os.path.join(mount, ".g35-owner.json"), encoding="utf-8") as marker:
            return str(json.load(marker)[member]).lower()
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def other_wheel(environment: str, wheel: str) -> str:
    """What is wrong with the wheel in ``environment``, in words; ``wheel`` is written ``name==version``."""
    if not environment:
        return ""
    found = glob.glob(
        os.path.join(environment, "lib", "python*", "site-packages", "mooncake_transfer_engine*.dist-info")
    )
    names = sorted(os.path.basename(path)[: -len(".dist-info")] for path in found)
    if names == [wheel.replace("-", "_").replace("==", "-")]:
        return ""
    told = ", ".join(names) or "no Mooncake"
    return "%s holds %s, expected %s" % (environment, told, wheel)


def stopped_for(unit: str, now: float) -> float:
    """Seconds since the unit was last stopped; since the boot where it was not running yet, and 0 where nobody says.

    ``now`` is the monotonic clock, which systemd's stamps count by.
    """
    command = ["systemctl", "show", "--property=InactiveEnterTimestampMonotonic", "--value", unit]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
        return max(0.0, now - int(told) / 1e6)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0.0


def wait_out(
    ttl: float,
    stopped: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Let the client's time to live, and a little more, pass since the unit stopped."""
    left = ttl + MARGIN - stopped
    if left > 0:
        print("waiting %.0f s: the master keeps an earlier run that long" % left, flush=True)
        sleep(left)


def wait(
    admin: str,
    segment: str,
    mount: str,
    seconds: float,
    ask: Callable[[str], Optional[str]] = fetch,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    namespace: str = "",
    owner: str = "",
) -> str:
    """Wait at most ``seconds`` until nothing is in the way; returns what still is, or an empty text."""
    deadline = clock() + seconds
    told = ""
    while True:
        found = obstacle(admin, segment, mount, ask, namespace, owner)
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
    parser.add_argument("--namespace", default="", help="what the marker on the mount must name")
    parser.add_argument("--owner", default="", help="the host that the marker on the mount must name")
    parser.add_argument("--unit", default="", help="the store's unit, which tells when it was stopped")
    parser.add_argument("--ttl", type=float, default=0.0, help="the client's time to live, seconds")
    parser.add_argument("--environment", default="", help="the environment that is about to be used")
    parser.add_argument("--wheel", default="", help="the only Mooncake wheel that may be in it, name==version")
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args(arguments)
    # Waiting does not make another wheel the right one.
    found = other_wheel(given.environment, given.wheel)
    if not found:
        if given.unit:
            wait_out(given.ttl, stopped_for(given.unit, time.monotonic()))
        marks = {"namespace": given.namespace, "owner": given.owner}
        found = wait(given.admin, given.segment, given.mount, given.seconds, **marks)
    if found:
        print("not starting: %s" % found, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
