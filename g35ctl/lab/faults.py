"""Breaking the lab on purpose, and mending it."""

from __future__ import annotations

import shlex
from typing import Protocol

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab import qemu, qmp, remote
from g35ctl.lab.commands import locked
from g35ctl.lab.network import Network
from g35ctl.lab.paths import LabPaths
from g35ctl.lab.topology import GuestSpec, Rail, Topology

FILL_FILE = ".g35-lab-fill"

# $1 directory, $2 MiB to leave free. df's figure is inexact (reserved and metadata blocks), so when nothing is to be
# left the rest is written until it no longer fits.
_FILL = f"""
set -eu
[ -d "$1" ] || {{ echo "$1 is not a directory" >&2; exit 1; }}
file="$1/{FILL_FILE}"
take=$(($(df --output=avail -k "$1" | tail -n 1) - $2 * 1024))
if [ "$take" -gt 0 ]; then
    fallocate -o "$(stat -c %s "$file" 2>/dev/null || echo 0)" -l "${{take}}KiB" "$file" 2>/dev/null || true
fi
[ "$2" -gt 0 ] || cat /dev/zero 2>/dev/null >>"$file" || true
sync -f "$1"
du -m "$file" | cut -f 1
"""
_UNFILL = f'rm -f "$1/{FILL_FILE}" && sync -f "$1"'


class Guests(Protocol):
    """What faults need of a lab."""

    topology: Topology
    paths: LabPaths
    network: Network

    def start(self, guest: GuestSpec, *, wait_seconds: float = 300.0) -> None: ...

    def require_running(self, guest: GuestSpec) -> None: ...

    def say(self, text: str) -> None: ...


class Faults:
    """Everything that can be done to a guest. Names are those of the topology; unknown ones are a usage error."""

    def __init__(self, lab: Guests) -> None:
        self._lab = lab

    def poweroff(self, guest: str) -> bool:
        """Cut a guest's power without warning. False when it was off already."""
        spec = self._lab.topology.guest(guest)
        with locked(self._lab.paths.lock, what=f"lab {self._lab.topology.name}"):
            return qemu.kill(self._lab.paths.guest(spec.name))

    def start(self, guest: str, *, wait_seconds: float = 300.0) -> None:
        """Power a guest on again and wait until root can log in."""
        self._lab.start(self._lab.topology.guest(guest), wait_seconds=wait_seconds)

    def reboot(self, guest: str, *, wait_seconds: float = 300.0) -> None:
        """Reboot a guest in an orderly way and wait until it is back with a new boot id."""
        spec = self._running(guest)
        before = self._boot_id(spec)
        # The connection may die with the guest before the command reports; the new boot id is the proof, not this.
        remote.ssh(self._lab.paths, spec, ["systemctl", "--no-block", "reboot"], timeout=60)
        self._wait(spec, before, wait_seconds)

    def reset(self, guest: str, *, wait_seconds: float = 300.0) -> None:
        """Press a guest's reset button and wait until it is back with a new boot id."""
        spec = self._running(guest)
        before = self._boot_id(spec)
        qmp.execute(self._lab.paths.guest(spec.name).qmp, "system_reset")
        self._wait(spec, before, wait_seconds)

    def cut_rail(self, guest: str, rail: str, *, carrier: bool = False) -> None:
        """Cut one guest off one rail.

        Packets vanish in silence, as behind a dead switch; with ``carrier`` the guest's NIC loses its link instead.
        """
        spec, chosen = self._running(guest), self._lab.topology.rail(rail)
        if carrier:
            self._set_carrier(spec, chosen, present=False)
        else:
            self._lab.network.set_port(spec, chosen, up=False)

    def restore_rail(self, guest: str, rail: str) -> None:
        """Undo :meth:`cut_rail`, whichever way it was done."""
        spec, chosen = self._running(guest), self._lab.topology.rail(rail)
        self._lab.network.set_port(spec, chosen, up=True)
        self._set_carrier(spec, chosen, present=True)

    def fill(self, guest: str, path: str, *, leave_mib: int = 0) -> int:
        """Fill the file system that holds directory ``path`` of a guest, but for ``leave_mib``; returns MiB taken."""
        done = self._guest_script(self._running(guest), _FILL, path, str(leave_mib))
        return int(done)

    def unfill(self, guest: str, path: str) -> None:
        """Give back what :meth:`fill` took."""
        self._guest_script(self._running(guest), _UNFILL, path)

    def _guest_script(self, guest: GuestSpec, script: str, path: str, *arguments: str) -> str:
        done = remote.ssh(self._lab.paths, guest, ["sh", "-c", script, "sh", path, *arguments], timeout=600)
        if done.returncode != 0:
            raise G35Error(
                f"{path} on {guest.name} could not be worked on",
                why=done.stderr.strip() or f"exit {done.returncode}",
                next_command=f"g35ctl lab ssh {guest.name} -- df {shlex.quote(path)}",
                exit_code=Exit.UNREACHABLE if done.returncode == 255 else Exit.DEPLOY_FAILED,
            )
        return done.stdout.strip()

    def _set_carrier(self, guest: GuestSpec, rail: Rail, *, present: bool) -> None:
        files = self._lab.paths.guest(guest.name)
        qmp.execute(files.qmp, "set_link", {"name": f"nic-rail-{rail.name}", "up": present})
        cut = set(files.carrier_cut.read_text().split()) if files.carrier_cut.exists() else set()
        cut = cut - {rail.name} if present else cut | {rail.name}
        files.carrier_cut.write_text("".join(f"{name}\n" for name in sorted(cut)))

    def _running(self, guest: str) -> GuestSpec:
        spec = self._lab.topology.guest(guest)
        self._lab.require_running(spec)
        return spec

    def _boot_id(self, guest: GuestSpec) -> str:
        found = remote.boot_id(self._lab.paths, guest)
        if found is None:
            raise G35Error(
                f"{guest.name} cannot be logged into",
                why="its boot id is needed to know that it came back",
                next_command="g35ctl lab status",
                exit_code=Exit.UNREACHABLE,
            )
        return found

    def _wait(self, guest: GuestSpec, before: str, seconds: float) -> None:
        remote.wait_for_login(self._lab.paths, [guest], self._lab.say, other_than=before, timeout=seconds)
