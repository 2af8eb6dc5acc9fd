"""What module g35_pool does: the pool's admin interface, and a client of the pool where values have to be touched."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import kvkeys, pool, probe
from .host import Host
from .plans import ProbePlan

ACTIONS = ("note", "compare", "empty", "reopen", "gone", "present", "forget")
#: keys given to one run of the client, on its command line
_BATCH = 200
#: how long the master may take to show copies as replicas, seconds
_COPIED = 30.0


class Work:
    """One act's dealings with the pool. ``made`` replaces the pool in tests."""

    def __init__(self, host: Host, plan: ProbePlan, token: str, made: Optional[pool.Pool] = None) -> None:
        self.host = host
        self.plan = plan
        self.token = token
        self.pool = made or pool.Pool(plan.master_admin, sleep=host.sleep, clock=host.clock)

    def run(
        self,
        action: str,
        segments: Sequence[str],
        seconds: float = 300.0,
        sample: int = 16,
        digests: Optional[Mapping[str, str]] = None,
        job: str = "",
    ) -> Dict[str, Any]:
        """Do one action. Raises PoolError, ProbeFailed or OSError."""
        self.pool.serving()
        if action == "note":
            noted = pool.note(self.host, self.pool, self.token, segments, sample)
            return {"action": action, "keys": noted["keys"], "digests": self.digests(noted["sample"])}
        if action == "compare":
            return self.compare(digests or {})
        if action == "empty":
            return {"action": action, **self.empty(segments, seconds)}
        if action == "reopen":
            return {"action": action, "closed": self.pool.reopen(segments, job)}
        if action == "forget":
            pool.forget(self.host, self.token)
            return {"action": action}
        wait = self.pool.gone if action == "gone" else self.pool.present
        return {"action": action, "left": wait(segments, seconds)}

    def compare(self, digests: Mapping[str, str]) -> Dict[str, Any]:
        """Missing keys, and the values of ``digests`` that are not what they were. A key whose value could not be read
        at the beginning says nothing at the end."""
        told = pool.compare(self.host, self.pool, self.token)
        wanted = [key for key in sorted(digests) if digests[key]]
        now = self.digests(wanted)
        different = [key for key in wanted if now.get(key) and now[key] != digests[key]]
        unreadable = [key for key in wanted if not now.get(key)]
        return {
            "action": "compare", **told, "read": len(wanted), "different": different, "unreadable": unreadable,
        }  # fmt: skip

    def empty(self, segments: Sequence[str], seconds: float) -> Dict[str, Any]:
        """Close and empty the segments; what the master's job leaves is copied. ``left``: what is still only there."""
        done = self.pool.empty(segments, seconds)
        copied = 0
        # Twice: a value may have come to be read, or written for good, while the first round ran.
        for _ in range(2):
            left = list(done["left"])
            if not left:
                break
            failed: Dict[str, str] = {}
            for start in range(0, len(left), _BATCH):
                job = {"action": "copy", "keys": left[start : start + _BATCH], "targets": done["targets"]}
                failed.update(self._client(job)["failed"])
            self.host.wait_until(lambda: not self.pool.only_in_memory(segments), _COPIED, interval=1.0)
            done["left"] = self.pool.only_in_memory(segments)
            copied += len(left) - len(done["left"])
            done["refused"] = failed
        done["copied"] = copied
        done["left_count"] = len(done["left"])
        done["left"] = done["left"][:20]
        return done

    def digests(self, keys: Sequence[str]) -> Dict[str, str]:
        """SHA-256 of values as a client reads them, empty where one cannot be read."""
        found: Dict[str, str] = {}
        for start in range(0, len(keys), _BATCH):
            found.update(self._client({"action": "digest", "keys": list(keys[start : start + _BATCH])})["digests"])
        return found

    def _client(self, job: Dict[str, Any]) -> Dict[str, Any]:
        """Run the client in Mooncake's environment. Raises ProbeFailed when it gives no answer."""
        job = {
            **job,
            "local_address": self.plan.local_address,
            "protocol": self.plan.protocol,
            "devices": ",".join(probe.devices(self.host, self.plan)),
            "master_rpc": self.plan.master_rpc,
        }
        result = self.host.run(probe.command(self.plan, job), stdin=probe.source(kvkeys), timeout=900.0)
        lines: List[str] = result.out.splitlines()
        for line in reversed(lines):
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if isinstance(data, dict) and data.get("action") == job["action"]:
                return data
        words = [line for line in result.err.splitlines() if line.strip()][-3:]
        raise probe.ProbeFailed("exit %d: %s" % (result.code, " | ".join(words) or "no output"))
