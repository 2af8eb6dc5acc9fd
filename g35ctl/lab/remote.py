"""Talking to guests: keys, pinned host keys, ssh command lines, and waiting until a login really works."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab.commands import Say, run
from g35ctl.lab.paths import LabPaths
from g35ctl.lab.qemu import running_pid
from g35ctl.lab.topology import GuestSpec, Topology

USER = "root"
HOST = "127.0.0.1"
SAY_EVERY_SECONDS = 10.0
LOGIN_SECONDS = 20.0
"""How long one attempt may take: QEMU accepts connections long before the guest answers them."""


def ensure_key(path: Path, comment: str) -> None:
    """Make an ed25519 key pair at ``path`` unless it is there."""
    if path.exists() and path.with_name(path.name + ".pub").exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    run(argv, what="making an ssh key", timeout=30)


def public_key(path: Path) -> str:
    """The public half of the key pair at ``path``: type, key and comment."""
    return path.with_name(path.name + ".pub").read_text().strip()


def known_hosts(topology: Topology, paths: LabPaths) -> str:
    """The pinned host keys of all guests, in the format of known_hosts."""
    lines = []
    for guest in topology.guests:
        files = paths.guest(guest.name)
        if files.port.exists():
            kind, key = public_key(files.host_key).split()[:2]
            lines.append(f"[{HOST}]:{read_port(paths, guest)} {kind} {key}")
    return "\n".join(lines) + "\n"


def read_port(paths: LabPaths, guest: GuestSpec) -> int:
    """The local port of a guest's sshd. Raises :class:`G35Error` when it was never started."""
    try:
        return int(paths.guest(guest.name).port.read_text())
    except (OSError, ValueError) as error:
        raise G35Error(
            f"{guest.name} was never started", why=str(error), next_command="g35ctl lab up", exit_code=Exit.UNREACHABLE
        ) from error


def ssh_options(paths: LabPaths, hosts_file: Path) -> list[str]:
    """Options of every connection: this lab's key, its pinned host keys, nothing from the user's own files."""
    return [
        "-F",
        "none",
        "-i",
        str(paths.user_key),
        "-o",
        "IdentitiesOnly=yes",
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        f"UserKnownHostsFile={quoted_option(hosts_file)}",
        "-o",
        "GlobalKnownHostsFile=/dev/null",
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=15",
        "-o",
        "LogLevel=ERROR",
    ]


def quoted_option(path: Path) -> str:
    """A path as the value of an ssh option: quoted when it holds blanks, which ssh would take for several files."""
    return f'"{path}"' if " " in str(path) else str(path)


def ssh_argv(paths: LabPaths, guest: GuestSpec, command: Sequence[str] = (), *, terminal: bool = False) -> list[str]:
    """The ssh command line for a guest; ``command`` is quoted word by word for the remote shell."""
    argv = ["ssh", *ssh_options(paths, paths.known_hosts), "-p", str(read_port(paths, guest))]
    argv += ["-t"] if terminal else []
    argv.append(f"{USER}@{HOST}")
    if command:
        argv += ["--", shlex.join(command)]
    return argv


def ssh(
    paths: LabPaths,
    guest: GuestSpec,
    command: Sequence[str],
    *,
    timeout: float = 120.0,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command on a guest and return what came of it; exit code 255 means ssh itself failed.

    Raises :class:`G35Error` (exit 5) when there is no answer within ``timeout`` seconds.
    """
    try:
        return subprocess.run(
            ssh_argv(paths, guest, command),
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            # An empty string, not this process's own input, when there is nothing to hand over.
            input=stdin or "",
        )
    except subprocess.TimeoutExpired as error:
        raise G35Error(
            f"{guest.name} gave no answer within {timeout:g} s",
            why=f"command: {shlex.join(command)}",
            next_command="g35ctl lab status",
            exit_code=Exit.UNREACHABLE,
        ) from error


def boot_id(paths: LabPaths, guest: GuestSpec, *, timeout: float = 30.0) -> str | None:
    """The id of the guest's current boot, or None when it cannot be logged into now."""
    try:
        done = ssh(paths, guest, ["cat", "/proc/sys/kernel/random/boot_id"], timeout=timeout)
    except G35Error:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def boot_ids(paths: LabPaths, guests: Sequence[GuestSpec], *, timeout: float = 30.0) -> dict[str, str | None]:
    """:func:`boot_id` of several guests at once, by name."""
    if not guests:
        return {}
    with ThreadPoolExecutor(max_workers=len(guests)) as pool:
        answers = pool.map(lambda guest: boot_id(paths, guest, timeout=timeout), guests)
        return {guest.name: answer for guest, answer in zip(guests, answers, strict=True)}


def wait_for_login(
    paths: LabPaths,
    guests: Sequence[GuestSpec],
    say: Say,
    *,
    other_than: str | None = None,
    timeout: float = 300.0,
) -> None:
    """Wait until every guest lets root in, with a line of progress about every ten seconds.

    ``other_than`` is a boot id that does not count (the boot before a restart). Raises :class:`G35Error` (exit 5)
    that names the guests still silent after ``timeout`` seconds and what their consoles said last, or at once when a
    guest's QEMU has ended.
    """
    began = spoke = time.monotonic()
    waiting = list(guests)
    while True:
        for guest in waiting:
            if running_pid(paths.guest(guest.name)) is None:
                raise G35Error(
                    f"{guest.name} ended while it booted",
                    why=_console_tail(paths, guest),
                    next_command=f"read {paths.guest(guest.name).console}, then g35ctl lab up",
                    exit_code=Exit.UNREACHABLE,
                )
        answers = boot_ids(paths, waiting, timeout=LOGIN_SECONDS)
        now = time.monotonic()
        for guest in list(waiting):
            if answers[guest.name] not in (None, other_than):
                waiting.remove(guest)
                say(f"{guest.name}: ssh answers after {now - began:.0f} s")
        if not waiting:
            return
        if now - began > timeout:
            raise G35Error(
                f"no login on {', '.join(guest.name for guest in waiting)} within {timeout:g} s",
                why="; ".join(f"{guest.name}: {_console_tail(paths, guest)}" for guest in waiting),
                next_command="; ".join(f"read {paths.guest(guest.name).console}" for guest in waiting),
                exit_code=Exit.UNREACHABLE,
            )
        if now - spoke >= SAY_EVERY_SECONDS:
            spoke = now
            say(f"waiting for {', '.join(guest.name for guest in waiting)} ({now - began:.0f} s)")
        time.sleep(0.5)


def _console_tail(paths: LabPaths, guest: GuestSpec) -> str:
    try:
        lines = paths.guest(guest.name).console.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return "console ends with " + repr(lines[-1][:160]) if lines else "its console is silent"
