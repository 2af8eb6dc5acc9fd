"""Stage storage: an XFS on each namespace this host owns, mounted here and nowhere else.

Nothing is ever overwritten that g35ctl did not make for exactly this namespace and site, unless the plan names the
namespace to be destroyed. The device is found by subsystem and namespace identifier in sysfs and must carry the
planned UUID; device names mean nothing.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from . import managed, xfs
from . import storage_leaving as leaving
from .converge import Change, Finding, Stage
from .host import Host
from .marker import Marker, MarkerError, read_marker, same_owner, write_marker
from .nvme import Controller, MountEntry, Namespace, read_mounts, read_topology, users_of
from .plans import Mount, StoragePlan
from .schema import load
from .storage_reading import Reading, state_of

PROBE = "/run/g35/probe"
#: a namespace smaller than planned by more than this share is told; sizes in inventories are round
_SIZE_TOLERANCE = 0.02


def build(host: Host, plan: Dict[str, Any]) -> Stage:
    """The stage for a module. Raises schema.SchemaError."""
    return StorageStage(host, load(StoragePlan, plan))


def boot_stage(host: Host, plan: Dict[str, Any]) -> Stage:
    """The same stage: at boot the mount units do everything by themselves."""
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
        topology, mounts = read_topology(self.host), read_mounts(self.host)
        found: List[Reading] = []
        for mount in self.plan.mounts:
            namespace = topology.namespace(mount.nqn, mount.nsid)
            here = [item for item in mounts if item.mount_point == mount.mount_point]
            live = topology.live_controllers(mount.nqn, mount.nsid)
            found.append(self._reading(mount, namespace, live, here[-1] if here else None, mounts))
        self._readings = tuple(found)
        return {
            "mounts": [state_of(self.host, item) for item in found],
            "units": managed.read_units(self.host, self.plan.units),
            "files_differing": [change.what for change in managed.file_changes(self.host, self.plan.files)],
            "stale": leaving.stale_mounts(self.host, self.plan.units, mounts),
        }

    def _reading(
        self,
        mount: Mount,
        namespace: Optional[Namespace],
        live: Tuple[Controller, ...],
        mounted: Optional[MountEntry],
        mounts: Tuple[MountEntry, ...],
    ) -> Reading:
        nothing = xfs.Content("absent", "no device")
        if namespace is None or namespace.uuid != mount.uuid.lower():
            return Reading(mount, namespace, live, nothing, mounted, (), None)
        users = tuple(item for item in users_of(self.host, namespace, mounts) if item != mount.mount_point)
        at_home = mounted is not None and mounted.number == namespace.number
        if not live:
            # Reading would wait for the paths; what is on the device is not the question now.
            return Reading(mount, namespace, live, nothing, mounted, users, None, "no live path")
        content = xfs.read_content(self.host, namespace.device, self.plan.site, mount.uuid, namespace.size)
        marker, problem = None, ""
        try:
            if at_home:
                marker = read_marker(self.host, mount.mount_point)
            elif content.kind == xfs.OURS and not users:
                marker = self._probe(namespace)
        except (OSError, MarkerError) as error:
            problem = str(error)
        return Reading(mount, namespace, live, content, mounted, users, marker, problem)

    def _probe(self, namespace: Namespace) -> Optional[Marker]:
        """Read the marker before anything is mounted for good; neither the log nor anything else is touched."""
        folder = "%s-%s" % (PROBE, namespace.name)
        self.host.path(folder).mkdir(parents=True, exist_ok=True)
        mounted = self.host.run(
            ["mount", "-t", "xfs", "-o", "ro,norecovery,nosuid,nodev,noexec", namespace.device, folder], timeout=180.0
        )
        try:
            if not mounted.ok:
                raise OSError(mounted.explain())
            return read_marker(self.host, folder)
        finally:
            if mounted.ok:
                self.host.run(["umount", folder], timeout=180.0)
            self.host.path(folder).rmdir()

    def _current(self) -> Tuple[Reading, ...]:
        if self._readings is None:
            self.read()
        assert self._readings is not None
        return self._readings

    # Refusing

    def preflight(self) -> List[Finding]:
        """Contents and owners that forbid going on. A device that is not there yet is no obstacle before connect."""
        found: List[Finding] = []
        for item in self._current():
            found += self._obstacles(item)
        return found

    def _obstacles(self, item: Reading) -> List[Finding]:
        mount, found = item.mount, []  # type: Mount, List[Finding]
        if item.namespace is None:
            return found
        subject = "%s nsid %d (%s)" % (mount.nqn, mount.nsid, item.namespace.device)
        if item.namespace.uuid != mount.uuid.lower():
            observed = "UUID %s" % (item.namespace.uuid or "none")
            remedy = "correct the UUID in g35_ebof.namespaces, or export the right SSD under this NQN"
            return [Finding("storage.device", subject, observed, "UUID %s" % mount.uuid, remedy)]
        if item.content.kind == xfs.FOREIGN and mount.uuid not in self.plan.destroy:
            found.append(
                Finding(
                    "storage.content",
                    subject,
                    "holds %s, which g35ctl did not make for this namespace and site" % item.content.description,
                    "empty, or the XFS %s of this site" % xfs.label_of(mount.uuid),
                    "look at it (blkid -p %s); if it may be destroyed for good, name it:"
                    " g35_storage.destroy: [%s]" % (item.namespace.device, mount.uuid),
                )
            )
        if item.content.kind == xfs.UNREADABLE:
            found.append(
                Finding(
                    "storage.content",
                    subject,
                    item.content.description,
                    "a readable device",
                    "check the SSD and its paths; kernel log: dmesg | grep %s" % item.namespace.name,
                )
            )
        if item.users:
            found.append(
                Finding(
                    "storage.in_use",
                    subject,
                    "used by %s" % ", ".join(item.users),
                    "mounted at %s only" % mount.mount_point,
                    "unmount or detach it there first",
                )
            )
        if item.mounted is not None and item.mounted.number != item.namespace.number and not self._orphan(item.mounted):
            found.append(
                Finding(
                    "storage.mount",
                    mount.mount_point,
                    "%s (%s) is mounted there" % (item.mounted.source, item.mounted.file_system),
                    "%s" % item.namespace.device,
                    "unmount it, or choose another g35_storage.mount_root",
                )
            )
        if item.namespace.size < xfs.SMALLEST:
            observed = "%d bytes" % item.namespace.size
            found.append(Finding("storage.size", subject, observed, "at least 300 MiB", "use a larger namespace"))
        return found + self._owner_findings(item)

    def _orphan(self, entry: MountEntry) -> bool:
        """A mount whose NVMe device is gone: what is left after all paths were lost for good."""
        name = entry.source.rpartition("/")[2]
        return entry.source.startswith("/dev/nvme") and not self.host.exists("/sys/block/%s" % name)

    def _owner_findings(self, item: Reading) -> List[Finding]:
        marker = item.marker
        if item.problem and item.content.kind == xfs.OURS and not item.mounted_right:
            # Without its marker nobody knows whose it is.
            remedy = "check the file system: xfs_repair -n %s" % (item.namespace.device if item.namespace else "DEVICE")
            return [Finding("storage.marker", item.mount.mount_point, item.problem, "a readable marker", remedy)]
        if marker is None or same_owner(marker, self.plan.site, self.plan.host, item.mount.uuid):
            return []
        if self._is_taken_over(item):
            return []
        return [
            Finding(
                "storage.owner",
                "%s (%s)" % (item.mount.mount_point, item.mount.uuid),
                "marked for host %s of site %s, namespace %s" % (marker.owner, marker.site, marker.namespace),
                "host %s of site %s, namespace %s" % (self.plan.host, self.plan.site, item.mount.uuid),
                "give it back to %s (g35_storage.owns), or move it on purpose" % marker.owner,
            )
        ]

    def _is_taken_over(self, item: Reading) -> bool:
        """Whether the mark is that of a host the plan says the namespace comes from."""
        marker, uuid = item.marker, item.mount.uuid
        return marker is not None and any(
            same_owner(marker, self.plan.site, name, uuid) for name in item.mount.previous_owners
        )

    # Changing

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        readings = self._current()
        todo = leaving.changes(self.host, state["stale"])
        for item in readings:
            todo += self._device_changes(item)
        files = managed.file_changes(self.host, self.plan.files)
        todo += files + managed.unit_changes(self.host, self.plan.units, [change.what for change in files])
        todo += [self._marker_change(item) for item in readings if self._lacks_marker(item)]
        todo += [self._marker_change(item) for item in readings if self._is_taken_over(item)]
        return todo

    def _device_changes(self, item: Reading) -> List[Change]:
        mount, todo = item.mount, []  # type: Mount, List[Change]
        if item.namespace is None or not item.live:
            # Said as a change, so that a check before the first connect shows what will come.
            what, why = "namespace %s" % mount.uuid, "no device" if item.namespace is None else "no live path"
            return [Change(what, why, "connected", lambda: self._absent(mount), check="storage.device")]
        if item.mounted is not None and self._must_let_go(item):
            broken = "mounted, but %s" % (item.problem or "its device is gone")
            todo.append(Change(mount.mount_point, broken, "mounted again", lambda: self._mount_again(mount)))
        if item.content.kind in (xfs.EMPTY, xfs.UNFINISHED) or (
            item.content.kind == xfs.FOREIGN and mount.uuid in self.plan.destroy
        ):
            overwrite = item.content.kind != xfs.EMPTY
            before = item.content.description if overwrite else "empty"
            if item.content.kind == xfs.UNFINISHED:
                before = "an interrupted mkfs of ours"
            device = item.namespace.device
            todo.append(
                Change(
                    "namespace %s" % mount.uuid,
                    before,
                    "XFS %s" % xfs.label_of(mount.uuid),
                    lambda: self._format(device, mount, overwrite),
                )
            )
        return todo

    def _must_let_go(self, item: Reading) -> bool:
        if item.mounted is None:
            return False
        return self._orphan(item.mounted) or (item.mounted_right and item.problem != "")

    def _absent(self, mount: Mount) -> None:
        raise OSError(
            "no device with a live path for %s nsid %d: connect it first (g35ctl deploy --only connect)"
            % (mount.nqn, mount.nsid)
        )

    def _format(self, device: str, mount: Mount, overwrite: bool) -> None:
        self.host.must(xfs.make_command(device, self.plan.site, mount.uuid, overwrite), timeout=xfs.FORMAT_TIMEOUT)
        # udev learns label and links from the close of the device; mounting by link needs them.
        self.host.run(["udevadm", "settle", "--timeout=30"], timeout=40.0)

    def _mount_again(self, mount: Mount) -> None:
        # A file system whose device failed cannot always be unmounted in good order; nothing reaches its device anyway.
        if not self.host.run(["umount", mount.mount_point], timeout=60.0).ok:
            self.host.must(["umount", "-l", mount.mount_point])
        # systemctl takes the mount point for the name of its unit.
        self.host.must(["systemctl", "start", mount.mount_point], timeout=240)

    def _lacks_marker(self, item: Reading) -> bool:
        # Foreign contents without consent never get here: preflight stops the apply.
        return item.marker is None and not (item.problem and item.content.kind == xfs.OURS)

    def _marker_change(self, item: Reading) -> Change:
        mount = item.mount
        marker = Marker(self.plan.site, self.plan.host, mount.uuid, mount.nqn)

        def mark() -> None:
            # Into the mounted file system and nowhere else: an unmounted directory would take the file as well.
            entries = [entry for entry in read_mounts(self.host) if entry.mount_point == mount.mount_point]
            namespace = read_topology(self.host).namespace(mount.nqn, mount.nsid)
            if not entries or namespace is None or entries[-1].number != namespace.number:
                raise OSError("%s is not mounted from namespace %s" % (mount.mount_point, mount.uuid))
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
            found += self._obstacles(item)
            if not self._obstacles(item):
                found += self._mount_findings(item)
        found += leaving.findings(state["stale"])
        found += [
            Finding("storage.file", path, "absent or differs", "as planned", "run the deploy")
            for path in state["files_differing"]
        ]
        return found + managed.unit_findings(self.host, self.plan.units, "storage.unit")

    def _mount_findings(self, item: Reading) -> List[Finding]:
        mount = item.mount
        if item.namespace is None or not item.live:
            observed = "no device" if item.namespace is None else "%s has no live path" % item.namespace.device
            subject = "%s nsid %d" % (mount.nqn, mount.nsid)
            remedy = "connect it (g35ctl deploy --only connect), then run the deploy again"
            return [Finding("storage.device", subject, observed, "a device with live paths", remedy)]
        if not item.mounted_right:
            remedy = "run the deploy; see: systemctl status %s" % mount.mount_point
            return [Finding("storage.mount", mount.mount_point, "not mounted", "XFS of %s" % mount.uuid, remedy)]
        found: List[Finding] = []
        if item.problem:
            # EIO here is how a file system that XFS shut down after losing its device looks.
            remedy = "run the deploy: it mounts the file system again"
            found.append(Finding("storage.mount", mount.mount_point, item.problem, "a working file system", remedy))
        elif item.marker is None:
            found.append(
                Finding("storage.marker", mount.mount_point, "absent", "owner %s" % self.plan.host, "run the deploy")
            )
        if not item.namespace.multipath:
            remedy = "switch native multipath on (see connect.multipath)"
            found.append(Finding("storage.multipath", item.namespace.device, "one path only", "multipath", remedy))
        if item.namespace.size < mount.size * (1 - _SIZE_TOLERANCE):
            observed = "%d bytes" % item.namespace.size
            remedy = "correct the size in g35_ebof.namespaces"
            found.append(
                Finding("storage.size", item.namespace.device, observed, "%d bytes" % mount.size, remedy, "warning")
            )
        return found

    # Leaving

    def draining(self, state: Dict[str, Any]) -> List[Change]:
        todo: List[Change] = []
        for unit in reversed(self.plan.units):
            if state["units"].get(unit.name, {}).get("ActiveState") == "active":
                todo.append(
                    Change(unit.name, "mounted", "unmounted", lambda name=unit.name: self._stop(name))  # type: ignore[misc]
                )
        return todo

    def letting_go(self, state: Dict[str, Any]) -> List[Change]:
        return leaving.changes(self.host, state["stale"])

    def _stop(self, name: str) -> None:
        self.host.must(["systemctl", "stop", name], timeout=240)

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """Unmount, disable and remove the units. What is on the namespaces stays."""
        return leaving.changes(self.host, state["stale"]) + managed.removal_changes(
            self.host, self.plan.files, self.plan.units
        )
