"""What a host still mounts although the plan has it no more: namespaces, and striped sets of them, that were moved to
another owner."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

from . import managed, stripe
from .converge import Change, Finding
from .host import Host
from .nvme import MountEntry, read_mounts
from .plans import File, Unit

UNITS = "/etc/systemd/system"
#: how a unit of ours begins (templates/storage/flash.mount.j2 and stripe.service.j2)
_OURS = re.compile(r"^# Made by g35ctl for site [^\n]*\n\[Unit\]\nDescription=Flash (namespace|set) ")
_WHERE = re.compile(r"^Where=(.+)$", re.MULTILINE)
_ARRAY = re.compile(r"^ExecStop=/usr/sbin/mdadm --stop (/dev/md/[A-Za-z0-9-]+)$", re.MULTILINE)
#: keeps mdadm off striped sets; also on boxes, where stage target writes it
RULE = "/etc/udev/rules.d/62-g35-striped.rules"


def stale_mounts(host: Host, planned: Sequence[Unit], mounts: Tuple[MountEntry, ...]) -> Dict[str, Dict[str, Any]]:
    """Mount units of ours that are not ``planned``: ``where``, and whether it is ``mounted``. After them those that
    assemble the ``array`` of a striped set, with an empty ``where``."""
    names = {unit.name for unit in planned}
    found: Dict[str, Dict[str, Any]] = {}
    for name in host.list(UNITS):
        if name.endswith(".mount") and name not in names:
            text = host.read("%s/%s" % (UNITS, name)) or ""
            where = _WHERE.search(text)
            if _OURS.search(text) and where:
                point = where.group(1).strip()
                here = any(item.mount_point == point for item in mounts)
                found[name] = {"where": point, "mounted": here, "array": ""}
    for name in host.list(UNITS):
        ours = name.startswith("g35-stripe-") and name.endswith(".service")
        text = (host.read("%s/%s" % (UNITS, name)) or "") if ours and name not in names else ""
        if _OURS.search(text):
            array = _ARRAY.search(text)
            found[name] = {"where": "", "mounted": False, "array": array.group(1) if array else ""}
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
        if item["array"] and host.exists(item["array"]):
            # Stopping its unit has taken it apart, unless something used it then: a stop that fails does not say so.
            todo.append(Change(item["array"], "assembled", "taken apart", _stopper(host, item["array"])))
    return todo


def released(host: Host, stale: Dict[str, Dict[str, Any]]) -> Tuple[str, ...]:
    """Mount points and devices of arrays that ``changes`` gives up: whatever else is planned is done after that."""
    points = [item["where"] for item in stale.values() if item["where"]]
    return (*points, *(host.real(item["array"]) for item in stale.values() if item["array"]))


def rule_changes(host: Host, planned: Sequence[File]) -> List[Change]:
    """Remove the rule about striped sets from a host that has none any more."""
    if any(item.path == RULE for item in planned) or not host.exists(RULE):
        return []
    return [Change(RULE, "present", "absent", lambda: host.remove_file(RULE))]


def _stopper(host: Host, device: str) -> Any:
    def stop() -> None:
        if host.exists(device):
            stripe.stop(host, device)

    return stop


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
            item["where"] or name,
            "mounted" if item["mounted"] else "its unit is still there",
            "gone: the namespace belongs to another host",
            "run the deploy with --allow-disruptive",
        )
        for name, item in stale.items()
    ]


def settle(host: Host, mount_point: str) -> None:
    """Bring everything from the log of a mounted XFS to its place. Raises CommandFailed.

    Whoever looks at a file system before mounting it reads past its log: a new owner's mark that is only there would
    not be seen, and the old owner would take the namespace for its own.
    """
    host.must(["fsfreeze", "--freeze", mount_point], timeout=180.0)
    host.must(["fsfreeze", "--unfreeze", mount_point], timeout=60.0)
