"""The flash directories of the stores: on the mount of the right namespaces, owned by the service's user."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from .converge import Change, Finding
from .host import Host
from .plans import StoreInstance

DIRECTORY_MODE = 0o750


@dataclass(frozen=True)
class Account:
    """A user of the host: its numeric user and group ids."""

    uid: int
    gid: int


def account(host: Host, name: str) -> Optional[Account]:
    """The local account of that name, or None."""
    for line in (host.read("/etc/passwd") or "").splitlines():
        fields = line.split(":")
        if len(fields) >= 4 and fields[0] == name:
            return Account(int(fields[2]), int(fields[3]))
    return None


def mounts(host: Host) -> Dict[str, Tuple[str, str]]:
    """Mount point -> (device number ``major:minor``, file system type), the topmost mount where several are stacked."""
    found: Dict[str, Tuple[str, str]] = {}
    for line in (host.read("/proc/self/mountinfo") or "").splitlines():
        fields = line.split(" ")
        if "-" in fields and len(fields) > 5:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), fields[4])
            found[point] = (fields[2], fields[fields.index("-") + 1])
    return found


def namespace_uuids(host: Host, number: str) -> List[str]:
    """UUIDs of the NVMe namespaces under the block device of that number, sorted: its own, or those of an array's
    members; empty when any of them is something else."""
    base = "/sys/dev/block/%s" % number
    slaves = host.list(base + "/slaves")
    found = [_uuid(host, "%s/slaves/%s" % (base, name)) for name in slaves] if slaves else [_uuid(host, base)]
    return sorted(item for item in found if item) if all(found) else []


def _uuid(host: Host, base: str) -> Optional[str]:
    uuid = host.read_value(base + "/uuid")
    if uuid:
        return uuid.lower()
    wwid = host.read_value(base + "/wwid") or ""
    return wwid[5:].lower() if wwid.startswith("uuid.") else None


def mount_point(instance: StoreInstance) -> str:
    """Mount point that the instance's directory must lie on."""
    return instance.mount_point or os.path.dirname(instance.directory)


def read(host: Host, instance: StoreInstance, seen: Dict[str, Tuple[str, str]]) -> Dict[str, Any]:
    """Where the directory really lies, whose it is, and what space it has (bytes)."""
    mounted = seen.get(mount_point(instance))
    found: Dict[str, Any] = {
        "path": instance.directory,
        "mounted": mounted is not None,
        "namespaces": namespace_uuids(host, mounted[0]) if mounted else [],
        "uid": None,
        "mode": None,
        "total": None,
        "free": None,
        "problem": "",
    }
    try:
        status = os.lstat(str(host.path(instance.directory)))
        space = os.statvfs(str(host.path(instance.directory)))
        os.listdir(str(host.path(instance.directory)))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return found
    except OSError as error:
        found["problem"] = os.strerror(error.errno or 0)
        return found
    found["uid"] = status.st_uid
    found["mode"] = "%04o" % stat.S_IMODE(status.st_mode)
    found["total"] = space.f_blocks * space.f_frsize
    found["free"] = space.f_bavail * space.f_frsize
    return found


def on_its_namespace(instance: StoreInstance, state: Dict[str, Any]) -> bool:
    """True when the directory's file system is that of the planned namespaces; a local directory may lie anywhere."""
    if not instance.namespace_uuid:
        return True
    wanted = sorted(uuid.lower() for uuid in instance.members)
    return bool(state["mounted"]) and state["namespaces"] == wanted


def change(host: Host, instance: StoreInstance, state: Dict[str, Any], user: str) -> Optional[Change]:
    """Make the directory, or give it back to the service's user; None where it is right already."""
    owner = account(host, user)
    right = owner is not None and state["uid"] == owner.uid and state["mode"] == "%04o" % DIRECTORY_MODE
    if right:
        return None
    before = "absent" if state["uid"] is None else "uid %s, mode %s" % (state["uid"], state["mode"])
    after = "%s, mode %04o" % (user, DIRECTORY_MODE)
    return Change(instance.directory, before, after, lambda: _make(host, instance, user))


def _make(host: Host, instance: StoreInstance, user: str) -> None:
    # Looked at again, right before writing: below an unmounted mount point lies the root file system.
    now = read(host, instance, mounts(host))
    if not on_its_namespace(instance, now):
        raise OSError("%s is not on namespace %s" % (instance.directory, ", ".join(instance.members)))
    owner = account(host, user)
    if owner is None:
        raise OSError("user %s does not exist" % user)
    if not instance.namespace_uuid:
        host.path(mount_point(instance)).mkdir(mode=0o755, parents=True, exist_ok=True)
    host.make_directory(instance.directory)
    path = str(host.path(instance.directory))
    if os.geteuid() == 0:
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
    os.chmod(path, DIRECTORY_MODE)


def finding(instance: StoreInstance, state: Dict[str, Any]) -> Optional[Finding]:
    """What is wrong with where the store would write, or None."""
    if on_its_namespace(instance, state):
        return None
    observed = "not mounted"
    if state["mounted"]:
        observed = "mounted from namespace %s" % (", ".join(state["namespaces"]) or "unknown (not NVMe)")
    return Finding(
        "cache.mount",
        mount_point(instance),
        observed,
        "mounted from namespace %s" % ", ".join(instance.members),
        "g35ctl deploy --only storage; a store never writes to another file system",
    )


def disk_finding(instance: StoreInstance, state: Dict[str, Any]) -> Optional[Finding]:
    """A directory that is there and does not answer: a file system that was shut down after losing its device."""
    if not state["problem"]:
        return None
    return Finding(
        "cache.disk",
        instance.directory,
        state["problem"],
        "a directory that answers",
        "g35ctl doctor; once the SSD is back: g35ctl deploy --only storage, which mounts it again",
    )


def space_finding(instance: StoreInstance, state: Dict[str, Any]) -> Optional[Finding]:
    """Too little room: a store that cannot write still says it is healthy.

    The reserve that the plan leaves is what is judged: half of it gone is a warning; nine tenths of it, or no room for
    two buckets, an error. The file system of a local directory is not the store's alone: there, only room for two
    buckets is asked for.
    """
    total, free = state["total"], state["free"]
    if not total:
        return None
    # A namespace may be larger than the site says; a reserve above half of it was never planned.
    reserve = max(0, min(total - instance.capacity, instance.capacity)) if instance.namespace_uuid else 0
    needed = max(reserve // 10, 2 * instance.bucket_size)
    expected = max(reserve // 2, needed)
    if free >= expected:
        return None
    return Finding(
        "cache.space",
        instance.directory,
        "%d MiB of %d MiB free" % (free >> 20, total >> 20),
        "at least %d MiB free" % (expected >> 20),
        "remove what does not belong to the store, or raise g35_storage.reserve_percent",
        "error" if free < needed else "warning",
    )
