"""The lab as one object: bring it up, take it down, look at it, log in, break it.

lab = VmLab("default")
lab.up()
lab.ssh("gpu1", ["ip", "-brief", "address"])
lab.faults.cut_rail("gpu1", "a")
lab.down()
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from g35ctl.content import is_checkout
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab import accel, inventory, prerequisites, qemu, remote, seed
from g35ctl.lab.commands import Say, locked, run
from g35ctl.lab.faults import Faults
from g35ctl.lab.image import Image, cached_image, ensure_image
from g35ctl.lab.network import Network, tap_name
from g35ctl.lab.paths import LabPaths, lab_paths
from g35ctl.lab.status import GuestStatus, LabStatus
from g35ctl.lab.topology import GuestSpec, Topology, default_topology, topology_from_json

FIRST_PORT = 22100
LAST_PORT = 22999


def _talk(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class VmLab:
    """One lab. Its state lives in ``state_dir``; ``say`` receives progress, one line at a time (default: stderr).

    Without ``topology`` it is the one last brought up under that name, else the default one.
    """

    def __init__(
        self,
        name: str = "default",
        *,
        topology: Topology | None = None,
        state_dir: Path | None = None,
        inventory_dir: Path | None = None,
        say: Say = _talk,
    ) -> None:
        self.paths = LabPaths(state_dir.resolve()) if state_dir else lab_paths(topology.name if topology else name)
        self.topology = topology or _remembered(self.paths) or default_topology(name)
        self.network = Network(self.paths.network_namespace, self.topology.rails)
        self._inventory_dir = inventory_dir
        self.say = say
        self.faults = Faults(self)

    @property
    def inventory_path(self) -> Path:
        """The inventory directory ``up`` completes.

        The one asked for, else that of this checkout, else the one completed last, else ``./g35-lab``.
        """
        if self._inventory_dir:
            return self._inventory_dir.resolve()
        completed = [] if is_checkout() else self._completed_inventories()
        return completed[-1] if completed else inventory.default_directory()

    def up(self, *, install_prerequisites: bool = False, wait_seconds: float = 300.0) -> LabStatus:
        """Have every guest running and reachable, and the inventory written.

        Running guests are left alone, dead ones started again. Raises :class:`G35Error` for missing prerequisites
        (exit 4), a build or start that fails (exit 1), or guests that cannot be logged into (exit 5).
        """
        prerequisites.require(self.say, install=install_prerequisites)
        with locked(self.paths.lock, what=f"lab {self.topology.name}"):
            images = {suite: ensure_image(suite, self.say) for suite in self.topology.suites()}
            self._prepare_state()
            self.network.ensure()
            for guest in self.topology.guests:
                if self._needs_start(guest):
                    self._start(guest, images[guest.suite])
            self._write_inventory()
            remote.wait_for_login(self.paths, self.topology.guests, self.say, timeout=wait_seconds)
        return self.status()

    def start(self, guest: GuestSpec, *, wait_seconds: float = 300.0) -> None:
        """Start one dead guest and wait for its login; nothing happens to a running one."""
        with locked(self.paths.lock, what=f"lab {self.topology.name}"):
            self.network.ensure()
            if self._needs_start(guest):
                image = ensure_image(guest.suite, self.say)
                self._prepare_state()
                self._start(guest, image)
                self._write_inventory()
            remote.wait_for_login(self.paths, [guest], self.say, timeout=wait_seconds)

    def down(self, *, purge: bool = False) -> None:
        """End every guest and remove the network; ``purge`` also deletes disks, keys and logs. Ends nothing else."""
        with locked(self.paths.lock, what=f"lab {self.topology.name}"):
            for guest in self._known_guests():
                if qemu.kill(self.paths.guest(guest)):
                    self.say(f"{guest}: off")
            self.network.remove()
            if purge:
                for path in self.paths.root.iterdir():
                    if path != self.paths.lock:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                self.say(f"deleted the disks and keys in {self.paths.root}")

    def status(self) -> LabStatus:
        """Look at processes, network and logins; changes nothing."""
        up = {link.name: link.up for link in self.network.links()} if os.geteuid() == 0 else {}
        reachable = [guest for guest in self.topology.guests if self.running(guest)]
        boots = remote.boot_ids(self.paths, reachable, timeout=20.0)
        guests = tuple(
            self._guest_status(guest, up, login=boots.get(guest.name) is not None) for guest in self.topology.guests
        )
        written = self.inventory_path / inventory.GENERATED
        return LabStatus(
            schema_version=1,
            name=self.topology.name,
            ok=all(guest.login for guest in guests),
            namespace=self.network.namespace if self.network.exists() else None,
            inventory=str(self.inventory_path) if written.exists() else None,
            state=str(self.paths.root),
            guests=guests,
        )

    def ssh(
        self, guest: str, argv: Sequence[str], *, timeout: float = 120.0, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root on a guest and return its outcome, exit code 255 when ssh itself failed."""
        return remote.ssh(self.paths, self.topology.guest(guest), argv, timeout=timeout, stdin=stdin)

    def ssh_argv(self, guest: str, argv: Sequence[str] = (), *, terminal: bool = False) -> list[str]:
        """The ssh command line for a guest, for callers that hand their own terminal over."""
        return remote.ssh_argv(self.paths, self.topology.guest(guest), argv, terminal=terminal)

    def running(self, guest: GuestSpec) -> bool:
        """True when the guest's QEMU runs."""
        return qemu.running_pid(self.paths.guest(guest.name)) is not None

    def require_running(self, guest: GuestSpec) -> None:
        """Raise :class:`G35Error` (exit 5) unless the guest runs."""
        if not self.running(guest):
            raise G35Error(
                f"{guest.name} is not running",
                next_command=f"g35ctl lab fault start {guest.name}",
                exit_code=Exit.UNREACHABLE,
            )

    def _needs_start(self, guest: GuestSpec) -> bool:
        """True for a dead guest, and for one whose taps somebody deleted: those cannot be given back while it runs."""
        if not self.running(guest):
            return True
        if self.network.attached(guest):
            return False
        self.say(f"{guest.name}: its data network was removed from outside, restarting it")
        qemu.kill(self.paths.guest(guest.name))
        return True

    def _guest_status(self, guest: GuestSpec, ports_up: dict[str, bool], *, login: bool) -> GuestStatus:
        files = self.paths.guest(guest.name)
        pid = qemu.running_pid(files)
        cut = {rail.name for rail in self.topology.rails if not ports_up.get(tap_name(guest, rail), True)}
        if pid and files.carrier_cut.exists():
            cut |= set(files.carrier_cut.read_text().split())
        return GuestStatus(
            name=guest.name,
            running=pid is not None,
            pid=pid,
            port=remote.read_port(self.paths, guest) if files.port.exists() else None,
            login=pid is not None and login,
            suite=guest.suite,
            addresses=tuple(self.topology.interface(guest, rail) for rail in self.topology.rails),
            rails_cut=tuple(sorted(cut)),
            console=str(files.console),
        )

    def _known_guests(self) -> list[str]:
        """Guests of the topology and any that an earlier topology left in the state directory."""
        root = self.paths.root / "guests"
        found = {path.name for path in root.iterdir()} if root.is_dir() else set()
        return sorted(found | {guest.name for guest in self.topology.guests})

    def _prepare_state(self) -> None:
        self.paths.root.mkdir(parents=True, exist_ok=True)
        self.paths.root.chmod(0o700)
        self.paths.topology.write_text(self.topology.to_json())
        remote.ensure_key(self.paths.user_key, f"g35ctl lab {self.topology.name}")
        for guest in self.topology.guests:
            files = self.paths.guest(guest.name)
            files.root.mkdir(parents=True, exist_ok=True)
            remote.ensure_key(files.host_key, guest.name)

    def _start(self, guest: GuestSpec, current: Image) -> None:
        files = self.paths.guest(guest.name)
        image = self._root_disk(guest, current)
        for number in range(guest.ssds):
            disk = files.ssd(number)
            if not disk.exists():
                with disk.open("xb") as handle:
                    handle.truncate(self.topology.ssd_mib * 1024 * 1024)
        files.seed.write_bytes(seed.build_seed(self.topology, guest, self.paths))
        files.seed.chmod(0o600)
        accelerator = accel.choose(image, self.say)
        port = self._choose_port(guest)
        files.port.write_text(f"{port}\n")
        taps: list[int] = []
        try:
            for rail in self.topology.rails:
                taps.append(self.network.open_tap(guest, rail))
            argv = qemu.guest_argv(self.topology, guest, files, image, accelerator, port, taps)
            qemu.start(argv, guest, files, taps)
        finally:
            for descriptor in taps:
                os.close(descriptor)
        self.say(f"{guest.name}: started, ssh port {port}, console {files.console}")

    def _root_disk(self, guest: GuestSpec, current: Image) -> Image:
        """The image the guest's overlay stands on; a guest that was installed stays on its own until purged."""
        files = self.paths.guest(guest.name)
        if files.overlay.exists() and files.image_id.exists():
            image_id = files.image_id.read_text().strip()
            image = cached_image(image_id)
            if image is None:
                raise G35Error(
                    f"the disk of {guest.name} stands on an image that is gone",
                    why=f"image {image_id} is not in the cache any more",
                    next_command="g35ctl lab down --purge, then g35ctl lab up (this deletes the lab's disks)",
                )
            if image.image_id != current.image_id:
                self.say(f"{guest.name}: keeps its older image {image_id}; g35ctl lab down --purge renews it")
            return image
        part = files.overlay.with_suffix(".part")
        argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(current.disk), str(part)]
        run(argv, what=f"making the disk of {guest.name}", timeout=60)
        files.image_id.write_text(current.image_id + "\n")
        part.rename(files.overlay)
        return current

    def _choose_port(self, guest: GuestSpec) -> int:
        """The guest's former ssh port if it is free, else the first free one no other guest of the lab has."""
        taken = {
            remote.read_port(self.paths, other)
            for other in self.topology.guests
            if other != guest and self.paths.guest(other.name).port.exists()
        }
        candidates = list(range(FIRST_PORT, LAST_PORT + 1))
        if self.paths.guest(guest.name).port.exists():
            candidates.insert(0, remote.read_port(self.paths, guest))
        for port in candidates:
            if port not in taken and free_port(port):
                return port
        raise G35Error("no free port for ssh", why=f"{FIRST_PORT} to {LAST_PORT} on 127.0.0.1 are all taken")

    def _write_inventory(self) -> None:
        directory = self.inventory_path
        inventory.prepare(directory)
        self.paths.known_hosts.write_text(remote.known_hosts(self.topology, self.paths))
        directories = [*(known for known in self._completed_inventories() if known != directory), directory]
        for known in directories:
            if inventory.write(self.topology, self.paths, known):
                self.say(f"inventory: {known}")
        self.paths.inventory_record.write_text("".join(f"{known}\n" for known in directories))

    def _completed_inventories(self) -> list[Path]:
        """Directories completed before that still are inventories; ports may change, so all are kept current."""
        try:
            lines = self.paths.inventory_record.read_text().splitlines()
        except OSError:
            return []
        return [Path(line) for line in lines if Path(line, "hosts.yml").exists()]


def _remembered(paths: LabPaths) -> Topology | None:
    try:
        return topology_from_json(paths.topology.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise G35Error(
            f"{paths.topology} cannot be read",
            why=str(error),
            next_command="delete it; g35ctl lab up then assumes the default topology",
        ) from error


def free_port(port: int) -> bool:
    """True when nobody listens on that port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((remote.HOST, port))
        except OSError:
            return False
    return True
