"""What stage storage reads of each planned file system: its devices, what is on them, where it is mounted, whose mark
it carries. A file system lies on one namespace, or on a striped set of several."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import stripe, xfs
from .host import Host
from .marker import Marker, MarkerError, read_marker
from .nvme import Controller, MountEntry, Namespace, Topology, users_of
from .plans import Mount, StoragePlan, StripedSet

PROBE = "/run/g35/probe"
_NOTHING = xfs.Content("absent", "no device")


@dataclass(frozen=True)
class Member:
    """One planned namespace as it is. ``content`` is what it holds by itself; of an assembled set it is not read."""

    mount: Mount
    namespace: Optional[Namespace]
    live: Tuple[Controller, ...]
    content: xfs.Content = _NOTHING

    @property
    def usable(self) -> bool:
        """Whether it is the planned namespace and can be read without waiting for its paths."""
        return self.namespace is not None and self.namespace.uuid == self.mount.uuid.lower() and bool(self.live)


@dataclass(frozen=True)
class Reading:
    """One planned file system as it is. ``problem`` is why its contents or its marker could not be read; ``arrays`` are
    the md devices that hold members of a set, ``lost`` members of it that the plan does not have."""

    members: Tuple[Member, ...]
    plan: Optional[StripedSet]
    content: xfs.Content
    mounted: Optional[MountEntry]
    users: Tuple[str, ...]
    marker: Optional[Marker]
    problem: str = ""
    arrays: Tuple[stripe.Array, ...] = ()
    lost: Tuple[str, ...] = ()

    @property
    def mount(self) -> Mount:
        return self.members[0].mount

    @property
    def uuid(self) -> str:
        """What label, file system and marker are derived from: the namespace, or the set."""
        return self.plan.uuid if self.plan is not None else self.mount.uuid

    @property
    def subject(self) -> str:
        return "striped set %s" % self.uuid if self.plan is not None else "namespace %s" % self.uuid

    @property
    def present(self) -> bool:
        """Whether every device is there and is the planned one."""
        return not self.lost and all(
            item.namespace is not None and item.namespace.uuid == item.mount.uuid.lower() for item in self.members
        )

    @property
    def usable(self) -> bool:
        """Whether every device is there with a live path."""
        return not self.lost and all(item.usable for item in self.members)

    @property
    def array(self) -> Optional[stripe.Array]:
        """The assembled array of all members and nothing else, in service."""
        names = {item.namespace.name for item in self.members if item.namespace is not None}
        for item in self.arrays:
            if set(item.members) == names and len(names) == len(self.members) and item.state in stripe.SERVING:
                return item
        return None

    @property
    def hidden(self) -> bool:
        """Whether the marker cannot be looked at: what is left of an array keeps the set from being assembled."""
        return self.plan is not None and self.array is None and (bool(self.arrays) or self.mounted is not None)

    @property
    def device(self) -> Union[Namespace, stripe.Array, None]:
        """The block device of the file system, or None while it cannot be there."""
        if self.plan is not None:
            return self.array
        found = self.members[0].namespace
        return found if found is not None and self.present else None

    @property
    def mounted_right(self) -> bool:
        device = self.device
        return (
            self.mounted is not None
            and device is not None
            and self.mounted.number == device.number
            and self.mounted.file_system == "xfs"
        )

    @property
    def previous_owners(self) -> Tuple[str, ...]:
        """Owners whose mark may be replaced."""
        return tuple(dict.fromkeys(name for item in self.members for name in item.mount.previous_owners))


def read_all(
    host: Host,
    plan: StoragePlan,
    topology: Topology,
    mounts: Tuple[MountEntry, ...],
    released: Sequence[str] = (),
) -> Tuple[Reading, ...]:
    """Every planned file system, in the order of the plan's mounts. Users in ``released`` are about to go."""
    sets = {item.uuid: item for item in plan.sets}
    groups: Dict[str, List[Mount]] = {}
    for mount in plan.mounts:
        groups.setdefault(mount.stripe or mount.uuid, []).append(mount)
    found = []
    for key, items in groups.items():
        striped = sets.get(key)
        members = tuple(Member(item, None, ()) for item in _ordered(items, striped))
        known = {item.uuid for item in items}
        lost = tuple(item for item in striped.members if item not in known) if striped is not None else ()
        blank = Reading(members, striped, _NOTHING, None, (), None, lost=lost)
        found.append(_read(host, plan, located(host, blank, topology, mounts), mounts, released))
    return tuple(found)


def located(host: Host, item: Reading, topology: Topology, mounts: Tuple[MountEntry, ...]) -> Reading:
    """Where a planned file system's devices and its mount are now; nothing on them is read."""
    members = tuple(
        Member(
            one.mount,
            topology.namespace(one.mount.nqn, one.mount.nsid),
            topology.live_controllers(one.mount.nqn, one.mount.nsid),
        )
        for one in item.members
    )
    here = [entry for entry in mounts if entry.mount_point == item.mount.mount_point]
    found = Reading(members, item.plan, _NOTHING, here[-1] if here else None, (), None, lost=item.lost)
    return replace(found, arrays=_own_arrays(host, found)) if item.plan is not None else found


def _read(
    host: Host, plan: StoragePlan, bare: Reading, mounts: Tuple[MountEntry, ...], released: Sequence[str]
) -> Reading:
    if not bare.present:
        return bare
    bare = replace(bare, users=tuple(user for user in _users(host, bare, mounts) if user not in released))
    if not bare.usable:
        # Reading would wait for the paths; what is on the device is not the question now.
        return replace(bare, problem="no live path")
    seen = _with_contents(host, plan, bare)
    marker, problem = None, ""
    try:
        if _at_home(seen):
            marker = read_marker(host, seen.mount.mount_point)
        elif seen.content.kind == xfs.OURS and not seen.users and not seen.hidden:
            marker = probe_marker(host, seen)
    except (OSError, MarkerError) as error:
        problem = str(error)
    return replace(seen, marker=marker, problem=problem)


def _at_home(item: Reading) -> bool:
    return item.mounted is not None and item.device is not None and item.mounted.number == item.device.number


def _ordered(items: Sequence[Mount], striped: Optional[StripedSet]) -> List[Mount]:
    """Mounts in the order of the array."""
    if striped is None:
        return list(items)
    places = {uuid: place for place, uuid in enumerate(striped.members)}
    return sorted(items, key=lambda item: places.get(item.uuid, len(places)))


def _own_arrays(host: Host, item: Reading) -> Tuple[stripe.Array, ...]:
    """Arrays that consist of members of this set, however complete; one that holds anything else is a stranger."""
    names = [member.namespace.name for member in item.members if member.namespace is not None]
    return tuple(
        array
        for array in stripe.arrays_on(host, names)
        # What is gone for good is no stranger: the array kept the name of a device that the kernel gave up.
        if all(name in names or not host.exists("/sys/block/%s" % name) for name in array.members)
    )


def _users(host: Host, item: Reading, mounts: Tuple[MountEntry, ...]) -> Tuple[str, ...]:
    """What uses the devices besides the planned mount and the set itself."""
    own = {"/dev/%s" % array.name for array in item.arrays}
    used = [
        user
        for member in item.members
        if member.namespace is not None
        for user in users_of(host, member.namespace, mounts)
        if user not in own
    ]
    for array in item.arrays:
        used += ["/dev/%s" % name for name in host.list("/sys/block/%s/holders" % array.name)]
        used += [entry.mount_point for entry in mounts if entry.number and entry.number == array.number]
    return tuple(user for user in dict.fromkeys(used) if user != item.mount.mount_point)


def _with_contents(host: Host, plan: StoragePlan, item: Reading) -> Reading:
    device = item.device
    if device is not None:
        content = xfs.read_content(host, device.device, plan.site, item.uuid, device.size)
        if item.plan is not None and content.kind == xfs.EMPTY:
            # Making it was cut off between the array and its file system.
            content = xfs.Content(xfs.UNFINISHED, "an array without a file system")
        return replace(item, content=content)
    assert item.plan is not None
    devices = {
        member.mount.uuid: (member.namespace.device, member.namespace.size)
        for member in item.members
        if member.namespace is not None
    }
    seen = stripe.read_contents(host, plan.site, item.plan, devices)
    members = tuple(_member_with(member, seen.members) for member in item.members)
    return replace(item, content=seen.whole, members=members)


def _member_with(item: Member, contents: Mapping[str, xfs.Content]) -> Member:
    return Member(item.mount, item.namespace, item.live, contents[item.mount.uuid])


def devices_of(item: Reading) -> List[str]:
    """The devices of a file system in their order; those that are not there are left out."""
    return [member.namespace.device for member in item.members if member.namespace is not None]


def probe_marker(host: Host, item: Reading) -> Optional[Marker]:
    """Read the marker before anything is mounted for good; neither the log nor anything else is touched. Raises OSError
    and MarkerError."""
    assert item.members[0].namespace is not None
    device, assembled = item.members[0].namespace.device, False
    if item.plan is not None:
        device = item.array.device if item.array is not None else item.plan.device
        if item.array is None:
            told = host.run(stripe.assemble_command(item.plan, devices_of(item)), timeout=stripe.COMMAND_TIMEOUT)
            if not told.ok:
                raise OSError(told.explain())
            assembled = True
    folder = "%s-%s" % (PROBE, item.members[0].namespace.name)
    try:
        host.path(folder).mkdir(parents=True, exist_ok=True)
        options = "ro,norecovery,nosuid,nodev,noexec"
        mounted = host.run(["mount", "-t", "xfs", "-o", options, device, folder], timeout=180.0)
        try:
            if not mounted.ok:
                raise OSError(mounted.explain())
            return read_marker(host, folder)
        finally:
            if mounted.ok:
                host.run(["umount", folder], timeout=180.0)
            host.path(folder).rmdir()
    finally:
        if assembled:
            host.run(["udevadm", "settle", "--timeout=30"], timeout=40.0)
            host.run(["mdadm", "--stop", device], timeout=stripe.COMMAND_TIMEOUT)


def states_of(host: Host, item: Reading) -> List[Dict[str, Any]]:
    """A reading as plain data, once for each of its namespaces. ``capacity`` and ``available`` are the file system's,
    bytes, 0 while it is not mounted."""
    capacity = available = 0
    if item.mounted_right and not item.problem:
        numbers = os.statvfs(str(host.path(item.mount.mount_point)))
        capacity, available = numbers.f_blocks * numbers.f_frsize, numbers.f_bavail * numbers.f_frsize
    found = []
    for member in item.members:
        state: Dict[str, Any] = asdict(member.mount)
        content = member.content if member.content.kind != "absent" else item.content
        state.update(
            {
                "device": member.namespace.device if member.namespace else "",
                "device_uuid": member.namespace.uuid if member.namespace else "",
                "device_size": member.namespace.size if member.namespace else 0,
                "multipath": bool(member.namespace and member.namespace.multipath),
                "content": content.kind,
                "description": content.description,
                "mounted": item.mounted_right,
                "live_paths": [
                    {
                        "controller": one.name,
                        "transport": one.transport,
                        "address": one.address,
                        "source_address": one.source_address,
                    }
                    for one in member.live
                ],
                "used_by": list(item.users),
                "marker": asdict(item.marker) if item.marker else None,
                "capacity": capacity,
                "available": available,
            }
        )
        found.append(state)
    return found


def set_state(item: Reading) -> Dict[str, Any]:
    """A striped set as plain data: what was planned, and its array as sysfs has it (``array`` is None while it is not
    assembled)."""
    assert item.plan is not None
    return {
        **asdict(item.plan),
        "name": item.plan.name,
        "content": item.content.kind,
        "description": item.content.description,
        "mounted": item.mounted_right,
        "lost": list(item.lost),
        "array": asdict(item.array) if item.array is not None else None,
        "fragments": [asdict(array) for array in item.arrays if array is not item.array],
    }
