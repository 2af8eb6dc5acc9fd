"""Acts on striped sets: a set moves as a whole, over all its boxes, whenever the controller dies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fleet_world import Killed, World, deployed_world
from test_lifecycle import HOSTS, INVENTORY, SSD, custody, drain, failover, in_flight, is_converged, undrain

from g35ctl.engine.lifecycle import acts, hands, removal
from g35ctl.engine.lifecycle.acts import MoveOptions
from g35ctl.errors import G35Error
from g35ctl.site import load as site_load
from g35ctl.site.model import Site
from g35ctl.verdict import Grade

SECOND_BOX = """\
        ebof2:
          g35_ports: [{netdev: eth1, rail: a, address: 192.0.2.12}]
          g35_ebof:
            driver: nvmet
            portals: [{address: 192.0.2.12, rail: a}]
            namespaces:
"""


def ssd(box: int, number: int, owner: str) -> str:
    line = (SSD % {"n": number}).replace("ebof1", f"ebof{box}")
    return line.replace("size: 1GiB", f"size: 1GiB, owner: {owner}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two boxes. gpu2 has a set over both of them, gpu1 one on the first, gpu3 a single namespace."""
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    text = INVENTORY.replace("    g35_mooncake:", "    g35_storage: {layout: striped}\n    g35_mooncake:")
    text += ssd(1, 1, "gpu1") + ssd(1, 2, "gpu1") + ssd(1, 3, "gpu2") + ssd(1, 4, "gpu3")
    path.write_text(text + SECOND_BOX + ssd(2, 5, "gpu2") + ssd(2, 6, "gpu2") + HOSTS)
    return site_load.load(str(path))


@pytest.fixture
def world(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> World:
    return deployed_world(tmp_path, site, monkeypatch)


def set_of(world: World, host: str) -> tuple[str, tuple[str, ...]]:
    (store,) = world.running(host)
    return store.uuid, store.members


def test_a_deploy_starts_one_store_for_each_set_and_records_what_is_in_it(world: World) -> None:
    assert {host: len(set_of(world, host)[1]) for host in ("gpu1", "gpu2", "gpu3")} == {"gpu1": 2, "gpu2": 3, "gpu3": 1}
    assert sorted(len(members) for members in custody(world).sets) == [2, 3]
    plan = world.session("plan").plan
    assert {len({item.slot for item in plan.ownership if item.owner == host}) for host in ("gpu1", "gpu2")} == {1}


def test_a_drain_moves_the_whole_set_at_once_and_it_stays_one(world: World) -> None:
    keys, (name, members) = world.served(), set_of(world, "gpu2")
    _, verdicts = drain(world)
    assert {item.grade for item in verdicts} == {Grade.PASS} and world.served() == keys
    (holder,) = {store.host for store in world.stores if store.uuid == name and store.stopped is None}
    assert holder != "gpu2" and set(members) <= world.mounted[holder]
    # Its new owner has a set of its own: the two stay two.
    assert len(world.running(holder)) == 2
    assert sorted(len(found) for found in custody(world).sets) == [2, 3]
    assert is_converged(world)
    undrain(world)
    assert set_of(world, "gpu2") == (name, members) and world.served() == keys and is_converged(world)


def test_a_dead_owner_of_a_set_is_shut_out_of_every_box_of_it(world: World) -> None:
    flash, (name, _) = {key for keys in world.flash.values() for key in keys}, set_of(world, "gpu2")
    world.die("gpu2")
    failover(world)
    fenced = [hosts for stage, hosts in world.plays if stage == "fence"]
    assert fenced == [("ebof1", "ebof2")]
    assert world.owners()[name] != "gpu2" and flash <= world.served()
    assert all(world.nqn("gpu2") not in hosts for hosts in world.admits.values())


def test_wherever_the_controller_dies_the_same_command_ends_the_move_of_a_set(
    tmp_path: Path, site: Site, world: World
) -> None:
    number = 1
    while True:
        made = World(tmp_path / str(number) / "hosts.yml", site)
        Path(made.inventory).parent.mkdir()
        made.deploy()
        keys, (name, members) = made.served(), set_of(made, "gpu2")
        made.count, made.kill_at, made.kill_after = 0, number, number % 4 == 1
        try:
            drain(made)
            break
        except Killed:
            made.kill_at = -1
            drain(made)
        assert made.served() == keys and in_flight(made) is None
        (store,) = [item for item in made.stores if item.uuid == name and item.stopped is None]
        assert store.members == members and is_converged(made)
        number += 2
    assert number > 6


def test_a_rebalance_never_parts_a_set(world: World) -> None:
    before = {name: members for store in world.stores for name, members in [(store.uuid, store.members)]}
    acts.rebalance(world.hands("rebalance"), MoveOptions())
    assert {store.uuid: store.members for store in world.stores if store.stopped is None} == before


def test_a_box_with_a_part_of_a_set_is_not_removed(world: World) -> None:
    with pytest.raises(G35Error) as caught:
        removal.remove(world.hands("remove"), "ebof2")
    assert "gpu2" in caught.value.what and "ebof1" in caught.value.what
    assert "g35_storage.destroy" in caught.value.next_command
    assert not world.plays and in_flight(world) is None


def test_a_teardown_that_destroys_forgets_the_sets(world: World) -> None:
    removal.teardown(world.hands("teardown"), destroy=True)
    assert not world.flash and not custody(world).sets


def test_the_record_of_an_act_keeps_every_subsystem_of_a_set(world: World) -> None:
    world.memory_is_stuck = True
    with pytest.raises(hands.StepFailed):
        drain(world)
    act = in_flight(world)
    assert act is not None
    (stage,) = act.stages
    assert len(stage.move.uuids) == len(stage.move.subsystems) == 3
    assert {box for box, _ in stage.move.subsystems} == {"ebof1", "ebof2"}
    assert replace(stage.move, more=()) != stage.move
