"""The store suite's worker: puts, gets and batches through Mooncake's zero-copy calls, each read compared.

Runs in Mooncake's own Python environment as the unprivileged user, with :mod:`.kvprobe` beside it (``bench_store.py``
hands it both), so it uses nothing but the standard library and ``mooncake.store``. It does one command a line and
answers with one line that begins with ``MARK``; everything else on its output is Mooncake talking.

Only the calls are timed: making the values and comparing them costs more than a fast network takes to move them.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import time
from typing import IO, Any, Callable, Dict, List, Mapping, Sequence, Tuple

try:
    from . import kvprobe
except ImportError:  # the worker
    import kvprobe  # type: ignore[import-not-found,no-redef,unused-ignore]

MARK = "G35 "
#: registered memory of the worker, bytes: a batch of the largest values, within these bounds
LEAST_BUFFER = 2**20
MOST_BUFFER = 2**30
#: how often a value is offered to a pool that has no room right now, and how long between two offers, seconds
OFFERS = 20
OFFER_PAUSE = 0.5


class Buffer:
    """Memory that the transfer engine may read and write, in slots of one value each."""

    def __init__(self, size: int) -> None:
        self.memory = mmap.mmap(-1, size)
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def slots(self, size: int, most: int) -> List[int]:
        """Offsets of as many values of this size as fit, at most ``most``."""
        return [slot * size for slot in range(max(1, min(most, self.size // size)))]

    def fill(self, offset: int, value: bytes) -> None:
        self.memory[offset : offset + len(value)] = value

    def holds(self, offset: int, value: bytes) -> bool:
        return self.memory[offset : offset + len(value)] == value


class FlashWriter(kvprobe.Writer):
    """Writes values of several sizes into this host's own segments and sees them to flash, in two steps: nobody fills
    memory before everybody has written."""

    def write(self) -> List[Dict[str, Any]]:
        """Put the values and what fills their buckets. Returns key and size of each, with what went wrong."""
        made: List[Dict[str, Any]] = []
        segments = self.segments
        for size, count in self.job["flash"]:
            for number in range(count):
                key = "%sf~%d.%d" % (self.stem, size, number)
                segment = segments[number % len(segments)]
                problem = self._put_there(key, kvprobe.content(key, size), segment)
                self.values[key] = {"key": key, "segment": segment, "problem": problem}
                made.append({"key": key, "size": size, "problem": problem})
        for segment in segments:
            self._companions(segment)
        return made

    def push(self, seconds: float) -> Dict[str, List[Dict[str, str]]]:
        """Wait until all of them are on flash alone; where each then is."""
        self.deadline = self.clock() + seconds
        try:
            self._push()
        finally:
            self.pool.remove(self.helpers + self.fillers)
        return self.pool.replicas(sorted(self.values))


class Bench:
    """The commands of the worker, on one client of the pool."""

    def __init__(
        self,
        pool: kvprobe.Pool,
        job: Mapping[str, Any],
        buffer: Any,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.pool = pool
        self.job = job
        self.buffer = buffer
        self.clock = clock
        self.sleep = sleep
        self.stem = "%s%s~%x~%s~" % (kvprobe.PREFIX, job["token"], int(time.time() * 1000), job["writer"])
        self.writer: Any = None

    def do(self, order: Mapping[str, Any]) -> Dict[str, Any]:
        """One command: put, get, remove, flash_write or flash_push."""
        what = str(order["do"])
        if what == "put":
            return self.put(int(order["size"]), int(order["count"]), int(order["batch"]))
        if what == "get":
            return self.get([(str(key), int(size)) for key, size in order["keys"]], int(order["batch"]))
        if what == "remove":
            self.pool.remove([str(key) for key in order["keys"]])
            return {}
        if what == "flash_write":
            self.writer = FlashWriter(self.pool, self.job)
            return {"values": self.writer.write()}
        if what == "flash_push":
            return {"replicas": self.writer.push(float(order["seconds"]))}
        raise ValueError("no such command: %s" % what)

    def put(self, size: int, count: int, batch: int) -> Dict[str, Any]:
        """Write ``count`` values of ``size`` into this host's own segments, ``batch`` at a time."""
        names = self.job["segments"][self.job["writer"]]
        keys = ["%sm~%d.%d.%d" % (self.stem, size, batch, number) for number in range(count)]
        times: List[float] = []
        stored: List[str] = []
        problem = ""
        slots = self.buffer.slots(size, batch)
        for start in range(0, count, len(slots)):
            part = keys[start : start + len(slots)]
            for key, slot in zip(part, slots):
                self.buffer.fill(slot, kvprobe.content(key, size))
            config = self.pool.configure(names[(start // len(slots)) % len(names)])
            codes, seconds = self._offer(part, slots, size, config, batch)
            done = [key for key, code in zip(part, codes) if code == 0]
            stored += done
            if done:
                times.append(seconds)
            bad = [code for code in codes if code != 0]
            problem = problem or ("put: error %d" % bad[0] if bad else "")
        return {"keys": [[key, size] for key in stored], "problem": problem, **_figures(times, len(stored) * size)}

    def _offer(
        self, keys: Sequence[str], slots: Sequence[int], size: int, config: Any, batch: int
    ) -> Tuple[List[int], float]:
        """Put one batch; a pool without room is asked again, which is not timed."""
        addresses = [self.buffer.address + slot for slot, _ in zip(slots, keys)]
        codes: List[int] = []
        for _ in range(OFFERS):
            begun = self.clock()
            if batch == 1:
                codes = [int(self.pool.store.put_from(keys[0], addresses[0], size, config))]
            else:
                codes = [
                    int(code)
                    for code in self.pool.store.batch_put_from(list(keys), addresses, [size] * len(keys), config)
                ]
            seconds = self.clock() - begun
            if kvprobe.NO_MEMORY not in codes:
                return codes, seconds
            self.sleep(OFFER_PAUSE)
        return codes, 0.0

    def get(self, keys: Sequence[Tuple[str, int]], batch: int) -> Dict[str, Any]:
        """Read values, all of one size, ``batch`` at a time, and compare every byte."""
        times: List[float] = []
        right, wrong, moved = 0, [], 0
        size = keys[0][1] if keys else 1
        slots = self.buffer.slots(size, batch)
        for start in range(0, len(keys), len(slots)):
            part = [key for key, _ in keys[start : start + len(slots)]]
            for slot, _ in zip(slots, part):
                self.buffer.fill(slot, b"\0" * min(size, 4096))
            lengths, seconds = self._fetch(part, slots, size, batch)
            for key, slot, length in zip(part, slots, lengths):
                if length == size and self.buffer.holds(slot, kvprobe.content(key, size)):
                    right, moved = right + 1, moved + size
                else:
                    wrong.append("%s: %s" % (key, "not equal" if length == size else "error %d" % length))
            times.append(seconds)
        told = {"verified": right, "mismatched": len(wrong), "problem": "; ".join(wrong[:3])}
        return {**told, **_figures(times, moved)}

    def _fetch(self, keys: Sequence[str], slots: Sequence[int], size: int, batch: int) -> Tuple[List[int], float]:
        addresses = [self.buffer.address + slot for slot, _ in zip(slots, keys)]
        begun = self.clock()
        if batch == 1:
            lengths = [int(self.pool.store.get_into(keys[0], addresses[0], size))]
        else:
            lengths = [int(item) for item in self.pool.store.batch_get_into(list(keys), addresses, [size] * len(keys))]
        return lengths, self.clock() - begun


def _figures(times: Sequence[float], moved: int) -> Dict[str, Any]:
    """Bandwidth over the time spent in calls, and the latency of a call, microseconds."""
    ordered = sorted(times)
    total = sum(ordered)
    place = [min(len(ordered) - 1, int(len(ordered) * share)) for share in (0.5, 0.99)]
    return {
        "calls": len(ordered),
        "bytes": moved,
        "seconds": round(total, 6),
        "bytes_per_second": moved / total if total > 0 else 0.0,
        "mean_us": 1e6 * total / len(ordered) if ordered else 0.0,
        "p50_us": 1e6 * ordered[place[0]] if ordered else 0.0,
        "p99_us": 1e6 * ordered[place[1]] if ordered else 0.0,
    }


def serve(job: Mapping[str, Any], orders: IO[str], answers: IO[str]) -> int:
    """Do commands until there are none; an exception is an answer too."""

    def answer(data: Mapping[str, Any]) -> None:
        answers.write(MARK + json.dumps(data) + "\n")
        answers.flush()

    try:
        pool = kvprobe.connect(job)
        buffer = Buffer(min(MOST_BUFFER, max([LEAST_BUFFER] + [int(size) for size in job["sizes"]])))
        code = int(pool.store.register_buffer(buffer.address, buffer.size))
        if code != 0:
            raise RuntimeError("memory cannot be registered: error %d" % code)
        bench = Bench(pool, job, buffer)
    except Exception as error:  # whatever it is, the other end has to hear of it
        answer({"problem": "%s: %s" % (type(error).__name__, error)})
        return 1
    answer({"ready": True})
    for line in orders:
        try:
            order = json.loads(line)
            if order.get("do") == "end":
                break
            answer(bench.do(order))
        except Exception as error:  # one failed command leaves the others worth doing
            answer({"problem": "%s: %s" % (type(error).__name__, error)})
    # Whatever was written and not removed, because the suite was cut off.
    pool.store.remove_by_regex("^%s%s~[0-9a-f]+~%s~" % (kvprobe.PREFIX, job["token"], job["writer"]), True)
    pool.store.close()
    return 0
