"""Driver redfish against a tree served over HTTPS with a certificate of the tests' own authority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import box
from ansible.module_utils.g35.box import BoxStage, ByHand
from ansible.module_utils.g35.box_redfish import UNSUPPORTED, RedfishDriver
from ansible.module_utils.g35.host import Host
from ansible.module_utils.g35.plans import BoxPlan, RedfishAccess, RedfishInterface
from ansible.module_utils.g35.redfish import split_address
from box_plans import host_nqn, namespace, nqn, plan
from redfish_fake import FABRIC, INTERFACE, PASSWORD, Authority, RedfishBox

SSDS = 3


class Rack:
    """Heads of boxes, and what a driver does with them. ``slept`` are the seconds it waited."""

    def __init__(self, authority: Authority, stack: ExitStack) -> None:
        self.authority = authority
        self.stack = stack
        self.slept: list[float] = []

    def head(self, offers: str = "connections", **options: Any) -> RedfishBox:
        items = [namespace(number) for number in range(SSDS)]
        made = RedfishBox(
            self.authority, [item.nqn for item in items], [item.uuid for item in items], offers, **options
        )
        return self.stack.enter_context(made)

    def plan(self, *heads: RedfishBox, count: int = SSDS, **access: Any) -> BoxPlan:
        values = {"ca_file": str(self.authority.ca)} | access
        service = RedfishAccess(tuple(item.address for item in heads), "g35", **values)
        return plan("redfish", [namespace(number) for number in range(count)], redfish=service)

    def act(self, asked: BoxPlan, action: str = "apply", password: str = PASSWORD, **options: bool) -> dict[str, Any]:
        host = Host(sleep=self.slept.append)
        return box.act(lambda: BoxStage(host, RedfishDriver(host, asked, password)), action, **options)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def rack(authority: Authority) -> Iterator[Rack]:
    with ExitStack() as stack:
        yield Rack(authority, stack)


@pytest.mark.parametrize("offers", ["connections", "zones"])
def test_each_owner_is_let_in_and_a_second_apply_only_reads(rack: Rack, offers: str) -> None:
    head = rack.head(offers)
    asked = rack.plan(head)
    done = rack.act(asked)
    assert (done["failed"], done["changed"], done["msg"]) == (False, True, "")
    state = {item["nqn"]: item for item in done["state"]["subsystems"]}
    for number in range(SSDS):
        assert state[nqn(number)]["allowed_hosts"] == list(namespace(number).allowed_hosts)
        assert [item["address"] for item in state[nqn(number)]["portals"]] == ["192.0.2.11", "198.51.100.11"]
        assert state[nqn(number)]["namespaces"][0]["uuid"] == namespace(number).uuid
    head.changed.clear()
    assert rack.act(asked)["changed"] is False and head.changed == []
    assert rack.act(asked, "verify")["findings"] == []
    assert head.tokens == set(), "every session was ended"


def test_connections_name_the_volume_and_both_heads(rack: Rack) -> None:
    head = rack.head()
    rack.act(rack.plan(head, count=1))
    (made,) = [head.tree[item["@odata.id"]] for item in head.tree[f"{FABRIC}/Connections"]["Members"]]
    assert [item["Volume"]["@odata.id"] for item in made["VolumeInfo"]] == ["/redfish/v1/Storage/Drive0/Volumes/1"]
    assert len(made["Links"]["TargetEndpoints"]) == 2 and len(made["Links"]["InitiatorEndpoints"]) == 1


def test_a_stranger_is_let_out_with_consent(rack: Rack) -> None:
    head = rack.head()
    asked = rack.plan(head)
    rack.act(asked)
    stranger = head.host(host_nqn(9))
    ends = [f"{FABRIC}/Endpoints/D0-A"]
    mine = head.create(f"{FABRIC}/Connections", _connection([stranger], ends))
    refused = rack.act(asked)
    assert refused["failed"] and mine in head.tree
    assert not rack.act(asked, allow_disruptive=True)["failed"]
    assert mine not in head.tree


def test_a_connection_that_serves_others_too_is_left_to_the_operator(rack: Rack) -> None:
    head = rack.head()
    ends = [f"{FABRIC}/Endpoints/D{number}-A" for number in range(2)]
    shared = head.create(f"{FABRIC}/Connections", _connection([head.host(host_nqn(9))], ends))
    done = rack.act(rack.plan(head), allow_disruptive=True)
    assert done["failed"] and shared in head.tree
    assert f"remove host NQN {host_nqn(9)}" in done["msg"] and nqn(0) in done["msg"]


def test_endpoint_groups_count_as_their_members(rack: Rack) -> None:
    head = rack.head()
    owner = head.host(host_nqn(1))
    hosts = head.create(f"{FABRIC}/EndpointGroups", {"Links": {"Endpoints": [{"@odata.id": owner}]}})
    drives = head.create(
        f"{FABRIC}/EndpointGroups", {"Links": {"Endpoints": [{"@odata.id": f"{FABRIC}/Endpoints/D0-A"}]}}
    )
    head.create(
        f"{FABRIC}/Connections",
        {"Links": {"InitiatorEndpointGroups": [{"@odata.id": hosts}], "TargetEndpointGroups": [{"@odata.id": drives}]}},
    )
    head.changed.clear()
    assert rack.act(rack.plan(head, count=1))["changed"] is False and head.changed == []


def test_firmware_that_only_shows_endpoints_is_told_by_hand(rack: Rack) -> None:
    asked = rack.plan(rack.head(""))
    done = rack.act(asked)
    assert (done["failed"], done["changed"]) == (False, False)
    told = [item for item in done["findings"] if item["check"] == "box.access"]
    assert [item["subject"] for item in told] == [nqn(number) for number in range(SSDS)]
    assert host_nqn(1) in told[0]["remedy"] and "allow host NQN" in told[0]["remedy"]
    host = Host()
    driver = RedfishDriver(host, asked, PASSWORD)
    with pytest.raises(ByHand, match=UNSUPPORTED) as caught:
        driver.grant(nqn(0), host_nqn(1))
    driver.close()
    assert caught.value.instruction.startswith(f"on ebof1, allow host NQN {host_nqn(1)} (gpu1) on subsystem {nqn(0)}")


def test_a_refused_post_is_not_supported_and_said_by_hand(rack: Rack) -> None:
    head = rack.head()
    head.refuses["POST", f"{FABRIC}/Connections"] = 405
    done = rack.act(rack.plan(head))
    assert done["failed"] and UNSUPPORTED in done["msg"] and "not allowed here" in done["msg"]


def test_both_heads_are_of_one_chassis(rack: Rack) -> None:
    first, second = rack.head(), rack.head()
    assert not rack.act(rack.plan(first, second))["failed"]
    other = rack.head(identity="00000000-0000-0000-0000-000000000002")
    done = rack.act(rack.plan(first, other), "verify")
    assert done["failed"] and "not of one box" in done["msg"]
    assert first.tokens == set() and not other.changed


def test_one_silent_head_is_a_warning(rack: Rack) -> None:
    head = rack.head()
    asked = rack.plan(head)
    assert asked.redfish is not None
    both = replace(asked, redfish=replace(asked.redfish, addresses=("127.0.0.1:1", head.address)))
    rack.act(asked)
    done = rack.act(both, "verify")
    assert not done["failed"]
    assert [item["severity"] for item in done["findings"]] == ["warning"]


def test_an_untrusted_certificate_is_refused_before_the_password_is_sent(rack: Rack, tmp_path: Path) -> None:
    head = rack.head()
    stranger = Authority(tmp_path)
    for ca_file in (str(stranger.ca), ""):
        done = rack.act(rack.plan(head, ca_file=ca_file), "verify")
        assert done["failed"] and "not trusted" in done["msg"]
    assert head.requests == []


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    with ExitStack() as stack:
        rack = Rack(Authority(tmp_path, "192.0.2.99"), stack)
        head = rack.head()
        assert "not trusted" in rack.act(rack.plan(head), "preflight")["msg"]


def test_a_wrong_password_is_tried_once_and_never_shown(rack: Rack) -> None:
    first, second = rack.head(), rack.head()
    done = rack.act(rack.plan(first, second), "verify", password="hunter2-secret")
    assert done["failed"] and "account g35 is refused" in done["msg"]
    assert "hunter2-secret" not in str(done)
    assert [item for item in first.requests + second.requests if item[0] == "POST"] == [
        ("POST", "/redfish/v1/SessionService/Sessions")
    ]


def test_ports_get_addresses_by_post_and_settle_once(rack: Rack) -> None:
    head = rack.head()
    second = INTERFACE.replace("Functions/1/", "Functions/2/")
    head.tree[second] = {**head.tree[INTERFACE], "@odata.id": second}
    ports = (
        RedfishInterface(INTERFACE, "192.0.2.11", "255.255.255.0", 9000),
        RedfishInterface(second, "198.51.100.11", "255.255.255.0", 9000),
    )
    asked = rack.plan(head, interfaces=ports)
    assert not rack.act(asked)["failed"]
    assert rack.slept == [20.0]
    assert head.tree[INTERFACE]["IPv4StaticAddresses"][0]["Address"] == "192.0.2.11"
    assert (head.tree[INTERFACE]["MTUSize"], head.tree[INTERFACE]["DHCPv4"]) == (9000, {"DHCPEnabled": False})
    head.changed.clear()
    assert rack.act(asked)["changed"] is False and head.changed == []
    moved = (replace(ports[0], address="192.0.2.12"), ports[1])
    assert rack.act(rack.plan(head, interfaces=moved))["failed"], "moving a live address needs consent"
    assert head.changed == []


def test_missing_subsystem_and_wrong_uuid_are_found(rack: Rack) -> None:
    head = rack.head()
    asked = rack.plan(head)
    wrong = replace(asked.namespaces[0], uuid="00000000-0000-0000-0000-00000000abcd")
    asked = replace(asked, namespaces=(wrong, *asked.namespaces[1:], namespace(7)))
    checks = {(item["check"], item["severity"]) for item in rack.act(asked, "verify")["findings"]}
    assert {("box.namespace", "error"), ("box.subsystem", "error")} <= checks


def test_a_service_that_is_not_redfish_is_said_plainly(rack: Rack) -> None:
    head = rack.head()
    head.tree["/redfish/v1"] = {"hello": "world"}
    assert "RedfishVersion" in rack.act(rack.plan(head), "preflight")["msg"]


def test_addresses_may_carry_ports() -> None:
    assert split_address("box.example") == ("box.example", 443)
    assert split_address("192.0.2.1:8443") == ("192.0.2.1", 8443)
    assert split_address("[2001:db8::1]:8443") == ("2001:db8::1", 8443)
    assert split_address("2001:db8::1") == ("2001:db8::1", 443)


def _connection(initiators: list[str], targets: list[str]) -> dict[str, Any]:
    return {
        "ConnectionType": "Storage",
        "Links": {
            "InitiatorEndpoints": [{"@odata.id": item} for item in initiators],
            "TargetEndpoints": [{"@odata.id": item} for item in targets],
        },
    }
