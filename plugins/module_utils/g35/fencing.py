"""Fencing on a Linux box: nobody reaches these subsystems any more, and that is read back.

A permission that was taken back does not end a connection that stands: the kernel keeps the controllers of a host that
is no longer allowed. Only taking the subsystem off its ports drops them, which is why this is done even where the list
of allowed hosts is empty already.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from . import nvmet
from .converge import Finding
from .host import Host

#: how long the kernel may take to tear controllers down, seconds
SECONDS = 30.0


def fence(host: Host, subsystems: Sequence[str], *, check: bool = False) -> Dict[str, Any]:
    """Drop every controller of the subsystems, let nobody in, and say what is to be read afterwards.

    A subsystem that the box does not have is fenced as it is. The result of a module.
    """
    changes: List[Dict[str, str]] = []
    findings: List[Finding] = []
    present = set(host.list(nvmet.ROOT + "/subsystems"))
    for nqn in subsystems:
        if nqn not in present:
            continue
        before = _who(nvmet.read_subsystem(host, nqn))
        changes.append(
            {"what": "hosts of %s" % nqn, "before": before, "after": "none, every controller dropped", "disruptive": ""}
        )
        if check:
            continue
        try:
            nvmet.fence(host, nqn, ())
        except OSError as error:
            findings.append(Finding("fence.apply", nqn, str(error), "fenced", "see the kernel log of the box"))
    if not check:
        host.wait_until(lambda: not _left(host, subsystems), SECONDS, interval=0.5)
    state = {nqn: _state(host, nqn) for nqn in subsystems}
    if not check:
        findings += [
            Finding("fence.open", nqn, what, "nobody is admitted or connected", "see the kernel log of the box")
            for nqn, what in _left(host, subsystems).items()
        ]
    errors = "; ".join("%s: %s" % (item.subject, item.observed) for item in findings)
    return {
        "action": "fence",
        "changed": bool(changes),
        "failed": bool(findings),
        "msg": errors,
        "changes": changes,
        "findings": [vars(item) for item in findings],
        "state": {"subsystems": state},
    }


def _state(host: Host, nqn: str) -> Dict[str, Any]:
    """What the box says of a subsystem now; ``controllers`` None where the kernel does not tell (before 6.11)."""
    if nqn not in host.list(nvmet.ROOT + "/subsystems"):
        return {"present": False, "allowed_hosts": [], "any_host": False, "controllers": []}
    seen = nvmet.read_subsystem(host, nqn)
    return {
        "present": True,
        "allowed_hosts": seen["allowed_hosts"],
        "any_host": seen["allow_any_host"],
        "controllers": nvmet.controllers(host, nqn),
    }


def _left(host: Host, subsystems: Sequence[str]) -> Dict[str, str]:
    """Subsystems that somebody may still reach, and who."""
    found = {}
    for nqn in subsystems:
        seen = _state(host, nqn)
        if seen["any_host"] or seen["allowed_hosts"] or seen["controllers"]:
            controllers = ", ".join(seen["controllers"] or []) or "nobody known"
            who = "any host" if seen["any_host"] else ", ".join(seen["allowed_hosts"]) or "no host"
            found[nqn] = "admits %s; connected: %s" % (who, controllers)
    return found


def _who(seen: Dict[str, Any]) -> str:
    return "any" if seen["allow_any_host"] else ", ".join(seen["allowed_hosts"]) or "none"
