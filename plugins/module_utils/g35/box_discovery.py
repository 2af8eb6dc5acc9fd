"""Boxes known by their NVMe discovery service alone: each portal is asked, each head's answer is united by NQN.

A discovery log is made for the host that asks. So the questions are asked in the name of every owner, and once in the
name of nobody: what is offered to a stranger is open to all. Nothing on the box can be changed this way.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Set, Tuple
from uuid import NAMESPACE_URL, UUID, uuid5

from . import nvme_cli
from .box import BoxError, Driver, Seen, SeenPortal, SeenSubsystem, instruction
from .converge import Finding
from .host import Host
from .plans import BoxPlan, Portal, TargetNamespace

_HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:"
_SECONDS = 30.0


class DiscoveryDriver(Driver):
    """Driver ``discovery``."""

    name = "discovery"

    def __init__(self, host: Host, plan: BoxPlan) -> None:
        super().__init__(host, plan)
        # The same for ever, so that the box's own log does not fill with ever new strangers.
        self.stranger = _HOST_NQN + str(uuid5(NAMESPACE_URL, "g35ctl:%s:stranger" % plan.site))

    def preflight(self) -> List[Finding]:
        if any(self.host.exists("%s/nvme" % place) for place in ("/usr/sbin", "/usr/bin", "/sbin", "/bin")):
            return []
        return [
            Finding("box.reach", self.plan.run_on or "controller", "nvme-cli is not installed", "nvme-cli",
                    "install nvme-cli there")
        ]  # fmt: skip

    def discover(self) -> Seen:
        """Ask every portal in the name of every owner, and of nobody."""
        heads: Dict[str, Set[SeenPortal]] = {}
        allowed: Dict[str, Set[str]] = {}
        open_to_all: Set[str] = set()
        answered, problems = [], []
        for portal in self.plan.portals:
            try:
                records = self.ask(portal, self.stranger)
                open_to_all |= _collect(records, heads)
                for host_nqn in sorted(self.plan.owners) or self._own():
                    for nqn in _collect(self.ask(portal, host_nqn), heads):
                        allowed.setdefault(nqn, set()).add(host_nqn)
                answered.append(SeenPortal(portal.address, portal.port, portal.transport))
            except BoxError as error:
                problems.append("%s:%d: %s" % (portal.address, portal.port, error))
        found = [
            SeenSubsystem(
                nqn,
                tuple(sorted(heads[nqn], key=str)),
                allowed_hosts=tuple(sorted(allowed.get(nqn, ()))),
                any_host=nqn in open_to_all,
            )
            for nqn in sorted(heads)
        ]
        return Seen(self.name, tuple(found), portals=tuple(answered), problems=tuple(problems))

    def _own(self) -> List[str]:
        """The asking host's identity: what counts while the site has no owners for the box."""
        own = self.host.read_value("/etc/nvme/hostnqn")
        return [own] if own else []

    def ask(self, portal: Portal, host_nqn: str) -> Tuple[Tuple[str, SeenPortal], ...]:
        """What one portal offers to one host. Raises BoxError when it does not answer."""
        argv = ["nvme", "discover", "-t", portal.transport, "-a", portal.address, "-s", str(portal.port)]
        argv += ["-q", host_nqn]
        identifier = _identifier(host_nqn)
        # Newer kernels insist that one host NQN always comes with the same identifier.
        argv += ["-I", identifier] if identifier else []
        result = self.host.run([*argv, "-o", "json"], timeout=_SECONDS)
        if not result.ok and "discovery log" in result.err.lower():
            # Over RDMA fetching the log now and then fails to allocate, and works when it is asked for again
            # (github.com/linux-nvme/libnvme issue 807). Connecting never depends on it: the plan names each subsystem.
            result = self.host.run([*argv, "-o", "json"], timeout=_SECONDS)
        if not result.ok:
            remedy = "check that %s reaches the portal, and that it listens there" % (self.plan.run_on or "this host")
            if result.code == 127:
                remedy = "install nvme-cli, or ask from a host that has it"
            raise BoxError(result.explain(), remedy)
        try:
            records = nvme_cli.parse_discovery(result.out) if _has_entries(result.out) else ()
        except nvme_cli.NvmeCliError as error:
            raise BoxError(str(error), "run it by hand there: %s" % " ".join(argv)) from error
        return tuple(
            (item.nqn, SeenPortal(item.address, int(item.port) if item.port.isdigit() else portal.port, item.transport))
            for item in records
            if item.transport in ("", portal.transport)
        )

    def must_see(self, nqn: str, seen: Seen) -> bool:
        """A subsystem without an owner is shown to nobody, and a portal that is silent shows nothing."""
        return bool(seen.portals) and bool(self.desired[nqn][0].allowed_hosts)

    def remedy(self, nqn: str, namespace: TargetNamespace) -> str:
        return "%s; if it is not there at all: g35ctl discover %s" % (
            instruction(self.plan, nqn, namespace.allowed_hosts[0]),
            self.plan.box,
        )


def _has_entries(output: str) -> bool:
    """An empty log is told in words by some releases, and by nothing at all by others."""
    return bool(output.strip()) and "No discovery log entries" not in output


def _collect(records: Sequence[Tuple[str, SeenPortal]], heads: Dict[str, Set[SeenPortal]]) -> Set[str]:
    """Add what one log says to the union of both heads; returns its NQNs."""
    for nqn, portal in records:
        heads.setdefault(nqn, set()).add(portal)
    return {nqn for nqn, _ in records}


def _identifier(host_nqn: str) -> Optional[str]:
    """The UUID in a host NQN, or None."""
    try:
        return str(UUID(host_nqn[len(_HOST_NQN) :])) if host_nqn.startswith(_HOST_NQN) else None
    except ValueError:
        return None
