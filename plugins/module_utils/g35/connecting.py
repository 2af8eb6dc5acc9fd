"""Connecting and disconnecting controllers: the commands, in parallel per portal, with the kernel's reason.

``nvme connect`` exits with 0 or 1 whatever happened, and its texts differ by version. So nothing here decides from
an exit code: what failed is what sysfs does not show afterwards, and the reason is what the kernel logged meanwhile.
"""

from __future__ import annotations

import errno
import ipaddress
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Dict, FrozenSet, List, Optional, Sequence, Set, Tuple

from .dhchap import Keys
from .host import Host, Result
from .nvme import IN_TRANSIT, Controller, Topology, read_topology
from .plans import ConnectPath, ConnectPlan

FABRICS_DEVICE = "/dev/nvme-fabrics"
#: portals connected at the same time; the kernel creates controllers one after the other anyway
PARALLEL = 8
#: a portal whose first paths all fail without an answer is not tried further in this round
PATIENCE = 2
CONNECT_TIMEOUT = 90.0
#: how long a new controller's namespaces may take to appear, seconds
SCAN_SECONDS = 15.0
_ABOUT_US = re.compile(r"nvme|rdma|infiniband|mlx5|bnxt", re.IGNORECASE)
_GOING = ("deleting", "deleting (no IO)", "dead")
#: what an attempt with TLS ends with, and what it means
_TLS_ERRORS = {
    errno.EACCES: "the box does not have the key of this host for this subsystem, or has another one",
    errno.ENOKEY: "this host has no key for this subsystem in the keyring .nvme",
    errno.ESRCH: "no tlshd is listening on this host",
    errno.EOPNOTSUPP: "tlshd of this host could not carry it out",
}
_HANDSHAKE_FAILED = "TLS handshake failed"
#: What the kernel logs of a handshake that timed out (error -110): "complete" is its word for "over".
_REFUSED_HANDSHAKE = "TLS handshake complete, error"
_NOISE = re.compile(r"^(connecting to device|device):")


@dataclass(frozen=True)
class Judgement:
    """How the controllers that exist relate to the plan. Pairs keep the plan's order."""

    live: Tuple[Tuple[ConnectPath, Controller], ...]
    in_transit: Tuple[Tuple[ConnectPath, Controller], ...]
    missing: Tuple[ConnectPath, ...]
    stale: Tuple[Controller, ...]


def label(path: ConnectPath) -> str:
    """How a path is called in changes and findings."""
    return "%s on rail %s (%s)" % (path.nqn, path.rail, route_label(path))


def route_label(path: ConnectPath) -> str:
    """Portal, source and port of a path."""
    address = "[%s]" % path.address if ":" in path.address else path.address
    return "portal %s:%d from %s, %s" % (address, path.port, path.source_address, path.netdev)


def _same_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return text


def _key_of_path(path: ConnectPath) -> Tuple[str, ...]:
    return (
        path.nqn,
        path.transport,
        _same_address(path.address),
        str(path.port),
        _same_address(path.source_address),
    )


def _key_of_controller(item: Controller) -> Tuple[str, ...]:
    return (item.nqn, item.transport, _same_address(item.address), item.port, _same_address(item.source_address))


def judge(plan: ConnectPlan, topology: Topology) -> Judgement:
    """Compare the controllers with the plan.

    Stale are controllers of this site's subsystems that no path asks for: to a namespace this host does not own, from
    another source address (or none, which the kernel takes for a duplicate of ours), over another transport, or a
    second one for the same path. Controllers of other subsystems are never looked at.
    """
    candidates: Dict[Tuple[str, ...], List[Controller]] = {}
    stale: List[Controller] = []
    wanted = {_key_of_path(path) for path in plan.paths}
    managed = set(plan.managed_nqns) | {path.nqn for path in plan.paths}
    for item in topology.controllers:
        if not item.fabrics or item.nqn not in managed or item.state in _GOING:
            continue
        key = _key_of_controller(item)
        if key in wanted:
            candidates.setdefault(key, []).append(item)
        else:
            stale.append(item)
    live: List[Tuple[ConnectPath, Controller]] = []
    in_transit: List[Tuple[ConnectPath, Controller]] = []
    missing: List[ConnectPath] = []
    for path in plan.paths:
        # The first live one is kept; a second controller on the same path only doubles its weight.
        found = sorted(candidates.get(_key_of_path(path), []), key=lambda item: (not item.live, item.name))
        if not found:
            missing.append(path)
            continue
        (live if found[0].live else in_transit).append((path, found[0]))
        stale += found[1:]
    return Judgement(tuple(live), tuple(in_transit), tuple(missing), tuple(stale))


def fabrics_tokens(host: Host) -> FrozenSet[str]:
    """The options that this kernel understands, as its device lists them; none while the module is not loaded."""
    return frozenset(re.findall(r"(\w+)=?", host.read(FABRICS_DEVICE) or ""))


def connect_command(plan: ConnectPlan, path: ConnectPath) -> List[str]:
    """The argument list that makes one controller; the short options mean the same from nvme-cli 2.0 on."""
    return [
        "nvme", "connect",
        "-t", path.transport, "-a", path.address, "-s", str(path.port), "-w", path.source_address,
        "-n", path.nqn, "-q", plan.host_nqn, "-I", plan.host_uuid,
        "-i", str(plan.io_queues), "-Q", str(plan.queue_size), "-k", str(plan.keep_alive),
        "-c", str(plan.reconnect_delay), "-l", str(plan.controller_loss_timeout), "-T", str(plan.tos),
    ]  # fmt: skip


def fabrics_options(plan: ConnectPlan, path: ConnectPath, keys: Optional[Keys]) -> str:
    """What makes one controller that authenticates, or uses TLS, when it is written to the kernel's device.

    Written by us and not by ``nvme connect -S KEY``: an argument list can be read by every user of the host, and the
    other ways to hand a key to nvme-cli (config.json, discovery.conf) lose it in some release or other. With TLS there
    is no key to hand over (the kernel looks it up by host and subsystem), but nvme-cli would go looking for one itself,
    in ways that changed from release to release.
    """
    options = {
        "nqn": path.nqn, "transport": path.transport, "traddr": path.address, "trsvcid": str(path.port),
        "host_traddr": path.source_address, "hostnqn": plan.host_nqn, "hostid": plan.host_uuid,
        "nr_io_queues": str(plan.io_queues), "queue_size": str(plan.queue_size),
        "keep_alive_tmo": str(plan.keep_alive), "reconnect_delay": str(plan.reconnect_delay),
        "ctrl_loss_tmo": str(plan.controller_loss_timeout), "tos": str(plan.tos),
    }  # fmt: skip
    if keys is not None:
        options["dhchap_secret"] = keys.key
        if keys.controller_key:
            options["dhchap_ctrl_secret"] = keys.controller_key
    return ",".join(["%s=%s" % item for item in options.items()] + (["tls"] if plan.tls else []))


class Connector:
    """Runs connects and remembers why a path did not come up. ``keys`` are this host's, once they are known."""

    def __init__(self, host: Host, plan: ConnectPlan, keys: Optional[Keys] = None) -> None:
        self.host = host
        self.plan = plan
        self.keys = keys
        #: path -> why its last attempt failed, from the tool and the kernel log
        self.reasons: Dict[ConnectPath, str] = {}

    def connect(self, paths: Sequence[ConnectPath]) -> None:
        """Try each path once, portals side by side, then wait for the namespaces of what came up."""
        if not paths:
            return
        before = self.kernel_log()
        portals: Dict[Tuple[str, str, int, str], List[ConnectPath]] = {}
        for path in paths:
            portals.setdefault((path.transport, path.address, path.port, path.source_address), []).append(path)
        failed: Dict[ConnectPath, str] = {}
        with ThreadPoolExecutor(max_workers=min(PARALLEL, len(portals))) as pool:
            for answers in pool.map(self._connect_portal, portals.values()):
                failed.update(answers)
        if failed:
            self._explain(failed, before)
        self.host.wait_until(self._scanned, SCAN_SECONDS, interval=0.2)

    def _connect_portal(self, paths: Sequence[ConnectPath]) -> Dict[ConnectPath, str]:
        failed: Dict[ConnectPath, str] = {}
        answered = False
        for path in paths:
            if len(failed) >= PATIENCE and not answered:
                failed[path] = "not tried: the portal did not answer for the paths before it"
                continue
            result = self._connect_one(path)
            if self._is_there(path):
                answered = True
                self.reasons.pop(path, None)
            else:
                failed[path] = _last_words(result)
                # A refusal is an answer: the next subsystem of this portal may well admit us.
                log = [line for line in self.kernel_log() if path.nqn in line]
                answered = answered or any("not allowed" in line for line in log[-3:])
        return failed

    def _connect_one(self, path: ConnectPath) -> Result:
        if self.plan.tls is not None:
            return self._connect_with_tls(path)
        if self.plan.authentication is None:
            return self.host.run(connect_command(self.plan, path), timeout=CONNECT_TIMEOUT)
        device = ["write", FABRICS_DEVICE]
        if self.keys is None:
            return Result(device, 1, "", "this host has no key yet: run g35ctl deploy --only connect")
        # A kernel that does not know the option would put it into its log, key and all.
        if "dhchap_secret" not in fabrics_tokens(self.host):
            return Result(device, 1, "", "this kernel does not know dhchap_secret (CONFIG_NVME_HOST_AUTH)")
        try:
            return Result(
                device, 0, self.host.exchange(FABRICS_DEVICE, fabrics_options(self.plan, path, self.keys)), ""
            )
        except OSError as error:
            return Result(device, 1, "", error.strerror or str(error))

    def _connect_with_tls(self, path: ConnectPath) -> Result:
        device = ["write", FABRICS_DEVICE]
        if "tls" not in fabrics_tokens(self.host):
            return Result(device, 1, "", "this kernel does not know tls (CONFIG_NVME_TCP_TLS)")
        try:
            return Result(device, 0, self.host.exchange(FABRICS_DEVICE, fabrics_options(self.plan, path, None)), "")
        except OSError as error:
            words = error.strerror or str(error)
            # The kernel says no word about a handshake that was refused; the number is all there is.
            why = _TLS_ERRORS.get(error.errno or 0)
            return Result(device, 1, "", "%s: %s (%s)" % (_HANDSHAKE_FAILED, why, words) if why else words)

    def reauthenticate(self, path: ConnectPath, name: str) -> None:
        """Let a live controller prove itself with the present key, and see it through before another one is touched.

        The connection stays while it does. Raises OSError when the path is not live afterwards: then the box has
        another key, and the remaining paths keep the session that they have.
        """
        assert self.keys is not None
        before = self.kernel_log()
        base = "/sys/class/nvme/%s" % name
        if self.keys.controller_key:
            self.host.write_attribute(base + "/dhchap_ctrl_secret", self.keys.controller_key)
        self.host.write_attribute(base + "/dhchap_secret", self.keys.key)

        def told() -> bool:
            lines = [line for line in new_lines(before, self.kernel_log()) if "%s: qid 0: auth" % name in line]
            return any("authenticated" in line for line in lines)

        self.host.wait_until(told, 2.0 * self.plan.reconnect_delay + 5.0, interval=0.25)
        # The box drops a controller that failed a moment after it said so.
        self.host.sleep(1.0)
        self.wait_for([name], 2.0 * self.plan.reconnect_delay + 5.0)
        key = _key_of_path(path)
        if not any(_key_of_controller(item) == key and item.live for item in read_topology(self.host).controllers):
            lines = [_without_time(line) for line in new_lines(before, self.kernel_log())]
            raise OSError(
                "%s is not live after authenticating with the new key; the other paths keep theirs. Kernel: %s"
                % (label(path), " | ".join(list(dict.fromkeys(lines))[-3:]) or "nothing logged")
            )

    def _is_there(self, path: ConnectPath) -> bool:
        key = _key_of_path(path)
        return any(_key_of_controller(item) == key for item in read_topology(self.host).controllers)

    def _scanned(self) -> bool:
        topology = read_topology(self.host)
        names = {path.nqn for path in self.plan.paths}
        waiting = [i for i in topology.controllers if i.fabrics and i.live and i.nqn in names and not i.paths]
        return all(any(s.namespaces for s in topology.subsystem_of(item.nqn)) for item in waiting)

    def wait_for(self, names: Sequence[str], seconds: float) -> None:
        """Give the kernel a moment to bring these controllers back."""

        def settled() -> bool:
            states = {item.name: item.state for item in read_topology(self.host).controllers}
            return not any(states.get(name) in IN_TRANSIT for name in names)

        self.host.wait_until(settled, seconds, interval=0.5)

    def disconnect(self, names: Sequence[str]) -> None:
        """Disconnect controllers by device name. Raises OSError with the tool's words for the first that stays."""
        with ThreadPoolExecutor(max_workers=max(1, min(PARALLEL, len(names)))) as pool:
            results = dict(zip(names, pool.map(self._disconnect_one, names)))
        left = {item.name for item in read_topology(self.host).controllers if item.state not in _GOING}
        for name, result in results.items():
            if name in left:
                raise OSError("%s is still there after: %s" % (name, result.explain()))

    def _disconnect_one(self, name: str) -> Result:
        return self.host.run(["nvme", "disconnect", "-d", name], timeout=CONNECT_TIMEOUT)

    def kernel_log(self) -> List[str]:
        """Lines of the kernel's log about NVMe and RDMA, their NICs' drivers included, oldest first."""
        result = self.host.run(["dmesg"], timeout=20.0)
        return [line for line in result.out.splitlines() if _ABOUT_US.search(line)]

    def _explain(self, failed: Dict[ConnectPath, str], before: List[str]) -> None:
        fresh = new_lines(before, self.kernel_log())
        owned: Set[str] = {line for line in fresh for path in self.plan.paths if path.nqn in line}
        common = [line for line in fresh if line not in owned]
        for path, words in failed.items():
            own = [line for line in fresh if path.nqn in line]
            if words.startswith("not tried"):
                self.reasons[path] = words
                continue
            lines = own or [line for line in common if path.address in line] or common
            # The same failure repeats per queue and attempt; the last two distinct lines tell it.
            distinct = list(dict.fromkeys(_without_time(line) for line in lines))[-2:]
            told = words
            if any(_REFUSED_HANDSHAKE in line for line in distinct) and _HANDSHAKE_FAILED not in words:
                told = "%s: the other end gave no answer that it could use (%s)" % (_HANDSHAKE_FAILED, words)
            kernel = "; kernel: %s" % " | ".join(distinct) if distinct else "; the kernel logged nothing"
            self.reasons[path] = "connecting: %s%s" % (told, kernel)


def _last_words(result: Result) -> str:
    lines = [line.strip() for line in (result.err + "\n" + result.out).splitlines() if line.strip()]
    lines = [line for line in lines if not _NOISE.match(line)]
    return lines[-1] if lines else "exit %d without a word" % result.code


def new_lines(before: List[str], after: List[str]) -> List[str]:
    """Lines of ``after`` that follow the last line known before; all of them when it has left the ring buffer."""
    if before and before[-1] in after:
        position = len(after) - 1 - after[::-1].index(before[-1])
        return after[position + 1 :]
    return after


def _without_time(line: str) -> str:
    return re.sub(r"^\[\s*\d+\.\d+\]\s*", "", line)
