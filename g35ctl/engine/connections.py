"""How the controller reaches each host, as the inventory says: address, port, and whether directly."""

from __future__ import annotations

import shlex
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from g35ctl.engine.failures import unreachable
from g35ctl.engine.run import Failure

# Waiting costs a thread and a socket each: wide enough that silent hosts cost their timeout once.
_WIDTH = 256
LOCAL = ("local", "ansible.builtin.local")


@dataclass(frozen=True)
class Connection:
    """Where a host's ssh server is. ``direct`` is False behind a jump host or proxy, and for local connections.

    ``known_hosts`` are files that the inventory's own ssh arguments name.
    """

    host: str
    address: str
    port: int = 22
    direct: bool = True
    known_hosts: tuple[str, ...] = ()


def connections(inventory: str, hosts: Sequence[str]) -> tuple[Connection, ...]:
    """The connection of each named host, in that order, read through Ansible's own loaders."""
    found = ssh_variables(inventory, hosts)
    return tuple(connection(name, found[name]) for name in hosts if name in found)


def ssh_variables(inventory: str, hosts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Ansible's connection variables (``ansible_*``) of each named host, templates resolved."""
    from g35ctl.site import load, source
    from g35ctl.site.positions import SourceIndex

    with load.reading():
        raw = source.read(inventory, SourceIndex(inventory))
        found = {}
        for host in raw.hosts:
            if host.name in hosts:
                names = [key for key in host.variables if key.startswith("ansible_")]
                found[host.name] = {str(key): _resolved(raw, host, host.variables[key]) for key in names}
    return found


def _resolved(raw: Any, host: Any, value: Any) -> Any:
    return raw.template.resolve(host, value) if isinstance(value, str) and "{{" in value else value


def connection(host: str, variables: Mapping[str, Any]) -> Connection:
    """Read Ansible's connection variables of one host. Pure."""
    arguments: list[str] = []
    for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args"):
        arguments += shlex.split(str(variables.get(name) or ""))
    told = " ".join(arguments)
    direct = (
        str(variables.get("ansible_connection", "ssh")) not in LOCAL
        and "ProxyJump" not in told
        and "ProxyCommand" not in told
        and "-J" not in arguments
    )
    files: list[str] = []
    for argument in arguments:
        key, _, value = argument.removeprefix("-o").strip().partition("=")
        if key.strip().lower() == "userknownhostsfile":
            files += shlex.split(value)
    address = str(variables.get("ansible_host") or variables.get("ansible_ssh_host") or host)
    port = int(variables.get("ansible_port") or variables.get("ansible_ssh_port") or 22)
    return Connection(host, address, port, direct, tuple(files))


def answering(found: Sequence[Connection], seconds: float = 10.0) -> tuple[Failure, ...]:
    """Ask every directly reachable ssh server for its greeting, all at once; one failure for each that stays silent."""

    def ask(item: Connection) -> Failure | None:
        deadline = time.monotonic() + seconds
        try:
            with socket.create_connection((item.address, item.port), timeout=seconds) as stream:
                stream.settimeout(max(0.1, deadline - time.monotonic()))
                greeting = stream.recv(64)
        except OSError as error:
            return unreachable("preflight", item.host, f"{item.address} port {item.port}: {error.strerror or error}")
        if greeting.startswith(b"SSH-"):
            return None
        return unreachable("preflight", item.host, f"{item.address} port {item.port}: no ssh greeting")

    direct = [item for item in found if item.direct]
    if not direct:
        return ()
    with ThreadPoolExecutor(min(_WIDTH, len(direct))) as pool:
        return tuple(failure for failure in pool.map(ask, direct) if failure is not None)
