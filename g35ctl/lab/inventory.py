"""The generated half of the lab's Ansible inventory: how to reach each guest, with its host key pinned."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from g35ctl.content import content_root, is_checkout
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab import remote
from g35ctl.lab.paths import LabPaths
from g35ctl.lab.topology import Topology

GENERATED = "lab_generated.yml"
# Below a dot directory: Ansible reads every other file of an inventory directory as inventory.
KNOWN_HOSTS = Path(".lab", "known_hosts")
_HEADER = "# Written by g35ctl lab up; changes are lost. What is wanted of the hosts is in hosts.yml and group_vars.\n"


def default_directory() -> Path:
    """``inventories/lab`` of a checkout, else ``./g35-lab``."""
    return content_root() / "inventories" / "lab" if is_checkout() else Path.cwd() / "g35-lab"


def prepare(directory: Path, name: str = "lab") -> None:
    """Copy the packaged inventory of that name to ``directory`` unless an inventory is there already."""
    example = content_root() / "inventories" / name
    if (directory / "hosts.yml").exists() or directory.resolve() == example.resolve():
        return
    if directory.exists() and any(directory.iterdir()):
        raise G35Error(
            f"{directory} is not a lab inventory",
            why="it holds files but no hosts.yml",
            next_command="g35ctl lab up --inventory-dir DIR with a new or empty directory",
            exit_code=Exit.USAGE,
        )
    shutil.copytree(example, directory, ignore=shutil.ignore_patterns(GENERATED, ".lab", ".g35"), dirs_exist_ok=True)


def connection_variables(topology: Topology, paths: LabPaths, directory: Path) -> dict[str, dict[str, object]]:
    """For each guest the variables Ansible's ssh connection needs."""
    hosts_file = directory.resolve() / KNOWN_HOSTS
    common = " ".join(
        (
            "-o IdentitiesOnly=yes -o StrictHostKeyChecking=yes",
            f"-o UserKnownHostsFile={remote.quoted_option(hosts_file)}",
            "-o GlobalKnownHostsFile=/dev/null",
        )
    )
    return {
        guest.name: {
            "ansible_host": remote.HOST,
            "ansible_port": remote.read_port(paths, guest),
            "ansible_user": remote.USER,
            "ansible_ssh_private_key_file": str(paths.user_key),
            "ansible_ssh_common_args": common,
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        for guest in topology.guests
    }


def write(topology: Topology, paths: LabPaths, directory: Path) -> bool:
    """Write what ``lab up`` knows into the inventory directory; False when it already said the same."""
    tree = {"all": {"hosts": connection_variables(topology, paths, directory)}}
    changed = _write_if_different(directory / KNOWN_HOSTS, remote.known_hosts(topology, paths))
    text = _HEADER + "---\n" + yaml.safe_dump(tree, sort_keys=True, width=200)
    return _write_if_different(directory / GENERATED, text) or changed


def _write_if_different(path: Path, text: str) -> bool:
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.rename(path)
    return True
