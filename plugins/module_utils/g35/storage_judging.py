"""Judgement of what stage storage read: what forbids going on, and what is not as planned."""

from __future__ import annotations

from typing import List, Optional

from . import stripe, xfs
from .converge import Finding
from .host import Host
from .marker import Marker, same_owner
from .nvme import MountEntry
from .plans import StoragePlan
from .storage_reading import Member, Reading, devices_of

#: a namespace smaller than planned by more than this share is told; sizes in inventories are round
_SIZE_TOLERANCE = 0.02


def obstacles(host: Host, plan: StoragePlan, item: Reading) -> List[Finding]:
    """Contents and owners that forbid going on. A device that is not there yet is no obstacle before connect."""
    found: List[Finding] = [_lost(item, uuid) for uuid in item.lost]
    for member in item.members:
        found += _member_obstacles(member)
    if not item.present:
        return found
    subject = _subject(item)
    if item.content.kind == xfs.FOREIGN and not may_be_overwritten(plan, item):
        found.append(_foreign(plan, item, subject))
    if item.content.kind == xfs.UNREADABLE:
        names = [member.namespace.name for member in item.members if member.namespace is not None]
        remedy = "check the SSD and its paths; kernel log: dmesg | grep -E '%s'" % "|".join(names)
        found.append(Finding("storage.content", subject, item.content.description, "a readable device", remedy))
    if item.users:
        found.append(
            Finding(
                "storage.in_use",
                subject,
                "used by %s" % ", ".join(item.users),
                "mounted at %s only" % item.mount.mount_point,
                "unmount or detach it there first",
            )
        )
    stranger = item.mounted is not None and not item.mounted_right and not is_orphan(host, item.mounted)
    if stranger and item.mounted is not None and not _is_device_of(item, item.mounted):
        found.append(
            Finding(
                "storage.mount",
                item.mount.mount_point,
                "%s (%s) is mounted there" % (item.mounted.source, item.mounted.file_system),
                "%s" % (item.device.device if item.device is not None else item.subject),
                "unmount it, or choose another g35_storage.mount_root",
            )
        )
    return found + _owner_findings(plan, item)


def _lost(item: Reading, uuid: str) -> Finding:
    return Finding(
        "storage.stripe",
        item.subject,
        "namespace %s of it is in no box of this site" % uuid,
        "all %d namespaces of the set: without one of them nothing of it can be read"
        % (len(item.members) + len(item.lost)),
        "put the namespace (and its box) back into the inventory; or, to lose what is on the set, name all namespaces"
        " of this owner in g35_storage.destroy",
    )


def _member_obstacles(member: Member) -> List[Finding]:
    mount, namespace = member.mount, member.namespace
    if namespace is None:
        return []
    subject = "%s nsid %d (%s)" % (mount.nqn, mount.nsid, namespace.device)
    if namespace.uuid != mount.uuid.lower():
        observed = "UUID %s" % (namespace.uuid or "none")
        remedy = "correct the UUID in g35_ebof.namespaces, or export the right SSD under this NQN"
        return [Finding("storage.device", subject, observed, "UUID %s" % mount.uuid, remedy)]
    if namespace.size < xfs.SMALLEST:
        observed = "%d bytes" % namespace.size
        return [Finding("storage.size", subject, observed, "at least 300 MiB", "use a larger namespace")]
    return []


def _subject(item: Reading) -> str:
    if item.plan is None:
        return "%s nsid %d (%s)" % (item.mount.nqn, item.mount.nsid, ", ".join(devices_of(item)))
    return "%s (%s)" % (item.subject, ", ".join(devices_of(item)))


def may_be_overwritten(plan: StoragePlan, item: Reading) -> bool:
    """Whether the operator named everything that would be lost: each namespace that holds something foreign, or all of
    a set where no single one is to blame."""
    foreign = [member.mount.uuid for member in item.members if member.content.kind == xfs.FOREIGN]
    return all(uuid in plan.destroy for uuid in foreign or [member.mount.uuid for member in item.members])


def _foreign(plan: StoragePlan, item: Reading, subject: str) -> Finding:
    foreign = [member for member in item.members if member.content.kind == xfs.FOREIGN]
    named = [member for member in foreign or item.members if member.mount.uuid not in plan.destroy]
    devices = [member.namespace.device for member in named if member.namespace is not None]
    holds = item.content.description
    return Finding(
        "storage.content",
        subject,
        "holds %s, which g35ctl did not make for this %s and site"
        % (holds, "namespace" if item.plan is None else "set"),
        "empty, or the XFS %s of this site" % xfs.label_of(item.uuid),
        "look at it (blkid -p %s); if it may be destroyed for good, name it: g35_storage.destroy: [%s]"
        % (" ".join(devices), ", ".join(member.mount.uuid for member in named)),
    )


def is_orphan(host: Host, entry: MountEntry) -> bool:
    """A mount whose NVMe device is gone, or whose array has no member left: what is left after all paths were lost for
    good."""
    if entry.source.startswith("/dev/nvme"):
        return not host.exists("/sys/block/%s" % entry.source.rpartition("/")[2])
    array = dead_array(host, entry)
    return array is not None


def dead_array(host: Host, entry: MountEntry) -> Optional[stripe.Array]:
    """The array that is mounted there, when the kernel has given up all its members."""
    if not entry.source.startswith("/dev/md"):
        return None
    for name in host.list("/sys/block"):
        if name.startswith("md") and host.read_value("/sys/block/%s/dev" % name) == entry.number:
            array = stripe.read_array(host, name)
            gone = all(not host.exists("/sys/block/%s" % member) for member in array.members)
            return array if gone else None
    return None


def _is_device_of(item: Reading, entry: MountEntry) -> bool:
    """Whether it is mounted from the planned device, or from what is left of the set's array."""
    if item.device is not None and entry.number == item.device.number:
        return True
    return any(entry.number == array.number for array in item.arrays)


def _owner_findings(plan: StoragePlan, item: Reading) -> List[Finding]:
    if item.problem and item.content.kind == xfs.OURS and not item.mounted_right:
        # Without its marker nobody knows whose it is.
        device = item.device.device if item.device is not None else (item.plan.device if item.plan else "DEVICE")
        remedy = "check the file system: xfs_repair -n %s" % device
        return [Finding("storage.marker", item.mount.mount_point, item.problem, "a readable marker", remedy)]
    marker = item.marker
    if marker is None or is_right(plan, item, marker):
        return []
    kind = "set" if item.plan is not None else "namespace"
    return [
        Finding(
            "storage.owner",
            "%s (%s)" % (item.mount.mount_point, item.uuid),
            "marked for host %s of site %s, %s %s" % (marker.owner, marker.site, kind, marker.namespace),
            "host %s of site %s, %s %s" % (plan.host, plan.site, kind, item.uuid),
            "give it back to %s (g35_storage.owns), or move it on purpose" % marker.owner,
        )
    ]


def is_right(plan: StoragePlan, item: Reading, marker: Marker) -> bool:
    """Whether a mark names this host, or one that the plan says the namespaces come from."""
    owners = (plan.host, *item.previous_owners)
    return any(same_owner(marker, plan.site, name, item.uuid) for name in owners)


def is_taken_over(plan: StoragePlan, item: Reading) -> bool:
    """Whether the mark is that of a host the plan says the namespaces come from."""
    marker = item.marker
    return marker is not None and any(same_owner(marker, plan.site, name, item.uuid) for name in item.previous_owners)


def mount_findings(host: Host, plan: StoragePlan, item: Reading) -> List[Finding]:
    """What is not as planned where nothing forbids to make it so."""
    mount = item.mount
    found: List[Finding] = []
    for member in item.members:
        if not member.usable:
            namespace = member.namespace
            observed = "no device" if namespace is None else "%s has no live path" % namespace.device
            subject = "%s nsid %d" % (member.mount.nqn, member.mount.nsid)
            remedy = "connect it (g35ctl deploy --only connect), then run the deploy again"
            found.append(Finding("storage.device", subject, observed, "a device with live paths", remedy))
    if found:
        return found
    if item.plan is not None:
        found += _array_findings(item)
    if not item.mounted_right:
        remedy = "run the deploy; see: systemctl status %s" % mount.mount_point
        expected = "XFS of %s" % (item.uuid if item.plan is None else item.subject)
        return [*found, Finding("storage.mount", mount.mount_point, "not mounted", expected, remedy)]
    if item.problem:
        # EIO here is how a file system that XFS shut down after losing its device looks.
        remedy = "run the deploy: it mounts the file system again"
        found.append(Finding("storage.mount", mount.mount_point, item.problem, "a working file system", remedy))
    elif item.marker is None:
        found.append(Finding("storage.marker", mount.mount_point, "absent", "owner %s" % plan.host, "run the deploy"))
    for member in item.members:
        found += _device_findings(member)
    return found


def _array_findings(item: Reading) -> List[Finding]:
    """The array as sysfs has it."""
    assert item.plan is not None
    array = item.array
    if array is None:
        told = ["%s (%s, members %s)" % (one.name, one.state or "no state", ", ".join(one.members) or "none")
                for one in item.arrays]  # fmt: skip
        observed = "; ".join(told) or "not assembled"
        remedy = "run the deploy; see: systemctl status %s" % item.plan.unit
        expected = "an array of its %d namespaces, in service" % len(item.plan.members)
        return [Finding("storage.stripe", item.subject, observed, expected, remedy)]
    found = []
    if array.level != "raid0":
        remedy = "it is not what g35ctl made: mdadm --detail %s" % array.device
        found.append(Finding("storage.stripe", item.subject, "level %s" % array.level, "raid0", remedy))
    if array.chunk_size != item.plan.chunk_size:
        observed, expected = "chunks of %d bytes" % array.chunk_size, "%d bytes" % item.plan.chunk_size
        remedy = "set g35_storage.chunk_size to what the set was made with; it is only changed by making the set anew"
        found.append(Finding("storage.chunk", item.subject, observed, expected, remedy, "warning"))
    return found


def _device_findings(member: Member) -> List[Finding]:
    namespace = member.namespace
    assert namespace is not None
    found = []
    if not namespace.multipath:
        remedy = "switch native multipath on (see connect.multipath)"
        found.append(Finding("storage.multipath", namespace.device, "one path only", "multipath", remedy))
    if namespace.size < member.mount.size * (1 - _SIZE_TOLERANCE):
        observed = "%d bytes" % namespace.size
        remedy = "correct the size in g35_ebof.namespaces"
        expected = "%d bytes" % member.mount.size
        found.append(Finding("storage.size", namespace.device, observed, expected, remedy, "warning"))
    return found
