"""Lints of striped sets: found at the line that is wrong."""

from __future__ import annotations

import re

import pytest
from site_files import ALL, BOX, HOST1, HOSTS, SiteFiles

UUID = re.compile(r"uuid: (\S+)")
STRIPED = "g35_storage: {layout: striped}\n"


def told(site: SiteFiles) -> list[tuple[str, str, int, str]]:
    """(severity, file, line, message) of every problem."""
    _, problems = site.inspect()
    return [(item.severity, item.position.file, item.position.line, item.what) for item in problems]


def at(site: SiteFiles, file: str, text: str) -> tuple[str, int]:
    return site.position(file, text)[:2]


def pin_both(site: SiteFiles, second_size: str = "4GiB") -> SiteFiles:
    text = site.read(BOX)
    first, rest = text.split("      size: 4GiB\n", 1)
    rest = rest.replace("      size: 4GiB\n", f"      size: {second_size}\n      owner: gpu1\n", 1)
    (site.root / BOX).write_text(f"{first}      size: 4GiB\n      owner: gpu1\n{rest}")
    return site


def test_an_owner_with_two_namespaces_may_stripe(site: SiteFiles) -> None:
    pin_both(site).append(HOST1, STRIPED)
    assert told(site) == []
    found, _ = site.inspect()
    assert found is not None
    assert (found.host("gpu1").storage.layout, found.host("gpu2").storage.layout) == ("striped", "per_namespace")


def test_the_site_may_say_it_and_a_host_otherwise(site: SiteFiles) -> None:
    pin_both(site).replace(ALL, "g35_storage:\n", "g35_storage:\n  layout: striped\n")
    site.append(HOST1, "g35_storage: {layout: per_namespace}\n")
    found, _ = site.inspect()
    assert found is not None
    assert (found.host("gpu1").storage.layout, found.host("gpu2").storage.layout) == ("per_namespace", "striped")


def test_one_namespace_for_each_owner_is_nothing_to_stripe(site: SiteFiles) -> None:
    site.append(HOST1, STRIPED)
    ((severity, file, line, message),) = told(site)
    assert (severity, (file, line)) == ("warning", at(site, HOST1, "layout"))
    assert "2 owners share 2 namespaces" in message


def test_namespaces_of_one_set_have_one_size(site: SiteFiles) -> None:
    pin_both(site, "8GiB").append(HOST1, STRIPED)
    ((severity, file, line, message),) = told(site)
    assert (severity, (file, line)) == ("warning", at(site, BOX, "8GiB"))
    assert "gpu1 stripes over this namespace of 8 GiB" in message


def test_a_part_of_the_names_starts_nothing_anew(site: SiteFiles) -> None:
    pin_both(site)
    uuids = UUID.findall(site.read(BOX))
    site.append(HOST1, f"g35_storage: {{layout: striped, destroy: [{uuids[0]}]}}\n")
    found = [item for item in told(site) if "made anew only where every namespace" in item[3]]
    ((severity, file, line, message),) = found
    assert (severity, (file, line)) == ("warning", at(site, HOST1, "destroy"))
    assert uuids[1] in message and f"{BOX}:" in message


def test_the_raw_pool_has_no_file_systems_to_stripe(site: SiteFiles) -> None:
    text = site.read(ALL).replace("g35_site:\n", "g35_site:\n  profile: nof-experimental\n", 1)
    (site.root / ALL).write_text(text)
    site.append(HOST1, STRIPED)
    found = [item for item in told(site) if "layout striped has no meaning" in item[3]]
    assert [(item[0], item[1:3]) for item in found] == [("error", at(site, HOST1, "layout"))]


def test_local_directories_are_not_striped(site: SiteFiles) -> None:
    (site.root / BOX).unlink()
    text = site.read(HOSTS).replace("ebof:\n  hosts:\n    ebof1:\n", "")
    (site.root / HOSTS).write_text(text)
    site.append(HOST1, "g35_storage: {layout: striped, directories: [{path: /srv/kv, size: 10GiB}]}\n")
    found = [item for item in told(site) if "no effect on a site without a box" in item[3]]
    assert [(item[0], item[1:3]) for item in found] == [("warning", at(site, HOST1, "layout"))]


@pytest.mark.parametrize("size", ["1000KiB", "2KiB", "128MiB"])
def test_a_chunk_is_a_power_of_two_of_a_sane_size(site: SiteFiles, size: str) -> None:
    pin_both(site).append(HOST1, f"g35_storage: {{layout: striped, chunk_size: {size}}}\n")
    (problem,) = [item for item in told(site) if item[0] == "error"]
    assert problem[1:3] == at(site, HOST1, size)
