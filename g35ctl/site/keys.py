"""Where the DH-HMAC-CHAP and TLS keys of hosts are on the controller, and whether they can be used."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.g35.dhchap import digest, problem

from g35ctl.site.model import Site, SiteHost

_VAULTED = b"$ANSIBLE_VAULT;"


@dataclass(frozen=True)
class HostKeys:
    """The key files of a host and the digests of what they hold; empty for what is not asked for."""

    key_file: str
    digest: str
    controller_key_file: str = ""
    controller_digest: str = ""
    psk_file: str = ""
    psk_digest: str = ""


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


def key_problem(path: Path, check: Callable[[str], str] = problem) -> tuple[str, str]:
    """What is wrong with a key file, and what to do about it; empty when nothing is. Never says what is in it.

    ``check`` tells what is wrong with the key itself: :func:`dhchap.problem`, or :func:`tlspsk.problem`.
    """
    tool = "nvme gen-dhchap-key -m 1" if check is problem else "nvme gen-tls-key"
    make = f"g35ctl secrets init, or (umask 077; mkdir -p {path.parent}; {tool} > {path})"
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
    why = check(key)
    return (f"the key file {path} holds no usable key: {why}", make) if why else ("", "")


def read_host_keys(site: Site, host: SiteHost) -> HostKeys | None:
    """The keys of a host that authenticates or uses TLS, by digest; None for one that does neither. Raises OSError."""
    asked, tls = host.nvme.authentication, host.nvme.tls
    psk = key_file(site, host, tls.key_file) if tls.mode == "psk" else None
    psk_file, psk_digest = (str(psk), digest(read_key(psk))) if psk else ("", "")
    if asked.mode == "none":
        return HostKeys("", "", psk_file=psk_file, psk_digest=psk_digest) if psk else None
    own = key_file(site, host, asked.key_file)
    other = key_file(site, host, asked.controller_key_file) if asked.controller_key_file else None
    return HostKeys(
        str(own),
        digest(read_key(own)),
        str(other) if other else "",
        digest(read_key(other)) if other else "",
        psk_file,
        psk_digest,
    )
