"""Two boxes that are heads over the same SSDs: one owner, more paths, nothing twice."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.g35.plans import AnaState, ControllerIds
from sites import box_host, gpu_host, lab_site

from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.site.model import SiteHost


def head(number: int, **changes: Any) -> SiteHost:
    """A head of box 1: its own portals, the same namespaces under other device names."""
    first = box_host(1, 2).model_dump(mode="json")["box"]["namespaces"]
    mine = [{**item, "device": f"/dev/disk/by-id/nvme-head{number}-{place}"} for place, item in enumerate(first)]
    return box_host(number, 2, namespaces=mine, **changes)


def planned() -> Plan:
    one = box_host(1, 2, controller_ids={"lowest": 1, "highest": 32767})
    ana = [{"group": 1, "state": "non-optimized"}]
    portals = [
        {"address": "192.0.2.12", "rail": "a", "ana": ana},
        {"address": "198.51.100.12", "rail": "b", "ana": ana},
    ]
    two = head(2, head_of="ebof1", portals=portals, controller_ids={"lowest": 32768, "highest": 65519})
    hosts = (one, two, gpu_host(1, groups=("gpu_hosts", "mooncake_masters")), gpu_host(2))
    return build(lab_site(*hosts))


def test_every_namespace_has_one_owner_and_one_store() -> None:
    plan = planned()
    assert [item.box for item in plan.ownership] == ["ebof1", "ebof1"]
    stores = [
        item.name for host in plan.hosts if host.cache and host.cache.store for item in host.cache.store.instances
    ]
    assert sorted(stores) == sorted(item.uuid for item in plan.ownership)


def test_owners_hold_paths_through_both_heads() -> None:
    for host in planned().hosts:
        if host.connect is not None:
            assert {path.address for path in host.connect.paths} == {
                "192.0.2.11", "192.0.2.12", "198.51.100.11", "198.51.100.12"
            }  # fmt: skip
            assert len({path.nqn for path in host.connect.paths}) * 4 == len(host.connect.paths)


def test_heads_present_the_same_to_the_same_hosts_from_disjoint_identifiers() -> None:
    one, two = (host.target for host in planned().hosts if host.target is not None)
    shown = [
        [(item.nqn, item.uuid, item.serial, item.model, item.allowed_hosts) for item in target.namespaces]
        for target in (one, two)
    ]
    assert shown[0] == shown[1]
    assert all(item.allowed_hosts for item in one.namespaces)
    assert (one.controller_ids, two.controller_ids) == (ControllerIds(1, 32767), ControllerIds(32768, 65519))
    assert [portal.ana for portal in one.portals] == [(), ()]
    assert [portal.ana for portal in two.portals] == [(AnaState(1, "non-optimized"),)] * 2
