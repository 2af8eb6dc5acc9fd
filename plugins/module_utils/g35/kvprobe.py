"""The functional probe of the KV pool: what one host writes must come back from flash, byte-equal, on every host.

Runs in Mooncake's own Python environment as the unprivileged user (``probe.py`` starts it and hands it this very file
on standard input), so it uses nothing but the standard library and ``mooncake.store``. One JSON object on standard
output is its answer.

How values are made to live on flash only: Mooncake moves a value to flash when memory use passes the master's
watermark, whole buckets at a time. So the probe writes its values, companions that fill their buckets, and then
fillers until eviction begins. Fillers are leased by asking for them, so that eviction takes the values and not them,
and removed at the end. Nobody fills before everybody has written, or the values of the last would find no room.
Where a value is, is asked with ``/batch_query_keys``: unlike every other question it grants no
lease, so asking does not itself keep the value in memory.

Key names are never used twice: a store keeps the names of removed values in its buckets until those are evicted, and a
value of the same name, with all that share its bucket, is then never written to flash.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

PREFIX = "g35-probe-"
#: name of a validation run: its time, as the controller and role validate give it, and what may follow
RUN = "[0-9]{8}T[0-9]{6}[^~]*"
#: Mooncake's code for "no memory left right now"; callers are expected to try again
NO_MEMORY = -200
#: objects stay well below Mooncake's limit of 16 MiB
FILLER_MAX = 8 * 2**20
QUERY_KEYS = 40

Ask = Callable[[str], Optional[str]]


def content(key: str, size: int) -> bytes:
    """The bytes that belong to a key: any host can tell whether it got the right ones."""
    return hashlib.shake_128(key.encode()).digest(size)


def fetch(url: str) -> Optional[str]:
    """The body of ``url``, also of an error answer, or None; never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        return str(error.read().decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None


def leader(admins: str, ask: Ask = fetch) -> str:
    """Which of the admin addresses (with commas between them) is the leading master's; the first while none leads."""
    listed = admins.split(",")
    for admin in listed if len(listed) > 1 else ():
        try:
            state = json.loads(ask("http://%s/health" % admin) or "{}")
        except ValueError:
            continue
        if state.get("role") == "leader" and state.get("service_ready") is True:
            return admin
    return listed[0]


class Pool:
    """The pool as the probe uses it: a client to move values, the master's admin interface to ask about them."""

    def __init__(self, store: Any, configure: Callable[[str], Any], admin: str, ask: Ask = fetch) -> None:
        self.store = store
        self.configure = configure
        self.admin = admin
        self.ask = ask

    def json(self, path: str) -> Dict[str, Any]:
        try:
            data = json.loads(self.ask("http://%s%s" % (self.admin, path)) or "{}")
        except ValueError:
            return {}
        return data if isinstance(data, dict) else {}

    def put(self, key: str, value: bytes, segment: str) -> int:
        """Put a value, preferably into ``segment``; Mooncake's return code."""
        return int(self.store.put(key, value, self.configure(segment)))

    def remove(self, keys: Sequence[str]) -> None:
        """Remove keys whether leased or not; absent ones are fine."""
        for key in keys:
            self.store.remove(key, True)

    def lease(self, key: str) -> None:
        """Keep a key in memory for the master's lease: this question grants one."""
        self.ask("http://%s/query_key?key=%s" % (self.admin, key))

    def replicas(self, keys: Sequence[str]) -> Dict[str, List[Dict[str, str]]]:
        """Where each key's replicas are: kind MEMORY, LOCAL_DISK or OTHER, and the segment they belong to."""
        endpoints: Dict[str, str] = {}
        clients: Dict[str, str] = {}
        for item in self.json("/get_segments_detail").get("segments") or []:
            endpoints[str(item.get("te_endpoint"))] = str(item.get("segment_name"))
            clients[str(item.get("client_id"))] = str(item.get("segment_name"))
        found: Dict[str, List[Dict[str, str]]] = {}
        for start in range(0, len(keys), QUERY_KEYS):
            part = keys[start : start + QUERY_KEYS]
            answer = self.json("/batch_query_keys?keys=" + ",".join(part)).get("data") or {}
            for key in part:
                found[key] = _replicas(answer.get(key) or {}, endpoints, clients)
        return found

    def keys(self, token: str) -> List[str]:
        """Every key of a validation run that the master knows, values and helpers."""
        listed = (self.ask("http://%s/get_all_keys" % self.admin) or "").split()
        return sorted(key for key in listed if key.startswith("%s%s~" % (PREFIX, token)))

    def metric(self, name: str) -> int:
        """A counter of the master; 0 where it does not report it."""
        for line in (self.ask("http://%s/metrics" % self.admin) or "").splitlines():
            if line.startswith(name + " "):
                return int(float(line.split()[1]))
        return 0


def _replicas(
    entry: Mapping[str, Any], endpoints: Mapping[str, str], clients: Mapping[str, str]
) -> List[Dict[str, str]]:
    found: List[Dict[str, str]] = []
    for item in entry.get("values") or []:
        place = str(item.get("transport_endpoint_"))
        found.append({"kind": "MEMORY", "segment": endpoints.get(place, place)})
    for item in entry.get("local_disk_values") or []:
        client = str(item.get("client_id"))
        found.append({"kind": "LOCAL_DISK", "segment": clients.get(client, client)})
    for kind in ("disk_values", "nof_values"):
        found.extend({"kind": "OTHER", "segment": ""} for _ in entry.get(kind) or [])
    return found


class Writer:
    """Writes the values of one host and sees them to flash."""

    def __init__(
        self,
        pool: Pool,
        job: Mapping[str, Any],
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        moment: Callable[[], float] = time.time,
    ) -> None:
        self.pool = pool
        self.job = job
        self.sleep = sleep
        self.clock = clock
        self.deadline = clock() + float(job["seconds"])
        # token ~ moment ~ writer: what follows is owner and number, or says what else the key is for.
        self.stem = "%s%s~%x~%s~" % (PREFIX, job["token"], int(moment() * 1000), job["writer"])
        self.values: Dict[str, Dict[str, Any]] = {}
        self.helpers: List[str] = []
        self.fillers: List[str] = []
        self.made = 0
        self.named = 0

    def run(self) -> Dict[str, Any]:
        """Write, wait until everything is only on flash or the time is up, take the helpers away again."""
        begun = self.clock()
        # Left over from a run of the same name that was interrupted.
        self.pool.store.remove_by_regex("^%s%s~[0-9a-f]+~%s~" % (PREFIX, self.job["token"], self.job["writer"]), True)
        try:
            self._write()
            self._wait_for_the_others()
            self._push()
        finally:
            self.pool.remove(self.helpers + self.fillers)
        places = self.pool.replicas(sorted(self.values))
        for key, replicas in places.items():
            self.values[key]["replicas"] = replicas
        return {
            "action": "write",
            "values": [self.values[key] for key in sorted(self.values)],
            "filler_bytes": self.made * self.filler_size,
            "seconds": round(self.clock() - begun, 3),
        }

    @property
    def segments(self) -> List[str]:
        """Every segment this host writes to, each once."""
        return sorted({name for names in self.job["segments"].values() for name in names})

    @property
    def filler_size(self) -> int:
        """Bytes of a filler: big, for few requests, and never so big that segments cannot be filled."""
        segment = int(self.job["segment_size"]) or FILLER_MAX * 8
        return max(4096, min(FILLER_MAX, segment // 8))

    def _write(self) -> None:
        size = int(self.job["value_size"])
        for owner in sorted(self.job["segments"]):
            names = self.job["segments"][owner]
            for number in range(int(self.job["keys"]) if names else 0):
                segment = names[number % len(names)]
                key = "%s%s~%d" % (self.stem, owner, number)
                problem = self._put_there(key, content(key, size), segment)
                self.values[key] = {"key": key, "owner": owner, "segment": segment, "problem": problem, "replicas": []}
        for segment in self.segments:
            self._companions(segment)

    def _wait_for_the_others(self) -> None:
        """Say that our values are written, and wait a while until the other owners have said so too."""
        ready = self.stem + "~ready"
        self.pool.put(ready, b"ready", self.segments[0])
        self.helpers.append(ready)
        others = set(self.job["segments"]) - {self.job["writer"]}
        until = min(self.deadline, self.clock() + float(self.job["seconds"]) / 3)
        while others and self.clock() < until:
            for key in self.pool.keys(str(self.job["token"])):
                if key.endswith("~~ready"):
                    others.discard(key.split("~")[2])
            if others:
                self.sleep(1.0)

    def _put_there(self, key: str, value: bytes, segment: str) -> str:
        """Put a value into exactly this segment; returns what went wrong, or an empty text.

        A full segment makes Mooncake choose another one or refuse; both pass once eviction has made room.
        """
        told = "no time left"
        while self.clock() < self.deadline:
            code = self.pool.put(key, value, segment)
            if code not in (0, NO_MEMORY):
                return "put: error %d" % code
            if code == 0:
                places = self.pool.replicas([key])[key]
                if all(place["segment"] == segment for place in places):
                    return ""
                told = "placed on %s" % ", ".join(place["segment"] for place in places)
                self.pool.remove([key])
            else:
                told = "put: error %d (no memory) until the time was up" % code
            self.sleep(1.0)
        return told

    def _companions(self, segment: str) -> bool:
        """Put one bucket's worth of small values beside ours: an incomplete bucket is never written to flash."""
        size = int(self.job["value_size"])
        for _ in range(max(1, -(-int(self.job["bucket_size"]) // size))):
            key = self._helper_key()
            if self.pool.put(key, content(key, size), segment) != 0:
                return False
            self.helpers.append(key)
        return True

    def _helper_key(self) -> str:
        self.named += 1
        return "%s~helper~%d" % (self.stem, self.named)

    def _stuck(self) -> Dict[str, str]:
        """Our values that are not yet on flash alone, with the segment each was written to."""
        places = self.pool.replicas(sorted(self.values))
        return {
            key: self.values[key]["segment"]
            for key, replicas in places.items()
            if not self.values[key]["problem"] and any(place["kind"] == "MEMORY" for place in replicas)
        }

    def _push(self) -> None:
        """Fill memory until eviction has taken all of our values to flash."""
        attempts = self.pool.metric("master_attempted_evictions_total")
        quiet = 0
        left = len(self.values) + 1
        while self.clock() < self.deadline:
            stuck = self._stuck()
            if not stuck:
                return
            latest = self.pool.metric("master_attempted_evictions_total")
            evicting = latest > attempts
            attempts = latest
            quiet = quiet + 1 if len(stuck) >= left else 0
            left = len(stuck)
            if not evicting and self._room() and self._fill():
                continue
            if evicting and quiet >= 5:
                # Eviction runs and ours do not leave: they wait in a bucket that is not full.
                for segment in sorted(set(stuck.values())):
                    if not self._companions(segment) and self.fillers:
                        self.pool.remove([self.fillers.pop(0)])
                        self._companions(segment)
                quiet = 0
            self.sleep(1.0)

    def _room(self) -> bool:
        """Whether memory is so empty that eviction cannot have begun; a little is left for whoever writes now."""
        total = self.pool.metric("master_total_capacity_bytes")
        return self.pool.metric("master_allocated_bytes") < total * 0.95

    def _fill(self) -> bool:
        """Put one filler, on this host's own segments first: that traffic stays off the network."""
        own = self.job["segments"].get(self.job["writer"]) or self.segments
        key = self._helper_key()
        code = self.pool.put(key, content(key, 64).ljust(self.filler_size, b"\0"), own[self.made % len(own)])
        if code != 0:
            return False
        self.made += 1
        self.fillers.append(key)
        self.pool.lease(key)
        return True


def read(pool: Pool, job: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> Dict[str, Any]:
    """Read every value of this run from this host and compare; count the flash hits the master saw."""
    # An empty part marks what is not a value.
    keys = [key for key in pool.keys(str(job["token"])) if "~~" not in key]
    before = pool.metric("file_cache_hit_nums_")
    values = []
    for key in keys:
        begun = clock()
        got = bytes(pool.store.get(key))
        if not got:
            # The first contact with an owner sets up connections; one that fails is worth a second try.
            got = bytes(pool.store.get(key))
        equal = got == content(key, int(job["value_size"]))
        problem = "" if equal else ("empty" if not got else "%d bytes, not equal" % len(got))
        values.append({"key": key, "equal": equal, "seconds": round(clock() - begun, 4), "problem": problem})
    after = pool.metric("file_cache_hit_nums_")
    return {"action": "read", "values": values, "hits_before": before, "hits_after": after}


def clean(pool: Pool, token: str) -> Dict[str, Any]:
    """Remove the values of this validation and of every earlier one; those bear the time of their run as a name.

    A value under any other name was kept on purpose (to prove that it outlives a reboot, say) and stays.
    """
    pattern = "^%s(%s|%s)~" % (PREFIX, re.escape(token), RUN)
    return {"action": "clean", "removed": int(pool.store.remove_by_regex(pattern, True))}


def connect(job: Mapping[str, Any]) -> Pool:
    """A client without memory of its own, as an inference engine is one. Raises RuntimeError with Mooncake's code."""
    from mooncake.store import MooncakeDistributedStore, ReplicateConfig  # type: ignore[import-not-found,unused-ignore]

    def configure(segment: str) -> Any:
        config = ReplicateConfig()
        config.replica_num = 1
        config.preferred_segment = segment
        return config

    store = MooncakeDistributedStore()
    buffer = 4 * FILLER_MAX
    code = store.setup(
        job["local_address"], "P2PHANDSHAKE", 0, buffer, job["protocol"], job["devices"], job["master_rpc"]
    )
    if code != 0:
        raise RuntimeError("Mooncake's client did not start: error %d" % code)
    return Pool(store, configure, leader(str(job["master_admin"])))


def main(arguments: Sequence[str]) -> int:
    """Do the job given as JSON and print the answer as one line of JSON."""
    job = json.loads(arguments[0])
    pool = connect(job)
    if job["action"] == "write":
        answer = Writer(pool, job).run()
    else:
        answer = read(pool, job) if job["action"] == "read" else clean(pool, str(job["token"]))
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    pool.store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
