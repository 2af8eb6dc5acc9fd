"""What a host still mounts although the plan has it no more: namespaces that were moved to another owner."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

from . import managed
from .converge import Change, Finding
from .host import Host
from .nvme import MountEntry, read_mounts
from .plans import File, Unit

UNITS = "/etc/systemd/system"
#: how a mount unit of ours begins (templates/storage/flash.mount.j2)
_OURS = re.compile(r"^# Made by g35ctl for site [^\n]*\n\[Unit\]\nDescription=Flash namespace ")
_WHERE = re.compile(r"^Where=(.+)$", re.MULTILINE)


def stale_mounts(host: Host, planned: Sequence[Unit], mounts: Tuple[MountEntry, ...]) -> Dict[str, Dict[str, Any]]:
    """Mount units of ours that are not ``planned``: ``where``, and whether it is ``mounted``."""
    names = {unit.name for unit in planned}
    found: Dict[str, Dict[str, Any]] = {}
    for name in host.list(UNITS):
        if name.endswith(".mount") and name not in names:
            text = host.read("%s/%s" % (UNITS, name)) or ""
            where = _WHERE.search(text)
            if _OURS.search(text) and where:
                point = where.group(1).strip()
                found[name] = {"where": point, "mounted": any(item.mount_point == point for item in mounts)}
    return found


def changes(host: Host, stale: Dict[str, Dict[str, Any]]) -> List[Change]:
    """Unmount them and remove their units. What is on the namespaces stays."""
    todo: List[Change] = []
    for name, item in stale.items():
        for change in managed.removal_changes(host, (File("%s/%s" % (UNITS, name), ""),), [Unit(name)]):
            used = "what is mounted at %s" % item["where"] if item["mounted"] and change.what == name else ""
            todo.append(replace(change, disruptive=used))
        if item["mounted"]:
            # Stopping its unit has unmounted it, unless it was mounted by hand.
            todo.append(Change(item["where"], "mounted", "unmounted", _unmounter(host, item["where"])))
    return todo


def _unmounter(host: Host, where: str) -> Any:
    def unmount() -> None:
        if any(entry.mount_point == where for entry in read_mounts(host)):
            host.must(["umount", where], timeout=180.0)

    return unmount


def findings(stale: Dict[str, Dict[str, Any]]) -> List[Finding]:
    """A mount that outlived its ownership is an error: two hosts must never mount one file system."""
    return [
        Finding(
            "storage.stale",
            item["where"],
            "mounted" if item["mounted"] else "its unit is still there",
            "gone: the namespace belongs to another host",
            "run the deploy with --allow-disruptive",
        )
        for item in stale.values()
    ]


def settle(host: Host, mount_point: str) -> None:
    """Bring everything from the log of a mounted XFS to its place. Raises CommandFailed.

    Whoever looks at a file system before mounting it reads past its log: a new owner's mark that is only there would
    not be seen, and the old owner would take the namespace for its own.
    """
    host.must(["fsfreeze", "--freeze", mount_point], timeout=180.0)
    host.must(["fsfreeze", "--unfreeze", mount_point], timeout=60.0)
