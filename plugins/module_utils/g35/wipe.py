"""Destroying what is on namespaces: only file systems that g35ctl made for exactly these, and only when nothing uses
them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Dict, List

from . import xfs
from .converge import Finding
from .host import CommandFailed, Host
from .nvme import read_mounts, read_topology, users_of
from .plans import StoragePlan


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
    for mount in plan.mounts if not findings else ():
        namespace = topology.namespace(mount.nqn, mount.nsid)
        if namespace is None or namespace.uuid != mount.uuid.lower():
            found = "no device" if namespace is None else "UUID %s" % namespace.uuid
            findings.append(Finding("wipe.device", mount.uuid, found, "its device", "g35ctl deploy --only connect"))
            continue
        users = users_of(host, namespace, mounts)
        if users:
            remedy = "stop what uses it: g35ctl teardown does"
            findings.append(Finding("wipe.in_use", mount.uuid, "used by %s" % ", ".join(users), "unused", remedy))
            continue
        content = xfs.read_content(host, namespace.device, plan.site, mount.uuid, namespace.size)
        if content.kind == xfs.EMPTY:
            continue
        if content.kind not in (xfs.OURS, xfs.UNFINISHED):
            remedy = "nothing: what g35ctl did not make is not its to destroy"
            findings.append(Finding("wipe.content", mount.uuid, content.description, "ours", remedy, "warning"))
            continue
        change = {"what": "namespace %s" % mount.uuid, "before": content.description, "after": "empty"}
        changes.append({**change, "disruptive": "everything on it is destroyed"})
        if not check:
            try:
                host.must(["wipefs", "--all", "--force", namespace.device], timeout=120.0)
            except CommandFailed as error:
                findings.append(Finding("wipe.apply", mount.uuid, str(error), "empty", "see the kernel log"))
    failed = [item for item in findings if item.severity == "error"]
    message = "; ".join("%s: %s" % (item.subject, item.observed) for item in failed)
    return {
        "action": "wipe", "changed": bool(changes), "failed": bool(failed), "msg": message, "changes": changes,
        "findings": [asdict(item) for item in findings], "state": {"wiped": [item["what"] for item in changes]},
    }  # fmt: skip
