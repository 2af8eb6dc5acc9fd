"""Boxes that nobody logs in to: what their drivers are given, and who asks."""

from __future__ import annotations

import json

import pytest
from sites import box_host, gpu_host, lab_site, namespace_uuid

from g35ctl.engine.stages import logged_in, participants, stage_of, stage_plans
from g35ctl.plan.build import build
from g35ctl.plan.context import Paths
from g35ctl.plan.digest import stage_digest
from g35ctl.plan.model import Plan
from g35ctl.site.model import Box, Site

REDFISH = {
    "driver": "redfish",
    "redfish": {
        "addresses": ["10.9.0.1", "10.9.0.2"],
        "username": "g35",
        "password": "hunter2-secret",
        "ca_file": "ca.pem",
        "ports": [{"interface": "/redfish/v1/Chassis/A/EthernetInterfaces/1", "address": "198.51.100.11"}],
    },
}
SPDK = {"driver": "spdk", "spdk": {"socket": "/run/g35/ebof1.sock", "min_cntlid": 2000, "max_cntlid": 2999}}


def site(**changes: object) -> Site:
    box = box_host(1, 2)
    assert box.box is not None
    values = box.box.model_dump() | changes
    spaces = [item | {"device": None, "bdev": f"Nvme{number}n1"} for number, item in enumerate(values["namespaces"])]
    changed = Box.model_validate(values | {"namespaces": spaces})
    hosts = gpu_host(1, groups=("gpu_hosts", "mooncake_masters")), gpu_host(2)
    return lab_site(box.model_copy(update={"box": changed, "ports": ()}), *hosts)


def test_each_owner_is_named_with_the_identity_it_connects_with() -> None:
    plan = build(site(**SPDK))
    box = plan.host("ebof1").box
    assert box is not None
    connecting = {host.connect.host_nqn: host.name for host in plan.hosts if host.connect is not None}
    assert box.owners == connecting
    assert {item.device for item in box.namespaces} == {"Nvme0n1", "Nvme1n1"}
    assert [item.uuid for item in box.namespaces] == [str(namespace_uuid(1, number)) for number in (1, 2)]
    wanted = {path.nqn: host.connect.host_nqn for host in plan.hosts if host.connect for path in host.connect.paths}
    assert {item.nqn: item.allowed_hosts for item in box.namespaces} == {nqn: (host,) for nqn, host in wanted.items()}
    assert box.spdk is not None and (box.spdk.min_cntlid, box.spdk.max_cntlid) == (2000, 2999)


def test_the_password_is_in_no_plan() -> None:
    plan = build(site(**REDFISH), paths=Paths("/sites/one"))
    assert "hunter2-secret" not in json.dumps(plan.to_json()) + repr(plan) + repr(site(**REDFISH))
    box = plan.host("ebof1").box
    assert box is not None and box.redfish is not None
    assert box.redfish.ca_file == "/sites/one/ca.pem"
    (port,) = box.redfish.interfaces
    assert (port.address, port.netmask, port.mtu) == ("198.51.100.11", "255.255.255.0", 4200)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize("changes", [SPDK, REDFISH, {"driver": "discovery"}])
def test_such_a_box_takes_part_in_target_and_nobody_logs_in_to_it(changes: dict[str, object]) -> None:
    plan = build(site(**changes))
    host = plan.host("ebof1")
    assert host.stages() == ("box",)
    assert (stage_plans(host, "target"), stage_plans(host, "fabric"), stage_of(host, "box")) == (("box",), (), "target")
    assert participants(plan, "target") == plan.stage_hosts["target"] == ("ebof1",)
    assert "ebof1" in participants(plan, "preflight")
    assert logged_in(plan, [item.name for item in plan.hosts]) == ("gpu1", "gpu2")
    assert stage_digest(plan, "ebof1", "target") and not stage_digest(plan, "ebof1", "fabric")


def test_discovery_is_asked_from_the_first_owner_and_the_others_from_the_controller() -> None:
    plans = {name: build(site(**changes)).host("ebof1").box for name, changes in
             (("discovery", {"driver": "discovery"}), ("spdk", SPDK), ("redfish", REDFISH))}  # fmt: skip
    asked = {name: box.run_on for name, box in plans.items() if box is not None}
    assert asked == {"discovery": "gpu1", "spdk": "", "redfish": ""}


def test_a_static_box_is_no_part_of_any_stage() -> None:
    plan = build(site(driver="static"))
    assert plan.host("ebof1").stages() == ()
    assert all("ebof1" not in hosts for hosts in plan.stage_hosts.values())


def test_the_variable_reaches_the_role() -> None:
    variables = build(site(**SPDK)).host("ebof1").variables()
    assert list(variables) == ["g35_box_plan"]
    assert variables["g35_box_plan"]["driver"] == "spdk"
