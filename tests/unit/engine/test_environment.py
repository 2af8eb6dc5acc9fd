"""Ansible gets an environment that says everything and inherits nothing that could leak or mislead."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from g35ctl.content import content_root
from g35ctl.engine.environment import ansible_environment, control_directory, forks_for


def environment(tmp_path: Path, **caller: str) -> dict[str, str]:
    return ansible_environment(run_folder=tmp_path / "run", state=tmp_path, forks=7, plan_file=None, caller=caller)


def test_the_callers_secrets_and_ansible_settings_stay_out(tmp_path: Path) -> None:
    found = environment(
        tmp_path, HOME="/home/x", API_TOKEN="canary", ANSIBLE_HOST_KEY_CHECKING="False", ANSIBLE_CONFIG="/tmp/stray.cfg"
    )
    assert "API_TOKEN" not in found
    assert found["HOME"] == "/home/x"
    assert found["G35_RUN"] == "run"
    assert found["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert found["ANSIBLE_CONFIG"] == str(content_root() / "ansible.cfg")


def test_unknown_host_keys_are_refused_and_the_sites_own_are_known(tmp_path: Path) -> None:
    arguments = shlex.split(environment(tmp_path)["ANSIBLE_SSH_EXTRA_ARGS"])
    assert "StrictHostKeyChecking=yes" in arguments
    known = next(item for item in arguments if item.startswith("UserKnownHostsFile="))
    assert str(tmp_path / "known_hosts") in known


def test_a_path_with_a_space_stays_one_file_for_ssh(tmp_path: Path) -> None:
    arguments = shlex.split(environment(tmp_path / "my site")["ANSIBLE_SSH_EXTRA_ARGS"])
    known = next(item for item in arguments if item.startswith("UserKnownHostsFile="))
    assert f'"{tmp_path / "my site" / "known_hosts"}"' in known


@pytest.mark.parametrize(("hosts", "asked", "forks"), [(3, None, 3), (200, None, 64), (0, None, 1), (200, 100, 100)])
def test_forks_follow_the_hosts_up_to_a_limit(hosts: int, asked: int | None, forks: int) -> None:
    assert forks_for(hosts, asked) == forks


def test_control_sockets_are_private_and_short() -> None:
    path = control_directory()
    assert path.stat().st_mode & 0o077 == 0
    assert len(str(path)) < 60
