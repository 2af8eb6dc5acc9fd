"""Host keys: fetched without logging in, shown, and pinned for this site alone."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from g35ctl.engine.connections import Connection
from g35ctl.engine.failures import unreachable
from g35ctl.engine.run import Failure

_WIDTH = 32


@dataclass(frozen=True)
class HostKey:
    """A host's public key. ``place`` is how known_hosts names the server, ``kind`` for example ssh-ed25519."""

    host: str
    place: str
    kind: str
    key: str

    @property
    def fingerprint(self) -> str:
        """SHA256:... as ssh-keygen prints it."""
        digest = hashlib.sha256(base64.b64decode(self.key)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    def line(self) -> str:
        """The known_hosts line."""
        return f"{self.place} {self.kind} {self.key}"


@dataclass(frozen=True)
class Comparison:
    """Fetched keys against pinned ones."""

    pinned: tuple[HostKey, ...]
    new: tuple[HostKey, ...]
    changed: tuple[HostKey, ...]


def place(address: str, port: int) -> str:
    """The name of a server in known_hosts: bare for port 22, ``[address]:port`` otherwise."""
    return address if port == 22 else f"[{address}]:{port}"


def fetch(found: Sequence[Connection], seconds: float = 10.0) -> tuple[tuple[HostKey, ...], tuple[Failure, ...]]:
    """The host key of every directly reachable host, all at once, with a failure for each that could not be had."""

    def ask(item: Connection) -> HostKey | Failure:
        try:
            return _fetch(item, seconds)
        except Exception as error:  # paramiko raises EOFError, SSHException and socket errors alike
            return unreachable("trust", item.host, f"{item.address} port {item.port}: {error or type(error).__name__}")

    direct = [item for item in found if item.direct]
    with ThreadPoolExecutor(max(1, min(_WIDTH, len(direct)))) as pool:
        answers = list(pool.map(ask, direct))
    keys = tuple(item for item in answers if isinstance(item, HostKey))
    return keys, tuple(item for item in answers if isinstance(item, Failure))


def _fetch(item: Connection, seconds: float) -> HostKey:
    import paramiko

    stream = socket.create_connection((item.address, item.port), timeout=seconds)
    transport = paramiko.Transport(stream)
    try:
        # The type OpenSSH asks for first, so that the key pinned here is the one it will be shown.
        options = transport.get_security_options()
        preferred = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
        options.key_types = tuple(kind for kind in preferred if kind in options.key_types)
        transport.start_client(timeout=seconds)
        key = transport.get_remote_server_key()
        return HostKey(item.host, place(item.address, item.port), key.get_name(), key.get_base64())
    finally:
        transport.close()


def read(paths: Iterable[Path]) -> Mapping[str, Mapping[str, str]]:
    """Pinned keys of known_hosts files, the first file winning: place -> kind -> key. Hashed names are passed over."""
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for line in text.splitlines():
            fields = line.split()
            if len(fields) >= 3 and not fields[0].startswith(("#", "@", "|")):
                for name in fields[0].split(","):
                    found.setdefault(name, {}).setdefault(fields[1], fields[2])
    return found


def compare(keys: Sequence[HostKey], known: Mapping[str, Mapping[str, str]]) -> Comparison:
    """Which keys are pinned already, which are new, and which differ from what is pinned for their server."""
    pinned, new, changed = [], [], []
    for key in keys:
        have = known.get(key.place, {})
        if have.get(key.kind) == key.key:
            pinned.append(key)
        elif have:
            changed.append(key)
        else:
            new.append(key)
    return Comparison(tuple(pinned), tuple(new), tuple(changed))


def pin(path: Path, keys: Sequence[HostKey]) -> None:
    """Add keys, replacing whatever was pinned for their servers. Atomic."""
    replaced = {key.place for key in keys}
    before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = [line for line in before if line.strip() and line.split()[0] not in replaced]
    lines += [key.line() for key in keys]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.chmod(0o600)
    temporary.replace(path)
