"""File systems of owned namespaces, and how much of each a store may fill."""

from __future__ import annotations

from ansible.module_utils.g35.plans import Mount, StoragePlan, StripedSet

from g35ctl.plan.context import Context
from g35ctl.plan.stripes import Volume
from g35ctl.site.model import SiteHost, Storage

_MIB = 2**20
_RESERVED_BLOCKS = 32 * _MIB


def plan_storage(context: Context, host: SiteHost) -> StoragePlan | None:
    """The mounts of ``host``, or None when it owns nothing."""
    if host.name not in context.owned and host.name not in context.custody.letting_go:
        return None
    mounts: list[Mount] = []
    sets: list[StripedSet] = []
    for volume in context.volumes.get(host.name, ()):
        where = mount_point(host.storage, volume.uuid)
        stripe = volume.uuid if volume.striped else ""
        if stripe:
            sets.append(StripedSet(stripe, volume.every, where, host.storage.chunk_size))
        mounts += [
            Mount(item.nqn, item.nsid, item.uuid, item.size, where, context.custody.previous(item.uuid), stripe)
            for item in volume.members
        ]
    destroy = {str(item) for item in host.storage.destroy}
    return StoragePlan(
        site=context.site.identity.name,
        host=host.name,
        mounts=tuple(mounts),
        destroy=tuple(mount.uuid for mount in mounts if mount.uuid in destroy),
        sets=tuple(sets),
    )


def mount_point(storage: Storage, uuid: str) -> str:
    """Where a namespace or a striped set is mounted: named after its UUID, so that it is the same on whichever host
    owns it."""
    return f"{storage.mount_root.rstrip('/')}/{uuid}"


def member_bytes(size: int, chunk_size: int) -> int:
    """What a member of ``size`` bytes adds to a striped set.

    Taken off: the room before the data (at most 1/512 and 4 MiB, and never more than 132 MiB: mdadm leaves 1/1024, but
    no more than 128 MiB), and what is less than a chunk.
    """
    return max(0, size - min(size // 512, 128 * _MIB) - 4 * _MIB) // chunk_size * chunk_size


def file_system_bytes(size: int) -> int:
    """A cautious estimate of what XFS offers to files on a device of ``size`` bytes.

    Taken off: the log (1/2048 of the device, 64 MiB to 2 GiB), the blocks the kernel holds back (32 MiB) and the
    structures of the allocation groups (1 percent).
    """
    log = min(max(size // 2048, 64 * _MIB), 2048 * _MIB)
    return max(0, size - log - _RESERVED_BLOCKS - size // 100)


def volume_bytes(volume: Volume, chunk_size: int) -> int:
    """Size of the block device that a store's file system lies on, bytes; of a set a cautious estimate, 0 where a part
    of it is missing."""
    if not volume.striped:
        return volume.members[0].size
    return 0 if volume.lost else sum(member_bytes(item.size, chunk_size) for item in volume.members)


def capacity(size: int, reserve_percent: int) -> int:
    """What a store may fill of a device of ``size`` bytes, in whole MiB: its file system without the reserve."""
    return file_system_bytes(size) * (100 - reserve_percent) // 100 // _MIB * _MIB
