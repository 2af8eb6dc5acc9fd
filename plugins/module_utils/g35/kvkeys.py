"""Values of the KV pool seen by a client: their digests, and copies of those that a drain job leaves behind.

Runs in Mooncake's own environment as the unprivileged user, exactly as the functional probe does (``probe.py`` starts
it and hands it this file on standard input): the standard library and ``mooncake.store``, nothing else.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Sequence

BUFFER = 64 * 2**20
#: how long a copy may take, seconds
COPY_SECONDS = 60.0


def digests(store: Any, keys: Sequence[str], sleep: Callable[[float], None] = time.sleep) -> Dict[str, str]:
    """SHA-256 of each value; empty for one that cannot be read, also not at a second try a moment later."""
    found: Dict[str, str] = {}
    for key in keys:
        value = bytes(store.get(key))
        if not value:
            sleep(1.0)
            value = bytes(store.get(key))
        found[key] = hashlib.sha256(value).hexdigest() if value else ""
    return found


def copy(store: Any, keys: Sequence[str], targets: Sequence[str]) -> Dict[str, str]:
    """Copy each value into the memory of another segment; why it did not work for those it did not.

    A copy is made of values that are being read, too, which a move is not. Only that the tasks were accepted is told
    here: what counts is where the master then says the values are.
    """
    failed: Dict[str, str] = {}
    for number, key in enumerate(keys):
        target = targets[number % len(targets)]
        _, code = store.create_copy_task(key, [target])
        if code != 0:
            failed[key] = "error %d" % code
    return failed


def connect(job: Mapping[str, Any]) -> Any:
    """A client without memory of its own. Raises RuntimeError with Mooncake's code."""
    from mooncake.store import MooncakeDistributedStore  # type: ignore[import-not-found,unused-ignore]

    store = MooncakeDistributedStore()
    code = store.setup(
        job["local_address"], "P2PHANDSHAKE", 0, BUFFER, job["protocol"], job["devices"], job["master_rpc"]
    )
    if code != 0:
        raise RuntimeError("Mooncake's client did not start: error %d" % code)
    return store


def main(arguments: List[str]) -> int:
    """Do the job given as JSON, digest or copy, and print the answer as one line of JSON."""
    job = json.loads(arguments[0])
    store = connect(job)
    if job["action"] == "copy":
        answer: Dict[str, Any] = {"action": "copy", "failed": copy(store, job["keys"], job["targets"])}
    else:
        answer = {"action": "digest", "digests": digests(store, job["keys"])}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
