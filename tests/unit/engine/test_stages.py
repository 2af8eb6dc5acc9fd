"""Which stages run on which hosts."""

from __future__ import annotations

import pytest
import tier_sample

from g35ctl.engine.stages import participants, select_hosts, select_stages, stage_of, stage_plans, waves
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import STAGES


@pytest.fixture
def plan():
    return tier_sample.plan()


def test_a_box_gets_its_roce_settings_in_stage_target(plan) -> None:
    box, host = plan.host("ebof1"), plan.host("gpu1")
    assert stage_plans(box, "target") == ("target", "fabric")
    assert stage_plans(box, "fabric") == ()
    assert stage_of(box, "fabric") == "target"
    assert stage_of(host, "fabric") == "fabric"
    assert participants(plan, "fabric") == ("gpu1", "gpu2")
    assert participants(plan, "target") == ("ebof1",)


def test_target_and_fabric_run_side_by_side_and_connect_waits_for_both() -> None:
    assert waves(STAGES) == (
        ("preflight",), ("target", "fabric"), ("connect",), ("storage",), ("cache",), ("inference",), ("validate",),
    )  # fmt: skip
    assert waves(("fabric", "storage")) == (("fabric",), ("storage",))


@pytest.mark.parametrize(
    ("first", "only", "skip", "chosen"),
    [
        ("", (), (), STAGES),
        ("storage", (), (), ("preflight", "storage", "cache", "inference", "validate")),
        ("storage", (), ("validate",), ("preflight", "storage", "cache", "inference")),
        ("", ("fabric", "target"), (), ("target", "fabric")),
        ("", (), ("preflight",), STAGES[1:]),
    ],
)
def test_stage_options_choose_in_stage_order(first, only, skip, chosen) -> None:
    assert select_stages(first, only, skip) == chosen


def test_an_unknown_stage_is_a_usage_error_with_a_hint() -> None:
    with pytest.raises(G35Error) as caught:
        select_stages("", ("conect",), ())
    assert caught.value.exit_code is Exit.USAGE
    assert "did you mean" in caught.value.what
    assert "connect" in caught.value.what


@pytest.mark.parametrize(
    ("limit", "chosen"),
    [
        ("", ("ebof1", "gpu1", "gpu2")),
        ("gpu2", ("gpu2",)),
        ("gpu*", ("gpu1", "gpu2")),
        ("gpu_hosts", ("gpu1", "gpu2")),
        ("cache_owners,ebof1", ("ebof1", "gpu1", "gpu2")),
        ("!gpu1", ("ebof1", "gpu2")),
        ("all:!ebof", ("gpu1", "gpu2")),
    ],
)
def test_limit_names_hosts_groups_and_globs(plan, limit: str, chosen: tuple[str, ...]) -> None:
    assert select_hosts(tier_sample.site(), plan, limit) == chosen


@pytest.mark.parametrize("limit", ["gpu9", "gpu1,!gpu1"])
def test_a_limit_that_leaves_nothing_is_a_usage_error(plan, limit: str) -> None:
    with pytest.raises(G35Error) as caught:
        select_hosts(tier_sample.site(), plan, limit)
    assert caught.value.exit_code is Exit.USAGE
