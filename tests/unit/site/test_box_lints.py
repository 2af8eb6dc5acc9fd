"""Lints of boxes: what each driver needs, and that a password is shown nowhere."""

from __future__ import annotations

import pytest
from site_files import BOX, SiteFiles

SPDK = "g35_ebof:\n  spdk: {socket: /run/g35/ebof1.sock}\n"
REDFISH = (
    "g35_ebof:\n  redfish:\n    addresses: [10.9.0.1, 10.9.0.2]\n    username: g35\n    password: hunter2-secret\n"
)


def spdk(site: SiteFiles) -> SiteFiles:
    site.replace(BOX, "g35_ebof:\n", SPDK).replace(BOX, "driver: nvmet", "driver: spdk")
    for number in range(2):
        site.replace(BOX, f"device: /dev/disk/by-id/nvme-MODEL_EBOF1-SSD{number}", f"bdev: Nvme{number}n1")
    return site


def redfish(site: SiteFiles) -> SiteFiles:
    site.replace(BOX, "g35_ebof:\n", REDFISH).replace(BOX, "driver: nvmet", "driver: redfish")
    for number in range(2):
        site.replace(BOX, f"      device: /dev/disk/by-id/nvme-MODEL_EBOF1-SSD{number}\n", "")
    return site


def told(site: SiteFiles) -> list[str]:
    return [problem.what for problem in site.inspect()[1] if problem.severity == "error"]


@pytest.mark.parametrize("make", [spdk, redfish])
def test_a_box_with_what_its_driver_needs_is_valid(site: SiteFiles, make) -> None:
    found, problems = make(site).inspect()
    assert found is not None and not [item for item in problems if item.severity == "error"]


@pytest.mark.parametrize("driver", ["spdk", "redfish"])
def test_a_driver_without_its_mapping_is_told_what_to_write(site: SiteFiles, driver: str) -> None:
    site.replace(BOX, "driver: nvmet", f"driver: {driver}")
    problems = [item for item in site.inspect()[1] if f"driver {driver} needs {driver}" in item.what]
    assert [item.position.line for item in problems] == [site.position(BOX, driver)[1]]
    assert f"{driver}:" in problems[0].hint


def test_a_mapping_of_another_driver_is_a_warning(site: SiteFiles) -> None:
    site.replace(BOX, "g35_ebof:\n", SPDK)
    (problem,) = [item for item in site.inspect()[1] if "no effect" in item.what]
    assert (problem.severity, problem.what) == ("warning", "spdk has no effect with driver nvmet")


def test_bdevs_are_needed_and_distinct(site: SiteFiles) -> None:
    spdk(site).replace(BOX, "bdev: Nvme1n1", "bdev: Nvme0n1")
    assert told(site) == ["Nvme0n1 is already that of namespaces[0]"]
    site.replace(BOX, "      bdev: Nvme0n1\n", "")
    assert told(site) == ["driver spdk needs the bdev of each namespace"]


def test_a_range_of_controller_identifiers_is_a_range(site: SiteFiles) -> None:
    spdk(site).replace(BOX, "ebof1.sock}", "ebof1.sock, min_cntlid: 20, max_cntlid: 10}")
    assert told(site) == ["min_cntlid 20 is above max_cntlid 10"]


def test_management_needs_a_password_and_two_addresses_that_differ(site: SiteFiles) -> None:
    redfish(site).replace(BOX, "    password: hunter2-secret\n", "").replace(BOX, "10.9.0.2", "10.9.0.1")
    assert told(site) == ["the management needs a password", "both heads have the same address"]


def test_a_port_is_given_the_address_of_a_portal(site: SiteFiles) -> None:
    ports = (
        "    ports: [{interface: /redfish/v1/Chassis/A/EthernetInterfaces/1, address: 192.0.2.77}]\n    username: g35\n"
    )
    redfish(site).replace(BOX, "    username: g35\n", ports)
    assert told(site) == ["192.0.2.77 is no portal of the box on a rail of the site"]


@pytest.mark.parametrize("value", ["12345678", "[hunter2-secret]", "{a: hunter2-secret}"])
def test_a_wrong_password_is_refused_without_showing_it(site: SiteFiles, value: str) -> None:
    redfish(site).replace(BOX, "password: hunter2-secret", f"password: {value}")
    problems = site.inspect()[1]
    assert any("password" in item.where for item in problems)
    assert all("hunter2" not in str(item) and "12345678" not in str(item) for item in problems)


def test_the_site_does_not_show_the_password(site: SiteFiles) -> None:
    found, _ = redfish(site).inspect()
    assert found is not None and "hunter2-secret" not in repr(found)
    assert "hunter2-secret" not in found.model_dump_json()
