"""Stage storage: an XFS on each namespace this host owns, or one over a striped set of them, mounted here and nowhere
else.

Nothing is ever overwritten that g35ctl did not make for exactly this namespace (or set) and site, unless the plan names
the namespaces to be destroyed. Devices are found by subsystem and namespace identifier in sysfs and must carry the
planned UUID; device names mean nothing.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from . import managed, stripe, xfs
from . import storage_leaving as leaving
from .converge import Change, Finding, Stage
from .host import Host
from .marker import Marker, MarkerError, write_marker
from .nvme import read_mounts, read_topology
from .plans import File, Mount, StoragePlan
from .schema import load
from .storage_judging import (
    dead_array,
    is_orphan,
    is_right,
    is_taken_over,
    may_be_overwritten,
    mount_findings,
    obstacles,
)
from .storage_reading import Reading, devices_of, located, probe_marker, read_all, set_state, states_of


def build(host: Host, plan: Dict[str, Any]) -> Stage:
    """The stage for a module. Raises schema.SchemaError."""
    return StorageStage(host, load(StoragePlan, plan))


def boot_stage(host: Host, plan: Dict[str, Any]) -> Stage:
    """The same stage: at boot the units of arrays and mounts do everything by themselves."""
    return build(host, plan)


class StorageStage(Stage):
    """Brings the file systems of a host to its :class:`StoragePlan`."""

    name = "storage"

    def __init__(self, host: Host, plan: StoragePlan) -> None:
        super().__init__(host)
        self.plan = plan
        self._readings: Optional[Tuple[Reading, ...]] = None

    # Reading

    def read(self) -> Dict[str, Any]:
        mounts = read_mounts(self.host)
        stale = leaving.stale_mounts(self.host, self.plan.units, mounts)
        going = leaving.released(self.host, stale)
        found = read_all(self.host, self.plan, read_topology(self.host), mounts, going)
        self._readings = found
        return {
            "mounts": [state for item in found for state in states_of(self.host, item)],
            "sets": [set_state(item) for item in found if item.plan is not None],
            "units": managed.read_units(self.host, self.plan.units),
            "files_differing": [change.what for change in managed.file_changes(self.host, self.plan.files)],
            "stale": stale,
        }

    def _current(self) -> Tuple[Reading, ...]:
        if self._readings is None:
            self.read()
        assert self._readings is not None
        return self._readings

    # Refusing

    def preflight(self) -> List[Finding]:
        """Contents and owners that forbid going on. A device that is not there yet is no obstacle before connect."""
        return [finding for item in self._current() for finding in obstacles(self.host, self.plan, item)]

    # Changing

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        readings = self._current()
        todo = leaving.changes(self.host, state["stale"]) + leaving.rule_changes(self.host, self.plan.files)
        # Before the first superblock is written: whoever sees one assembles the array, see striped.rules.
        rules = [item for item in self.plan.files if _is_rule(item)]
        todo += managed.file_changes(self.host, rules)
        for item in readings:
            todo += self._device_changes(item)
        files = managed.file_changes(self.host, [item for item in self.plan.files if not _is_rule(item)])
        todo += files
        for item in readings:
            todo += self._assembling(item, state)
        todo += managed.unit_changes(self.host, self.plan.units, [change.what for change in files])
        todo += [self._marker_change(item) for item in readings if self._lacks_marker(item)]
        todo += [self._marker_change(item) for item in readings if is_taken_over(self.plan, item)]
        return todo

    def _device_changes(self, item: Reading) -> List[Change]:
        todo: List[Change] = []
        for member in item.members:
            if not member.usable:
                # Said as a change, so that a check before the first connect shows what will come.
                what, why = "namespace %s" % member.mount.uuid, "no device" if not member.namespace else "no live path"
                todo.append(Change(what, why, "connected", _absent(member.mount), check="storage.device"))
        if todo:
            return todo
        if self._must_let_go(item):
            broken = "mounted, but %s" % (item.problem or "its device is gone")
            point = item.mount.mount_point
            todo.append(Change(point, broken, "mounted again", lambda: self._mount_again(item)))
        elif item.plan is not None and item.arrays and item.array is None:
            names = ", ".join("%s (%s)" % (array.name, array.state or "no state") for array in item.arrays)
            todo.append(Change(item.subject, "in pieces: %s" % names, "taken apart", lambda: self._untangle(item)))
        if self._is_to_be_made(item):
            before = item.content.description if item.content.kind != xfs.EMPTY else "empty"
            if item.content.kind == xfs.UNFINISHED:
                before = "an interrupted mkfs of ours"
            after = "XFS %s" % xfs.label_of(item.uuid)
            if item.plan is not None:
                after = "RAID 0 of %d namespaces, %s" % (len(item.members), after)
            todo.append(Change(item.subject, before, after, lambda: self._make(item)))
        return todo

    def _is_to_be_made(self, item: Reading) -> bool:
        return item.content.kind in (xfs.EMPTY, xfs.UNFINISHED) or (
            item.content.kind == xfs.FOREIGN and may_be_overwritten(self.plan, item)
        )

    def _must_let_go(self, item: Reading) -> bool:
        if item.mounted is None:
            return False
        in_pieces = item.array is None and any(array.number == item.mounted.number for array in item.arrays)
        return is_orphan(self.host, item.mounted) or in_pieces or (item.mounted_right and item.problem != "")

    def _make(self, item: Reading) -> None:
        overwrite = item.content.kind != xfs.EMPTY
        if item.plan is None:
            self._format(devices_of(item)[0], item.uuid, overwrite)
            return
        self._take_apart(item)
        used = [
            member.namespace.device
            for member in item.members
            if member.namespace is not None and member.content.kind != xfs.EMPTY
        ]
        stripe.create(self.host, item.plan, devices_of(item), used)
        # What its members held before may look like a file system from inside the array.
        self._format(item.plan.device, item.uuid, True)
        # Its unit is to assemble it: what it did not start, it would not stop before the connections go.
        stripe.stop(self.host, item.plan.device)

    def _format(self, device: str, uuid: str, overwrite: bool) -> None:
        self.host.must(xfs.make_command(device, self.plan.site, uuid, overwrite), timeout=xfs.FORMAT_TIMEOUT)
        # udev learns label and links from the close of the device; mounting by link needs them.
        self.host.run(["udevadm", "settle", "--timeout=30"], timeout=40.0)

    def _take_apart(self, item: Reading) -> None:
        for array in item.arrays:
            stripe.stop(self.host, array.device)

    def _untangle(self, item: Reading) -> None:
        """Take what is left of an array apart, and make sure of the owner before the set is assembled for good."""
        self._take_apart(item)
        if item.content.kind != xfs.OURS:
            return
        now = located(self.host, item, read_topology(self.host), read_mounts(self.host))
        try:
            marker = probe_marker(self.host, now)
        except MarkerError as error:
            raise OSError(str(error)) from error
        if marker is not None and not is_right(self.plan, item, marker):
            raise OSError("%s is marked for host %s of site %s" % (item.subject, marker.owner, marker.site))

    def _assembling(self, item: Reading, state: Dict[str, Any]) -> List[Change]:
        """A unit that says it has assembled its array, where there is none (any more): it has to do it again."""
        if item.plan is None or not item.usable or (item.array is not None and not self._is_to_be_made(item)):
            return []
        if state["units"].get(item.plan.unit, {}).get("ActiveState") != "active" or self._must_let_go(item):
            return []
        return [Change(item.plan.unit, "without its array", "assembled", lambda: self._start_set(item))]

    def _start_set(self, item: Reading) -> None:
        assert item.plan is not None
        self.host.must(["systemctl", "restart", item.plan.unit], timeout=240)
        self.host.must(["systemctl", "start", item.mount.mount_point], timeout=240)

    def _mount_again(self, item: Reading) -> None:
        point = item.mount.mount_point
        # A file system whose device failed cannot always be unmounted in good order; nothing reaches its device anyway.
        if not self.host.run(["umount", point], timeout=60.0).ok:
            self.host.must(["umount", "-l", point])
        if item.plan is not None:
            dead = dead_array(self.host, item.mounted) if item.mounted is not None else None
            if dead is not None:
                stripe.stop(self.host, dead.device)
            self._untangle(item)
            self._start_set(item)
            return
        # systemctl takes the mount point for the name of its unit.
        self.host.must(["systemctl", "start", point], timeout=240)

    def _lacks_marker(self, item: Reading) -> bool:
        # Foreign contents without consent never get here: preflight stops the apply.
        if item.hidden and item.content.kind == xfs.OURS:
            return False  # it could not be looked at yet: the read-back tells
        return item.marker is None and not (item.problem and item.content.kind == xfs.OURS)

    def _marker_change(self, item: Reading) -> Change:
        mount = item.mount
        members = item.plan.members if item.plan is not None else ()
        marker = Marker(self.plan.site, self.plan.host, item.uuid, mount.nqn, namespaces=members)

        def mark() -> None:
            # Into the mounted file system and nowhere else: an unmounted directory would take the file as well.
            if not located(self.host, item, read_topology(self.host), read_mounts(self.host)).mounted_right:
                raise OSError("%s is not mounted from %s" % (mount.mount_point, item.subject))
            write_marker(self.host, mount.mount_point, marker)
            if previous:
                leaving.settle(self.host, mount.mount_point)

        previous = item.marker.owner if item.marker is not None else ""
        before = "owner %s" % previous if previous else "absent"
        return Change("marker in %s" % mount.mount_point, before, "owner %s" % self.plan.host, mark)

    # Judging

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        found: List[Finding] = []
        for item in self._current():
            blocked = obstacles(self.host, self.plan, item)
            found += blocked or mount_findings(self.host, self.plan, item)
        found += leaving.findings(state["stale"])
        found += [
            Finding("storage.file", path, "absent or differs", "as planned", "run the deploy")
            for path in state["files_differing"]
        ]
        return found + managed.unit_findings(self.host, self.plan.units, "storage.unit")

    # Leaving

    def draining(self, state: Dict[str, Any]) -> List[Change]:
        todo: List[Change] = []
        for unit in reversed(self.plan.units):
            if state["units"].get(unit.name, {}).get("ActiveState") == "active":
                before, after = ("mounted", "unmounted") if unit.name.endswith(".mount") else ("assembled", "stopped")
                todo.append(
                    Change(unit.name, before, after, lambda name=unit.name: self._stop(name))  # type: ignore[misc]
                )
        return todo

    def letting_go(self, state: Dict[str, Any]) -> List[Change]:
        return leaving.changes(self.host, state["stale"]) + leaving.rule_changes(self.host, self.plan.files)

    def _stop(self, name: str) -> None:
        self.host.must(["systemctl", "stop", name], timeout=240)

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """Unmount, take arrays apart, disable and remove the units. What is on the namespaces stays."""
        gone = leaving.changes(self.host, state["stale"]) + leaving.rule_changes(self.host, self.plan.files)
        return gone + managed.removal_changes(self.host, self.plan.files, self.plan.units)


def _is_rule(item: File) -> bool:
    return item.path.startswith("/etc/udev/")


def _absent(mount: Mount) -> Any:
    def fail() -> None:
        raise OSError(
            "no device with a live path for %s nsid %d: connect it first (g35ctl deploy --only connect)"
            % (mount.nqn, mount.nsid)
        )

    return fail
