"""Where the DH-HMAC-CHAP keys of hosts are on the controller, and whether they can be used."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.g35.dhchap import digest, problem

from g35ctl.site.model import Site, SiteHost

_VAULTED = b"$ANSIBLE_VAULT;"


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


def is_encrypted(path: Path) -> bool:
    """Whether a file is encrypted by ansible-vault. Raises OSError."""
    with path.open("rb") as handle:
        return handle.read(len(_VAULTED)) == _VAULTED


def read_key(path: Path) -> str:
    """The key in a file, decrypted with the vault secrets that Ansible's configuration names. Raises OSError, also for
    a file that cannot be decrypted, and UnicodeDecodeError."""
    if not is_encrypted(path):
        return path.read_text(encoding="ascii").strip()
    from ansible.errors import AnsibleError
    from ansible.parsing.vault import VaultLib, VaultSecretsContext

    context = VaultSecretsContext.current(optional=True)
    try:
        plain = VaultLib(context.secrets if context else None).decrypt(path.read_bytes())
    except AnsibleError as error:
        raise OSError(f"{path} is encrypted and no vault secret opens it") from error
    return bytes(plain).decode("ascii").strip()


def key_problem(path: Path) -> tuple[str, str]:
    """What is wrong with a key file, and what to do about it; empty when nothing is. Never says what is in it."""
    make = f"g35ctl secrets init, or (umask 077; mkdir -p {path.parent}; nvme gen-dhchap-key -m 1 > {path})"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        vaulted = is_encrypted(path)
        key = read_key(path)
    except FileNotFoundError:
        return f"there is no key file {path}", make
    except (OSError, UnicodeDecodeError) as error:
        hint = "write the key there as one line; for an encrypted one, set ANSIBLE_VAULT_PASSWORD_FILE"
        return f"the key file {path} cannot be read: {error}", hint
    if mode & 0o077 and not vaulted:
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
        digest(read_key(own)),
        str(other) if other else "",
        digest(read_key(other)) if other else "",
    )
