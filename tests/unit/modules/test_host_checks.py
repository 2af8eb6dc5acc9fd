"""What preflight and verify see around the stages: kernel, sshd, space, clock, addresses, portals, counters."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tier_sample as tier
from ansible.module_utils.g35 import aggregate, arp, counters, holders, kernelconfig, portals, surroundings
from ansible.module_utils.g35.converge import Finding
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import FabricPort
from ansible.module_utils.g35.schema import dump

RELEASE = "6.1.0-57-amd64"
PLANS = {
    "fabric": dump(tier.fabric_plan("gpu1")),
    "connect": dump(tier.connect_plan("gpu1")),
    "storage": dump(tier.storage_plan("gpu1")),
    "cache": dump(tier.cache_plan("gpu1")),
}
ALL_OPTIONS = "".join(f"CONFIG_{option.name}=m\n" for options in kernelconfig.OPTIONS.values() for option in options)


class Machine(Host):
    """A host whose commands are answered by the longest matching prefix; everything else is not installed."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), runner=self.answer, sleep=lambda _: None, clock=lambda: 0.0)
        self.answers: dict[str, tuple[int, str]] = {}
        self.asked: list[list[str]] = []
        self.put("/proc/sys/kernel/osrelease", RELEASE)

    def put(self, path: str, text: str) -> None:
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text + "\n")

    def answer(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        self.asked.append(list(argv))
        words = " ".join(argv)
        known = [key for key in self.answers if words.startswith(key)]
        if not known:
            return Result(argv, 127, "", f"{argv[0]}: not installed")
        code, out = self.answers[max(known, key=len)]
        return Result(argv, code, out, "")


@pytest.fixture
def host(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def told(found: Sequence[Finding] | Sequence[tuple[str, Finding]]) -> set[tuple[str, str]]:
    items = [item[1] if isinstance(item, tuple) else item for item in found]
    return {(item.check, item.subject) for item in items}


# kernel


def test_kernel_with_all_options_is_silent(host: Machine) -> None:
    host.put(f"/boot/config-{RELEASE}", ALL_OPTIONS)
    assert kernelconfig.kernel_findings(host, PLANS) == []


@pytest.mark.parametrize("option", ["NVME_MULTIPATH", "INFINIBAND_ADDR_TRANS_CONFIGFS", "XFS_FS", "DCB"])
def test_missing_option_is_told_with_its_stage(host: Machine, option: str) -> None:
    host.put(f"/boot/config-{RELEASE}", ALL_OPTIONS.replace(f"CONFIG_{option}=m", f"# CONFIG_{option} is not set"))
    ((stage, found),) = kernelconfig.kernel_findings(host, PLANS)
    assert found.subject == f"CONFIG_{option}"
    assert stage in PLANS
    assert RELEASE in found.observed


def test_option_does_not_count_where_the_function_is_there(host: Machine) -> None:
    host.put(f"/boot/config-{RELEASE}", ALL_OPTIONS.replace("CONFIG_NVME_RDMA=m", "").replace("CONFIG_XFS_FS=m", ""))
    host.answers["modinfo -F filename nvme-rdma"] = (0, "/lib/modules/x/updates/nvme-rdma.ko\n")
    host.put("/sys/module/xfs/refcnt", "1")
    assert kernelconfig.kernel_findings(host, PLANS) == []


def test_options_of_the_other_transport_do_not_count(host: Machine) -> None:
    host.put(f"/boot/config-{RELEASE}", ALL_OPTIONS.replace("CONFIG_NVME_TCP=m", ""))
    assert kernelconfig.kernel_findings(host, PLANS) == []


def test_configuration_is_also_read_from_proc(host: Machine) -> None:
    assert kernelconfig.read_config(host) is None
    assert kernelconfig.kernel_findings(host, PLANS) == []
    host.path("/proc").mkdir(exist_ok=True)
    host.path("/proc/config.gz").write_bytes(gzip.compress(b"CONFIG_NVME_MULTIPATH=y\n"))
    assert kernelconfig.read_config(host) == {"NVME_MULTIPATH": "y"}
    host.path("/proc/config.gz").write_bytes(b"no gzip")
    assert kernelconfig.read_config(host) is None


# sshd, space, clock, firmware, modules


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("usedns no\nmaxsessions 10\n", set()),
        ("usedns yes\nmaxsessions 10\n", {("system.sshd", "UseDNS")}),
        ("usedns no\nmaxsessions 1\n", {("system.sshd", "MaxSessions")}),
    ],
)
def test_sshd_settings(host: Machine, settings: str, expected: set[tuple[str, str]]) -> None:
    host.put("/usr/sbin/sshd", "")
    host.answers["/usr/sbin/sshd -T"] = (0, settings)
    found = surroundings.sshd_findings(host)
    assert told(found) == expected
    assert all(item.severity == "warning" for item in found)


def test_space_is_told_where_it_is_short(host: Machine) -> None:
    def free(_: Host, path: str) -> tuple[int, int]:
        return (2**20 if path.startswith("/opt") else 2**40), 10**6

    (found,) = surroundings.space_findings(host, PLANS, free)
    assert (found.check, found.subject, found.observed) == ("system.space", "/opt/g35/mooncake", "1 MiB free")


def test_inodes_run_out_too(host: Machine) -> None:
    found = surroundings.space_findings(host, {}, lambda _, path: (2**40, 5))
    assert told(found) == {("system.space", "/"), ("system.space", "/var")}
    assert "inodes" in found[0].observed


def test_space_of_a_directory_that_does_not_exist_is_that_of_its_parent(host: Machine) -> None:
    assert surroundings.free_space(host, "/opt/not/there") == surroundings.free_space(host, "/")


def test_clock_says_which_service_should_keep_it(host: Machine) -> None:
    assert surroundings.clock_findings(host, True) == []
    (found,) = surroundings.clock_findings(host, False)
    assert found.observed == "no time service runs"
    host.answers["systemctl is-active"] = (3, "active\n" + "inactive\n" * (len(surroundings.CLOCKS) - 1))
    (found,) = surroundings.clock_findings(host, None)
    assert "chronyd runs" in found.observed
    assert "chronyc sources" in found.remedy


def test_two_firmwares_of_one_board(host: Machine) -> None:
    for netdev, version in (("eth1", "28.39.1002"), ("eth2", "28.36.1010")):
        host.put(f"/sys/class/net/{netdev}/device/infiniband/mlx5_{netdev}/x", "")
        host.put(f"/sys/class/infiniband/mlx5_{netdev}/fw_ver", version)
        host.put(f"/sys/class/infiniband/mlx5_{netdev}/board_id", "MT_0000000838")
    seen = surroundings.firmware(host, tier.fabric_plan("gpu1").ports)
    assert seen["eth1"]["firmware"] == "28.39.1002"
    (found,) = surroundings.firmware_findings(seen)
    assert "28.36.1010 on eth2; 28.39.1002 on eth1" in found.observed
    host.put("/sys/class/infiniband/mlx5_eth2/fw_ver", "28.39.1002")
    assert surroundings.firmware_findings(surroundings.firmware(host, tier.fabric_plan("gpu1").ports)) == []


def test_modules_of_two_sets_refuse_each_other(host: Machine) -> None:
    host.answers["modinfo -F filename ib_core"] = (0, f"/lib/modules/{RELEASE}/updates/dkms/ib_core.ko\n")
    host.answers["modinfo -F filename nvme-rdma"] = (0, f"/lib/modules/{RELEASE}/kernel/drivers/nvme/nvme-rdma.ko\n")
    assert told(surroundings.module_findings(host, PLANS)) == {("system.modules", "nvme-rdma")}
    host.put("/sys/module/nvme_rdma/refcnt", "0")
    assert surroundings.module_findings(host, PLANS) == []


# duplicate addresses


HARDWARE = bytes.fromhex("023561f71501")


def reply(sender: bytes, address: str, operation: int = 2) -> bytes:
    head = HARDWARE + sender + struct.pack("!H", 0x0806)
    body = struct.pack(
        "!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, operation, sender, socket.inet_aton(address), HARDWARE, bytes(4)
    )
    return head + body


def test_probe_has_no_sender_address() -> None:
    frame = arp.probe_packet(HARDWARE, "192.0.2.21")
    assert frame[:6] == b"\xff" * 6
    assert frame[28:32] == bytes(4)
    assert frame[38:42] == socket.inet_aton("192.0.2.21")
    assert len(frame) == 42


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (reply(bytes.fromhex("02aa00000001"), "192.0.2.21"), "02:aa:00:00:00:01"),
        (reply(bytes.fromhex("02aa00000001"), "192.0.2.22"), ""),
        (reply(HARDWARE, "192.0.2.21"), ""),
        (reply(bytes.fromhex("02aa00000001"), "192.0.2.21", operation=1), ""),
        (b"short", ""),
    ],
)
def test_only_a_strangers_answer_claims(frame: bytes, expected: str) -> None:
    assert arp.claimed_by(frame, HARDWARE, "192.0.2.21") == expected


class Wire:
    """A packet socket on which frames arrive, then silence."""

    def __init__(self, *frames: bytes) -> None:
        self.frames = list(frames)
        self.sent: list[bytes] = []
        self.closed = False

    def __call__(self, *_: Any) -> Wire:
        return self

    def bind(self, _: Any) -> None: ...

    def getsockname(self) -> tuple[str, int, int, int, bytes]:
        return ("eth1", 2054, 0, 1, HARDWARE)

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def settimeout(self, _: float) -> None: ...

    def recv(self, _: int) -> bytes:
        if not self.frames:
            raise TimeoutError
        return self.frames.pop(0)

    def close(self) -> None:
        self.closed = True


def test_claimant_listens_until_it_is_quiet_and_closes() -> None:
    noise = reply(bytes.fromhex("02aa00000002"), "192.0.2.99")
    wire = Wire(noise, reply(bytes.fromhex("02aa00000001"), "192.0.2.21"))
    assert arp.claimant("eth1", "192.0.2.21", wire) == "02:aa:00:00:00:01"
    assert len(wire.sent) == 1
    assert wire.closed
    quiet = Wire(noise)
    assert arp.claimant("eth1", "192.0.2.21", quiet) == ""
    assert quiet.closed


def test_claimant_without_the_right_to_ask_says_nothing() -> None:
    def refused(*_: Any) -> Any:
        raise PermissionError

    assert arp.claimant("eth1", "192.0.2.21", refused) is None


def test_duplicate_address_is_told_for_its_port_alone(host: Machine) -> None:
    for netdev in ("eth1", "eth2"):
        host.put(f"/sys/class/net/{netdev}/mtu", "4200")
    ports = (*tier.fabric_plan("gpu1").ports, FabricPort("eth9", "c", "203.0.113.1", 24, 4200))
    asked = []

    def ask(netdev: str, address: str) -> str | None:
        asked.append(netdev)
        return "02:aa:00:00:00:01" if netdev == "eth2" else None

    (found,) = arp.duplicate_findings(host, ports, ask)
    assert (found.check, found.subject) == ("network.duplicate_address", "198.51.100.21 on eth2")
    assert sorted(asked) == ["eth1", "eth2"]


# portals


def answer_pings(host: Machine, full: bool, small: bool) -> None:
    host.answers["ping"] = (0 if full else 1, "2 packets transmitted, 0 received, 100% packet loss, time 200ms")
    host.answers["ping -n -c 2 -i 0.2 -W 2 -M do -s 56"] = (0 if small else 1, "2 packets transmitted, 0 received")


def test_every_pair_is_asked_once_at_full_size(host: Machine) -> None:
    answer_pings(host, True, True)
    answers = portals.ask(host, portals.pairs_of(PLANS))
    assert {(item.address, item.source_address, item.size) for item in answers} == {
        ("192.0.2.11", "192.0.2.21", 4200),
        ("198.51.100.11", "198.51.100.21", 4200),
    }
    assert all("-s 4172" in " ".join(argv) and "do" in argv for argv in host.asked)
    assert len(host.asked) == 2
    assert portals.preflight_findings(answers) == portals.verify_findings(answers) == []


def test_preflight_keeps_to_the_mtu_of_now(host: Machine) -> None:
    answer_pings(host, True, True)
    host.put("/sys/class/net/eth1/mtu", "1500")
    sizes = {item.netdev: item.size for item in portals.ask(host, portals.pairs_of(PLANS), at_most_current=True)}
    assert sizes == {"eth1": 1500, "eth2": 4200}


def test_lost_full_size_packets_warn_before_and_fail_after_the_fabric_is_set_up(host: Machine) -> None:
    answer_pings(host, False, True)
    answers = portals.ask(host, portals.pairs_of(PLANS))
    assert {item.severity for item in portals.preflight_findings(answers)} == {"warning"}
    found = portals.verify_findings(answers)
    assert {(item.check, item.severity) for item in found} == {("connect.path_mtu", "error")}
    assert "ping -M do -s 4172 -I 192.0.2.21 192.0.2.11" in found[0].remedy


@pytest.mark.parametrize(
    ("neighbours", "severity"),
    [
        ([], "error"),
        ([{"dst": "x", "state": ["FAILED"]}], "error"),
        ([{"lladdr": "02:00", "state": ["STALE"]}], "warning"),
    ],
)
def test_silence_is_an_error_only_where_nobody_has_the_address(
    host: Machine, neighbours: list[Mapping[str, Any]], severity: str
) -> None:
    answer_pings(host, False, False)
    host.answers["ip -j route get"] = (0, json.dumps([{"dev": "eth1"}]))
    host.answers["ip -j neigh show"] = (0, json.dumps(neighbours))
    found = portals.preflight_findings(portals.ask(host, portals.pairs_of(PLANS)))
    assert {(item.check, item.severity) for item in found} == {("network.reach", severity)}


def test_missing_ping_is_no_verdict_on_the_way(host: Machine) -> None:
    answers = portals.ask(host, portals.pairs_of(PLANS))
    assert {(item.full, item.answers) for item in answers} == {(None, None)}
    assert portals.preflight_findings(answers) == []


def test_pings_run_side_by_side(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair waits until all have begun: one after the other would never end."""
    wanted = [portals.Pair(f"192.0.2.{n}", "192.0.2.21", "eth1", "a", 4200) for n in range(8)]
    together = threading.Barrier(len(wanted), timeout=10)

    def answer(argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        together.wait()
        return Result(argv, 0, "", "")

    monkeypatch.setattr(host, "_runner", answer)
    assert all(item.full for item in portals.ask(host, wanted))


# counters and uses


ETHTOOL = """NIC statistics:
     rx_packets: 5
     rx_prio3_bytes: 4096
     rx_prio3_pause: 2
     rx_prio3_discards: 0
     rx_discards_phy: 7
     rx0_csum_complete: 12
     tx_pause_storm_warning_events: 1
"""


def test_counters_keep_what_says_something_and_is_not_zero(host: Machine) -> None:
    host.put("/sys/class/net/eth1/carrier_changes", "4")
    host.put("/sys/class/net/eth1/device/infiniband/mlx5_0/x", "")
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    for name, value in (("packet_seq_err", 3), ("out_of_buffer", 0), ("lifespan", 12)):
        host.put(f"{port}/hw_counters/{name}", str(value))
    host.put(f"{port}/counters/port_xmit_data", "100")
    host.put(f"{port}/counters/port_rcv_data", "50")
    host.answers["ethtool -S eth1"] = (0, ETHTOOL)
    found = counters.read_counters(host, tier.fabric_plan("gpu1").ports)
    assert found == {
        "eth1": {
            "ethtool": {
                "rx_prio3_bytes": 4096, "rx_prio3_pause": 2, "rx_discards_phy": 7, "tx_pause_storm_warning_events": 1,
            },
            "link": {"carrier_changes": 4},
            "rdma": {"packet_seq_err": 3},
            "device": "mlx5_0",
            "roce_bytes": 600,
        }
    }  # fmt: skip


def test_uses_tell_namespaces_of_the_site_that_are_not_owned(host: Machine) -> None:
    base = "/sys/class/nvme-subsystem/nvme-subsys0"
    host.put(f"{base}/subsysnqn", tier.nqn(3))
    for key, value in (("nsid", "1"), ("uuid", tier.uuid(3)), ("size", "2048"), ("dev", "259:3")):
        host.put(f"{base}/nvme0n1/{key}", value)
    host.put("/proc/self/mountinfo", "1 0 259:3 / /mnt rw - xfs /dev/nvme0n1 rw")
    (found,) = holders.uses(host, PLANS)
    assert (found["nqn"], found["used_by"], found["owned"]) == (tier.nqn(3), ["/mnt"], False)
    own: Callable[[str], Any] = lambda host: dump(tier.storage_plan(host))  # noqa: E731
    (found,) = holders.uses(host, {**PLANS, "storage": own("gpu2")})
    assert found["owned"] is True


# together


def test_surroundings_that_cannot_be_read_warn_and_stop_nothing(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("no")

    monkeypatch.setattr(surroundings, "sshd_findings", broken)
    result = aggregate.preflight(host, {}, lambda name: broken)
    assert ("system.read", "warning") in {(item["check"], item["severity"]) for item in result["findings"]}
