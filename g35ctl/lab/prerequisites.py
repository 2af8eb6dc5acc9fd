"""What the controller needs before a lab can exist, found all at once and, if asked, installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab.commands import Say, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TUN = Path("/dev/net/tun")

_COMMON_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
}
_CONTAINER_TOOLS = {**_COMMON_TOOLS, "podman": "podman", "runc": "runc"}
_TOOLS = {
    **_COMMON_TOOLS,
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mke2fs": "e2fsprogs",
    "tar": "tar",
}


@dataclass(frozen=True)
class Missing:
    """What is not there: tools with the Debian packages that bring them, and obstacles no package removes."""

    tools: tuple[str, ...]
    packages: tuple[str, ...]
    obstacles: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.tools or self.obstacles)


def find_missing(
    *,
    which: Callable[[str], str | None] | None = None,
    uid: int | None = None,
    tun: Path = TUN,
    keyring: Path = KEYRING,
    containers: bool = False,
) -> Missing:
    """Look for everything the lab, or the lab of containers, needs on this controller; changes nothing."""
    find = which or _which
    tools = _CONTAINER_TOOLS if containers else _TOOLS
    absent = {tool: package for tool, package in tools.items() if find(tool) is None}
    if not keyring.exists():
        absent[str(keyring)] = "debian-archive-keyring"
    obstacles = []
    if (os.geteuid() if uid is None else uid) != 0:
        obstacles.append("root is needed for the lab's network namespace")
    if not containers and not tun.exists():
        obstacles.append(f"{tun} does not exist (modprobe tun, or give the container that device)")
    return Missing(tuple(absent), tuple(sorted(set(absent.values()))), tuple(obstacles))


def require(say: Say, *, install: bool, containers: bool = False) -> None:
    """Raise one :class:`G35Error` (exit 4) that names all that is missing, after installing packages if ``install``."""
    look = partial(find_missing, containers=True) if containers else find_missing
    missing = look()
    if missing.packages and install and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(missing.packages, say)
        missing = look()
    if not missing:
        return
    reasons = list(missing.obstacles)
    if missing.tools:
        reasons.insert(0, "not installed: " + ", ".join(missing.tools))
    steps = []
    if missing.packages:
        steps.append(
            "apt-get install --no-install-recommends "
            + " ".join(missing.packages)
            + " (or g35ctl lab up --install-prerequisites)"
        )
    if missing.obstacles:
        steps.append("run as root" if containers else "run as root on a machine with the tun device")
    raise G35Error(
        "this machine cannot run the lab yet",
        why="; ".join(reasons),
        next_command="; ".join(steps),
        exit_code=Exit.PREFLIGHT_FAILED,
    )


def _which(tool: str) -> str | None:
    """Like shutil.which, but knows the administrator's directories even when PATH does not."""
    return shutil.which(tool, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")


def _install(packages: tuple[str, ...], say: Say) -> None:
    environment_argv = ["env", "DEBIAN_FRONTEND=noninteractive"]
    say("installing " + " ".join(packages))
    # An old package list is the usual cause of a failed install, a failed update not always fatal.
    subprocess.run([*environment_argv, "apt-get", "-qq", "update"], check=False, stdin=subprocess.DEVNULL)
    run(
        [*environment_argv, "apt-get", "-y", "-qq", "install", "--no-install-recommends", *packages],
        what="installing the lab's prerequisites",
        next_command="repair apt, then g35ctl lab up --install-prerequisites",
    )
