"""Where the DH-HMAC-CHAP keys of hosts are on the controller, and whether they can be used."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.g35.dhchap import digest, problem

from g35ctl.site.model import Site, SiteHost


@dataclass(frozen=True)
class HostKeys:
    """The key files of a host and the digests of what they hold; empty for a box that need not prove itself."""

    key_file: str
    digest: str
    controller_key_file: str = ""
    controller_digest: str = ""


def key_file(site: Site, host: SiteHost, stated: str) -> Path:
    """The path of a key file as the site states it: relative to the inventory, {host} for the host's name."""
    inventory = Path(site.inventory).absolute()
    directory = inventory if inventory.is_dir() else inventory.parent
    return directory / Path(stated.replace("{host}", host.name)).expanduser()


def key_problem(path: Path) -> tuple[str, str]:
    """What is wrong with a key file, and what to do about it; empty when nothing is. Never says what is in it."""
    make = f"(umask 077; mkdir -p {path.parent}; nvme gen-dhchap-key -m 1 > {path})"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        key = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return f"there is no key file {path}", make
    except (OSError, UnicodeDecodeError) as error:
        return f"the key file {path} cannot be read: {error}", "write the key there as one line"
    if mode & 0o077:
        return f"the key file {path} can be read by others (mode {mode:04o})", f"chmod 600 {path}"
    why = problem(key)
    return (f"the key file {path} holds no usable key: {why}", make) if why else ("", "")


def read_host_keys(site: Site, host: SiteHost) -> HostKeys | None:
    """The keys of a host that authenticates, by digest; None for one that does not. Raises OSError."""
    asked = host.nvme.authentication
    if asked.mode == "none":
        return None
    own = key_file(site, host, asked.key_file)
    other = key_file(site, host, asked.controller_key_file) if asked.controller_key_file else None
    return HostKeys(
        str(own),
        digest(own.read_text(encoding="ascii").strip()),
        str(other) if other else "",
        digest(other.read_text(encoding="ascii").strip()) if other else "",
    )
