"""Drain, fail over, bring back: no value lost, never two hosts on one file system, whenever the controller dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fleet_world import Killed, World, deployed_world

from g35ctl.engine.ledger import Ledger, content_digest
from g35ctl.engine.lifecycle import acts, record
from g35ctl.engine.lifecycle.acts import MoveOptions
from g35ctl.engine.lifecycle.hands import Hands, StepFailed, Stopped
from g35ctl.engine.lifecycle.life import must_be_named
from g35ctl.engine.stages import APPLIED, stage_plans
from g35ctl.errors import G35Error
from g35ctl.site import load as site_load
from g35ctl.site.model import Site
from g35ctl.verdict import Grade

INVENTORY = """\
all:
  vars:
    g35_site: {name: test}
    g35_fabric: {mtu: 4200, rails: [{name: a, subnet: 192.0.2.0/24}]}
    g35_mooncake: {store: {segment_size: 64MiB, local_buffer_size: 32MiB, bucket_size: 8MiB, bucket_keys: 8}}
  children:
    ebof:
      hosts:
        ebof1:
          g35_ports: [{netdev: eth1, rail: a, address: 192.0.2.11}]
          g35_ebof:
            driver: nvmet
            portals: [{address: 192.0.2.11, rail: a}]
            namespaces:
"""
SSD = """\
              - {nqn: "nqn.2026-01.io.g35ctl:test:ebof1:ssd%(n)d", uuid: 0d1f7e1c-30a5-4a7b-8a51-6d9d4f1b000%(n)d, size: 1GiB,
                 device: /dev/disk/by-id/nvme-ssd%(n)d}
"""  # noqa: E501
HOSTS = """\
    gpu_hosts:
      hosts:
        gpu1: {g35_ports: [{netdev: eth1, rail: a, address: 192.0.2.21}]}
        gpu2: {g35_ports: [{netdev: eth1, rail: a, address: 192.0.2.22}]}
        gpu3: {g35_ports: [{netdev: eth1, rail: a, address: 192.0.2.23}]}
    mooncake_masters: {hosts: {gpu1: }}
"""
OPTIONS = MoveOptions()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    path.write_text(INVENTORY + "".join(SSD % {"n": n} for n in range(1, 6)) + HOSTS)
    return site_load.load(str(path))


@pytest.fixture
def world(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> World:
    return deployed_world(tmp_path, site, monkeypatch)


def custody(world: World) -> record.Custody:
    return record.load_custody(Path(world.inventory).parent / ".g35")


def in_flight(world: World) -> record.Act | None:
    return record.load_act(Path(world.inventory).parent / ".g35")


def is_converged(world: World) -> bool:
    """Whether a deploy would find nothing to apply."""
    opened = world.session("check")
    known = Ledger(opened.state / "ledger.json")
    return all(
        known.matches(host, stage, "content")
        for host in opened.plan.hosts
        for stage in APPLIED
        if stage_plans(host, stage)
    )


def drain(world: World) -> tuple[Hands, tuple]:
    made = world.hands("drain")
    return made, acts.drain(made, "gpu2", OPTIONS)


def failover(world: World, **options: bool) -> tuple[Hands, tuple]:
    made = world.hands("failover")
    return made, acts.failover(made, "gpu2", MoveOptions(**options))


def undrain(world: World) -> tuple[Hands, tuple]:
    made = world.hands("undrain")
    return made, acts.undrain(made, "gpu2", OPTIONS)


def test_a_drain_loses_nothing_and_frees_the_host(world: World) -> None:
    keys, before = world.served(), world.owners()
    mine = {uuid for uuid, owner in before.items() if owner == "gpu2"}
    assert len(mine) == 2
    _, verdicts = drain(world)
    assert {item.grade for item in verdicts} == {Grade.PASS}
    assert world.served() == keys
    assert not world.running("gpu2") and not world.mounted["gpu2"] and not world.connected["gpu2"]
    assert {uuid: owner for uuid, owner in world.owners().items() if uuid not in mine} == {
        uuid: owner for uuid, owner in before.items() if uuid not in mine
    }
    away = custody(world).away["gpu2"]
    assert (away.why, set(away.home), away.clean) == ("drain", mine, True)
    assert in_flight(world) is None and is_converged(world)
    assert all(world.nqn("gpu2") not in hosts for hosts in world.admits.values())


def test_undrain_brings_everything_home_and_the_record_is_as_before(world: World) -> None:
    keys, before = world.served(), world.owners()
    drain(world)
    _, verdicts = undrain(world)
    assert {item.grade for item in verdicts} == {Grade.PASS}
    assert world.owners() == before and world.served() == keys
    assert not custody(world).away and not custody(world).settled
    assert is_converged(world)


def test_a_drained_host_stays_empty_and_draining_it_again_does_nothing(world: World) -> None:
    drain(world)
    world.plays.clear()
    assert drain(world)[1] == ()
    assert world.plays == []


def test_values_that_cannot_be_moved_stop_the_drain_and_undrain_takes_it_back(world: World) -> None:
    before = world.owners()
    world.memory_is_stuck = True
    with pytest.raises(StepFailed) as caught:
        drain(world)
    assert caught.value.failures[0].check == "pool.empty" and "undrain" in caught.value.failures[0].remedy
    assert world.owners() == before
    undrain(world)
    assert world.owners() == before and in_flight(world) is None and not custody(world).away
    assert is_converged(world)


def test_what_was_not_deployed_is_not_touched_along_the_way(world: World) -> None:
    Ledger(Path(world.inventory).parent / ".g35" / "ledger.json").forget(("ebof1",), ("target",))
    with pytest.raises(G35Error, match="more than was deployed") as caught:
        drain(world)
    assert "ebof1: target" in caught.value.why and "deploy" in caught.value.next_command
    assert in_flight(world) is None and not custody(world).away


def test_another_act_in_the_way_is_named_with_the_command_that_ends_it(world: World) -> None:
    world.memory_is_stuck = True
    with pytest.raises(StepFailed):
        drain(world)
    with pytest.raises(G35Error) as caught:
        acts.rebalance(world.hands("rebalance"), OPTIONS)
    assert "drain gpu2" in caught.value.why and "g35ctl drain gpu2" in caught.value.next_command


def test_an_interrupt_ends_between_two_steps_and_the_same_command_goes_on(world: World) -> None:
    keys = world.served()
    world.broken = lambda play: setattr(world.interrupt, "asked", play.stage == "release") or ""
    with pytest.raises(Stopped):
        drain(world)
    world.broken = lambda play: ""
    world.interrupt.asked = False
    drain(world)
    assert world.served() == keys and not world.running("gpu2") and is_converged(world)


def killed_everywhere(world_of: Callable[[], World], act: Callable[[World], object], check: Callable[[World], None],
                      before: Callable[[World], object] = lambda world: None) -> int:  # fmt: skip
    """Kill the controller at every other play, in turn before and after its effect; then the same command again."""
    number = 1
    while True:
        world = world_of()
        before(world)
        world.count = 0
        world.kill_at, world.kill_after = number, number % 4 == 1
        try:
            act(world)
            return number
        except Killed:
            pass
        world.kill_at = -1
        act(world)
        check(world)
        number += 2


@pytest.fixture
def fresh(tmp_path: Path, site: Site, world: World) -> Callable[[], World]:
    numbers = iter(range(10_000))

    def make() -> World:
        made = World(tmp_path / f"world{next(numbers)}" / "hosts.yml", site)
        Path(made.inventory).parent.mkdir()
        made.deploy()
        return made

    return make


def test_a_drain_that_is_killed_anywhere_is_finished_by_the_same_command(fresh: Callable[[], World]) -> None:
    def check(world: World) -> None:
        assert len(world.served()) == 5 * 3 + 5
        assert not world.running("gpu2") and not world.mounted["gpu2"]
        assert in_flight(world) is None and is_converged(world)
        assert set(custody(world).owned_by("gpu2")) == set()

    assert killed_everywhere(fresh, drain, check) > 10


def test_a_failover_that_is_killed_anywhere_is_finished_by_the_same_command(fresh: Callable[[], World]) -> None:
    def check(world: World) -> None:
        assert len([key for key in world.served() if not key.startswith("memory")]) == 5 * 3
        assert set(world.owners().values()) == {"gpu1", "gpu3"}
        assert in_flight(world) is None and is_converged(world)

    assert killed_everywhere(fresh, failover, check, before=lambda world: world.die("gpu2")) > 8


def test_a_failover_shuts_out_first_and_keeps_what_was_on_flash(world: World) -> None:
    world.die("gpu2")
    flash = {key for keys in world.flash.values() for key in keys}
    _, verdicts = failover(world)
    assert not [item for item in verdicts if item.grade is Grade.FAIL]
    stages = [stage for stage, _ in world.plays]
    assert stages.index("fence") < stages.index("connect") and "release" not in stages
    assert flash <= world.served()
    assert not any("gpu2" in hosts for _, hosts in world.plays)
    away = custody(world).away["gpu2"]
    assert (away.why, away.clean) == ("failover", False)
    assert is_converged(world)


def test_a_host_that_was_failed_over_lets_go_first_when_it_comes_back(world: World) -> None:
    before = world.owners()
    world.die("gpu2")
    failover(world)
    world.dead.clear()
    assert world.mounted["gpu2"]  # it never unmounted
    made = world.hands("deploy")
    acts.welcome(made, "gpu2")
    assert not world.mounted["gpu2"] and custody(world).away["gpu2"].clean
    undrain(world)
    assert world.owners() == before and is_converged(world)


def test_nothing_is_given_away_while_the_box_still_hears_the_dead_host(world: World) -> None:
    """The host is not dead at all: its stores still tell the master that they are alive."""
    with pytest.raises(StepFailed) as caught:
        failover(world)
    assert caught.value.failures[0].check == "pool.alive"
    assert set(world.owners().values()) == {"gpu1", "gpu2", "gpu3"}
    # What it owned is exported to nobody meanwhile, whatever else is planned.
    plan = world.session("plan").plan
    mine = custody(world).owned_by("gpu2")
    assert [item.allowed_hosts for item in plan.host("ebof1").target.namespaces if item.uuid in mine] == [(), ()]


def test_without_proof_of_fencing_nothing_is_given_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hands, "fence", lambda self, subsystems: {})
    world.die("gpu2")
    with pytest.raises(StepFailed) as caught:
        failover(world)
    (first, *_) = caught.value.failures
    assert first.check == "fence.proof" and "--confirm-fenced gpu2" in first.remedy
    assert world.nqn("gpu2") in first.remedy
    assert not any(stage == "connect" for stage, _ in world.plays)
    failover(world, confirmed=True)
    assert set(world.owners().values()) == {"gpu1", "gpu3"}


def test_the_masters_host_is_not_failed_over_without_a_master(world: World) -> None:
    world.die("gpu1")
    with pytest.raises(G35Error, match="master"):
        acts.failover(world.hands("failover"), "gpu1", OPTIONS)


@pytest.mark.parametrize("number", range(6, 16, 3))
def test_a_host_that_dies_while_it_is_drained_is_failed_over(fresh: Callable[[], World], number: int) -> None:
    world = fresh()
    world.count = 0
    world.kill_at = number
    with pytest.raises(Killed):
        drain(world)
    world.kill_at = -1
    world.die("gpu2")
    failover(world)
    assert len([key for key in world.served() if not key.startswith("memory")]) == 5 * 3
    assert set(world.owners().values()) == {"gpu1", "gpu3"} and in_flight(world) is None
    assert is_converged(world)


@pytest.mark.parametrize("number", range(6, 16, 3))
def test_a_host_that_dies_while_it_takes_over_is_failed_over(fresh: Callable[[], World], number: int) -> None:
    world = fresh()
    world.count = 0
    world.kill_at = number
    with pytest.raises(Killed):
        drain(world)
    world.kill_at = -1
    act = in_flight(world)
    assert act is not None
    begun = [item for item in act.left if item.reached(record.LEAVING)]
    if not begun or begun[0].move.target == "gpu1":
        return
    victim = begun[0].move.target
    world.die(victim)
    if begun[0].reached(record.LEFT):
        acts.failover(world.hands("failover"), victim, OPTIONS)
        assert victim not in world.owners().values()
        assert all(owner in ("gpu1", "gpu2") for owner in world.owners().values())


def test_a_rebalance_evens_out_one_at_a_time_with_a_look_in_between(world: World) -> None:
    drain(world)
    state = Path(world.inventory).parent / ".g35"
    record.save_custody(state, custody(world).back("gpu2"))
    world.deploy()
    made = world.hands("rebalance")
    proposed = acts.propose(made.session, "rebalance", "test", OPTIONS)
    assert proposed and {move.target for move in proposed} == {"gpu2"}
    world.plays.clear()
    keys = world.served()
    acts.rebalance(made, MoveOptions(pause=2))
    assert sorted(list(world.owners().values()).count(host) for host in ("gpu1", "gpu2", "gpu3")) == [1, 2, 2]
    assert world.served() == keys and is_converged(world)


def test_a_name_is_typed_so_that_it_is_meant() -> None:
    must_be_named("", "gpu2", "--confirm-fenced")
    must_be_named("gpu2", "gpu2", "--confirm-fenced")
    with pytest.raises(G35Error):
        must_be_named("gpu1", "gpu2", "--confirm-fenced")


def test_a_damaged_record_is_an_error_and_not_a_guess(world: World) -> None:
    path = Path(world.inventory).parent / ".g35" / "act.json"
    path.write_text('{"schema_version": 1, "verb": "drain"}')
    with pytest.raises(G35Error, match="damaged"):
        world.session("plan")
    assert content_digest()
