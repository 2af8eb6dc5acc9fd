"""The storage suite on a host: fio on the namespaces it owns, and on the SSDs themselves where this host is their box.

It reads. The one thing it writes is a file of its own, in a directory of its own on each mounted file system: blocks
that were never written are answered by an SSD without reading any flash. The file is no larger than the plan leaves
room for beside the store, and removed whatever happens. Devices are found by subsystem and UUID right before each run,
and must be block devices: fio, as root, would make a regular file of a device that is missing, and measure that.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import counters
from .bench_jobs import Point, StorageJob, StorageRound, Target
from .children import Child, Stopped
from .gate import Gate
from .host import Host, Result
from .marker import MarkerError, read_marker
from .nvme import read_mounts, read_topology
from .stripe import arrays_on

WORK = "/run/g35ctl-bench"
FOLDER = ".g35-bench"
MIB = 2**20
#: seconds fio may take beyond the time it is told to measure
SLACK = 60.0
_FIEMAP = 0xC020660B


class CannotRun(Exception):
    """A measurement cannot be made; the text says why."""


class StorageSuite:
    """Runs one host's part."""

    def __init__(
        self,
        host: Host,
        job: StorageJob,
        gate: Gate,
        spawn: Callable[..., Child] = Child,
        stopped: Callable[[], bool] = lambda: False,
        extent: Optional[Callable[[str], Tuple[int, int]]] = None,
    ) -> None:
        self.host = host
        self.job = job
        self.gate = gate
        self.spawn = spawn
        self.stopped = stopped
        self.extent = extent or first_extent
        self.extents: Dict[str, List[int]] = {}
        self.layouts: Dict[str, str] = {}

    def run(self) -> Dict[str, Any]:
        """Everything of this host: fio's own JSON of each run. Raises GateLost and Stopped."""
        before = counters.read_counters(self.host, self.job.ports)
        runs: List[Dict[str, Any]] = []
        try:
            for item in self.job.rounds:
                came = self.gate.meet(item.name, {"extents": self.extents}, self._longest())
                if self.stopped():
                    raise Stopped("stopped in round %s" % item.name)
                for told in came.values():
                    for uuid, extent in (told.get("extents") or {}).items():
                        self.extents.setdefault(uuid, extent)
                runs += self._round(item)
            self.gate.meet("end", {}, self._longest())
        finally:
            self.clean()
        return {
            "suite": "storage",
            "host": self.job.host,
            "runs": runs,
            "speeds": counters.speeds(self.host, self.job.ports),
            "counters": {"before": before, "after": counters.read_counters(self.host, self.job.ports)},
        }

    def _longest(self) -> float:
        return float(max([item.seconds for item in self.job.rounds] or [0]))

    def _round(self, item: StorageRound) -> List[Dict[str, Any]]:
        if not item.targets:
            return []
        if item.test == "layout":
            return self._layout(item)
        if item.test in ("aggregate", "write"):
            # Everything at once, one setting after the other.
            return [self._fio(item, item.targets, point) for point in item.points]
        return [self._fio(item, (target,), point) for target in item.targets for point in item.points]

    def _layout(self, item: StorageRound) -> List[Dict[str, Any]]:
        """Write the file of each namespace, all at once; what fails is told where the file would have been read."""
        ready: List[Target] = []
        for target in item.targets:
            try:
                self._make_room(target)
                ready.append(target)
            except (CannotRun, OSError) as error:
                self.layouts[target.uuid] = str(error)
        if not ready:
            return []
        found = self._fio(item, tuple(ready), Point(MIB, 8, "write"))
        for target in ready:
            if found["problem"]:
                self.layouts[target.uuid] = "the file to read could not be written: %s" % found["problem"]
                continue
            try:
                self.extents[target.uuid] = list(self.extent(str(self.host.path(self.file(target)))))
            except OSError:
                pass  # only the comparison with the box's own latency needs it
        return [found]

    def _make_room(self, target: Target) -> None:
        """Make our directory, after making sure that this is the namespace's own file system with room to spare."""
        self._mounted(target)
        told = os.statvfs(str(self.host.path(target.mount_point)))
        free = told.f_bavail * told.f_frsize
        size = self.size(target)
        if size < MIB:
            raise CannotRun("the reserve of %s leaves no room for a file" % target.mount_point)
        if free < size + 16 * MIB:
            raise CannotRun(
                "%s has %d MiB free, a file of %d MiB is wanted" % (target.mount_point, free // MIB, size // MIB)
            )
        folder = self.host.path(self.folder(target))
        folder.mkdir(mode=0o700, exist_ok=True)

    def _mounted(self, target: Target) -> None:
        """Raises CannotRun unless the namespace itself is mounted there, and marked as this host's."""
        namespace = read_topology(self.host).namespace(target.nqn, target.nsid)
        here = [item for item in read_mounts(self.host) if item.mount_point == target.mount_point]
        if namespace is None or namespace.uuid != target.uuid.lower():
            raise CannotRun("no path shows namespace %s" % target.uuid)
        numbers = [namespace.number, *(array.number for array in arrays_on(self.host, [namespace.name]))]
        if not here or here[-1].number not in numbers:
            raise CannotRun("namespace %s is not mounted at %s" % (target.uuid, target.mount_point))
        try:
            marker = read_marker(self.host, target.mount_point)
        except (OSError, MarkerError) as error:
            raise CannotRun("the marker of %s cannot be read: %s" % (target.mount_point, error)) from error
        if marker is None or (marker.site, marker.owner) != (self.job.site, self.job.host):
            raise CannotRun("%s is not marked as this host's: g35ctl deploy --only storage" % target.mount_point)

    def size(self, target: Target) -> int:
        """Size of our file, whole MiB: as asked, but no more than half of what the plan leaves beside the store."""
        return min(self.job.file_size, target.room // 2) // MIB * MIB

    def folder(self, target: Target) -> str:
        return "%s/%s" % (target.mount_point.rstrip("/"), FOLDER)

    def file(self, target: Target) -> str:
        # Namespaces of a striped set share its file system.
        return "%s/%s" % (self.folder(target), target.uuid)

    def _fio(self, item: StorageRound, targets: Sequence[Target], point: Point) -> Dict[str, Any]:
        """One run of fio on these targets at once."""
        found: Dict[str, Any] = {
            "test": item.test,
            "round": item.name,
            "targets": [target.uuid for target in targets],
            "block_size": point.block_size,
            "queue_depth": point.queue_depth,
            "pattern": point.pattern,
            "command": "",
            "problem": "",
            "out": "",
        }
        output = "%s/fio.json" % WORK
        try:
            argv = self.command(item.test, targets, point, output)
        except CannotRun as error:
            return {**found, "problem": str(error)}
        self.host.path(WORK).mkdir(parents=True, exist_ok=True)
        self.host.remove_file(output)
        limit = item.seconds if item.test == "layout" else self.job.seconds + SLACK
        result = self.spawn(argv).wait(limit, self.stopped)
        if self.stopped():
            raise Stopped("stopped in round %s" % item.name)
        text = self.host.read(output) or ""
        return {**found, "command": " ".join(argv), "out": text, "problem": _problem(result, text)}

    def command(self, test: str, targets: Sequence[Target], point: Point, output: str) -> List[str]:
        """fio's command line: settings for all, then one section per namespace. Raises CannotRun.

        The output goes to a file, because warnings on standard output would spoil it.
        """
        argv = ["fio", "--output-format=json", "--output=%s" % output, "--ioengine=%s" % self.job.engine, "--direct=1"]
        argv += ["--rw=%s" % point.pattern, "--bs=%d" % point.block_size, "--iodepth=%d" % point.queue_depth]
        argv += [
            "--percentile_list=50:99:99.9",
            "--randrepeat=0",
            "--norandommap=1",
            "--lat_percentiles=1",
            "--clat_percentiles=0",
        ]
        if test == "layout":
            argv += ["--refill_buffers=1", "--end_fsync=1"]
        else:
            argv += ["--time_based=1", "--runtime=%d" % self.job.seconds]
        if test == "aggregate" and self.job.jobs > 1:
            argv += ["--numjobs=%d" % self.job.jobs, "--group_reporting=1"]
        if test == "write":
            argv += ["--refill_buffers=1"]
        if test not in ("layout", "write"):
            argv += ["--readonly"]
        for target in targets:
            argv += ["--name=%s" % target.uuid] + self._place(test, target)
        return argv

    def _place(self, test: str, target: Target) -> List[str]:
        """Where a section reads or writes."""
        if test in ("remote", "local"):
            # Both read the very same blocks of flash, so that only the way to them differs.
            extent = self.extents.get(target.uuid)
            if self.job.raw:
                extent = [0, max(MIB, min(self.job.file_size, target.room) // MIB * MIB)]
            if not extent:
                raise CannotRun(self.layouts.get(target.uuid) or "it is not known where the file lies on the SSD")
            path = self._device(target) if test == "remote" else self._own_device(target)
            return ["--filename=%s" % path, "--offset=%d" % extent[0], "--size=%d" % extent[1]]
        if self.job.raw and test != "write":
            return ["--filename=%s" % self._device(target)]
        if target.uuid in self.layouts:
            raise CannotRun(self.layouts[target.uuid])
        if test != "layout" and not self.host.exists(self.file(target)):
            raise CannotRun("the file to read is missing")
        return ["--filename=%s" % self.file(target), "--size=%d" % self.size(target)]

    def _device(self, target: Target) -> str:
        """The namespace's block device on its owner, found by subsystem and UUID at this moment."""
        namespace = read_topology(self.host).namespace(target.nqn, target.nsid)
        if namespace is None or namespace.uuid != target.uuid.lower():
            raise CannotRun("no path shows namespace %s" % target.uuid)
        return self._block_device(namespace.device)

    def _own_device(self, target: Target) -> str:
        """The SSD itself, on the box; a box may export a regular file instead."""
        path = self.host.real(target.device)
        if not path.startswith("/dev/") and os.path.isfile(str(self.host.path(path))):
            return path
        return self._block_device(path)

    def _block_device(self, path: str) -> str:
        try:
            mode = os.stat(str(self.host.path(path))).st_mode
        except OSError as error:
            raise CannotRun("%s: %s" % (path, error.strerror)) from error
        if not stat.S_ISBLK(mode):
            raise CannotRun("%s is not a block device" % path)
        return path

    def clean(self) -> None:
        """Remove our files, also those of a benchmark that was cut off."""
        for item in self.job.rounds:
            for target in item.targets:
                if target.mount_point:
                    shutil.rmtree(str(self.host.path(self.folder(target))), ignore_errors=True)
        shutil.rmtree(str(self.host.path(WORK)), ignore_errors=True)


def _problem(result: Result, text: str) -> str:
    """Why a run does not count, as far as this host can tell; the controller looks at the figures."""
    # fio writes what it has to say into the file of its report, before the report.
    said, brace, report = ("\n" + text).partition("\n{")
    if result.code != 0:
        words = [line for line in said.splitlines() if line.strip()]
        return "; ".join(words[-2:] + [result.explain()[-400:]])
    try:
        jobs = json.loads(brace.strip() + report)["jobs"]
    except (ValueError, LookupError, TypeError):
        return "fio wrote no result: %s" % result.explain()[-400:]
    wrong = sorted({str(job.get("error")) for job in jobs if job.get("error")})
    return "fio reports error %s" % ", ".join(wrong) if wrong else ""


def first_extent(path: str) -> Tuple[int, int]:
    """Where the first piece of a file lies on its device: offset and length, bytes. Raises OSError.

    FIEMAP (linux/fiemap.h): a header with room for one extent, whose length in whole MiB is returned.
    """
    import fcntl

    with open(path, "rb") as handle:
        head = struct.pack("=QQIIII", 0, 2**63 - 1, 1, 0, 1, 0) + bytes(56)
        answer = fcntl.ioctl(handle.fileno(), _FIEMAP, head)
    mapped = struct.unpack("=QQIIII", answer[:32])[3]
    _, physical, length = struct.unpack("=QQQ", answer[32:56])
    if not mapped or length < MIB:
        raise OSError("%s has no extent of a MiB" % path)
    return physical, length // MIB * MIB


def versions(host: Host) -> Dict[str, str]:
    """What fio says of itself; empty where it is not installed."""
    told = host.run(["fio", "--version"], timeout=30.0)
    match = re.match(r"fio-\S+", told.out)
    return {"fio": match.group(0) if match else ""}
