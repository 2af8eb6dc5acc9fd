"""File systems of owned namespaces, and how much of each a store may fill."""

from __future__ import annotations

from ansible.module_utils.g35.plans import Mount, StoragePlan

from g35ctl.plan.context import Context
from g35ctl.site.model import SiteHost, Storage

_MIB = 2**20
_RESERVED_BLOCKS = 32 * _MIB


def plan_storage(context: Context, host: SiteHost) -> StoragePlan | None:
    """The mounts of ``host``, or None when it owns nothing."""
    owned = context.owned.get(host.name, ())
    if not owned and host.name not in context.custody.letting_go:
        return None
    mounts = tuple(
        Mount(item.nqn, item.nsid, item.uuid, item.size, where, context.custody.previous(item.uuid))
        for item in owned
        for where in (mount_point(host.storage, item.uuid),)
    )
    destroy = {str(item) for item in host.storage.destroy}
    return StoragePlan(
        site=context.site.identity.name,
        host=host.name,
        mounts=mounts,
        destroy=tuple(mount.uuid for mount in mounts if mount.uuid in destroy),
    )


def mount_point(storage: Storage, uuid: str) -> str:
    """Where a namespace is mounted: named after its UUID, so that it is the same on whichever host owns it."""
    return f"{storage.mount_root.rstrip('/')}/{uuid}"


def file_system_bytes(size: int) -> int:
    """A cautious estimate of what XFS offers to files on a device of ``size`` bytes.

    Taken off: the log (1/2048 of the device, 64 MiB to 2 GiB), the blocks the kernel holds back (32 MiB) and the
    structures of the allocation groups (1 percent).
    """
    log = min(max(size // 2048, 64 * _MIB), 2048 * _MIB)
    return max(0, size - log - _RESERVED_BLOCKS - size // 100)


def capacity(size: int, reserve_percent: int) -> int:
    """What a store may fill of a device of ``size`` bytes, in whole MiB: its file system without the reserve."""
    return file_system_bytes(size) * (100 - reserve_percent) // 100 // _MIB * _MIB
