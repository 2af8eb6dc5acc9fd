"""Two heads over the same SSDs, and attributes that only some kernels have."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.plans import AnaState, ControllerIds, TargetPlan
from ansible.module_utils.g35.schema import dump
from ansible.module_utils.g35.target import build
from target_fakes import ROOT, Target, namespace, plan, portal


@pytest.fixture
def box(tmp_path: Path) -> Target:
    host = Target(tmp_path)
    for number in range(2):
        host.add_device(namespace(number).device)
    return host


def apply(box: Target, wanted: TargetPlan, *, consent: bool = False) -> Outcome:
    return act(build(box, dump(wanted)), "apply", allow_disruptive=consent)


def two_heads() -> TargetPlan:
    """A box of one head: half of the SSDs are best reached through it, the other half through its twin."""
    ssds = [namespace(0), namespace(1, ana_group=2)]
    return plan(ssds, [portal(1, ana=(AnaState(2, "non-optimized"),)), portal(2)])


def test_groups_say_which_head_is_better(box: Target) -> None:
    wanted = dataclasses.replace(two_heads(), controller_ids=ControllerIds(1, 32767))
    assert not apply(box, wanted).failed
    states = {(port, group): box.read_value(f"{ROOT}/ports/{port}/ana_groups/{group}/ana_state")
              for port in "12" for group in "12"}  # fmt: skip
    assert states == {("1", "1"): "optimized", ("1", "2"): "non-optimized", ("2", "1"): "optimized",
                      ("2", "2"): "optimized"}  # fmt: skip
    base = f"{ROOT}/subsystems/{namespace(1).nqn}"
    assert box.read_value(f"{base}/namespaces/1/ana_grpid") == "2"
    assert [box.read_value(f"{base}/attr_cntlid_{end}") for end in ("min", "max")] == ["1", "32767"]


def test_failing_over_between_heads_drops_nobody(box: Target) -> None:
    apply(box, two_heads())
    box.sessions = [("192.0.2.21", "192.0.2.11")]
    turned = [portal(1), portal(2, ana=(AnaState(2, "non-optimized"),))]
    outcome = apply(box, dataclasses.replace(two_heads(), portals=tuple(turned)))
    assert (outcome.failed, outcome.message, box.unlinked, box.lost) == (False, "", [], [])
    closing = [portal(1, ana=(AnaState(2, "inaccessible"),)), portal(2)]
    refused = apply(box, dataclasses.replace(two_heads(), portals=tuple(closing)))
    assert [item["subject"] for item in refused.findings] == ["ana group 2 of port 1"]


def test_range_of_identifiers_moves_under_live_controllers(box: Target) -> None:
    wanted = plan([namespace(0)])
    for low, high in ((1, 100), (200, 300), (1, 100), (50, 250)):
        box.sessions = [("192.0.2.21", "192.0.2.11")]
        outcome = apply(box, dataclasses.replace(wanted, controller_ids=ControllerIds(low, high)))
        assert (outcome.failed, outcome.message, box.unlinked) == (False, "", [])


def test_older_kernels_keep_their_firmware_revision_and_queue_size(box: Target) -> None:
    box.newer = False
    wanted = dataclasses.replace(plan([namespace(0)]), firmware="1.0", max_queue_size=256)
    assert not apply(box, wanted).failed
    assert not apply(box, wanted).changed


def test_queue_size_of_a_port_needs_consent_while_it_is_used(box: Target) -> None:
    apply(box, plan([namespace(0)]))
    box.sessions = [("192.0.2.21", "192.0.2.11")]
    wanted = dataclasses.replace(plan([namespace(0)]), max_queue_size=256)
    assert apply(box, wanted).failed
    assert not apply(box, wanted, consent=True).failed
    assert box.read_value(f"{ROOT}/ports/1/param_max_queue_size") == "256"


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"controller_ids": ControllerIds(9, 9)}, "target.controller_ids"),
        ({"controller_ids": ControllerIds(0, 9)}, "target.controller_ids"),
        ({"portals": (portal(1, ana=(AnaState(1, "fast"),)),)}, "target.ana"),
        ({"namespaces": (namespace(0, ana_group=129),)}, "target.ana"),
    ],
)
def test_what_no_kernel_takes_is_refused_before(box: Target, changes: dict[str, Any], check: str) -> None:
    before = box.configured()
    outcome = apply(box, dataclasses.replace(plan([namespace(0)]), **changes))
    assert [item["check"] for item in outcome.findings] == [check]
    assert box.configured() == before
