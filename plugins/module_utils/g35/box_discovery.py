"""Boxes known by their NVMe discovery service alone: each portal is asked, each head's answer is united by NQN.

A discovery log is made for the host that asks. So the questions are asked in the name of every owner, and once in the
name of nobody: what is offered to a stranger is open to all. Nothing on the box can be changed this way.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple
from uuid import NAMESPACE_URL, UUID, uuid5

from .box import BoxError, Driver, Seen, SeenPortal, SeenSubsystem
from .converge import Finding
from .host import Host
from .plans import BoxPlan, Portal, TargetNamespace

SUBSYSTEM = "nvme subsystem"
_HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:"
_SECONDS = 30.0


class LogError(BoxError):
    """The output of ``nvme discover`` is no discovery log."""


def parse_log(text: str) -> Tuple[Tuple[str, SeenPortal], ...]:
    """(NQN, portal) of every I/O subsystem in ``nvme discover -o json``. Raises LogError.

    Releases differ in what they print around the document (3.0-rc logs to stdout), and since 2.x the log names the
    discovery subsystem itself beside referrals: only records of I/O subsystems count. No output is an empty log.
    """
    if not text.strip():
        return ()
    document = _document(text)
    if "error" in document and "records" not in document:
        raise LogError("nvme discover: %s" % document["error"])
    records = document.get("records", [])
    if not isinstance(records, list):
        raise LogError("nvme discover: records is %s, not a list" % type(records).__name__)
    found = []
    for record in records:
        if not isinstance(record, dict) or str(record.get("subtype", "")).strip() != SUBSYSTEM:
            continue
        nqn, address = str(record.get("subnqn", "")).strip(), str(record.get("traddr", "")).strip()
        service = str(record.get("trsvcid", "")).strip()
        if nqn and address:
            port = int(service) if service.isdigit() else 4420
            found.append((nqn, SeenPortal(address, port, str(record.get("trtype", "")).strip())))
    return tuple(found)


def _document(text: str) -> Dict[str, Any]:
    """The first JSON object that starts a line, whatever was printed around it."""
    decoder = json.JSONDecoder()
    place = 0
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("{"):
            try:
                found, _ = decoder.raw_decode(text[place:].lstrip())
            except ValueError:
                pass
            else:
                if isinstance(found, dict):
                    return found
        place += len(line)
    first = text.strip().splitlines()[0]
    raise LogError("nvme discover: no JSON document in its output, which begins: %s" % first[:120])


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
                for host_nqn in sorted(self.plan.owners):
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

    def ask(self, portal: Portal, host_nqn: str) -> Tuple[Tuple[str, SeenPortal], ...]:
        """What one portal offers to one host. Raises BoxError when it does not answer."""
        argv = ["nvme", "discover", "-t", portal.transport, "-a", portal.address, "-s", str(portal.port)]
        argv += ["-q", host_nqn]
        identifier = _identifier(host_nqn)
        # Newer kernels insist that one host NQN always comes with the same identifier.
        argv += ["-I", identifier] if identifier else []
        result = self.host.run([*argv, "-o", "json"], timeout=_SECONDS)
        if not result.ok:
            remedy = "check that %s reaches the portal, and that it listens there" % (self.plan.run_on or "this host")
            if result.code == 127:
                remedy = "install nvme-cli, or ask from a host that has it"
            raise BoxError(result.explain(), remedy)
        wanted = parse_log(result.out)
        return tuple(item for item in wanted if item[1].transport in ("", portal.transport))

    def must_see(self, nqn: str, seen: Seen) -> bool:
        """A subsystem without an owner is shown to nobody, and a portal that is silent shows nothing."""
        return bool(seen.portals) and bool(self.desired[nqn][0].allowed_hosts)

    def remedy(self, nqn: str, namespace: TargetNamespace) -> str:
        from .box import instruction

        return "%s; if it is not there at all: g35ctl discover %s" % (
            instruction(self.plan, nqn, namespace.allowed_hosts[0]),
            self.plan.box,
        )


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
