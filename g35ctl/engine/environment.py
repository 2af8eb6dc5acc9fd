"""The environment Ansible runs in: everything said, nothing inherited.

What the caller's shell holds (tokens, passwords, stray ANSIBLE_* settings) never reaches ansible-playbook, because
ansible-runner writes the environment into its artifacts.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import g35ctl
from g35ctl.content import content_root
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

#: inherited when set: where the user's keys and agents are, never what they hold
INHERITED = (
    "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "KRB5CCNAME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
    "ANSIBLE_VAULT_PASSWORD_FILE", "ANSIBLE_VAULT_IDENTITY_LIST", "G35_STATE",
)  # fmt: skip
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_FORKS = 64


def ansible_environment(
    *,
    run_folder: Path,
    state: Path,
    forks: int,
    plan_file: Path | None = None,
    caller: Mapping[str, str] | None = None,
    accelerate: str = "",
) -> dict[str, str]:
    """The whole environment of an ansible-playbook process. ``accelerate`` names what replaces Ansible's own way of
    running modules (mitogen), or nothing.

    Paths come from the content tree, so a stray ``ansible.cfg`` changes nothing; host keys are always checked against
    the site's pinned ones, then the user's own (an inventory's ssh arguments come first in ssh's eyes and so win).
    """
    caller = os.environ if caller is None else caller
    root = content_root()
    plugins = root / "plugins"
    environment = {name: caller[name] for name in INHERITED if name in caller}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{_SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(Path(g35ctl.__file__).resolve().parent.parent),
        "PYTHONUNBUFFERED": "1",
        "G35_RUN": run_folder.name,
        "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
        "ANSIBLE_HOME": str(run_folder / "ansible"),
        "ANSIBLE_LOCAL_TEMP": str(run_folder / "ansible" / "tmp"),
        "ANSIBLE_LIBRARY": str(plugins / "modules"),
        "ANSIBLE_MODULE_UTILS": str(plugins / "module_utils"),
        "ANSIBLE_LOOKUP_PLUGINS": str(plugins / "lookup"),
        "ANSIBLE_VARS_PLUGINS": str(plugins / "vars"),
        "ANSIBLE_ROLES_PATH": str(root / "roles"),
        "ANSIBLE_FORKS": str(forks),
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_INJECT_FACT_VARS": "False",
        "ANSIBLE_CACHE_PLUGIN": "memory",
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_TIMEOUT": "20",
        "ANSIBLE_SSH_RETRIES": "2",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=10m -o ServerAliveInterval=15"
        " -o ServerAliveCountMax=3 -o PreferredAuthentications=publickey,gssapi-with-mic",
        "ANSIBLE_SSH_EXTRA_ARGS": shlex.join(ssh_host_key_options(state)),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control_directory()),
        "ANSIBLE_PYTHON_INTERPRETER": caller.get("ANSIBLE_PYTHON_INTERPRETER", "auto_silent"),
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "True",
        "ANSIBLE_CHECK_MODE_MARKERS": "False",
    }
    if plan_file is not None:
        environment["G35_PLAN_FILE"] = str(plan_file)
    if accelerate:
        environment |= {"ANSIBLE_STRATEGY": "g35_mitogen", "ANSIBLE_STRATEGY_PLUGINS": str(plugins / "strategy")}
    return environment


def check_accelerator(name: str) -> None:
    """Raises G35Error (usage) for one that is not known or not installed."""
    if name != "mitogen":
        raise G35Error(f"{name!r} accelerates nothing", why="known: mitogen", exit_code=Exit.USAGE)
    mitogen_strategies()


def mitogen_strategies() -> Path:
    """Where the installed mitogen keeps its strategy plugins. Raises G35Error (usage) when it is not installed."""
    from importlib.util import find_spec

    found = find_spec("ansible_mitogen")
    if found is None or not found.submodule_search_locations:
        raise G35Error(
            "mitogen is not installed in the environment of g35ctl",
            next_command="pip install 'g35ctl[mitogen]', or leave --accelerate out",
            exit_code=Exit.USAGE,
        )
    return Path(found.submodule_search_locations[0]) / "plugins" / "strategy"


def ssh_host_key_options(state: Path) -> list[str]:
    """Options by which ssh checks host keys against the site's pinned ones, then the user's own."""
    known = " ".join(_quoted(path) for path in (str(state / "known_hosts"), "~/.ssh/known_hosts"))
    return ["-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known}"]


def forks_for(hosts: int, asked: int | None) -> int:
    """Hosts worked on at a time: as asked, else all of them up to ``MOST_FORKS``."""
    return asked if asked else max(1, min(MOST_FORKS, hosts))


def control_directory() -> Path:
    """Directory of ssh control sockets: short, because a socket's path is limited to 108 bytes, and private.

    Shared by the stages of a run and by runs, so that one connection per host serves them all.
    """
    path = Path(tempfile.gettempdir()) / f"g35-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="g35-"))
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return path if private else Path(tempfile.mkdtemp(prefix="g35-"))


def _quoted(path: str) -> str:
    return f'"{path}"' if " " in path else path
