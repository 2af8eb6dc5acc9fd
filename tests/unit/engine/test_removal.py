"""Removing and tearing down: everything that was made, from the top down, and no data unless its name was typed."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from fleet_world import Killed, World
from test_lifecycle import custody, drain, in_flight, is_converged, site, undrain, world  # noqa: F401

from g35ctl.engine.ledger import Ledger
from g35ctl.engine.lifecycle import removal, settle
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.site.model import Site


def take_out(world: World, name: str, **options: bool) -> None:  # noqa: F811
    removal.remove(world.hands("remove"), name, **options)


def test_a_teardown_undoes_every_stage_from_the_top_and_leaves_the_data(world: World) -> None:  # noqa: F811
    flash = dict(world.flash)
    removal.teardown(world.hands("teardown"))
    stages = [stage for stage, _ in world.taken_off]
    assert stages == sorted(stages, key=["cache", "storage", "connect", "fabric", "target"].index) or (
        stages[-1] == "fabric"
    )
    assert [host for stage, host in world.taken_off if stage == "cache"][-1] == "gpu1"  # the master
    assert not world.owners() and not any(world.mounted.values()) and not any(world.connected.values())
    assert world.flash == flash and not world.admits
    assert Ledger(Path(world.inventory).parent / ".g35" / "ledger.json").entry("gpu1", "cache") is None
    # The record stays: a later deploy gives everything back to whom its mark names.
    assert len(custody(world).namespaces) == 5
    world.deploy()
    assert len(world.served()) == 5 * 3 + 5


def test_destroying_is_its_own_step_between_unmounting_and_disconnecting(world: World) -> None:  # noqa: F811
    removal.teardown(world.hands("teardown"), destroy=True)
    stages = [stage for stage, _ in world.plays]
    assert stages.index("wipe") == max(n for n, s in enumerate(stages) if s == "wipe")
    assert not world.flash and not world.marks
    assert not custody(world).namespaces


def test_what_is_destroyed_is_typed() -> None:
    removal.must_be_typed("lab", "lab", "--yes-destroy", "x")
    for given in ("", "Lab", "lab2"):
        with pytest.raises(G35Error) as caught:
            removal.must_be_typed(given, "lab", "--yes-destroy", "x")
        assert caught.value.exit_code is Exit.USAGE and "--yes-destroy lab" in caught.value.next_command


def test_a_host_that_owns_something_is_drained_first(world: World) -> None:  # noqa: F811
    with pytest.raises(G35Error) as caught:
        take_out(world, "gpu2")
    assert "g35ctl drain gpu2" in caught.value.next_command and not world.taken_off


def test_a_host_is_removed_and_can_come_back(world: World) -> None:  # noqa: F811
    drain(world)
    take_out(world, "gpu2")
    assert [stage for stage, _ in world.taken_off] == ["cache", "storage", "connect", "fabric"]
    assert {host for _, host in world.taken_off} == {"gpu2"}
    plan = world.session("plan").plan
    assert plan.host("gpu2").stages() == () and any("gpu2 is out of service" in text for text in plan.warnings)
    assert is_converged(world)
    undrain(world)
    world.deploy()
    assert world.session("plan").plan.host("gpu2").fabric is not None


def test_a_host_that_is_gone_for_good_is_only_noted(world: World) -> None:  # noqa: F811
    drain(world)
    world.dead.add("gpu2")
    world.plays.clear()
    take_out(world, "gpu2", gone=True)
    assert world.plays == [] and custody(world).away["gpu2"].why == "removed"


def test_the_masters_host_is_not_removed(world: World) -> None:  # noqa: F811
    record = custody(world)
    for uuid in record.owned_by("gpu1"):
        record = record.moved((uuid,), "gpu3")
    from g35ctl.engine.lifecycle.record import save_custody

    save_custody(Path(world.inventory).parent / ".g35", record)
    with pytest.raises(G35Error, match="master"):
        take_out(world, "gpu1")


def two_boxes(world: World) -> World:  # noqa: F811
    """The same tier with two of its SSDs in a box of their own."""
    (first,) = [host for host in world.site.hosts if host.box is not None]
    assert first.box is not None
    spaces = first.box.namespaces
    portals = tuple(item.model_copy(update={"address": IPv4Address("192.0.2.12")}) for item in first.box.portals)
    ports = tuple(item.model_copy(update={"address": IPv4Address("192.0.2.12")}) for item in first.ports)
    second = first.model_copy(
        update={"name": "ebof2", "ports": ports,
                "box": first.box.model_copy(update={"namespaces": spaces[3:], "portals": portals})}
    )  # fmt: skip
    first = first.model_copy(update={"box": first.box.model_copy(update={"namespaces": spaces[:3]})})
    others = tuple(host for host in world.site.hosts if host.box is None)
    # Made anew: a copy would take along what the first one has remembered of its groups.
    fields = {name: getattr(world.site, name) for name in Site.model_fields}
    site_of_two = Site(**{**fields, "hosts": (first, second, *others)})
    made = World(Path(world.inventory).parent / "two" / "hosts.yml", site_of_two)
    Path(made.inventory).parent.mkdir()
    made.deploy()
    made.count = 0
    return made


def test_a_box_leaves_the_pool_with_its_flash_and_without_what_was_only_in_memory(world: World) -> None:  # noqa: F811
    tier = two_boxes(world)
    gone = {str(item.uuid) for host in tier.site.hosts if host.name == "ebof2" for item in host.box.namespaces}
    before = tier.served()
    take_out(tier, "ebof2")
    lost = {key for uuid in gone for key in tier.flash[uuid]}
    assert tier.served() == before - lost
    assert {stage for stage, host in tier.taken_off if host == "ebof2"} >= {"target"}
    assert in_flight(tier) is None and custody(tier).removed == {"ebof2"}
    assert is_converged(tier)
    assert tier.session("plan").plan.host("ebof2").stages() == ()


@pytest.mark.parametrize("number", range(1, 14, 4))
def test_removing_a_box_goes_on_where_it_was_killed(world: World, number: int) -> None:  # noqa: F811
    tier = two_boxes(world)
    tier.kill_at, tier.kill_after = number, bool(number % 8 == 1)
    try:
        take_out(tier, "ebof2")
    except Killed:
        tier.kill_at = -1
        if in_flight(tier) is not None:
            with pytest.raises(G35Error, match="unfinished"):
                settle.settle(tier.session("deploy"))
        take_out(tier, "ebof2")
    assert in_flight(tier) is None and is_converged(tier)
    assert not tier.admits.keys() - {item.nqn for item in tier.session("p").plan.ownership}


def test_a_removed_box_can_come_back_with_what_is_on_it(world: World) -> None:  # noqa: F811
    tier = two_boxes(world)
    before = {key for key in tier.served() if not key.startswith("memory")}
    take_out(tier, "ebof2")
    from g35ctl.engine.lifecycle import acts

    acts.undrain(tier.hands("undrain"), "ebof2", acts.MoveOptions())
    tier.now += 60
    tier.deploy()
    assert {key for key in tier.served() if not key.startswith("memory")} == before
    assert replace(custody(tier), slots={}).removed == frozenset()
