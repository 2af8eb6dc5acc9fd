"""The fabric suite on a host: perftest between pairs of hosts, with the ports' counters before and after.

A host's servers of a round are running and listening before anybody is let through the gate; its clients then begin at
once. perftest answers whoever connects, so servers are bound to the rail's address and live for one round only.
"""

from __future__ import annotations

import socket
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import counters
from .bench_jobs import FabricJob, FabricRound, PairStep
from .children import Child, Stopped
from .gate import Gate
from .host import Host, Result
from .rdma import device_of

TOOLS = {"write": "ib_write_bw", "incast": "ib_write_bw", "read": "ib_read_bw", "latency": "ib_send_lat"}
LATENCY_SIZE = 64
#: what perftest does before it measures: exchanging parameters takes a second and more under emulation
SET_UP = 30.0


class FabricSuite:
    """Runs one host's part. ``spawn`` starts programs, ``stopped`` says when to give up."""

    def __init__(
        self,
        host: Host,
        job: FabricJob,
        gate: Gate,
        spawn: Callable[..., Child] = Child,
        stopped: Callable[[], bool] = lambda: False,
        free: Optional[Callable[[str, int], bool]] = None,
    ) -> None:
        self.host = host
        self.job = job
        self.gate = gate
        self.spawn = spawn
        self.stopped = stopped
        self.free = free or port_is_free
        self.port = job.first_port
        self.option = ""

    def run(self) -> Dict[str, Any]:
        """Everything of this host: each step it was the client of, versions, speeds and counters. Raises GateLost and
        Stopped."""
        before = counters.read_counters(self.host, self.job.ports)
        steps: List[Dict[str, Any]] = []
        for item in self.job.rounds:
            steps += self._round(item)
        self.gate.meet("end", {}, max([item.seconds for item in self.job.rounds] or [0]))
        return {
            "suite": "fabric",
            "host": self.job.host,
            "steps": steps,
            "speeds": counters.speeds(self.host, self.job.ports),
            "devices": {port.netdev: device_of(self.host, port.netdev) or "" for port in self.job.ports},
            "counters": {"before": before, "after": counters.read_counters(self.host, self.job.ports)},
        }

    def _round(self, item: FabricRound) -> List[Dict[str, Any]]:
        serving: Dict[str, Child] = {}
        try:
            ports: Dict[str, int] = {}
            problems: Dict[str, str] = {}
            for step in item.steps:
                if step.server == self.job.host:
                    port, child, problem = self._serve(step)
                    ports[step.key], problems[step.key] = port, problem
                    if child is not None:
                        serving[step.key] = child
            came = self.gate.meet(item.name, {"ports": ports, "problems": problems}, item.seconds)
            if self.stopped():
                raise Stopped("stopped in round %s" % item.name)
            found = self._measure(item, came)
            # A server may hang after its client has ended well: it is the clients that say when a round is over.
            self.gate.meet("%s, done" % item.name, {}, item.seconds)
            return found
        finally:
            for child in serving.values():
                child.end()

    def _serve(self, step: PairStep) -> Tuple[int, Optional[Child], str]:
        device = device_of(self.host, step.server_netdev)
        if not device:
            return 0, None, "%s has no RDMA device for %s" % (self.job.host, step.server_netdev)
        for _ in range(16):
            port = self._next_port()
            if self.free(step.server_address, port):
                return self._start_server(step, device, port)
        return 0, None, "no free port from %d on" % self.job.first_port

    def _start_server(self, step: PairStep, device: str, port: int) -> Tuple[int, Optional[Child], str]:
        child = self.spawn(self.command(step, device, port, step.server_address))
        self.host.wait_until(lambda: not child.running() or self._listens(step.server_address, port), SET_UP, 0.1)
        if child.running() and self._listens(step.server_address, port):
            return port, child, ""
        return 0, None, "the server did not start: %s" % child.end().explain()

    def _next_port(self) -> int:
        # The first port of the range is the gate's.
        self.port = self.job.first_port + 1 + (self.port - self.job.first_port) % 199
        return self.port

    def _listens(self, address: str, port: int) -> bool:
        """Whether a socket listens there: connecting to find out would be taken for the client."""
        wanted = "%s:%04X" % (socket.inet_aton(address)[::-1].hex().upper(), port)
        for line in (self.host.read("/proc/net/tcp") or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[1] == wanted and fields[3] == "0A":
                return True
        return False

    def _measure(self, item: FabricRound, came: Dict[str, Any]) -> List[Dict[str, Any]]:
        running: List[Tuple[PairStep, Optional[Child], str, List[str]]] = []
        for step in item.steps:
            if step.client != self.job.host:
                continue
            told = came.get(step.server)
            device = device_of(self.host, step.client_netdev)
            problem = ""
            if told is None:
                problem = "%s did not come" % step.server
            elif not device:
                problem = "%s has no RDMA device for %s" % (self.job.host, step.client_netdev)
            else:
                problem = str((told.get("problems") or {}).get(step.key) or "")
            if problem:
                running.append((step, None, problem, []))
                continue
            argv = self.command(step, str(device), int((told or {})["ports"][step.key]), step.client_address)
            argv.append(step.server_address)
            running.append((step, self.spawn(argv), "", argv))
        found = []
        for step, child, problem, argv in running:
            result = child.wait(item.seconds, self.stopped) if child is not None else Result(argv, 1, "", "")
            found.append(
                {
                    "key": step.key,
                    "test": step.test,
                    "tool": TOOLS[step.test],
                    "command": " ".join(argv),
                    "code": result.code,
                    "out": result.out,
                    "err": result.err[-2000:],
                    "problem": problem,
                }
            )
        return found

    def command(self, step: PairStep, device: str, port: int, own: str) -> List[str]:
        """perftest's command line, the same on both ends but for the address connected to.

        Bandwidth is reported in MiB/s: at low speeds the figure in Gb/s has too few digits. Cycles of a CPU whose clock
        changes are no reason to stop (-F).
        """
        latency = step.test == "latency"
        argv = [TOOLS[step.test], "-d", device, "-p", str(port), "-F", "--tclass=%d" % self.job.tos]
        argv += ["%s=%s" % (self._source_option(), own)]
        if latency:
            argv += ["-s", str(LATENCY_SIZE), "-n", str(self.job.latency_iterations)]
        else:
            argv += ["-s", str(step.size), "-D", str(self.job.seconds), "-q", str(self.job.queue_pairs)]
            argv += ["-t", str(self.job.depth)]
        if self.job.emulated:
            # A guest without a CPU of its own can be silent for seconds: that is no lost packet.
            argv += ["-u", "20"]
            # Its one CPU has better things to do than polling; measuring for a time cannot be done with events.
            argv += ["-e"] if latency else ["-Q", "1"]
        return argv

    def _source_option(self) -> str:
        """The option that binds to an address was renamed after 4.5-0.17 (Debian 12)."""
        if not self.option:
            told = self.host.run(["ib_write_bw", "--help"], timeout=30.0)
            renamed = "--bind_source_ip" in told.out + told.err
            self.option = "--bind_source_ip" if renamed else "--source_ip"
        return self.option


def port_is_free(address: str, port: int) -> bool:
    """Whether a TCP port can be had on that address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def versions(host: Host) -> Dict[str, str]:
    """What the tools say of themselves; empty where one is not installed."""
    told = host.run(["ib_write_bw", "--version"], timeout=30.0)
    words = (told.out + told.err).split()
    return {"perftest": words[-1] if words and told.code != 127 else ""}
