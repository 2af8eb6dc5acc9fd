"""Every lint: broken in the files it is found at the line that is wrong, and it says so."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from site_files import ALL, BOX, HOST1, HOST2, HOSTS, SiteFiles

from g35ctl.site import lint
from g35ctl.site.lints.cache import lease_seconds

UUID = re.compile(r"uuid: (\S+)")


@dataclass(frozen=True)
class Case:
    """Edits (file, old, new; ``old`` empty appends), and what must be reported where. ``at`` is a text of ``file``."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    message: str
    file: str
    at: str
    severity: str = "error"


def one(name: str, file: str, old: str, new: str, message: str, at: str, severity: str = "error") -> Case:
    return Case(name, ((file, old, new),), message, file, at, severity)


STORE = "    segment_size: 4GiB\n"
CASES = (
    one("tos", ALL, "    dscp: 26\n", "    dscp: 26\n    tos: 104\n", "ToS 104 does not match DSCP 26", "104"),
    one("priority", ALL, "cnp_priority: 6", "cnp_priority: 3", "share priority 3", "3"),
    one("code point", ALL, "cnp_dscp: 48", "cnp_dscp: 26", "share DSCP 26", "26"),
    one("bandwidth", ALL, "bandwidth_percent: 50", "bandwidth_percent: 95", "leaves less than 1 %", "95"),
    one("mtu", ALL, "mtu: 9000", "mtu: 1500", "MTU 1500 is below 4200", "1500"),
    one("rail twice", ALL, "name: b", "name: a", "rail 'a' is defined twice", "a"),
    one("link-local rail", ALL, "198.51.100.0/24", "fe80::/64", "IPv6 link-local", "fe80::/64"),
    one("subnets overlap", ALL, "198.51.100.0/24", "192.0.0.0/16", "overlaps 192.0.2.0/24", "192.0.0.0/16"),
    one("one rail", ALL, "    - name: b\n      subnet: 198.51.100.0/24\n", "", "one rail only", "rails:", "warning"),
    one("unknown rail of a port", HOST1, "rail: b", "rail: c", "rail 'c' is not in g35_fabric.rails", "c"),
    one("port outside", HOST1, "192.0.2.101", "203.0.113.1", "outside 192.0.2.0/24", "203.0.113.1"),
    one("netdev twice", HOST1, "enp65s0f1np1", "enp65s0f0np0", "used twice, first in g35_ports[0]", "enp65s0f0np0"),
    one("rail without port", HOST2, "rail: b", "rail: a", "no port on rail 'b'", "g35_ports"),
    one("no ports", HOST2, "g35_ports", "other_ports", "g35_ports is not set", "", "error"),
    one("unknown rail of a portal", BOX, "      rail: b", "      rail: z", "rail 'z' is not in", "z"),
    one("portal outside", BOX, "    - address: 192.0.2.11", "    - address: 203.0.113.9", "outside", "203.0.113.9"),
    one("portal without port", BOX, "    address: 192.0.2.11", "    address: 192.0.2.12", "nvmet cannot listen", ""),
    one("rail without portal", BOX, "    - address: 198.51.100.11\n      rail: b\n", "", "no portal on rail 'b'",
        "portals", "warning"),
    one("address twice", HOST2, "192.0.2.102", "192.0.2.101", "already used by gpu1", "192.0.2.101"),
    one("address of a box", HOST2, "192.0.2.102", "192.0.2.11", "already used by ebof1", "192.0.2.11"),
    Case("host uuid", ((HOST1, "", "g35_nvme: {host_uuid: 5f0c4f0e-8a51-4a5b-9d0a-2f6a1c1d2e3f}\n"),
                       (HOST2, "", "g35_nvme: {host_uuid: 5f0c4f0e-8a51-4a5b-9d0a-2f6a1c1d2e3f}\n")),
         "is already that of gpu1", HOST2, "5f0c4f0e"),
    one("loss timeout", ALL, "controller_loss_timeout: 600", "controller_loss_timeout: 1", "is shorter than", "1"),
    one("queue size", ALL, "queue_size: 128", "queue_size: 256", "clamped to 128", "256", "warning"),
    one("no box", HOSTS, "ebof:\n  hosts:\n    ebof1:\n", "", "no host is in group ebof", ""),
    one("no master", HOSTS, "mooncake_masters:\n  hosts:\n    gpu1:\n", "", "no host is in group mooncake_masters", ""),
    one("two masters", HOSTS, "mooncake_masters:\n  hosts:\n", "mooncake_masters:\n  hosts:\n    gpu2:\n",
        "group etcd has 0 hosts", ""),
    Case("an even etcd", ((HOSTS, "mooncake_masters:\n  hosts:\n", "mooncake_masters:\n  hosts:\n    gpu2:\n"),
                          (HOSTS, "", "etcd:\n  hosts:\n    gpu1:\n    gpu2:\n")),
         "group etcd has 2 hosts", HOSTS, ""),
    Case("etcd without a second master", ((HOSTS, "", "etcd:\n  hosts:\n    gpu1:\n"),),
         "no effect with a single Mooncake master", HOSTS, "", "warning"),
    Case("raw pool without a wheel of one's own", ((ALL, "g35_site:\n", "g35_site:\n  profile: nof-experimental\n"),),
         "no published wheel has the raw pool", ALL, ""),
    Case("raw pool without consent", ((ALL, "g35_site:\n", "g35_site:\n  profile: nof-experimental\n"),),
         "a raw pool overwrites whatever is on namespace", BOX, ""),
    Case("etcd on a box", ((HOSTS, "", "etcd:\n  hosts:\n    ebof1:\n"),), "in group ebof and in etcd", HOSTS, ""),
    one("huge pages", ALL, STORE, "    segment_size: 4097MiB\n    huge_pages: 1GiB\n",
        "no multiple of huge pages of 1GiB", "4097MiB"),
    one("indirect path", ALL, "", "g35_storage: {mount_root: /var/lib/../g35}\n", "holds '.', '..'", "/var/lib/../g35"),
    one("both sides", HOSTS, "ebof:\n  hosts:\n", "ebof:\n  hosts:\n    gpu2:\n", "its own initiator", "gpu2"),
    one("box without variable", HOSTS, "    ebof1:\n", "    ebof1:\n    ebof2:\n", "g35_ebof is not set", "ebof2"),
    one("variable without box", HOST1, "", "g35_ebof:\n  portals: [{address: 192.0.2.101, rail: a}]\n"
        "  namespaces: [{nqn: 'nqn.2026-01.io.x:y', uuid: 5f0c4f0e-8a51-4a5b-9d0a-2f6a1c1d2e3f, size: 1TB}]\n",
        "not in group ebof", "g35_ebof"),
    one("nqn twice", BOX, ":ssd1", ":ssd0", "nsid 1 is already ebof1 namespaces[0]", ""),
    one("device twice", BOX, "EBOF1-SSD1", "EBOF1-SSD0", "already exported by ebof1 namespaces[0]", ""),
    one("no device", BOX, "      device: /dev/disk/by-id/nvme-MODEL_EBOF1-SSD1\n", "", "needs the device", ""),
    one("unstable device", BOX, "/dev/disk/by-id/nvme-MODEL_EBOF1-SSD1", "/dev/nvme1n1", "after a reboot",
        "/dev/nvme1n1"),
    one("too small", BOX, "size: 4GiB", "size: 100MiB", "too small for XFS", "100MiB"),
    one("unknown owner", BOX, "      size: 4GiB\n", "      size: 4GiB\n      owner: gpu7\n", "is not a cache owner",
        "gpu7"),
    Case("two owners", ((BOX, "      size: 4GiB\n", "      size: 4GiB\n      owner: gpu1\n"),
                        (HOST2, "", "g35_storage: {owns: ['nqn.2026-01.io.g35ctl:test:ebof1:ssd0']}\n")),
         "has two owners: gpu1 (pinned at", BOX, "gpu1"),
    Case("two claims", ((HOST1, "", "g35_storage: {owns: ['nqn.2026-01.io.g35ctl:test:ebof1:ssd0']}\n"),
                        (HOST2, "", "g35_storage: {owns: ['nqn.2026-01.io.g35ctl:test:ebof1:ssd0']}\n")),
         "has two owners: gpu1 (claimed at", BOX, "nqn.2026-01.io.g35ctl:test:ebof1:ssd0"),
    one("unknown claim", HOST1, "", "g35_storage: {owns: ['nqn.2026-01.io.g35ctl:test:ebof1:ssd9']}\n",
        "no box exports", "'nqn.2026"),
    one("claim by a box", BOX, "", "g35_storage: {owns: ['nqn.2026-01.io.g35ctl:test:ebof1:ssd0']}\n",
        "is not a cache owner", "'nqn.2026-01.io.g35ctl:test:ebof1:ssd0']"),
    one("destroy nothing", HOST1, "", "g35_storage: {destroy: [5f0c4f0e-8a51-4a5b-9d0a-2f6a1c1d2e3f]}\n",
        "no namespace has the UUID", "5f0c4f0e"),
    one("bucket above headroom", ALL, "bucket_size: 256MiB", "bucket_size: 1GiB", "lost in silence", "1GiB"),
    one("bucket near headroom", ALL, "bucket_size: 256MiB", "bucket_size: 410MiB", "a burst may evict", "410MiB",
        "warning"),
    one("segment below bucket", ALL, "segment_size: 4GiB", "segment_size: 128MiB", "nothing reaches flash", "256MiB"),
    one("segment default", ALL, "    bucket_size: 256MiB", "    bucket_size: 8GiB", "nothing reaches flash", "8GiB"),
    one("buffer", ALL, "local_buffer_size: 1280MiB", "local_buffer_size: 64MiB", "cannot be staged", "64MiB"),
    one("value above bucket", ALL, "bucket_size: 256MiB", "bucket_size: 512KiB", "does not fit bucket_size", ""),
    one("bucket against namespace", BOX, "size: 4GiB", "size: 1GiB", "a tenth of the smallest namespace", ""),
    one("lease in milliseconds", ALL, "lease: 60s", "lease: '60'", "60 ms", "'60'"),
    one("lease below ttl", ALL, "lease: 60s", "lease: 5s", "shorter than client_ttl", "5s", "warning"),
    one("heartbeat", ALL, STORE, STORE + "    heartbeat: 30\n", "not below client_ttl", "30"),
    one("store port on master port", ALL, STORE, STORE + "    rpc_port: 50051\n", "both need port 50051", "50051"),
    one("stores into each other", ALL, STORE, STORE + "    rpc_port: 9300\n    http_port: 9300\n",
        "both need port 9300", ""),
    one("picked range", ALL, STORE, STORE + "    http_port: 15500\n", "where Mooncake picks ports", "15500"),
    one("no wheels", ALL, "version: 0.3.13.post1", "version: 0.3.12.post1", "no wheels in", "", "warning"),
)  # fmt: skip


def test_the_untouched_site_is_valid_without_a_warning(site: SiteFiles) -> None:
    found, problems = site.inspect()
    assert found is not None
    assert problems == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_lint_finds_what_is_broken_where_it_is_written(case: Case, site: SiteFiles) -> None:
    for file, old, new in case.edits:
        if old:
            site.replace(file, old, new)
        else:
            site.append(file, new)
    found, problems = site.inspect()
    matching = [problem for problem in problems if case.message in problem.what]
    assert matching, [str(problem) for problem in problems]
    problem = matching[0]
    assert problem.severity == case.severity
    assert (found is None) == any(item.severity == "error" for item in problems)
    if case.at:
        lines = site.read(case.file).splitlines()
        assert problem.position.file == str(site.root / case.file)
        assert problem.position.line is not None and problem.position.column is not None
        pointed = lines[problem.position.line - 1][problem.position.column - 1 :]
        assert pointed.startswith(case.at), pointed


def test_a_host_without_flash_rails_cannot_own(site: SiteFiles) -> None:
    """Hosts and box on different rails: nobody can own, and each namespace says so."""
    for file in (HOST1, HOST2):
        text = site.read(file).split("  - netdev: enp65s0f1np1")[0]
        (site.root / file).write_text(text)
    site.replace(BOX, "    - address: 192.0.2.11\n      rail: a\n", "")
    _, problems = site.inspect()
    assert sum("no possible owner" in problem.what for problem in problems) == 2


def test_a_pinned_owner_must_reach_the_box(site: SiteFiles) -> None:
    site.replace(HOST2, "  - netdev: enp65s0f1np1\n    rail: b\n    address: 198.51.100.102\n", "")
    site.replace(BOX, "    - address: 192.0.2.11\n      rail: a\n", "")
    site.replace(BOX, "      size: 4GiB\n", "      size: 4GiB\n      owner: gpu2\n")
    _, problems = site.inspect()
    assert any("owner gpu2 has no port on a rail of ebof1 (b)" in problem.what for problem in problems)


def test_two_boxes_share_neither_portal_nor_subsystem_nor_uuid(site: SiteFiles) -> None:
    site.replace(HOSTS, "    ebof1:\n", "    ebof1:\n    ebof2:\n")
    second = site.read(BOX).replace("driver: nvmet", "driver: static").replace("nsid", "x")
    second = re.sub(r"      device: .*\n", "", second)
    second = re.sub(r"g35_ports:.*?(?=g35_ebof)", "", second, flags=re.DOTALL)
    (site.root / "host_vars/ebof2.yml").write_text(second)
    _, problems = site.inspect()
    told = [problem.what for problem in problems if problem.hosts == ("ebof2",)]
    assert any("portal 192.0.2.11 port 4420 is already a portal of ebof1" in what for what in told)
    assert any("nsid 1 is already ebof1 namespaces[0]" in what for what in told)
    uuid = UUID.search(second)
    assert uuid and any(f"namespace UUID {uuid.group(1)} is already that of ebof1" in what for what in told)


def second_head(site: SiteFiles, ids: str) -> str:
    """A second box that is a head of the first; returns its variables."""
    site.replace(HOSTS, "    ebof1:\n", "    ebof1:\n    ebof2:\n")
    site.replace(BOX, "  driver: nvmet\n", "  driver: nvmet\n  controller_ids: {lowest: 1, highest: 100}\n")
    text = re.sub(r"192\.0\.2\.11\b", "192.0.2.12", re.sub(r"198\.51\.100\.11\b", "198.51.100.12", site.read(BOX)))
    text = text.replace("  controller_ids: {lowest: 1, highest: 100}\n", f"  head_of: ebof1\n{ids}")
    (site.root / "host_vars/ebof2.yml").write_text(text)
    return text


def test_two_heads_of_a_box_share_its_namespaces(site: SiteFiles) -> None:
    second_head(site, "  controller_ids: {lowest: 101, highest: 200}\n")
    found, problems = site.inspect()
    assert (found is not None, [problem.what for problem in problems]) == (True, [])


@pytest.mark.parametrize(
    ("ids", "old", "new", "message"),
    [
        ("  controller_ids: {lowest: 50, highest: 200}\n", "", "", "50 to 200 overlaps 1 to 100 of ebof1"),
        ("", "", "", "heads of one box need controller_ids"),
        ("  controller_ids: {lowest: 101, highest: 200}\n", "size: 4GiB", "size: 8GiB", "not served as ebof1 does"),
        ("  controller_ids: {lowest: 101, highest: 200}\n", "head_of: ebof1", "head_of: ebof9", "is no other box"),
        ("  controller_ids: {lowest: 200, highest: 101}\n", "", "", "lowest 200 is not below highest 101"),
    ],
)
def test_heads_that_do_not_fit(site: SiteFiles, ids: str, old: str, new: str, message: str) -> None:
    text = second_head(site, ids)
    (site.root / "host_vars/ebof2.yml").write_text(text.replace(old, new, 1) if old else text)
    _, problems = site.inspect()
    assert any(message in problem.what for problem in problems), [problem.what for problem in problems]


def test_serials_name_one_subsystem(site: SiteFiles) -> None:
    text = site.read(BOX).replace("      size: 4GiB\n", "      size: 4GiB\n      serial: S1\n")
    (site.root / BOX).write_text(text)
    _, problems = site.inspect()
    assert [problem.what for problem in problems] == ["serial S1 is already that of ebof1 namespaces[0]"]


def test_one_subsystem_has_one_pinned_owner(site: SiteFiles) -> None:
    text = (
        site.read(BOX)
        .replace(":ssd1", ":ssd0")
        .replace("      size: 4GiB\n", "      size: 4GiB\n      owner: gpu1\n", 1)
    )
    head, _, tail = text.rpartition("      size: 4GiB\n")
    (site.root / BOX).write_text(f"{head}      size: 4GiB\n      nsid: 2\n      owner: gpu2\n{tail}")
    _, problems = site.inspect()
    assert any("has a namespace pinned to 'gpu1'" in problem.what for problem in problems)


def test_mooncake_is_the_same_everywhere(site: SiteFiles) -> None:
    site.append(HOST2, "g35_mooncake:\n  version: 0.3.12.post1\n  master: {client_ttl: 20}\n")
    _, problems = site.inspect()
    told = [problem for problem in problems if problem.severity == "error"]
    assert {problem.what for problem in told} == {
        "Mooncake 0.3.12.post1 here, 0.3.13.post1 on gpu1",
        "settings of the master differ from those on gpu1",
    }
    assert all(problem.position.file.endswith(HOST2) for problem in told)


@pytest.mark.parametrize(("lease", "seconds"), [("60s", 60), ("5m", 300), ("2000ms", 2), ("2000", 2)])
def test_leases_are_read_as_mooncake_reads_them(lease: str, seconds: float) -> None:
    assert lease_seconds(lease) == pytest.approx(seconds)


def test_every_lint_has_a_docstring_that_states_its_rule() -> None:
    assert all((check.__doc__ or "").strip().endswith(".") for check in lint.LINTS)
