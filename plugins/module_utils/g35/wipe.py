"""Destroying what is on namespaces: only file systems that g35ctl made for exactly these, and only when nothing uses
them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import stripe, xfs
from .contents import give_up
from .converge import Finding
from .host import CommandFailed, Host
from .nvme import Namespace, read_mounts, read_topology
from .plans import StoragePlan
from .storage_reading import Member, Reading, read_all

#: seconds for deallocating one namespace; large SSDs behind a busy box take minutes
DISCARD_TIMEOUT = 1800.0


def wipe(host: Host, plan: StoragePlan, site: str, *, check: bool = False) -> Dict[str, Any]:
    """Wipe every namespace of the plan that holds our file system; the result of a module.

    ``site`` is what the operator typed. A namespace that is mounted, not connected, or holds something else is left as
    it is and told; an empty one is fine.
    """
    findings: List[Finding] = []
    changes: List[Dict[str, str]] = []
    if site != plan.site:
        findings.append(Finding("wipe.site", "site", site, plan.site, "type the name of the site that is to be lost"))
    topology, mounts = read_topology(host), read_mounts(host)
    for item in read_all(host, plan, topology, mounts) if not findings else ():
        found, change = _wiped(host, item, check)
        findings += found
        changes += [change] if change else []
    failed = [item for item in findings if item.severity == "error"]
    message = "; ".join("%s: %s" % (item.subject, item.observed) for item in failed)
    return {
        "action": "wipe", "changed": bool(changes), "failed": bool(failed), "msg": message, "changes": changes,
        "findings": [asdict(item) for item in findings], "state": {"wiped": [item["what"] for item in changes]},
    }  # fmt: skip


def _wiped(host: Host, item: Reading, check: bool) -> Tuple[List[Finding], Optional[Dict[str, str]]]:
    """One file system with its namespaces: what forbids it, and what was done. A striped set goes as a whole."""
    for member in item.members:
        if member.namespace is None or member.namespace.uuid != member.mount.uuid.lower():
            told = "no device" if member.namespace is None else "UUID %s" % member.namespace.uuid
            remedy = "g35ctl deploy --only connect"
            return [Finding("wipe.device", member.mount.uuid, told, "its device", remedy)], None
    if not item.usable:
        told = ", ".join(member.mount.uuid for member in item.members if not member.usable) or ", ".join(item.lost)
        remedy = "g35ctl deploy --only connect"
        return [Finding("wipe.device", item.uuid, "no live path to %s" % told, "its devices", remedy)], None
    users = [*item.users, *([item.mounted.mount_point] if item.mounted is not None else [])]
    if users:
        remedy = "stop what uses it: g35ctl teardown does"
        return [Finding("wipe.in_use", item.uuid, "used by %s" % ", ".join(users), "unused", remedy)], None
    doomed = [member for member in item.members if _is_ours(item, member)]
    if item.content.kind == xfs.EMPTY:
        return [], None
    if not doomed:
        remedy = "nothing: what g35ctl did not make is not its to destroy"
        observed = item.content.description if item.content.kind != "absent" else item.problem
        return [Finding("wipe.content", item.uuid, observed, "ours", remedy, "warning")], None
    change = {"what": item.subject, "before": item.content.description, "after": "empty"}
    change["disruptive"] = "everything on it is destroyed"
    try:
        if not check:
            _erase(host, item, [member.namespace for member in doomed if member.namespace is not None])
    except (OSError, CommandFailed) as error:
        return [Finding("wipe.apply", item.uuid, str(error), "empty", "see the kernel log")], change
    return [], change


def _is_ours(item: Reading, member: Member) -> bool:
    """Whether g35ctl made what is on this namespace: the file system, or a member of the planned set."""
    if item.plan is None or item.array is not None:
        return item.content.kind in (xfs.OURS, xfs.UNFINISHED)
    return member.content.kind == xfs.OURS


def _erase(host: Host, item: Reading, namespaces: Sequence[Namespace]) -> None:
    for array in item.arrays:
        stripe.stop(host, array.device)
    for namespace in namespaces:
        device = namespace.device
        if item.plan is not None:
            stripe.forget(host, device)
        host.must(["wipefs", "--all", "--force", device], timeout=120.0)
        # Gives an SSD its blocks back and mostly reads as zeros afterwards; a device that cannot is given up as it is.
        host.run(["blkdiscard", device], timeout=DISCARD_TIMEOUT)
        give_up(host, device, namespace.size)
