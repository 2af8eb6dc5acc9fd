"""The store suite on a host: values through the KV pool, written here and read by another host, from memory and flash.

One worker (:mod:`.storebench`) holds one client of the pool throughout; this file tells it what to do, and meets the
other hosts before each test, so that all write at once and then all read at once.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import counters, kvprobe, probe, storebench
from .bench_jobs import StoreJob
from .bench_transfer import Transfer
from .children import Child, Stopped
from .gate import Gate
from .host import Host

#: starts the worker from sources that came with the module
BOOT = (
    "import json,sys,types\n"
    "given=json.loads(sys.stdin.readline())\n"
    "for name in ('kvprobe','storebench'):\n"
    "    sys.modules[name]=types.ModuleType(name)\n"
    "    exec(compile(given[name],name,'exec'),sys.modules[name].__dict__)\n"
    "sys.exit(sys.modules['storebench'].serve(given['job'],sys.stdin,sys.stdout))\n"
)
#: importing Mooncake and connecting takes a minute on a loaded emulated guest
START = 240.0


class StoreSuite:
    """Runs one host's part."""

    def __init__(
        self,
        host: Host,
        job: StoreJob,
        gate: Gate,
        spawn: Callable[..., Child] = Child,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.host = host
        self.job = job
        self.gate = gate
        self.spawn = spawn
        self.stopped = stopped
        self.worker: Optional[Child] = None
        self.broken = ""
        self.results: List[Dict[str, Any]] = []

    def run(self) -> Dict[str, Any]:
        """Everything of this host. Raises GateLost, Stopped and probe.ProbeFailed."""
        argv = probe.command(self.job.probe, {})
        # The interpreter's own arguments: a program from its command line instead of standard input.
        argv = argv[: argv.index("-I")] + ["-I", "-c", BOOT]
        try:
            self.worker = self.spawn(argv, True)
            self.worker.say(json.dumps(self._sources()))
            self._hear(START)
            if self.job.transfer_seconds:
                with Transfer(self.host, self.job, self.spawn, self.stopped) as transfer:
                    came = self._meet("transfer", transfer.offer())
                    self.results.append(transfer.measure(came.get(self.job.source)))
                    self._meet("transfer end", seconds=self.job.transfer_seconds)
            for size in self.job.sizes:
                self._memory(size)
            if self.job.flash_sizes:
                self._flash()
            self._meet("end")
            return {
                "suite": "store",
                "host": self.job.host,
                "source": self.job.source or self.job.host,
                "results": self.results,
                "command": " ".join(argv[: argv.index("-c")]),
                "problem": self.broken,
                "devices": probe.devices(self.host, self.job.probe),
                "speeds": counters.speeds(self.host, self.job.ports),
            }
        finally:
            if self.worker is not None:
                self.worker.say(json.dumps({"do": "end"}))
                self.worker.wait(0.0 if self.stopped() else 30.0, self.stopped)

    def _sources(self) -> Dict[str, Any]:
        plan = self.job.probe
        counts = [(size, self._count(size, len(self.job.flash_sizes))) for size in self.job.flash_sizes]
        job = {
            "token": self.job.gate.token,
            "writer": self.job.host,
            "seconds": self.job.flash_timeout,
            "local_address": plan.local_address,
            "protocol": plan.protocol,
            "devices": ",".join(probe.devices(self.host, plan)),
            "master_rpc": plan.master_rpc,
            "master_admin": plan.master_admin,
            "segments": {self.job.host: list(self.job.segments)},
            "value_size": min(self.job.flash_sizes or self.job.sizes),
            "segment_size": plan.segment_size,
            "bucket_size": plan.bucket_size,
            "sizes": [size * self.job.batch for size in self.job.sizes + self.job.flash_sizes],
            "flash": counts,
        }
        return {"job": job, "kvprobe": probe.source(kvprobe), "storebench": probe.source(storebench)}

    def _count(self, size: int, parts: int) -> int:
        """How many values of a size: what the site asks for, as far as this host's segments have room for it."""
        return max(1, min(self.job.bytes, self.job.budget // max(1, parts)) // size)

    def _memory(self, size: int) -> None:
        """Values of one size in memory: written and read one at a time, then in batches."""
        for batch in (1, self.job.batch):
            name = "memory %d x %d" % (size, batch)
            self._meet("%s write" % name)
            keys: List[Sequence[Any]] = []
            if self.job.segments:
                order = {"do": "put", "size": size, "count": self._count(size, 2), "batch": batch}
                answer = self._order(order, self.job.round_seconds)
                keys = answer.pop("keys", [])
                self._note("put" if batch == 1 else "batch_put", "memory", size, batch, answer)
            came = self._meet("%s read" % name, {"keys": keys})
            self._read(came, "memory", size, batch)
            self._meet("%s remove" % name)
            self._order({"do": "remove", "keys": [key for key, _ in keys]}, self.job.round_seconds)

    def _flash(self) -> None:
        """Values that live on flash alone, all sizes at once: pushing them there costs as much for one as for all."""
        self._meet("flash write")
        values: List[Dict[str, Any]] = []
        if self.job.segments:
            values = self._order({"do": "flash_write"}, self.job.flash_timeout).get("values", [])
        self._meet("flash push", seconds=self.job.flash_timeout)
        replicas: Dict[str, Any] = {}
        if self.job.segments:
            order = {"do": "flash_push", "seconds": self.job.flash_timeout}
            replicas = self._order(order, self.job.flash_timeout + 60.0).get("replicas", {})
        on_flash = [[item["key"], item["size"]] for item in values if _on_flash(replicas.get(item["key"], []))]
        if self.job.segments:
            told = {"values": len(values), "on_flash": len(on_flash), "problem": ""}
            self._note("flash", "flash", 0, 1, told)
        came = self._meet("flash read", {"keys": on_flash}, self.job.flash_timeout + 60.0)
        for size in self.job.flash_sizes:
            self._read(came, "flash", size, 1, (0, 2))
            self._read(came, "flash", size, self.job.batch, (1, 2))
        self._meet("flash remove", seconds=self.job.round_seconds * len(self.job.flash_sizes) * 2)
        self._order({"do": "remove", "keys": [item["key"] for item in values]}, self.job.round_seconds)

    def _read(self, came: Dict[str, Any], tier: str, size: int, batch: int, part: Tuple[int, int] = (0, 1)) -> None:
        """Read what the source wrote; ``part`` (which, of how many) keeps a second test from reading what the first
        has just brought into caches."""
        source = self.job.source or self.job.host
        told = came.get(source)
        keys = [[key, int(each)] for key, each in (told or {}).get("keys", []) if int(each) == size]
        keys = keys[part[0] :: part[1]] or keys
        if not keys:
            answer = {"problem": "%s %s" % (source, "did not come" if told is None else "wrote no such values")}
        else:
            answer = self._order({"do": "get", "keys": keys, "batch": batch}, self.job.round_seconds)
        self._note("get" if batch == 1 else "batch_get", tier, size, batch, answer)

    def _note(self, test: str, tier: str, size: int, batch: int, answer: Dict[str, Any]) -> None:
        self.results.append({"test": test, "tier": tier, "size": size, "batch": batch, **answer})

    def _meet(self, name: str, payload: Optional[Dict[str, Any]] = None, seconds: float = 0.0) -> Dict[str, Any]:
        came = self.gate.meet(name, payload or {}, seconds or self.job.round_seconds)
        if self.stopped():
            raise Stopped("stopped before %s" % name)
        return came

    def _order(self, order: Dict[str, Any], seconds: float) -> Dict[str, Any]:
        """Let the worker do something; once it is broken everything after says so."""
        if self.broken or self.worker is None:
            return {"problem": self.broken}
        self.worker.say(json.dumps(order))
        return self._hear(seconds + 60.0)

    def _hear(self, seconds: float) -> Dict[str, Any]:
        assert self.worker is not None
        while True:
            line = self.worker.listen(seconds, self.stopped)
            if line is None:
                if self.stopped():
                    raise Stopped("stopped while the worker was busy")
                words = [item for item in self.worker.end().err.splitlines() if item.strip()][-3:]
                self.broken = "the worker ended or was silent for %g s: %s" % (seconds, " | ".join(words) or "no word")
                return {"problem": self.broken}
            if line.startswith(storebench.MARK):
                answer = json.loads(line[len(storebench.MARK) :])
                if answer.get("problem") and not self.results and "calls" not in answer:
                    self.broken = self.broken or str(answer["problem"])
                return dict(answer)


def _on_flash(replicas: Sequence[Dict[str, str]]) -> bool:
    return bool(replicas) and all(item["kind"] == "LOCAL_DISK" for item in replicas)
