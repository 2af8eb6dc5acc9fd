"""ssh beside Ansible: commands on hosts whose output is wanted as it is, and local ports that lead to their services.

Connects as the inventory says, with the same pinned host keys as every play.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g35ctl.engine.connections import LOCAL, ssh_variables
from g35ctl.engine.environment import ssh_host_key_options
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Login:
    """How to get into a host. ``argv`` is ssh's command line up to the command; empty for the controller itself.
    ``root`` is False where commands need sudo."""

    host: str
    argv: tuple[str, ...]
    root: bool

    def command(self, words: Sequence[str]) -> list[str]:
        """The whole command line of a command that needs root."""
        wanted = list(words) if self.root else ["sudo", "-n", *words]
        return [*self.argv, shlex.join(wanted)] if self.argv else wanted


def logins(inventory: str, state: Path, hosts: Sequence[str]) -> dict[str, Login]:
    """The login of each named host, read through Ansible's own loaders."""
    return {name: login(name, values, state) for name, values in ssh_variables(inventory, hosts).items()}


def login(host: str, variables: Mapping[str, Any], state: Path) -> Login:
    """Read one host's connection variables. Pure."""
    user = str(variables.get("ansible_user") or variables.get("ansible_ssh_user") or "")
    if str(variables.get("ansible_connection", "ssh")) in LOCAL:
        return Login(host, (), root=user in ("", "root"))
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15"]
    for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args"):
        argv += shlex.split(str(variables.get(name) or ""))
    argv += ssh_host_key_options(state)
    key = variables.get("ansible_ssh_private_key_file") or variables.get("ansible_private_key_file")
    argv += ["-i", str(Path(str(key)).expanduser())] if key else []
    port = variables.get("ansible_port") or variables.get("ansible_ssh_port")
    argv += ["-p", str(port)] if port else []
    address = str(variables.get("ansible_host") or variables.get("ansible_ssh_host") or host)
    return Login(host, (*argv, f"{user}@{address}" if user else address), root=user == "root")


def output(found: Login, words: Sequence[str], *, timeout: float = 60.0) -> str | None:
    """What a command on the host prints, or None when it fails or does not end in time."""
    try:
        done = subprocess.run(
            found.command(words), check=False, capture_output=True, text=True, errors="replace", timeout=timeout,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


@dataclass(frozen=True)
class Target:
    """A service of a host: the address and port at which the host itself reaches it."""

    host: str
    address: str
    port: int


@contextmanager
def tunnels(found: Mapping[str, Login], targets: Sequence[Target]) -> Iterator[dict[Target, tuple[str, int]]]:
    """Local addresses that lead to the targets for as long as the context lasts.

    Raises G35Error (unreachable) when ssh cannot connect.
    """
    with ExitStack() as stack:
        ports: dict[Target, tuple[str, int]] = {}
        for host in dict.fromkeys(item.host for item in targets):
            own = [item for item in targets if item.host == host]
            if not found[host].argv:
                ports |= {item: (item.address, item.port) for item in own}
                continue
            chosen = {item: _free_port() for item in own}
            stack.enter_context(_tunnel(found[host], chosen))
            ports |= {item: (LOOPBACK, port) for item, port in chosen.items()}
        yield ports


@contextmanager
def _tunnel(found: Login, ports: Mapping[Target, int]) -> Iterator[None]:
    argv = [*found.argv[:-1], "-N", "-T", "-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes"]
    for target, port in ports.items():
        address = f"[{target.address}]" if ":" in target.address else target.address
        argv += ["-L", f"{LOOPBACK}:{port}:{address}:{target.port}"]
    process = subprocess.Popen(
        [*argv, found.argv[-1]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        # The user's interrupt is for the suite: it still needs the way to the engines to put them back.
        start_new_session=True,
    )  # fmt: skip
    try:
        _wait(found, process, list(ports.values()))
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(found: Login, process: subprocess.Popen[str], ports: Sequence[int], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    for port in ports:
        while not _listening(port):
            if process.poll() is not None or time.monotonic() > deadline:
                said = process.stderr.read().strip() if process.poll() is not None and process.stderr else "no answer"
                raise G35Error(
                    f"no way through ssh to the services of {found.host}",
                    why=said or "ssh ended without a word",
                    next_command="g35ctl preflight",
                    exit_code=Exit.UNREACHABLE,
                )
            time.sleep(0.05)


def _listening(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as probe:
        return int(probe.getsockname()[1])
