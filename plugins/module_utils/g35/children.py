"""Programs that run beside the module: started without a shell, never left behind.

Three things end them: the module itself, the kernel when the module dies (``setpriv --pdeathsig``), and the module
again when it notices that nobody reads its answer any more, or is asked to stop (SIGTERM, which ``end`` sends).
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from typing import IO, Any, Callable, Dict, List, Optional, Sequence

from .host import _ENVIRONMENT, Host, Result

#: who is measuring on this host right now: process id and start time
RECORD = "/run/g35ctl-bench.json"
_OUTPUT_LIMIT = 4 * 2**20


class Stopped(Exception):
    """The benchmark was asked to stop, or its controller has gone."""


class Stop:
    """Whether the benchmark is to stop. Set by SIGTERM and SIGINT, and when standard output has no reader left."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def requested(self) -> bool:
        return self._event.is_set()

    def set(self, *_: Any) -> None:
        self._event.set()

    def arm(self) -> None:
        """Listen to signals, and watch standard output: ssh closes its other end when the controller goes."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.set)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(1, 0)  # errors and hang-ups are always told
        while not self._event.is_set():
            for _, event in poller.poll(1000):
                if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                    self._event.set()


def bound(argv: Sequence[str]) -> List[str]:
    """A command line whose program dies with this process. Changing users clears the kernel's note of that, so a
    setpriv that changes them has to ask for it again."""
    words = list(argv)
    for place in [number for number, word in enumerate(words) if word == "setpriv"][:1]:
        words[place + 1 : place + 1] = ["--pdeathsig", "KILL"]
    return ["setpriv", "--pdeathsig", "KILL"] + words


class Child:
    """A running program. Its output goes to files that have no name, so that it never waits for a reader."""

    def __init__(self, argv: Sequence[str], talking: bool = False) -> None:
        self.argv = list(argv)
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 read after its end
        self._err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            bound(self.argv),
            stdin=subprocess.PIPE if talking else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talking else self._out,
            stderr=self._err,
            env=_ENVIRONMENT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def errors(self) -> str:
        """What it has written to standard error so far."""
        return os.pread(self._err.fileno(), _OUTPUT_LIMIT, 0).decode("utf-8", "replace")

    def say(self, line: str) -> None:
        """Send a line to a talking child; one that has gone is noticed when it is listened to."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass

    def listen(self, seconds: float, stopped: Callable[[], bool]) -> Optional[str]:
        """The next line of a talking child; None when it ended, said nothing for so long, or is to be stopped."""
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        while time.monotonic() < until and not stopped():
            ready, _, _ = select.select([self._process.stdout], [], [], 0.5)
            if ready:
                line = self._process.stdout.readline()
                return line.decode("utf-8", "replace") if line else None
        return None

    def end(self) -> Result:
        """Kill it and all it started if it still runs; what it did."""
        if self.running():
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                pass
            # Also for what it started, and what did not listen.
            self._signal(signal.SIGKILL)
            try:
                self._process.wait(10.0)
            except subprocess.TimeoutExpired:
                pass  # it hangs in the kernel: nothing more can be done from here
        return Result(self.argv, self._code(), _text(self._out), _text(self._err))

    def wait(self, seconds: float, stopped: Callable[[], bool]) -> Result:
        """Wait for its end, at most so long and not once stopped; then it is killed, with code 124."""
        until = time.monotonic() + seconds
        while self.running() and time.monotonic() < until and not stopped():
            time.sleep(0.05)
        late = self.running()
        result = self.end()
        if not late:
            return result
        why = "stopped" if stopped() else "still running after %g s" % seconds
        return Result(result.argv, 124, result.out, (result.err + "\n" + why).strip())

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    def _code(self) -> int:
        code = self._process.poll()
        return 124 if code is None else code


Spawn = Callable[..., Child]


def _text(stream: IO[bytes]) -> str:
    if stream.closed:
        return ""
    stream.seek(0)
    return stream.read(_OUTPUT_LIMIT).decode("utf-8", "replace")


def record(host: Host) -> None:
    """Say in /run who is measuring, for :func:`end`."""
    pid = os.getpid()
    host.write_file(RECORD, json.dumps({"pid": pid, "started": _started(host, pid)}), 0o600)


def forget(host: Host) -> None:
    """Take the record away again, if it is ours."""
    if _read(host).get("pid") == os.getpid():
        host.remove_file(RECORD)


def end(host: Host, seconds: float = 20.0, kill: Callable[[int, int], None] = os.kill) -> bool:
    """End a benchmark that a module on this host still runs; True when there was one. It cleans up by itself; one that
    does not within ``seconds`` is killed, and the kernel then ends what it had started."""
    found = _read(host)
    pid = int(found.get("pid") or 0)
    if pid <= 0 or pid == os.getpid() or _started(host, pid) != found.get("started"):
        host.remove_file(RECORD)
        return False
    kill(pid, signal.SIGTERM)
    if not host.wait_until(lambda: _started(host, pid) != found.get("started"), seconds, 0.2):
        kill(pid, signal.SIGKILL)
    host.remove_file(RECORD)
    return True


def _read(host: Host) -> Dict[str, Any]:
    try:
        data = json.loads(host.read(RECORD) or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _started(host: Host, pid: int) -> str:
    """When a process started, in clock ticks since boot: with its number it names the process for good."""
    text = host.read("/proc/%d/stat" % pid) or ""
    fields: List[str] = text.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""
