"""NIC families: what each has beyond DCB, read from realistic drivers' files and tools, and written once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible.module_utils.g35 import nic
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.dcb import Contract
from ansible.module_utils.g35.fabric import build
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.plans import FabricPlan, FabricPort, FabricTuning
from ansible.module_utils.g35.schema import dump
from fabric_fakes import Fabric, Nic, plan

PCI = "0000:41:00.0"
ONE_PORT = (FabricPort("eth1", "a", "192.0.2.21", 24, 4200),)


def config_space(control: int) -> bytes:
    """PCI configuration space: power management at 0x40, then PCI Express at 0x60 with this Device Control."""
    data = bytearray(256)
    data[0x34] = 0x40
    data[0x40:0x42] = bytes((0x01, 0x60))
    data[0x60:0x62] = bytes((0x10, 0x00))
    data[0x68:0x6A] = struct.pack("<H", control)
    return bytes(data)


class Box(Fabric):
    """A host with one data port on a PCI NIC of a family."""

    def __init__(self, root: Path, driver: str, nic: Nic, control: int = 0x5810, iommu: str = "identity") -> None:
        super().__init__(root, {"eth1": nic})
        slot = f"/sys/devices/pci0000:40/{PCI}"
        self.put(f"{slot}/iommu_group/type", iommu)
        self.path(f"{slot}/config").write_bytes(config_space(control))
        for directory in (f"/sys/bus/pci/drivers/{driver}", "/sys/bus/pci/devices"):
            self.path(directory).mkdir(parents=True)
        self.path(f"{slot}/driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
        self.path(f"/sys/bus/pci/devices/{PCI}").symlink_to(f"../../../devices/pci0000:40/{PCI}")
        self.path("/sys/class/net/eth1/device").symlink_to(f"../../../devices/pci0000:40/{PCI}")
        self.vendor = False
        self.firmware = ""

    def answer(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        if argv[0] == "mlnx_qos" and self.vendor:
            return self.mlnx_qos(list(argv))
        if argv[0] == "mstconfig" and self.firmware:
            return Result(argv, 0, self.firmware, "")
        return super().answer(argv, stdin, timeout)

    def mlnx_qos(self, words: list[str]) -> Result:
        """The vendor's tool over a NIC whose trust state and DSCP map lie in sysfs: 64 DSCPs, always mapped."""
        port = self.nics["eth1"]
        if words == ["mlnx_qos", "--version"]:
            return Result(words, 0, "mlnx_qos 1.2\n", "")
        options = dict(zip(words[3::2], words[4::2], strict=False)) if words[3:] != ["-a"] else {}
        if options:
            self.writes.append(" ".join(words))
        if "--trust" in options and "--dscp2prio" in options:
            return Result(words, 1, "trust and dscp2prio commands cannot be used at the same time.\n", "")
        for name in ("--pfc", "--tsa", "--tcbw", "--prio_tc"):
            if name in options and len(options[name].split(",")) != 8:
                return Result(words, 1, f"{name} list must have 8 items\n", "")
        if "-d" in options:
            port.dcbx = {"host": True, "ieee": True}
        if "--pfc" in options:
            port.pfc, port.flaps = [item == "1" for item in options["--pfc"].split(",")], port.flaps + 1
        if "--tsa" in options:
            port.tsa = options["--tsa"].split(",")
            port.bandwidth = [int(item) for item in options["--tcbw"].split(",")]
            port.prio_tc = [int(item) for item in options["--prio_tc"].split(",")]
        if "--trust" in options:
            port.trust = options["--trust"]
        if "--dscp2prio" in options:
            action, dscp, priority = options["--dscp2prio"].split(",")
            assert action == "set"
            port.dscp = [entry for entry in port.dscp if entry[0] != int(dscp)] + [(int(dscp), int(priority))]
        return Result(words, 0, self.mlnx_text(port), "")

    @staticmethod
    def mlnx_text(port: Nic) -> str:
        owner = "OS" if "host" in port.dcbx else "Firmware"
        lines = [f"DCBX mode: {owner} controlled", f"Priority trust state: {port.trust}"]
        if port.trust == "dscp":
            lines.append("dscp2prio mapping:")
            for priority in range(8):
                codes = [f"{dscp:02d}," for dscp, to in sorted(port.dscp, reverse=True) if to == priority]
                while codes:
                    lines.append(f"\tprio:{priority} dscp:{''.join(codes[:8])}")
                    codes = codes[8:]
        lines += ["default priority:", "Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,total_size=1027728"]
        lines += ["Cable len: 7", "PFC configuration:", "\tpriority    0   1   2   3   4   5   6   7"]
        lines.append("\tenabled     " + "".join(f"{int(on)}   " for on in port.pfc))
        lines.append("\tbuffer      " + "".join(f"{int(on)}   " for on in port.pfc))
        for number in range(8):
            share = f", bw: {port.bandwidth[number]}%" if port.tsa[number] == "ets" else ""
            lines.append(f"tc: {number} ratelimit: unlimited, tsa: {port.tsa[number]}{share}")
            lines += [f"\t priority:  {index}" for index, to in enumerate(port.prio_tc) if to == number]
        return "\n".join(lines) + "\n"


def wanted(**changes: object) -> FabricPlan:
    return plan(ports=ONE_PORT, **changes)


def apply(box: Box, *, consent: bool = False, **changes: object) -> Outcome:
    return act(build(box, dump(wanted(**changes))), "apply", allow_disruptive=consent)


def settles(box: Box, **changes: object) -> Outcome:
    """Apply, which must succeed; a second apply must find nothing to do."""
    outcome = apply(box, **changes)
    assert (outcome.failed, outcome.message) == (False, "")
    again = apply(box, **changes)
    assert (again.failed, list(again.changes)) == (False, [])
    return outcome


# mlx5


def kernel_mlx5(tmp_path: Path) -> Box:
    box = Box(tmp_path, "mlx5_core", Nic(one_priority=True))
    for name, value in (("np_cnp_dscp", 0), ("np_cnp_prio", 6), ("np_cnp_prio_mode", 1)):
        box.put(f"/sys/kernel/debug/mlx5/{PCI}/cc_params/{name}", str(value))
    return box


def test_mlx5_with_the_kernels_driver(tmp_path: Path) -> None:
    box = kernel_mlx5(tmp_path)
    base = f"/sys/kernel/debug/mlx5/{PCI}/cc_params"
    original = box.write_attribute

    def driver(absolute: str, value: str) -> None:
        original(absolute, value)
        if absolute.endswith("np_cnp_prio"):
            original(f"{base}/np_cnp_prio_mode", "0")

    box.write_attribute = driver  # type: ignore[method-assign]
    settles(box)
    assert box.read_value(f"{base}/np_cnp_dscp") == "48"
    assert (box.read_value(f"{base}/np_cnp_prio"), box.read_value(f"{base}/np_cnp_prio_mode")) == ("6", "0")
    # Unlisted DSCPs belong to priority DSCP/8 on this NIC: the rest of our two blocks must not ride with us.
    mapping = dict(box.nics["eth1"].dscp)
    assert {dscp for dscp, priority in mapping.items() if priority == 3} == {26}
    assert {dscp for dscp, priority in mapping.items() if priority == 6} == {48}
    assert set(mapping) == set(range(24, 32)) | set(range(48, 56))
    assert box.nics["eth1"].apps == {}


def test_mlx5_with_the_vendors_driver_is_set_with_its_tool(tmp_path: Path) -> None:
    box = Box(tmp_path, "mlx5_core", Nic())
    box.vendor = True
    port = box.nics["eth1"]
    port.trust, port.dcbx, port.tsa = "pcp", {"ieee": True}, ["vendor"] * 8
    port.dscp = [(dscp, dscp >> 3) for dscp in range(64)]
    base = "/sys/class/net/eth1/ecn"
    for name, value in (("roce_np/enable/3", 0), ("roce_rp/enable/3", 1), ("roce_np/cnp_dscp", 0),
                        ("roce_np/cnp_802p_prio", 0)):  # fmt: skip
        box.put(f"{base}/{name}", str(value))
    settles(box)
    assert [index for index, on in enumerate(port.pfc) if on] == [3]
    assert (port.trust, port.flaps) == ("dscp", 1)
    mapping = dict(port.dscp)
    assert {dscp for dscp, priority in mapping.items() if priority == 3} == {26}
    assert {dscp for dscp, priority in mapping.items() if priority == 6} == {48}
    assert mapping[10] == 1
    assert [box.read_value(f"{base}/{name}") for name in ("roce_np/enable/3", "roce_rp/enable/3")] == ["1", "1"]
    assert [box.read_value(f"{base}/roce_np/{name}") for name in ("cnp_dscp", "cnp_802p_prio")] == ["48", "6"]
    assert not [line for line in box.writes if line.startswith("dcb ")]
    order = [next(i for i, line in enumerate(box.writes) if word in line) for word in ("-d os", "--trust", "--pfc")]
    assert order == sorted(order)


def test_removal_with_the_vendors_tool_goes_back_to_the_vlan_priority(tmp_path: Path) -> None:
    box = Box(tmp_path, "mlx5_core", Nic())
    box.vendor = True
    box.nics["eth1"].trust = "pcp"
    box.nics["eth1"].dscp = [(dscp, dscp >> 3) for dscp in range(64)]
    box.put("/sys/class/net/eth1/qos/trust", "pcp")
    settles(box)
    outcome = act(build(box, dump(wanted())), "remove")
    assert (outcome.failed, outcome.message) == (False, "")
    assert (box.nics["eth1"].trust, box.nics["eth1"].pfc) == ("pcp", [False] * 8)


def test_pfc_through_the_vendors_tool_needs_consent_too(tmp_path: Path) -> None:
    box = Box(tmp_path, "mlx5_core", Nic())
    box.vendor = True
    box.nics["eth1"].trust = "dscp"
    box.put("/sys/class/net/eth1/qos/trust", "dscp")
    settles(box)
    box.nics["eth1"].pfc[4] = True
    box.add_controller("192.0.2.21")
    refused = apply(box)
    assert [(item["check"], item["subject"]) for item in refused.findings] == [("fabric.consent", "pfc of eth1")]
    assert not apply(box, consent=True).failed


def test_forced_traffic_class_overrides_everything_and_is_an_error(tmp_path: Path) -> None:
    box = kernel_mlx5(tmp_path)
    box.put(f"/sys/kernel/debug/mlx5/{PCI}/cc_params/np_cnp_prio_mode", "0")
    settles(box)
    path = "/sys/class/infiniband/rxe_eth1/tc/1/traffic_class"
    box.put(path, "Global tclass=236")
    outcome = act(build(box, dump(wanted())), "verify")
    assert [(item["check"], item["severity"]) for item in outcome.findings] == [("fabric.traffic_class", "error")]
    box.put(path, "Global tclass=106")
    assert not act(build(box, dump(wanted())), "verify").failed


def test_firmware_words_are_reported_where_nothing_else_says(tmp_path: Path) -> None:
    box = Box(tmp_path, "mlx5_core", Nic(one_priority=True))
    box.firmware = (
        "\nDevice #1:\n----------\n\nDevice type:    ConnectX6\nDevice:         41:00.0\n\n"
        "Configurations:                              Next Boot\n"
        "         CNP_DSCP_P1                         0\n"
        "         CNP_802P_PRIO_P1                    6\n"
        "         ROCE_CC_PRIO_MASK_P1                247\n"
    )
    outcome = settles(box)
    (found,) = [item for item in outcome.findings if item["check"] == "fabric.firmware"]
    assert found["severity"] == "warning"
    assert "CNP_DSCP_P1=48 ROCE_CC_PRIO_MASK_P1=255" in found["remedy"]
    assert "CNP_802P_PRIO_P1" not in found["remedy"]


# bnxt and irdma


def vendor_bnxt(tmp_path: Path, profile: int) -> Box:
    box = Box(tmp_path, "bnxt_en", Nic())
    box.path("/sys/kernel/config/bnxt_re").mkdir(parents=True)
    box.put("/sys/kernel/debug/bnxt_re/rxe_eth1/info", f"\tfw_service_prof_type_sup : {profile}")
    original = box.make_directory

    def make(absolute: str) -> None:
        fresh = not box.exists(absolute)
        original(absolute)
        if fresh and absolute.startswith("/sys/kernel/config/bnxt_re"):
            for name in ("ecn_marking", "ecn_enable", "cc_mode", "roce_prio", "cnp_prio", "roce_dscp", "cnp_dscp"):
                box.put(f"{absolute}/ports/1/cc/{name}", "0x0")
            box.put(f"{absolute}/ports/1/cc/apply", "0x0")

    box.make_directory = make  # type: ignore[method-assign]
    return box


@pytest.mark.parametrize("profile", [0, 1])
def test_bnxt_with_the_vendors_driver(tmp_path: Path, profile: int) -> None:
    box = vendor_bnxt(tmp_path, profile)
    box.nics["eth1"].classes = 3
    box.nics["eth1"].apps = {"dgram-port-prio": [(4791, 0), (53, 5)]}
    settles(box)
    assert box.nics["eth1"].apps == {"dgram-port-prio": [(53, 5), (4791, 3)], "ethtype-prio": [(0x8915, 3)]}
    assert sorted(box.nics["eth1"].dscp) == [(26, 3), (48, 6)]
    base = "/sys/kernel/config/bnxt_re/rxe_eth1/ports/1/cc"
    values = {name: box.read_value(f"{base}/{name}") for name in ("ecn_enable", "cc_mode", "cnp_dscp", "cnp_prio")}
    # With a service profile the firmware marks notifications itself.
    marked = {"cnp_dscp": "48", "cnp_prio": "6"} if profile == 0 else {"cnp_dscp": "0x0", "cnp_prio": "0x0"}
    assert values == {"ecn_enable": "1", "cc_mode": "1", **marked}
    assert box.read_value(f"{base}/apply") == "1"
    removed = act(build(box, dump(wanted())), "remove")
    assert (removed.failed, removed.message) == (False, "")
    assert box.nics["eth1"].apps == {"dgram-port-prio": [(53, 5)], "ethtype-prio": []}


def test_bnxt_takes_entries_only_from_a_host_in_charge(tmp_path: Path) -> None:
    box = Box(tmp_path, "bnxt_en", Nic())
    box.nics["eth1"].dcbx = {"lld_managed": True, "ieee": True}
    settles(box)
    lines = [line for line in box.writes if line.startswith("dcb")]
    assert lines[0] == "dcb dcbx set dev eth1 host ieee"
    assert "dcb app add dev eth1 dgram-port-prio 4791:3" in lines


def test_irdma_silences_the_firmwares_agent_before_dcb(tmp_path: Path) -> None:
    box = Box(tmp_path, "ice", Nic())
    box.nics["eth1"].flags = {"link-down-on-close": "off", "fw-lldp-agent": "on"}
    box.add_controller("192.0.2.21")
    refused = apply(box)
    assert "fw_lldp_agent of eth1" in [item["subject"] for item in refused.findings]
    box.put("/sys/class/nvme/nvme0/state", "connecting")
    settles(box)
    lines = [line for line in box.writes if line.startswith(("dcb", "ethtool"))]
    assert lines[0] == "ethtool --set-priv-flags eth1 fw-lldp-agent off"
    assert box.nics["eth1"].flags == {"link-down-on-close": "off", "fw-lldp-agent": "off"}


# every family


def test_slot_facts_come_from_configuration_space(tmp_path: Path) -> None:
    box = Box(tmp_path, "ice", Nic(), control=0x2000, iommu="DMA-FQ")
    outcome = settles(box)
    facts = outcome.state["ports"]["eth1"]["nic"]
    assert (facts["max_read_request"], facts["relaxed_ordering"], facts["iommu"]) == (512, False, "DMA-FQ")
    found = {item["check"]: item["severity"] for item in outcome.findings}
    assert found == dict.fromkeys(("fabric.max_read_request", "fabric.relaxed_ordering", "fabric.iommu"), "info")


def test_truncated_configuration_space_is_no_fact(tmp_path: Path) -> None:
    box = Box(tmp_path, "ice", Nic())
    path = box.path(f"/sys/devices/pci0000:40/{PCI}/config")
    path.write_bytes(path.read_bytes()[:64])
    assert "max_read_request" not in settles(box).state["ports"]["eth1"]["nic"]


def test_roce_switched_off_is_an_error_with_the_command(tmp_path: Path) -> None:
    box = Box(tmp_path, "ice", Nic())
    box.nics["eth1"].roce = False
    outcome = apply(box)
    assert outcome.failed
    (found,) = [item for item in outcome.findings if item["severity"] == "error"]
    assert (found["check"], PCI in found["remedy"]) == ("fabric.roce", True)
    box.nics["eth1"].roce = True
    assert not apply(box).failed


def test_rings_and_moderation_are_left_alone_unless_asked(tmp_path: Path) -> None:
    box = Box(tmp_path, "mlx5_core", Nic(one_priority=True))
    port = box.nics["eth1"]
    port.rings, port.most, port.adaptive = {"rx": 1024, "tx": 1024}, {"rx": 8192, "tx": 4096}, "off"
    settles(box)
    assert port.rings == {"rx": 1024, "tx": 1024}
    settles(box, tuning=FabricTuning("max", "on"))
    assert (port.rings, port.adaptive) == ({"rx": 8192, "tx": 4096}, "on")
    assert [line for line in box.writes if "-G" in line] == ["ethtool -G eth1 rx 8192 tx 4096"]
    box.add_controller("192.0.2.21")
    refused = apply(box, tuning=FabricTuning("2048"))
    assert [item["subject"] for item in refused.findings if item["severity"] == "error"] == ["rings of eth1"]


def test_nic_without_rings_has_nothing_to_set(tmp_path: Path) -> None:
    box = Box(tmp_path, "ice", Nic())
    settles(box, tuning=FabricTuning("max", "on"))
    assert not [line for line in box.writes if line.startswith("ethtool")]


def test_tcp_tunes_rings_but_nothing_of_roce(tmp_path: Path) -> None:
    box = vendor_bnxt(tmp_path, 0)
    box.nics["eth1"].rings, box.nics["eth1"].most = {"rx": 512, "tx": 512}, {"rx": 2048, "tx": 2048}
    settles(box, transport="tcp", tuning=FabricTuning("max"))
    assert sorted(box.writes) == ["ethtool -G eth1 rx 2048 tx 2048", "ip link set dev eth1 mtu 4200"]


def test_lossless_priority_that_shares_its_buffer_is_a_warning(tmp_path: Path) -> None:
    box = Box(tmp_path, "mlx5_core", Nic(one_priority=True))
    box.nics["eth1"].buffers = [0] * 8
    outcome = settles(box)
    assert [item["severity"] for item in outcome.findings if item["check"] == "fabric.buffer"] == ["warning"]
    box.nics["eth1"].buffer_bytes = 0  # a driver that does not size buffers
    assert "fabric.buffer" not in {item["check"] for item in settles(box).findings}
    box.nics["eth1"].buffers, box.nics["eth1"].buffer_bytes = [0, 0, 0, 1, 0, 0, 0, 0], 1027728
    assert "fabric.buffer" not in {item["check"] for item in settles(box).findings}


def test_lldpad_is_refused_or_masked(tmp_path: Path) -> None:
    box = Box(tmp_path, "ice", Nic())
    box.lldpad, box.lldpad_unit = True, "enabled"
    refused = apply(box)
    assert [item["check"] for item in refused.findings if item["severity"] == "error"] == ["fabric.lldpad"]
    assert box.writes == []
    settles(box, tuning=FabricTuning(lldpad="mask"))
    assert (box.lldpad, box.lldpad_unit) == (False, "masked")
    assert "systemctl mask --now lldpad.service" in box.writes


def test_rest_of_the_traffic_never_lands_on_ours() -> None:
    for priority in range(8):
        contract = Contract(26, priority, 48, (priority + 1) % 8, 50, blocks=True)
        assert contract.rest not in (priority, (priority + 1) % 8)
        assert contract.contradicting(tuple(contract.dscp_map)) == []


@pytest.mark.parametrize(("text", "value"), [("0x1", "1"), ("48", "48"), (None, None), ("on", "on")])
def test_numbers_are_compared_as_numbers(text: str | None, value: str | None) -> None:
    assert nic.number(text) == value
