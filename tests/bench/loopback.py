"""Hosts for benches on this machine: one sshd on the loopback network, as many addresses as wanted.

Every address of 127.0.0.0/8 is this machine, so one sshd answers for all hosts; each has a root directory of its own
below a temporary one. What is measured is the controller's side and the number of executions and sessions: the "hosts"
share this machine's processors with the controller.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIRST = 10


@dataclass(frozen=True)
class Fleet:
    """Loopback hosts: where they live, and what sshd wrote about them."""

    folder: Path
    port: int
    names: tuple[str, ...]

    def root(self, name: str) -> Path:
        return self.folder / "hosts" / name

    @property
    def log(self) -> Path:
        return self.folder / "sshd.log"

    def sessions(self) -> int:
        """ssh sessions begun so far: one for each command that was run over a connection."""
        return self.log.read_text(errors="replace").count("Starting session:")

    def connections(self) -> int:
        """Logins so far."""
        return self.log.read_text(errors="replace").count("Accepted publickey")

    def variables(self, name: str) -> Mapping[str, Any]:
        """How Ansible reaches a host."""
        number = FIRST + self.names.index(name)
        return {
            "ansible_host": f"127.1.{number // 200}.{number % 200 + 1}",
            "ansible_port": self.port,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.folder / "key"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.folder}/known_hosts -o IdentitiesOnly=yes",
            "ansible_python_interpreter": "/usr/bin/python3",
            "bench_root": str(self.root(name)),
        }


def sshd_path() -> str | None:
    """Where sshd is, or None; G35_BENCH_SSHD names one."""
    named = os.environ.get("G35_BENCH_SSHD")
    places = [named] if named else [shutil.which("sshd"), "/usr/sbin/sshd"]
    return next((place for place in places if place and Path(place).exists()), None)


@contextmanager
def fleet(folder: Path, hosts: int) -> Iterator[Fleet]:
    """Start sshd for so many hosts; stopped with everything it runs at the end."""
    program = sshd_path()
    if program is None:
        raise SystemExit("no sshd: install openssh-server, or name one in G35_BENCH_SSHD")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    names = tuple(f"h{number:03d}" for number in range(1, hosts + 1))
    made = Fleet(folder, port, names)
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    kind, key = (folder / "host_key.pub").read_text().split()[:2]
    addresses = [made.variables(name)["ansible_host"] for name in names]
    (folder / "known_hosts").write_text("".join(f"[{address}]:{port} {kind} {key}\n" for address in addresses))
    settings = {
        "Port": port, "ListenAddress": "0.0.0.0", "HostKey": folder / "host_key", "PidFile": folder / "sshd.pid",
        "AuthorizedKeysFile": folder / "authorized_keys", "StrictModes": "no", "UsePAM": "no", "LogLevel": "VERBOSE",
        "PermitRootLogin": "prohibit-password", "PasswordAuthentication": "no", "MaxStartups": "2000",
        "MaxSessions": "100", "PrintMotd": "no", "UseDNS": "no",
    }  # fmt: skip
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    with made.log.open("w") as log:
        server = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
    try:
        _await(addresses[0], port)
        yield made
    finally:
        server.terminate()
        server.wait()


def _await(address: str, port: int) -> None:
    for _ in range(100):
        try:
            with socket.create_connection((address, port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"sshd does not answer on {address} port {port}")
