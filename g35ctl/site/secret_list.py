"""Every secret that a site needs: what it is for, where it is kept, and whether it can be used. Never what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ansible.module_utils.g35 import dhchap, tlspsk
from ansible.module_utils.g35.dhchap import digest

from g35ctl.site.keys import is_encrypted, key_file, key_problem, read_key
from g35ctl.site.model import Site, SiteHost
from g35ctl.site.positions import locate

HOST_KEY = "host key"
BOX_KEY = "box key"
TLS_KEY = "TLS key"
PASSWORD = "Redfish password"

Condition = Literal["ok", "missing", "unusable", "exposed"]


@dataclass(frozen=True)
class Secret:
    """One secret. ``where`` is its file; ``kept`` how it rests there (file, vault, inventory, or empty where it is
    missing). ``condition`` is ok, missing, unusable (damaged, or open to others), or exposed (in plain text in the
    inventory). ``digest`` names a key, ``why`` and ``remedy`` tell what is wrong."""

    kind: str
    host: str
    where: str
    kept: str
    condition: Condition
    digest: str = ""
    why: str = ""
    remedy: str = ""

    @property
    def generated(self) -> bool:
        """Whether g35ctl can make it; what a box decides itself it cannot."""
        return self.kind in (HOST_KEY, BOX_KEY, TLS_KEY)


def secrets_of(site: Site, variables: Mapping[str, Mapping[str, Any]]) -> tuple[Secret, ...]:
    """The secrets of a site, in inventory order. ``variables`` are each host's, as they were written."""
    found = [secret for host in site.group("cache_owners") for secret in _keys(site, host)]
    found += [secret for host in site.group("ebof") for secret in _passwords(host, variables.get(host.name, {}))]
    return tuple(found)


def _keys(site: Site, host: SiteHost) -> Iterator[Secret]:
    asked, tls = host.nvme.authentication, host.nvme.tls
    if tls.mode == "psk":
        yield _key(TLS_KEY, host.name, key_file(site, host, tls.key_file), tlspsk.problem)
    if asked.mode == "none":
        return
    for kind, stated in ((HOST_KEY, asked.key_file), (BOX_KEY, asked.controller_key_file)):
        if stated:
            yield _key(kind, host.name, key_file(site, host, stated))


def _key(kind: str, host: str, path: Path, check: Callable[[str], str] = dhchap.problem) -> Secret:
    if not path.exists():
        return Secret(kind, host, str(path), "", "missing", why="no such file", remedy="g35ctl secrets init")
    why, remedy = key_problem(path, check)
    try:
        kept = "vault" if is_encrypted(path) else "file"
    except OSError:
        kept = "file"
    if why:
        return Secret(kind, host, str(path), kept, "unusable", why=why, remedy=remedy)
    return Secret(kind, host, str(path), kept, "ok", digest(read_key(path)))


def _passwords(host: SiteHost, variables: Mapping[str, Any]) -> Iterator[Secret]:
    if host.box is None or host.box.redfish is None:
        return
    place = ("g35_ebof", "redfish", "password")
    position = locate(variables, place)
    where = position.file if position is not None else ""
    if not host.box.redfish.password.get_secret_value():
        remedy = f"ansible-vault encrypt_string --name password, into g35_ebof.redfish of {host.name}"
        yield Secret(PASSWORD, host.name, where, "", "missing", why="g35_ebof.redfish.password is empty", remedy=remedy)
        return
    written: Any = variables
    for step in place:
        written = written.get(step) if isinstance(written, Mapping) else None
    if type(written).__name__ == "EncryptedString":
        yield Secret(PASSWORD, host.name, where, "vault", "ok")
    elif isinstance(written, str) and "{{" in written:
        yield Secret(PASSWORD, host.name, where, "another variable", "ok")
    elif where and Path(where).is_file() and is_encrypted(Path(where)):
        yield Secret(PASSWORD, host.name, where, "vault", "ok")
    else:
        why, remedy = "it stands in the inventory in plain text", "ansible-vault encrypt_string --name password"
        yield Secret(PASSWORD, host.name, where, "inventory", "exposed", why=why, remedy=remedy)
