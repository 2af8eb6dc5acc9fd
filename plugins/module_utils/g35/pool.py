"""The KV pool through the master's admin interface: who holds which key, emptying a store's memory, comparing keys.

What only exists in the memory of a store is lost with it. Emptying asks the master for a drain job, which closes the
segment to new values and moves what it holds. The job leaves out values that are leased, that is read, and those for
which the other segments have no room; a value that is on flash too needs no moving. So what decides is not how the job
ends, but whether a key is left whose every replica is in that memory.
"""

from __future__ import annotations

import json
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from .host import Host
from .http import NO_ANSWER, answer
from .mooncake import Fetch, fetch

#: keys asked about in one request: their names must fit into a URL
BATCH = 40
#: where lists of keys are kept on the master's host; gone after its reboot, as are the keys in memory
NOTES = "/run/g35ctl"
_SHOWN = 20
_TIMEOUT = 30.0

Post = Callable[[str, Mapping[str, Any]], Optional[str]]


class PoolError(Exception):
    """The master did not answer, or refused; the text says what."""


def post(url: str, body: Mapping[str, Any]) -> Optional[str]:
    """The answer to a JSON document, also of a refusal; None without an answer."""
    status, text = answer(url, _TIMEOUT, body)
    return text if status != NO_ANSWER else None


@dataclass(frozen=True)
class Listed:
    """A segment as the master lists it."""

    name: str
    client: str
    endpoint: str
    status: str


class Pool:
    """The pool behind the admin interface of its master: address:port, or several of them joined by commas, of which
    the one that leads is asked."""

    def __init__(
        self,
        admin: str,
        ask: Fetch = fetch,
        send: Post = post,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.admin = admin
        self.admins = [item.strip() for item in admin.split(",") if item.strip()]
        self.ask = ask
        self.send = send
        self.sleep = sleep
        self.clock = clock

    # asking

    def _leads(self, admin: str) -> bool:
        try:
            health = json.loads(self.ask("http://%s/health" % admin, _TIMEOUT) or "{}")
        except ValueError:
            return False
        return isinstance(health, dict) and health.get("role") == "leader" and health.get("service_ready") is True

    def serving(self) -> None:
        """Find the master that leads. Raises PoolError where none does."""
        leading = [item for item in self.admins if self._leads(item)]
        if not leading:
            raise PoolError("the master at %s is not serving" % " or ".join(self.admins))
        self.admin = leading[0]

    def _get(self, path: str) -> str:
        text = self.ask("http://%s%s" % (self.admin, path), _TIMEOUT)
        if text is None:
            raise PoolError("the master at %s does not answer %s" % (self.admin, path.partition("?")[0]))
        return text

    def _json(self, path: str) -> Dict[str, Any]:
        text = self._get(path)
        try:
            data = json.loads(text)
        except ValueError as error:
            raise PoolError("%s: %s" % (path.partition("?")[0], text[:200])) from error
        return data if isinstance(data, dict) else {}

    def segments(self) -> Tuple[Listed, ...]:
        """All segments. Raises PoolError."""
        return tuple(
            Listed(
                str(item.get("segment_name", "")),
                str(item.get("client_id", "")),
                str(item.get("te_endpoint", "")),
                str(item.get("status", "")),
            )
            for item in self._json("/get_segments_detail").get("segments") or []
        )

    def keys(self) -> List[str]:
        """Every key the master knows. Raises PoolError."""
        self.serving()
        return [line for line in self._get("/get_all_keys").splitlines() if line]

    def replicas(self, keys: Sequence[str]) -> Dict[str, List[Tuple[str, str]]]:
        """Where each key is, as (MEMORY, LOCAL_DISK or OTHER; segment). Asking grants no lease. Raises PoolError."""
        segments = self.segments()
        endpoints = {item.endpoint: item.name for item in segments}
        clients = {item.client: item.name for item in segments}
        found: Dict[str, List[Tuple[str, str]]] = {}
        for start in range(0, len(keys), BATCH):
            part = keys[start : start + BATCH]
            query = ",".join(urllib.parse.quote(key, safe="") for key in part)
            answer = self._json("/batch_query_keys?keys=%s" % query).get("data") or {}
            for key in part:
                entry = answer.get(key) or {}
                places = [
                    (
                        "MEMORY",
                        endpoints.get(str(item.get("transport_endpoint_")), str(item.get("transport_endpoint_"))),
                    )
                    for item in entry.get("values") or []
                ]
                places += [
                    ("LOCAL_DISK", clients.get(str(item.get("client_id")), str(item.get("client_id"))))
                    for item in entry.get("local_disk_values") or []
                ]
                places += [("OTHER", "") for kind in ("disk_values", "nof_values") for _ in entry.get(kind) or []]
                found[key] = places
        return found

    def only_in_memory(self, segments: Sequence[str]) -> List[str]:
        """Keys whose every replica is in the memory of these segments: what would be lost with them.

        Every key is asked about. What the master says a segment holds is no shortcut: of a closed one it says nothing.
        """
        wanted: Set[str] = set(segments)
        places = self.replicas(self.keys())
        return [
            key
            for key, where in places.items()
            if where and all(kind == "MEMORY" and segment in wanted for kind, segment in where)
        ]

    def metric(self, name: str) -> int:
        """A counter of the master; 0 where it does not report it. Raises PoolError."""
        for line in self._get("/metrics").splitlines():
            if line.startswith(name + " "):
                return int(float(line.split()[1]))
        return 0

    # emptying

    def close(self, segments: Sequence[str], concurrency: int) -> Dict[str, Any]:
        """Ask for a drain job, unless the segments are closed already; ``listed`` are those the master has.

        Raises PoolError when the master refuses, or no other segment could take anything.
        """
        listed = {item.name: item.status for item in self.segments()}
        present = [name for name in segments if name in listed]
        open_ones = [name for name in present if listed[name] == "OK"]
        targets = sorted(name for name, status in listed.items() if status == "OK" and name not in segments)
        if not open_ones:
            return {"listed": present, "job": "", "targets": targets}
        if not targets:
            raise PoolError("no other segment is there to take what is in memory")
        body = {"segments": open_ones, "target_segments": targets, "max_concurrency": concurrency}
        answer = self.send("http://%s/api/v1/drain_jobs" % self.admin, body)
        try:
            data = json.loads(answer or "{}")
        except ValueError:
            data = {}
        if data.get("success") is not True:
            raise PoolError("the master refuses a drain job: %s" % (data.get("error_message") or answer or "no answer"))
        return {"listed": present, "job": str(data.get("job_id", "")), "targets": targets}

    def job(self, identifier: str) -> Dict[str, Any]:
        """How a drain job is doing; empty when the master does not know it (it forgets them when it restarts)."""
        data = self._json("/api/v1/drain_jobs/query?job_id=%s" % urllib.parse.quote(identifier))
        wanted = ("status_name", "succeeded_units", "failed_units", "blocked_units", "active_units", "migrated_bytes")
        return {name: data.get(name) for name in wanted} if data.get("success") else {}

    def empty(self, segments: Sequence[str], seconds: float, concurrency: int = 4) -> Dict[str, Any]:
        """Close the segments and wait until nothing exists only in their memory, for at most ``seconds``.

        ``left`` are keys that still do: values that are read all the time, for instance, are not moved by the job and
        have to be copied. ``status`` maps the segments to what the master says of them. Raises PoolError.
        """
        closed = self.close(segments, concurrency)
        deadline = self.clock() + seconds
        left: List[str] = []
        fewest, since = -1, self.clock()
        while closed["listed"]:
            left = self.only_in_memory(closed["listed"])
            if not left:
                break
            if fewest < 0 or len(left) < fewest:
                fewest, since = len(left), self.clock()
            # A job that gets no further will not: what is left is leased, or has no room anywhere.
            if self.clock() >= deadline or self.clock() - since > min(20.0, seconds / 3):
                break
            self.sleep(1.0)
        status = {item.name: item.status for item in self.segments() if item.name in segments}
        return {
            "segments": list(segments),
            "targets": closed["targets"],
            "job": closed["job"],
            "progress": self.job(closed["job"]) if closed["job"] else {},
            "status": status,
            "left": left,
        }

    def reopen(self, segments: Sequence[str], job: str, seconds: float = 60.0) -> List[str]:
        """Take a drain job back; segments that stay closed all the same: those it has emptied. Raises PoolError.

        The master takes none back while it moves something, so it is asked again for a while.
        """
        deadline = self.clock() + seconds
        while True:
            if job:
                self.send("http://%s/api/v1/drain_jobs/cancel?job_id=%s" % (self.admin, urllib.parse.quote(job)), {})
            closed = {item.name: item.status for item in self.segments() if item.name in segments}
            if not job or "DRAINING" not in closed.values() or self.clock() >= deadline:
                return sorted(name for name, status in closed.items() if status != "OK")
            self.sleep(1.0)

    def gone(self, segments: Sequence[str], seconds: float) -> List[str]:
        """Wait until the master lists none of the segments; those it still does. Raises PoolError."""
        deadline = self.clock() + seconds
        while True:
            left = sorted({item.name for item in self.segments()} & set(segments))
            if not left or self.clock() >= deadline:
                return left
            self.sleep(1.0)

    def present(self, segments: Sequence[str], seconds: float) -> List[str]:
        """Wait until the master lists all of the segments; those it does not. Raises PoolError."""
        deadline = self.clock() + seconds
        while True:
            left = sorted(set(segments) - {item.name for item in self.segments()})
            if not left or self.clock() >= deadline:
                return left
            self.sleep(1.0)


# comparing


def _note(token: str) -> str:
    return "%s/keys-%s" % (NOTES, token)


def note(host: Host, pool: Pool, token: str, segments: Sequence[str], sample: int) -> Dict[str, Any]:
    """Write down every key, and pick some that are on flash or in the memory of ``segments``; keeps a list that an
    earlier attempt of the same act wrote. Raises PoolError, and OSError when it cannot be written."""
    keys = pool.keys()
    if not host.exists(_note(token)):
        host.write_file(_note(token), "".join("%s\n" % key for key in keys), 0o600)
        host.write_file(_note(token) + ".evicted", "%d\n" % pool.metric("master_evicted_key_count"), 0o600)
    chosen: List[str] = []
    wanted = set(segments)
    # Spread over the list, which is in no order; a few rounds find enough without asking for every key.
    step = max(1, len(keys) // max(1, sample * 4))
    for key, places in pool.replicas(keys[::step][: sample * 4]).items():
        if any(segment in wanted for _, segment in places) and len(chosen) < sample:
            chosen.append(key)
    return {"keys": len(keys), "sample": chosen}


def compare(host: Host, pool: Pool, token: str) -> Dict[str, Any]:
    """Keys written down that the master does not know now. ``noted`` is False where there is no list (any more).
    ``evicted`` counts what the master evicted for want of room meanwhile. Raises PoolError."""
    text = host.read(_note(token))
    now = pool.keys()
    if text is None:
        return {"noted": False, "before": 0, "after": len(now), "lost": 0, "first": [], "evicted": 0}
    before = text.splitlines()
    lost = sorted(set(before) - set(now))
    evicted = pool.metric("master_evicted_key_count") - int((host.read_value(_note(token) + ".evicted") or "0"))
    return {
        "noted": True, "before": len(before), "after": len(now), "lost": len(lost), "first": lost[:_SHOWN],
        "evicted": max(0, evicted),
    }  # fmt: skip


def forget(host: Host, token: str) -> None:
    """Remove the list of an act that is over."""
    host.remove_file(_note(token))
    host.remove_file(_note(token) + ".evicted")
