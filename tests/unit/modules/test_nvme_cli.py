"""Every release of nvme-cli reads as one model; what cannot be read is a typed error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ansible.module_utils.g35.nvme import read_topology
from ansible.module_utils.g35.nvme_cli import (
    CliNamespace,
    CliPath,
    CliSubsystem,
    DiscoveryRecord,
    NvmeCliError,
    devices_beside,
    document,
    parse_devices,
    parse_discovery,
    parse_subsystems,
    parse_version,
)
from hypothesis import given
from hypothesis import strategies as st
from nvme_kernel import Kernel, nqn

FIXTURES = Path(__file__).parents[2] / "fixtures" / "nvme_cli"
RELEASES = {"2.3": (2, 3), "2.11": (2, 11), "2.16": (2, 16), "3.0-rc1": (3, 0)}
SUBSYSTEM = CliSubsystem(
    "nvme-subsys0",
    "nqn.2024-01.com.example:ebof1:slot01",
    "nqn.2014-08.org.nvmexpress:uuid:58a57f71-0933-4c66-9427-f6b1b59fa51e",
    (
        CliPath("nvme0", "rdma", "192.168.100.11", "4420", state="live"),
        CliPath("nvme1", "rdma", "192.168.101.11", "4420", state="live"),
    ),
)
NAMESPACE = CliNamespace("nvme0n1", 1, 3840755982336)


def read(release: str, name: str) -> str:
    return (FIXTURES / release / name).read_text()


def optimized(subsystem: CliSubsystem) -> CliSubsystem:
    return replace(subsystem, paths=tuple(replace(path, ana_states=("optimized",)) for path in subsystem.paths))


def stateless(subsystem: CliSubsystem) -> CliSubsystem:
    return replace(subsystem, paths=tuple(replace(path, state="") for path in subsystem.paths))


@pytest.mark.parametrize("release", RELEASES)
def test_version(release: str) -> None:
    assert parse_version(read(release, "version.txt")) == RELEASES[release]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["list-subsys.json", "list-subsys-v.json"])
def test_list_subsys_is_the_same_in_every_release(release: str, name: str) -> None:
    assert parse_subsystems(read(release, name)) == (SUBSYSTEM,)


@pytest.mark.parametrize("release", RELEASES)
def test_list_subsys_of_a_namespace_adds_its_ana_states_from_2_8_on(release: str) -> None:
    wanted = SUBSYSTEM if release == "2.3" else optimized(SUBSYSTEM)
    assert parse_subsystems(read(release, "list-subsys-ns.json")) == (wanted,)


@pytest.mark.parametrize("release", RELEASES)
def test_verbose_list_is_the_same_in_every_release(release: str) -> None:
    # 2.3 asked a block device that did not exist where this was recorded.
    namespaces = () if release == "2.3" else (NAMESPACE,)
    wanted = replace(optimized(stateless(SUBSYSTEM)), namespaces=namespaces)
    assert parse_subsystems(read(release, "list-v.json"), "nvme list -v") == (wanted,)


@pytest.mark.parametrize("release", ["2.16", "3.0-rc1"])
def test_controllers_below_the_paths_of_a_namespace_are_found(release: str) -> None:
    (found,) = parse_subsystems(read(release, "show-topology.json"), "nvme show-topology")
    assert found.paths == optimized(SUBSYSTEM).paths


@pytest.mark.parametrize("release", RELEASES)
def test_list_is_the_same_whether_it_is_simple_or_a_tree(release: str) -> None:
    assert parse_devices(read(release, "list.json")) == (() if release == "2.3" else (NAMESPACE,))


def test_the_trees_of_1_x() -> None:
    controller = {
        "Controller": "nvme0",
        "Transport": "rdma",
        "Address": "traddr=192.0.2.1 trsvcid=4420 host_traddr=::1",
    }
    tree = {"Devices": [{"Subsystem": "nvme-subsys0", "SubsystemNQN": "nqn.x", "Controllers": [
        {**controller, "HostNQN": "nqn.h", "Namespaces": [{"NameSpace": "nvme0n1", "NSID": 1, "PhysicalSize": 512}]}
    ]}]}  # fmt: skip
    (found,) = parse_subsystems(json.dumps(tree))
    assert (found.host_nqn, found.namespaces) == ("nqn.h", (CliNamespace("nvme0n1", 1, 512),))
    assert found.paths == (CliPath("nvme0", "rdma", "192.0.2.1", "4420", "::1"),)
    old = {"Subsystems": [{"Name": "nvme-subsys0", "NQN": "nqn.x", "Paths": [{**controller, "Name": "nvme0"}]}]}
    assert parse_subsystems(json.dumps(old))[0].paths == found.paths


def test_log_lines_around_the_document_do_not_matter() -> None:
    text = read("2.16", "list-subsys.json")
    noise = "Failed to open /dev/nvme-fabrics: No such file or directory\n[warn] option ignored\n"
    assert parse_subsystems(noise + text + "\nwarning: use hostid\n") == (SUBSYSTEM,)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("Failed to scan topology: No such file or directory\n", "malformed"),
        ('[\n {"HostNQN": "nqn', "malformed"),
        ('{"Devices": 3}', "malformed"),
        ('[{"Subsystems": [{"Name": "nvme-subsys0"}]}]', "malformed"),
        ("[1, 2]", "malformed"),
        ('{"error":"Failed to scan topology: No such file or directory"}', "refused"),
    ],
)
def test_what_cannot_be_read_is_a_typed_error_that_names_the_command(text: str, kind: str) -> None:
    with pytest.raises(NvmeCliError, match=r"^nvme list-subsys: ") as caught:
        parse_subsystems(text)
    assert caught.value.kind == kind


@pytest.mark.parametrize("parse", [parse_subsystems, parse_devices, parse_discovery, parse_version, document])
@given(text=st.text(alphabet='{}[]":, \nadDevicsSubytmNQrod0', max_size=60))
def test_no_output_makes_a_parser_crash(parse, text: str) -> None:
    try:
        parse(text)
    except NvmeCliError:
        return


def test_discovery_keeps_io_subsystems_only() -> None:
    def record(nqn_: str, subtype: str) -> dict[str, object]:
        return {
            "trtype": "rdma",
            "adrfam": "ipv4",
            "subtype": subtype,
            "trsvcid": "4420 ",
            "subnqn": nqn_,
            "traddr": "192.0.2.11",
        }

    log = {"genctr": 3, "records": [record("nqn.2014-08.org.nvmexpress.discovery", "current discovery subsystem"),
                                    record("nqn.a", "nvme subsystem"),
                                    record("nqn.b", "discovery subsystem referral")]}  # fmt: skip
    assert parse_discovery("nvme0: ...\n" + json.dumps(log)) == (
        DiscoveryRecord("nqn.a", "rdma", "ipv4", "192.0.2.11", "4420"),
    )


def test_no_output_means_no_devices_only_where_sysfs_agrees(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    assert devices_beside("", read_topology(kernel.host)) == ()
    kernel.add_controller(nqn(0), "192.0.2.11")
    with pytest.raises(NvmeCliError) as caught:
        devices_beside("", read_topology(kernel.host))
    assert caught.value.kind == "empty"
