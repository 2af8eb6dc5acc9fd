"""Key files on the controller: made, replaced and put back so that no crash ever loses the key that is in force.

A rotation keeps the key it replaces beside the new one, as ``<file>.previous``, until the new one is proven. Every step
is one rename; what is found after a crash says where it stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ansible.module_utils.g35 import tlspsk
from ansible.module_utils.g35.dhchap import generate

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.site.keys import is_encrypted, read_key
from g35ctl.site.secret_list import TLS_KEY


def maker(kind: str) -> Callable[[], str]:
    """What makes a new key of a kind of secret."""
    return tlspsk.generate if kind == TLS_KEY else generate


def create(path: Path, *, vault: bool = False, make: Callable[[], str] = generate) -> None:
    """Write a new key where there is none (mode 0600, its directory 0700 and out of version control).

    Raises FileExistsError when the file appeared meanwhile, G35Error (usage) when ``vault`` is asked for without a
    vault secret.
    """
    content = _sealed(make()) if vault else (make() + "\n").encode()
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True)
        (path.parent / ".gitignore").write_text("# Keys never belong into version control.\n*\n", encoding="ascii")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    _fill(descriptor, content)


def previous_of(path: Path) -> Path:
    """Where the key that a rotation replaces waits until the new one is proven."""
    return path.with_name(path.name + ".previous")


def is_rotating(path: Path) -> bool:
    """Whether a rotation of this key was begun and not proven. Raises OSError for a key that cannot be read."""
    _finish_going_back(path)
    before = previous_of(path)
    # A crash between the two renames of `replace` leaves the same key twice: nothing was replaced then.
    return before.exists() and read_key(before) != read_key(path)


def replace(path: Path, make: Callable[[], str] = generate) -> None:
    """Put a new key in place and keep the one it replaces. Encrypted files stay encrypted. Raises OSError, G35Error."""
    content = _sealed(make()) if is_encrypted(path) else (make() + "\n").encode()
    _write(previous_of(path), path.read_bytes())
    _write(path, content)


def go_back(path: Path) -> None:
    """Put the replaced key back in place; the new one waits in its stead, until the old one is proven again."""
    _write(_returning(path), previous_of(path).read_bytes())
    _finish_going_back(path)


def settle(path: Path) -> None:
    """The key in place is proven: the other one goes."""
    previous_of(path).unlink(missing_ok=True)


def _returning(path: Path) -> Path:
    return path.with_name(path.name + ".returning")


def _finish_going_back(path: Path) -> None:
    """Both keys change places; a crash anywhere in between is finished by the next look."""
    returning, before = _returning(path), previous_of(path)
    if not returning.exists():
        return
    if before.read_bytes() == returning.read_bytes():
        _write(before, path.read_bytes())
    returning.replace(path)


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    _fill(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), content)
    temporary.replace(path)


def _fill(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def _sealed(key: str) -> bytes:
    from ansible.errors import AnsibleError
    from ansible.parsing.vault import VaultLib, VaultSecretsContext

    context = VaultSecretsContext.current(optional=True)
    try:
        return bytes(VaultLib(context.secrets if context else None).encrypt(key.encode()))
    except AnsibleError as error:
        raise G35Error(
            "the key cannot be encrypted",
            why=str(error),
            next_command="set ANSIBLE_VAULT_PASSWORD_FILE to a file or a client script",
            exit_code=Exit.USAGE,
        ) from error
