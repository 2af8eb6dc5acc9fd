"""What one host that never answers costs a preflight of many: ``python tests/bench/preflight_scale.py [--hosts 100]``.

Every host is this machine, reached over ssh on the loopback network; the real checks of every stage run there, and say
what this machine lacks. The silent host's port takes connections and never greets. Needs root and sshd; it works in a
network namespace of its own, so that no probe of a data address leaves the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from loopback import Fleet, fleet
from plan_scale import inventory

from g35ctl.engine.failures import UNREACHABLE

SILENT = "127.2.0.1"
APART = "G35_BENCH_APART"


def site(hosts: Fleet, silent: int | None) -> dict:
    """A site whose hosts are those of the fleet; with ``silent``, the port of one more that does not answer."""
    count = len(hosts.names) - 1
    made = inventory(count + (silent is not None), 1, 8)
    children = made["all"]["children"]
    children["ebof"]["hosts"]["ebof1"].update(hosts.variables(hosts.names[-1]))
    for number in range(1, count + 1):
        children["gpu_hosts"]["hosts"][f"gpu{number}"].update(hosts.variables(hosts.names[number - 1]))
    if silent is not None:
        reach = {**hosts.variables(hosts.names[0]), "ansible_host": SILENT, "ansible_port": silent}
        children["gpu_hosts"]["hosts"][f"gpu{count + 1}"].update(reach)
    return made


def preflight(hosts: Fleet, silent: int | None) -> tuple[float, dict]:
    """Seconds of wall clock and the command's own words."""
    folder = hosts.folder / ("silent" if silent else "whole")
    folder.mkdir()
    (folder / "hosts.yml").write_text(yaml.safe_dump(site(hosts, silent)))
    began = time.monotonic()
    argv = [sys.executable, "-m", "g35ctl.cli.main", "-i", str(folder / "hosts.yml"), "-o", "json", "preflight"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    wall = time.monotonic() - began
    try:
        return wall, json.loads(done.stdout)
    except ValueError:
        raise SystemExit(
            f"preflight ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        ) from None


def measure(count: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="g35-bench-", ignore_cleanup_errors=True) as temporary,
        fleet(Path(temporary), count + 1) as hosts,
        socket.create_server((SILENT, 0), backlog=64) as quiet,
    ):
        print("| hosts | of them silent | wall s | told as unreachable |\n|---|---|---|---|")
        for silent in (None, quiet.getsockname()[1]):
            wall, told = preflight(hosts, silent)
            lost = sorted({item["host"] for item in told["failures"] if item["subject"] == UNREACHABLE})
            print(
                f"| {count + (silent is not None)} | {int(silent is not None)} | {wall:.1f} | {', '.join(lost)} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    asked = parser.parse_args()
    if APART not in os.environ:
        words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
        os.execvpe(words[0], words, {**os.environ, APART: "1"})
    measure(asked.hosts)


if __name__ == "__main__":
    main()
