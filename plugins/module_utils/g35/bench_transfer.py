"""The transfer engine's own benchmark between two hosts: what the network gives Mooncake without the store.

Owners offer plain memory; every host reads that of its source. The target listens at a port of its own choosing, within
the range that stage cache's firewall opens to the rails only, and tells it on standard error.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional

from . import probe
from .bench_jobs import StoreJob
from .children import Child
from .host import Host
from .mooncake import endpoint

PROGRAM = "transfer_engine_bench"
_LISTENING = re.compile(r"listening on (\S+:\d+)")
#: seconds until a target listens: it starts Python, then registers memory
START = 120.0


class Transfer:
    """One host's part; a context, so that the target never outlives it."""

    def __init__(
        self, host: Host, job: StoreJob, spawn: Callable[..., Child], stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self.host = host
        self.job = job
        self.spawn = spawn
        self.stopped = stopped
        self.target: Optional[Child] = None

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, *_: object) -> None:
        if self.target is not None:
            self.target.end()

    @property
    def block(self) -> int:
        """Size of a request: that of the largest values."""
        return max(self.job.sizes)

    def offer(self) -> Dict[str, Any]:
        """Start the target where this host owns a store: the segment to read from, or what went wrong."""
        if not self.job.segments:
            return {}
        child = self.target = self.spawn(self.command("target"))
        self.host.wait_until(lambda: not child.running() or _listening(child) != "" or self.stopped(), START, 0.2)
        where = _listening(child)
        if where and child.running():
            return {"segment": where}
        words = [line for line in child.end().err.splitlines() if line.strip()]
        return {"problem": "the target did not start: %s" % (words[-1] if words else "no word")}

    def measure(self, told: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        """Read from the source; what the initiator said, for the controller to read."""
        found: Dict[str, Any] = {
            "test": "transfer", "tier": "memory", "size": self.block, "batch": self.job.batch,
            "out": "", "command": "", "problem": "",
        }  # fmt: skip
        segment = str((told or {}).get("segment") or "")
        if not segment:
            why = "did not come" if told is None else str(told.get("problem") or "offered no memory")
            return {**found, "problem": "%s %s" % (self.job.source, why)}
        argv = self.command("initiator") + ["--segment_id=%s" % segment]
        result = self.spawn(argv).wait(self.job.transfer_seconds + START, self.stopped)
        program = next(place for place, word in enumerate(argv) if word.endswith(PROGRAM))
        found["command"] = " ".join(argv[program:])
        found["out"] = (result.out + result.err)[-4000:]
        if not result.ok:
            found["problem"] = result.explain()[-300:]
        return found

    def command(self, mode: str) -> List[str]:
        """The benchmark in Mooncake's environment and without privileges, on all RDMA devices of this host."""
        plan = self.job.probe
        prefix = probe.command(plan, {})
        argv = prefix[: prefix.index(plan.python)]
        argv += [
            "%s/%s" % (plan.python.rpartition("/")[0], PROGRAM),
            "--mode=%s" % mode,
            "--protocol=%s" % plan.protocol,
        ]
        argv += ["--metadata_server=P2PHANDSHAKE", "--local_server_name=%s" % endpoint(plan.local_address, 0)]
        argv += ["--buffer_size=%d" % (self.block * self.job.batch * self.job.transfer_threads)]
        argv += ["--block_size=%d" % self.block, "--batch_size=%d" % self.job.batch]
        devices = probe.devices(self.host, plan)
        if devices:
            argv += ["--device_name=%s" % ",".join(devices)]
        if mode == "initiator":
            argv += ["--operation=read", "--threads=%d" % self.job.transfer_threads, "--report_unit=MB"]
            argv += ["--duration=%d" % self.job.transfer_seconds]
        return argv


def _listening(child: Child) -> str:
    match = _LISTENING.search(child.errors())
    return match.group(1) if match else ""
