"""Hosts are named so that a name is safe in a path, and never reached without a checked key."""

from __future__ import annotations

import pytest
from site_files import HOST1, HOSTS, SiteFiles


@pytest.mark.parametrize(
    "line",
    [
        "ansible_host_key_checking: false",
        "ansible_ssh_host_key_checking: 'no'",
        "ansible_ssh_common_args: -o StrictHostKeyChecking=no",
        "ansible_ssh_extra_args: '-o BatchMode=yes -o stricthostkeychecking=accept-new'",
        "ansible_ssh_args: -o UserKnownHostsFile=/dev/null",
    ],
)
def test_host_keys_cannot_be_left_unchecked(site: SiteFiles, line: str) -> None:
    site.append(HOST1, f"{line}\n")
    found, problems = site.inspect()
    assert found is None
    (problem,) = problems
    assert problem.where == line.partition(":")[0]
    assert (problem.position.file, problem.position.line) == site.position(HOST1, line)[:2]
    assert "g35ctl trust" in problem.hint


@pytest.mark.parametrize(
    "line",
    [
        "ansible_ssh_common_args: -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/etc/g35/known_hosts",
        "ansible_ssh_common_args: -J jump.example.net",
        "ansible_host_key_checking: true",
    ],
)
def test_other_connection_settings_are_the_users_own(site: SiteFiles, line: str) -> None:
    found, problems = site.append(HOST1, f"{line}\n").inspect()
    assert found is not None, problems


@pytest.mark.parametrize("name", ["'../../etc/gpu2'", "'gpu 2'", "'-gpu2'"])
def test_a_name_that_is_unsafe_in_a_path_is_refused(site: SiteFiles, name: str) -> None:
    site.replace(HOSTS, "    gpu2:", f"    {name}:")
    found, problems = site.inspect()
    assert found is None
    assert any("cannot be the name of a host" in item.what for item in problems)
