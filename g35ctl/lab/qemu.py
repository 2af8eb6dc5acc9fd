"""QEMU processes: the command line of a guest, its start, and proof that a process is that guest before it is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.lab.commands import run
from g35ctl.lab.image import Image
from g35ctl.lab.paths import GuestPaths
from g35ctl.lab.topology import GuestSpec, Topology

BINARY = "qemu-system-x86_64"
SEED_NAME = "opt/g35lab/seed"


@dataclass(frozen=True)
class Accelerator:
    """How guests are executed: QEMU's ``-accel`` and ``-cpu`` arguments, and why they were chosen."""

    accel: str
    cpu: str
    reason: str

    @property
    def emulated(self) -> bool:
        """True when every instruction is translated: some twenty times slower than the machine itself."""
        return self.accel.startswith("tcg")


def guest_argv(
    topology: Topology,
    guest: GuestSpec,
    paths: GuestPaths,
    image: Image,
    accelerator: Accelerator,
    port: int,
    tap_descriptors: Sequence[int],
) -> list[str]:
    """The whole command line of one guest. ``tap_descriptors`` follow the order of the topology's rails."""
    kernel_arguments = " ".join(
        (
            "root=/dev/vda rw console=ttyS0 loglevel=4 net.ifnames=0 no5lvl mitigations=off audit=0 apparmor=0",
            "random.trust_cpu=on panic=10",
            f"systemd.machine_id={topology.machine_id(guest)} systemd.show_status=false",
        )
    )
    argv = [BINARY, "-name", f"guest={topology.name}/{guest.name}", "-nodefaults", "-no-user-config"]
    argv += ["-display", "none", "-daemonize", "-pidfile", str(paths.pid)]
    argv += ["-machine", "q35", "-accel", accelerator.accel, "-cpu", accelerator.cpu]
    argv += ["-smp", str(guest.vcpus), "-m", f"{guest.memory_mib}M", "-uuid", topology.system_uuid(guest)]
    argv += ["-rtc", "base=utc", "-device", "virtio-rng-pci,addr=0x8"]
    argv += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", kernel_arguments]
    argv += ["-fw_cfg", f"name={SEED_NAME},file={_escaped(paths.seed)}"]
    argv += ["-chardev", f"file,id=console,path={_escaped(paths.console)},append=on", "-serial", "chardev:console"]
    # Relative on purpose: QEMU is started in the guest's directory, and a socket address holds 107 bytes only.
    argv += ["-qmp", f"unix:{paths.qmp.name},server=on,wait=off"]
    argv += ["-drive", f"if=none,id=root,format=qcow2,cache=writeback,discard=unmap,file={_escaped(paths.overlay)}"]
    argv += ["-device", "virtio-blk-pci,drive=root,addr=0x3"]
    # restrict=on: the guest can reach nothing through this network, it can only be reached, from this machine alone.
    argv += ["-netdev", f"user,id=management,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:{port}-:22"]
    argv += ["-device", _nic("management", topology.mac(guest, 0), 4)]
    for number, (rail, descriptor) in enumerate(zip(topology.rails, tap_descriptors, strict=True), start=1):
        argv += ["-netdev", f"tap,id=rail-{rail.name},fd={descriptor}"]
        argv += ["-device", _nic(f"rail-{rail.name}", topology.mac(guest, number), 4 + number)]
    for number in range(guest.ssds):
        drive = f"ssd{number}"
        file = _escaped(paths.ssd(number))
        argv += ["-drive", f"if=none,id={drive},format=raw,cache=writeback,discard=unmap,file={file}"]
        argv += ["-device", f"nvme,drive={drive},serial={guest.ssd_serial(number)},addr={0x10 + number:#x}"]
    return argv


def _nic(netdev: str, mac: str, slot: int) -> str:
    return f"virtio-net-pci,netdev={netdev},id=nic-{netdev},mac={mac},speed=100000,duplex=full,romfile=,addr={slot:#x}"


def _escaped(path: Path) -> str:
    """A path inside QEMU's comma-separated options."""
    return str(path).replace(",", ",,")


def start(argv: Sequence[str], guest: GuestSpec, paths: GuestPaths, tap_descriptors: Sequence[int]) -> None:
    """Start a guest's QEMU; returns once its devices exist. Raises :class:`G35Error` with QEMU's own words."""
    for stale in (paths.pid, paths.qmp, paths.carrier_cut):
        stale.unlink(missing_ok=True)
    run(
        argv,
        what=f"starting {guest.name}",
        next_command=f"read {paths.console}, then g35ctl lab up",
        timeout=120,
        pass_fds=tap_descriptors,
        cwd=paths.root,
    )


def running_pid(paths: GuestPaths) -> int | None:
    """The guest's process id, or None when it does not run.

    A process counts only if its own command line names this guest's pid file: ids are reused, files survive crashes.
    """
    try:
        pid = int(paths.pid.read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    ours = str(paths.pid).encode() in arguments and b"-pidfile" in arguments
    return pid if ours and state != "Z" else None


def kill(paths: GuestPaths, *, timeout: float = 20.0) -> bool:
    """Cut the guest's power: SIGKILL, no flush, no goodbye. False when it was not running."""
    pid = running_pid(paths)
    if pid is None:
        return False
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # Looked at again through the handle: between reading and opening the id may have changed hands.
        if running_pid(paths) != pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
    deadline = time.monotonic() + timeout
    while running_pid(paths) is not None:
        if time.monotonic() > deadline:
            raise G35Error(f"QEMU process {pid} does not end", why=f"still there {timeout:g} s after SIGKILL")
        time.sleep(0.05)
    paths.pid.unlink(missing_ok=True)
    return True
