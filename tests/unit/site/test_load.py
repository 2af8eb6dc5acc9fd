"""Loading: every kind of inventory, Ansible's own merging, and errors that know where they were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from site_files import ALL, BOX, HOST1, HOST2, HOSTS, SiteFiles

from g35ctl.exits import Exit
from g35ctl.site import load as load_module
from g35ctl.site.load import inspect, load
from g35ctl.site.problems import Problem, SiteInvalid


def found_at(problem: Problem) -> tuple[str, int | None, int | None]:
    return problem.position.file, problem.position.line, problem.position.column


def the(problems: tuple[Problem, ...], text: str) -> Problem:
    matching = [problem for problem in problems if text in problem.what]
    assert len(matching) == 1, [str(problem) for problem in problems]
    return matching[0]


def test_four_mistakes_in_four_files_are_reported_at_once(site: SiteFiles) -> None:
    """A mistyped key, a namespace with two owners, a bad size and an unknown group."""
    site.replace(ALL, "queue_size", "queue_sise")
    site.replace(BOX, "size: 4GiB", "size: 4GX\n      owner: gpu1")
    site.append(HOST2, "g35_storage:\n  owns:\n    - nqn.2026-01.io.g35ctl:test:ebof1:ssd0\n")
    site.append(HOSTS, "gpu_host:\n  hosts:\n    gpu3:\n")
    with pytest.raises(SiteInvalid) as raised:
        load(str(site.root))
    problems = raised.value.problems
    assert raised.value.exit_code == Exit.SITE_INVALID
    key = the(problems, "unknown key 'queue_sise'")
    assert found_at(key) == site.position(ALL, "queue_sise")
    assert key.hint == "did you mean 'queue_size'?"
    assert key.hosts == ("ebof1", "gpu1", "gpu2", "gpu3")
    assert found_at(the(problems, "'4GX' is not a size")) == site.position(BOX, "4GX")
    owners = the(problems, "has two owners")
    assert found_at(owners)[:2] == site.position(BOX, "      owner: gpu1")[:2]
    assert f"{site.root / HOST2}" in owners.what
    group = the(problems, "unknown group 'gpu_host'")
    assert found_at(group) == site.position(HOSTS, "gpu_host:")
    assert group.hint == "did you mean 'gpu_hosts'?"
    for problem in (key, owners, group):
        assert f"{problem.position.line}:{problem.position.column}: error: " in raised.value.why


def test_hosts_carry_their_groups_and_merged_variables(site: SiteFiles) -> None:
    site.append(HOST2, "g35_nvme: {io_queues: 2}\n")
    loaded = load(str(site.root))
    assert [host.name for host in loaded.group("cache_owners")] == ["gpu1", "gpu2"]
    assert loaded.host("gpu1").groups == ("gpu_hosts", "mooncake_masters")
    assert loaded.host("gpu1").nvme.io_queues == 8
    assert loaded.host("gpu2").nvme.io_queues == 2
    box = loaded.host("ebof1").box
    assert box is not None and box.namespaces[0].size == 4 * 2**30


def test_merging_is_that_of_ansible(site: SiteFiles) -> None:
    """For each host the very variables that Ansible's own variable manager gives."""
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    from g35ctl.site.positions import SourceIndex
    from g35ctl.site.source import read

    site.append("group_vars/gpu_hosts.yml", "g35_nvme: {io_queues: 3}\nrack: from_group\n")
    site.append("group_vars/mooncake_masters.yml", "rack: from_masters\n")
    site.replace(HOSTS, "    gpu2:\n", "    gpu2:\n      rack: from_host\n      g35_nvme: {io_queues: 4}\n")
    raw = read(str(site.root), SourceIndex(str(site.root)))
    loader = DataLoader()
    inventory = InventoryManager(loader, [str(site.root)])
    manager = VariableManager(loader, inventory)
    for host in raw.hosts:
        expected = manager.get_vars(host=inventory.get_host(host.name), include_hostvars=False)
        ours = {name: value for name, value in host.variables.items() if not name.startswith("inventory_")}
        assert ours == {name: expected[name] for name in ours}
        assert {name for name in expected if name.startswith("g35_") or name == "rack"} <= set(ours)


def test_a_single_ini_file_is_a_site(site: SiteFiles, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    for name in ("group_vars", "host_vars"):
        (site.root / name).rename(whole / name)
    (whole / "hosts.ini").write_text(
        "[ebof]\nebof1\n[gpu_hosts]\ngpu[1:2]\n[mooncake_masters]\ngpu1\n[gpu_host]\ngpu3 ansible_host=192.0.2.9\n"
    )
    _, problems = inspect(str(whole / "hosts.ini"))
    group = the(problems, "unknown group 'gpu_host'")
    assert found_at(group) == (str(whole / "hosts.ini"), 7, 2)
    (whole / "hosts.ini").write_text("[ebof]\nebof1\n[gpu_hosts]\ngpu[1:2]\n[mooncake_masters]\ngpu1\n")
    assert [host.name for host in load(str(whole / "hosts.ini")).hosts] == ["ebof1", "gpu1", "gpu2"]


def test_an_executable_inventory_is_a_site(site: SiteFiles) -> None:
    script = site.root / "dynamic.py"
    answer = {
        "ebof": {"hosts": ["ebof1"]},
        "gpu_hosts": {"hosts": ["gpu1", "gpu2"]},
        "mooncake_masters": {"hosts": ["gpu1"]},
        "_meta": {"hostvars": {"gpu1": {"g35_nvme": {"io_queues": 5}}, "gpu2": {"g35_nvme": {"io_quues": 5}}}},
    }
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    script.chmod(0o755)
    (site.root / HOSTS).unlink()
    _, problems = inspect(str(script))
    mistyped = the(problems, "unknown key 'io_quues'")
    assert (mistyped.hosts, mistyped.position.file) == (("gpu2",), str(script))
    script.write_text(script.read_text().replace("io_quues", "io_queues"))
    assert load(str(script)).host("gpu1").nvme.io_queues == 5


def test_templates_are_resolved_as_ansible_would(site: SiteFiles) -> None:
    site.append("group_vars/gpu_hosts.yml", "number: \"{{ inventory_hostname | regex_replace('gpu', '') }}\"\n")
    site.replace(HOST1, "192.0.2.101", '"192.0.2.10{{ number }}"')
    site.append(HOST1, "g35_nvme:\n  io_queues: \"{{ groups['gpu_hosts'] | length }}\"\n")
    host = load(str(site.root)).host("gpu1")
    assert str(host.ports[0].address) == "192.0.2.101"
    assert host.nvme.io_queues == 2


def test_an_undefined_variable_is_reported_where_it_is_used(site: SiteFiles) -> None:
    site.append("group_vars/gpu_hosts.yml", 'number: "{{ inventory_hostnam }}"\n')
    site.replace(HOST1, "192.0.2.101", '"192.0.2.10{{ number }}"')
    _, problems = site.inspect()
    undefined = the(problems, "'inventory_hostnam' is undefined")
    assert found_at(undefined)[:2] == site.position("group_vars/gpu_hosts.yml", "inventory_hostnam")[:2]
    assert undefined.where == "g35_ports[0].address"
    assert not [problem for problem in problems if "missing" in problem.what]


def test_encrypted_values_elsewhere_do_not_matter(site: SiteFiles) -> None:
    secret = "$ANSIBLE_VAULT;1.1;AES256\n          6162630a"
    site.append(ALL, f"some_password: !vault |\n          {secret}\n")
    found, problems = site.inspect()
    assert found is not None and problems == ()


def test_an_encrypted_file_without_its_password_is_a_warning(site: SiteFiles) -> None:
    (site.root / "group_vars/gpu_hosts.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162630a\n")
    found, problems = site.inspect()
    assert found is not None
    assert [problem.severity for problem in problems] == ["warning"]
    assert "was not checked" in problems[0].what


@pytest.mark.parametrize("file", [ALL, HOST1, HOSTS])
def test_broken_yaml_is_a_problem_with_its_line(site: SiteFiles, file: str) -> None:
    lines = len(site.read(file).splitlines())
    site.append(file, "broken: [1,\n")
    found, problems = site.inspect()
    broken = the(problems, "YAML parsing failed")
    assert found is None
    assert broken.position.file == str(site.root / file)
    assert broken.position.line is not None and lines < broken.position.line <= lines + 2
    assert all(problem.position.file != str(site.root) for problem in problems)


@pytest.mark.parametrize(
    ("file", "text", "message", "hint"),
    [
        (ALL, "g35_moncake: {}\n", "unknown variable 'g35_moncake'", "did you mean 'g35_mooncake'?"),
        (ALL, "g35_target_plan: {}\n", "g35_target_plan is not for the inventory", "computed by the planner"),
        (HOST1, "g35_ports: []\n", "Found duplicate mapping key 'g35_ports'", ""),
    ],
)
def test_what_ansible_would_take_in_silence_is_reported(
    site: SiteFiles, file: str, text: str, message: str, hint: str
) -> None:
    site.append(file, text)
    found, problems = site.inspect()
    problem = the(problems, message)
    assert found is None and problem.severity == "error"
    assert problem.position.file == str(site.root / file)
    assert problem.position.line == len(site.read(file).splitlines())
    assert hint in problem.hint


def test_a_key_that_is_none_of_a_group_is_reported(site: SiteFiles) -> None:
    site.replace(HOSTS, "gpu_hosts:\n", "gpu_hosts:\n  hostz: {gpu9: }\n")
    _, problems = site.inspect()
    assert found_at(the(problems, "has the key 'hostz'")) == site.position(HOSTS, "hostz")


def test_a_group_that_is_a_list_is_reported(site: SiteFiles) -> None:
    site.append(HOSTS, "cache_owners: [gpu1]\n")
    _, problems = site.inspect()
    assert found_at(the(problems, "group 'cache_owners' is skipped")) == site.position(HOSTS, "cache_owners: [")


def test_values_of_the_wrong_kind_are_explained(site: SiteFiles) -> None:
    site.replace(HOST1, "192.0.2.101", "192.0.2.101/24")
    site.replace(ALL, "transport: rdma", "transport: rdmaa")
    site.replace(ALL, "lease: 60s", "lease: 60")
    site.replace(ALL, "mtu: 9000", "mtu: 90000")
    site.replace(BOX, "  driver: nvmet\n", "  driver: nvmet\n  rated_gbps: fast\n")
    site.replace(BOX, "      rail: b\n", "")
    _, problems = site.inspect()
    address = the(problems, "'192.0.2.101/24' is not an IPv4 or IPv6 address")
    assert found_at(address) == site.position(HOST1, "192.0.2.101/24")
    assert the(problems, "'rdmaa' is not one of rdma, tcp").hint == "did you mean 'rdma'?"
    assert the(problems, "expected text, got 60").hint == "put it in quotes"
    assert found_at(the(problems, "got 90000")) == site.position(ALL, "90000")
    assert found_at(the(problems, "'fast'")) == site.position(BOX, "fast")
    assert the(problems, "the key 'rail' is missing").where == "g35_ebof.portals[1].rail"


def test_site_wide_variables_must_agree(site: SiteFiles) -> None:
    site.append(HOST2, "g35_site: {name: other}\n")
    _, problems = site.inspect()
    differing = the(problems, "differs from its value on ebof1")
    assert found_at(differing)[0] == str(site.root / HOST2)
    assert f"{site.root / ALL}" in differing.what


def test_missing_site_wide_variables_are_reported_once(site: SiteFiles) -> None:
    site.replace(ALL, "g35_site:", "other_site:")
    _, problems = site.inspect()
    assert [problem.what for problem in problems] == ["g35_site is not set"]


def test_racks_and_other_groups_of_the_user_are_his_business(site: SiteFiles) -> None:
    site.append("group_vars/rack1.yml", "location: cellar\n")
    site.append(HOSTS, "rack1:\n  hosts:\n    gpu1:\n")
    found, problems = site.inspect()
    assert found is not None and problems == ()


def test_a_group_without_any_effect_is_a_warning(site: SiteFiles) -> None:
    site.append(HOSTS, "machines:\n  hosts:\n    gpu1:\n")
    found, problems = site.inspect()
    assert found is not None
    assert found_at(the(problems, "means nothing to g35ctl")) == site.position(HOSTS, "machines")


def test_a_host_in_no_known_group_is_an_error(site: SiteFiles) -> None:
    site.append(HOSTS, "all:\n  hosts:\n    stray:\n")
    _, problems = site.inspect()
    assert found_at(the(problems, "in none of the groups")) == site.position(HOSTS, "stray")


@pytest.mark.parametrize("name", ["nowhere", "nowhere/hosts.yml"])
def test_a_missing_inventory_is_one_clear_problem(tmp_path: Path, name: str) -> None:
    found, problems = inspect(str(tmp_path / name))
    assert found is None
    assert [problem.what for problem in problems] == ["no such inventory"]


def test_an_empty_directory_has_no_hosts(tmp_path: Path) -> None:
    found, problems = inspect(str(tmp_path))
    assert found is None
    assert [problem.what for problem in problems] == ["the inventory has no hosts"]


def test_nothing_is_printed_and_ansible_gets_its_display_back(
    site: SiteFiles, capfd: pytest.CaptureFixture[str]
) -> None:
    from ansible.utils.display import Display

    before = dict(Display().__dict__)
    site.append(HOST1, "broken: [\n")
    site.inspect()
    assert capfd.readouterr() == ("", "")
    assert Display().__dict__.keys() == before.keys()


def test_variables_plugins_can_tell_that_an_inventory_is_being_read(
    site: SiteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    read = load_module.read

    def watched(*args: object) -> object:
        seen.append(load_module.loading)
        return read(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(load_module, "read", watched)
    site.inspect()
    assert seen == [True]
    assert load_module.loading is False
