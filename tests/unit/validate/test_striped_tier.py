"""A tier in which one owner stripes: every member is judged by itself, and what is counted is counted once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import tier_sample as tier
import tier_states
from ansible.module_utils.g35.plans import StripedSet
from ansible.module_utils.g35.stripe import set_uuid

from g35ctl.bundle.needs import packages_needed
from g35ctl.observe import readings
from g35ctl.plan.model import Plan
from g35ctl.report.plan_text import sections
from g35ctl.report.status import build
from g35ctl.validate.functional import judge
from g35ctl.validate.look import Look
from g35ctl.verdict import Grade, Verdict

MEMBERS = tuple(tier.uuid(number) for number in tier.owned("gpu2"))
SET = StripedSet(set_uuid("sample", MEMBERS), MEMBERS, "/var/lib/g35/flash/set", 512 * 1024)


def plan() -> Plan:
    """The sample's plan, with gpu2's namespaces in one set under one store."""

    def striped(host: Any) -> Any:
        if host.name != "gpu2":
            return host
        mounts = tuple(replace(item, mount_point=SET.mount_point, stripe=SET.uuid) for item in host.storage.mounts)
        store = replace(
            host.cache.store.instances[0], namespace_uuid=SET.uuid, stripe=MEMBERS, mount_point=SET.mount_point
        )
        cache = replace(host.cache, store=replace(host.cache.store, instances=(store,)))
        return replace(host, storage=replace(host.storage, mounts=mounts, sets=(SET,)), cache=cache)

    found = tier.plan()
    return replace(found, hosts=tuple(striped(host) for host in found.hosts))


def states() -> dict[str, dict[str, Any]]:
    found = tier_states.states()
    marker = {
        "site": "sample", "owner": "gpu2", "namespace": SET.uuid, "nqn": tier.nqn(3), "created": "x",
        "namespaces": list(MEMBERS),
    }  # fmt: skip
    for item in found["gpu2"]["storage"]["mounts"]:
        item.update(mount_point=SET.mount_point, stripe=SET.uuid, marker=marker)
    return found


def failing(spoil: Callable[[dict[str, dict[str, Any]]], None]) -> list[Verdict]:
    seen = states()
    spoil(seen)
    verdicts = judge(plan(), seen, tier_states.findings(plan()), None)
    wanted = ("paths.live", "mount.namespace", "mount.marker")
    return [item for item in verdicts if item.grade is Grade.FAIL and item.check in wanted]


def test_every_member_is_judged_and_all_pass() -> None:
    verdicts = judge(plan(), states(), tier_states.findings(plan()), None)
    for check in ("mount.namespace", "mount.marker"):
        mine = [item for item in verdicts if item.host == "gpu2" and item.check == check]
        assert [item.grade for item in mine] == [Grade.PASS] * len(MEMBERS)
        assert len({item.subject for item in mine}) == len(MEMBERS)
    paths = [item for item in verdicts if item.host == "gpu2" and item.check == "paths.live"]
    assert [item.grade for item in paths] == [Grade.PASS] * len(MEMBERS)


@pytest.mark.parametrize("member", range(len(MEMBERS)))
def test_a_member_that_is_another_namespace_fails_its_own_verdict(member: int) -> None:
    def spoil(seen: dict[str, dict[str, Any]]) -> None:
        seen["gpu2"]["storage"]["mounts"][member]["device_uuid"] = tier.uuid(9)

    (verdict,) = failing(spoil)
    assert verdict.check == "mount.namespace" and verdict.subject == f"{SET.mount_point} {MEMBERS[member]}"


def test_a_path_of_a_member_counts_although_the_array_is_up() -> None:
    (verdict,) = failing(lambda seen: seen["gpu2"]["connect"]["paths"][-1].update(state="connecting"))
    assert (verdict.check, verdict.host) == ("paths.live", "gpu2")


def test_a_marker_that_leaves_a_member_out_fails_for_that_one() -> None:
    def spoil(seen: dict[str, dict[str, Any]]) -> None:
        for item in seen["gpu2"]["storage"]["mounts"]:
            item["marker"] = {**item["marker"], "namespaces": list(MEMBERS[:1])}

    assert {item.subject.rpartition(" ")[2] for item in failing(spoil)} == set(MEMBERS[1:])


def test_the_file_system_of_a_set_is_counted_once() -> None:
    seen = states()
    verdicts = judge(plan(), seen, tier_states.findings(plan()), None)
    taken = datetime(2026, 12, 1, 12, tzinfo=UTC)
    status = build(Look(tier.site(), plan(), readings.read(plan(), seen), verdicts, (), taken))
    host = next(item for item in status.hosts if item.name == "gpu2")
    assert (host.mounted, host.mounts, host.stores) == (len(MEMBERS), len(MEMBERS), 1)
    assert host.flash_size == 2**30 and host.flash_used == 2**29


def test_the_plan_shows_sets_and_the_bundle_brings_mdadm() -> None:
    shown = {section.title: section for section in sections(plan())}
    assert [row[:3] for row in shown["Striped sets"].rows] == [("gpu2", SET.uuid, uuid) for uuid in MEMBERS]
    assert "Striped sets" not in {section.title for section in sections(tier.plan())}
    for family in ("debian", "redhat"):
        assert "mdadm" in packages_needed(plan(), family)
        assert "mdadm" not in packages_needed(tier.plan(), family)
