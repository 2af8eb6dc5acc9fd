"""Registers raw namespaces with a Mooncake master, and again whenever it has forgotten them.

Usage: ``PYTHON -I nofregister.py FILE [--once]``, with the Python of Mooncake's environment; FILE is JSON with
``master``, ``admin``, ``transport`` and ``namespaces``.

A master keeps registrations in memory only, and drops a namespace that it could not reach for a while. So its capacity
is asked every few seconds, and where it is less than what was registered, everything is registered again: for a
namespace that is there already this changes nothing.

A namespace that this host's kernel has connected is not registered: it may be mounted, and Mooncake writes to it raw.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from typing import Any, Callable, Dict, List, Mapping, Optional

SUBSYSTEMS = "/sys/class/nvme-subsystem"
METRIC = "master_total_nof_capacity_bytes"
INTERVAL = 5.0

Ask = Callable[[str], Optional[str]]
Register = Callable[[Mapping[str, Any]], int]


def fetch(url: str) -> Optional[str]:
    """The body of ``url`` or None; never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None


def connected(root: str = SUBSYSTEMS) -> List[str]:
    """NQNs of the subsystems that this host's kernel has connected."""
    found = []
    for name in os.listdir(root) if os.path.isdir(root) else []:
        try:
            with open(os.path.join(root, name, "subsysnqn"), encoding="utf-8") as attribute:
                found.append(attribute.read().strip())
        except OSError:
            continue
    return sorted(found)


def capacity(admin: str, ask: Ask) -> Optional[int]:
    """Bytes of raw namespaces that the serving master knows; None while there is none."""
    try:
        health = json.loads(ask("http://%s/health" % admin) or "{}")
    except ValueError:
        return None
    if health.get("role") != "leader" or health.get("service_ready") is not True:
        return None
    for line in (ask("http://%s/metrics" % admin) or "").splitlines():
        if line.startswith(METRIC + " "):
            return int(float(line.split()[1]))
    return None


def register_missing(job: Mapping[str, Any], register: Register, ask: Ask, busy: List[str]) -> List[str]:
    """One look: register everything if the master knows less than it should. Returns what went wrong."""
    usable = [item for item in job["namespaces"] if item["nqn"] not in busy]
    problems = [
        "%s is connected by this host's kernel: not registered" % item["nqn"]
        for item in job["namespaces"]
        if item["nqn"] in busy
    ]
    known = capacity(str(job["admin"]), ask)
    if known is None:
        return problems + ["the master at %s is not serving" % job["admin"]]
    if known >= sum(int(item["size"]) for item in usable):
        return problems
    for item in usable:
        code = register(item)
        if code != 0:
            problems.append("%s namespace %s: the master refused it (%d)" % (item["nqn"], item["nsid"], code))
    return problems


def registrar(job: Mapping[str, Any]) -> Register:
    """The published registration API. Raises ImportError where the wheel has none."""
    os.environ["MC_NOF_TRTYPE"] = str(job["transport"])
    from mooncake.store import MooncakeDistributedNoFRegister  # type: ignore[import-not-found,unused-ignore]

    def register(item: Mapping[str, Any]) -> int:
        # One object for each call: it holds the connection to the master it was made for.
        return int(
            MooncakeDistributedNoFRegister().real_register(
                item["nqn"], item["nsid"], item["address"], item["port"], 0, item["size"], job["master"]
            )
        )

    return register


def main(arguments: List[str]) -> int:
    """Look for ever, or once; what is wrong is printed when it changes."""
    with open(arguments[0], encoding="utf-8") as source:
        job: Dict[str, Any] = json.load(source)
    register = registrar(job)
    told: List[str] = ["?"]
    while True:
        problems = register_missing(job, register, fetch, connected())
        if problems != told:
            print("; ".join(problems) or "all %d namespaces are registered" % len(job["namespaces"]), flush=True)
            told = problems
        if "--once" in arguments:
            return 1 if problems else 0
        time.sleep(INTERVAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
