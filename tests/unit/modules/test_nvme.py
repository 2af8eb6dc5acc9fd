"""Reading NVMe-oF state from sysfs."""

from __future__ import annotations

import pytest
from ansible.module_utils.g35 import nvme
from nvme_kernel import HOST_NQN, RAILS, Kernel, namespace_uuid, nqn


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "traddr=192.0.2.11,trsvcid=4420,host_traddr=192.0.2.21",
            {"traddr": "192.0.2.11", "trsvcid": "4420", "host_traddr": "192.0.2.21"},
        ),
        ("traddr=192.0.2.11 trsvcid=4420", {"traddr": "192.0.2.11", "trsvcid": "4420"}),
        ("traddr=2001:db8::1,trsvcid=4420,src_addr=2001:db8::2\n", {
            "traddr": "2001:db8::1", "trsvcid": "4420", "src_addr": "2001:db8::2",
        }),
        ("0000:01:00.0", {}),
    ],
)  # fmt: skip
def test_address_fields(text: str, fields: dict[str, str]) -> None:
    assert nvme.parse_address(text) == fields


def test_two_paths_are_one_multipath_namespace(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    for portal, source, _ in RAILS.values():
        kernel.add_controller(nqn(1), portal, source)
    topology = nvme.read_topology(kernel.host)
    assert [item.address for item in topology.of(nqn(1))] == ["192.0.2.11", "198.51.100.11"]
    assert topology.of(nqn(1))[0].host_nqn == HOST_NQN
    assert topology.of(nqn(1))[0].paths == (nvme.PathDevice("nvme0c0n1", 1, "optimized"),)
    (subsystem,) = topology.subsystem_of(nqn(1))
    assert subsystem.controllers == ("nvme0", "nvme1")
    namespace = topology.namespace(nqn(1), 1)
    assert namespace is not None and namespace.multipath and namespace.uuid == namespace_uuid(1)
    assert topology.namespace(nqn(1), 2) is None


def test_connecting_controllers_and_inaccessible_paths_do_not_count_as_live(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.add_controller(nqn(0), "192.0.2.11", "192.0.2.21", state="connecting")
    second = kernel.add_controller(nqn(0), "198.51.100.11", "198.51.100.21")
    assert [item.name for item in nvme.read_topology(kernel.host).live_controllers(nqn(0), 1)] == [second]
    kernel.put(f"/sys/class/nvme/{second}/nvme0c1n1/ana_state", "inaccessible")
    assert nvme.read_topology(kernel.host).live_controllers(nqn(0), 1) == ()


def test_a_controller_without_state_is_left_out_and_pcie_is_not_fabrics(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.put("/sys/class/nvme/nvme9/transport", "rdma")
    local = kernel.add_controller("nqn.2014.08.org.nvmexpress:local", "x", transport="pcie")
    topology = nvme.read_topology(kernel.host)
    assert [item.name for item in topology.controllers] == [local]
    assert topology.of("nqn.2014.08.org.nvmexpress:local") == ()


def test_a_host_without_nvme_reads_as_empty(tmp_path) -> None:
    assert nvme.read_topology(Kernel(tmp_path).host) == nvme.Topology((), ())


def test_timeouts_that_are_off_read_as_minus_one(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    name = kernel.add_controller(nqn(0), "192.0.2.11", "192.0.2.21")
    kernel.put(f"/sys/class/nvme/{name}/ctrl_loss_tmo", "off")
    assert nvme.read_topology(kernel.host).controllers[0].controller_loss_timeout == -1


def test_mounts_and_holders_use_a_namespace(tmp_path) -> None:
    kernel = Kernel(tmp_path)
    kernel.add_controller(nqn(0), "192.0.2.11", "192.0.2.21")
    namespace = nvme.read_topology(kernel.host).namespace(nqn(0), 1)
    assert namespace is not None
    assert nvme.users_of(kernel.host, namespace, nvme.read_mounts(kernel.host)) == ()
    kernel.mount("nvme0n1", "/srv/with\\040blank")
    kernel.put("/sys/block/nvme0n1/holders/dm-0", "")
    assert set(nvme.users_of(kernel.host, namespace, nvme.read_mounts(kernel.host))) == {"/dev/dm-0", "/srv/with blank"}


def test_without_native_multipath_the_controllers_own_devices_are_found(tmp_path) -> None:
    kernel = Kernel(tmp_path, multipath=False)
    name = kernel.add_controller(nqn(0), "192.0.2.11", "192.0.2.21")
    head = tmp_path / "sys/class/nvme-subsystem/nvme-subsys0/nvme0n1"
    head.rename(tmp_path / f"sys/class/nvme/{name}/nvme0n1")
    namespace = nvme.read_topology(kernel.host).namespace(nqn(0), 1)
    assert namespace is not None and not namespace.multipath
