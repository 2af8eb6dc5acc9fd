"""Re-applies a stage's plan at boot: what the g35 units run.

Usage: ``python3 -I /usr/lib/g35ctl/g35/boot.py STAGE [apply|remove|drain]``. The stage waits for what it needs (a
device, an address, a portal), applies, and exits 0 only when the read-back holds; systemd tries again otherwise.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import List


def main(arguments: List[str]) -> int:
    """Apply one stage from /etc/g35ctl/STAGE.json; returns the exit code."""
    name = arguments[0]
    action = arguments[1] if len(arguments) > 1 else "apply"
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    stage_module = importlib.import_module("g35.%s" % name)
    converge = importlib.import_module("g35.converge")
    host = importlib.import_module("g35.host").Host()
    with open("/etc/g35ctl/%s.json" % name, encoding="utf-8") as handle:
        plan = json.load(handle)
    # At boot nothing of ours is live yet, so nothing can be disrupted.
    outcome = converge.act(stage_module.boot_stage(host, plan), action, allow_disruptive=True)
    for change in outcome.changes:
        print("%s: %s -> %s" % (change["what"], change["before"], change["after"]))
    for finding in outcome.findings:
        print("%(severity)s %(check)s %(subject)s: %(observed)s, expected %(expected)s" % finding)
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
