"""The suite from outside: paths take turns, the site is put back whatever happens, and what is missing is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from results import point

from g35ctl.content import content_root
from g35ctl.engine.run import Failure
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.build import build
from g35ctl.site.load import load
from g35ctl.validate import serving_result
from g35ctl.validate.serving import suite as suite_module
from g35ctl.validate.serving.measure import Place
from g35ctl.validate.serving_result import CachePath, Equality, PointResult
from g35ctl.validate.verb import exit_code
from g35ctl.verdict import Grade

FAILED = Failure("gpu1", "cache", "cache.store", "no answer", "healthy", "journalctl")


class World:
    """Stands in for the site: remembers what the suite did to it."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.measured: list[tuple[str, int, int]] = []
        self.moves: list[str] = []
        self.away = ""
        self.stop_after = 1000
        self.broken_path = ""
        self.stuck = False
        self.incomplete = ""
        self.unready = ""
        self.raises: Exception | None = None

    def leave(self, session: Any, plan: Any, name: str) -> tuple[Failure, ...]:
        self.moves.append(str(name))
        self.away = str(name)
        return (FAILED,) if name == self.broken_path else ()

    def put_back(self, session: Any) -> tuple[Failure, ...]:
        if self.away:
            self.moves.append("back")
            if self.stuck:
                return (FAILED,)
        self.away = ""
        return ()

    def measure(self, reach: Any, method: Any, place: Place, stopped: Any) -> PointResult:
        if self.raises:
            raise self.raises
        self.measured.append((str(place.path), place.users, place.trial))
        if len(self.measured) >= self.stop_after:
            self.session.stopped = True
        return point(place.path, place.users, place.trial, place.order, incomplete=self.incomplete)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    site = load(str(content_root() / "inventories" / "serving"))
    session = SimpleNamespace(
        site=site,
        plan=build(site),
        inventory=str(tmp_path),
        state=tmp_path / ".g35",
        folder=SimpleNamespace(path=tmp_path, identifier="run"),
        display=SimpleNamespace(say=lambda _: None, stage_started=lambda *_: None),
        stopped=False,
    )
    session.interrupt = SimpleNamespace(requested=lambda: session.stopped)
    made = World(session)
    every = {host: dict.fromkeys(("cache", "inference"), True) for host in ("gpu1", "gpu2", "head1")}

    @contextmanager
    def tunnels(found: Any, targets: Any) -> Iterator[dict[Any, tuple[str, int]]]:
        yield dict.fromkeys(targets, ("127.0.0.1", 1))

    monkeypatch.setattr(suite_module, "recorded_stages", lambda *_: every)
    monkeypatch.setattr(suite_module, "logins", lambda *_: {})
    monkeypatch.setattr(suite_module, "tunnels", tunnels)
    monkeypatch.setattr(suite_module, "plan_again", lambda _, site: site)
    monkeypatch.setattr(suite_module, "measure", made.measure)
    monkeypatch.setattr(suite_module.journal, "leave", made.leave)
    monkeypatch.setattr(suite_module.journal, "put_back", made.put_back)
    monkeypatch.setattr(suite_module.journal, "read", lambda _: made.away or None)
    monkeypatch.setattr(suite_module.Reach, "versions", lambda self: ("vllm 0.32.0",))
    monkeypatch.setattr(suite_module.probing, "characters_per_token", lambda *_: 1.0)
    monkeypatch.setattr(suite_module.probing, "wait_ready", lambda *_: made.unready)
    monkeypatch.setattr(suite_module.probing, "equality", lambda _, path, *__: Equality(path, 3, 3))
    return made


def stored(world: World) -> serving_result.ServingResult:
    found = serving_result.read(world.session.folder.path)
    assert found is not None
    return found


def test_paths_take_turns_and_the_site_is_left_as_it_was(world: World) -> None:
    proof = suite_module.run(world.session)
    assert proof.failures == ()
    paths = list(dict.fromkeys((path, trial) for path, _, trial in world.measured))
    assert paths == [("local", 0), ("memory", 0), ("g35", 0), ("memory", 1), ("g35", 1), ("local", 1)]
    assert world.moves == ["local", "memory", "back", "memory", "back", "local", "back"]
    found = stored(world)
    assert found.missing == () and found.restored and found.emulated
    assert len(found.points) == 18 and len(found.rows) == 9
    assert [item.path for item in found.equalities] == [CachePath.LOCAL, CachePath.MEMORY, CachePath.G35]
    assert exit_code(proof, False) is Exit.OK


def test_interrupted_it_puts_back_and_says_what_is_missing(world: World) -> None:
    world.stop_after = 2
    proof = suite_module.run(world.session)
    assert len(world.measured) == 2
    assert world.moves == ["local", "back"]
    found = stored(world)
    assert found.restored
    assert sum("not measured" in line for line in found.missing) == 16
    assert exit_code(proof, True) is Exit.INTERRUPTED


def test_what_is_known_is_on_disk_after_every_point(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    measure = world.measure

    def look(*arguments: Any) -> PointResult:
        if world.measured:
            seen.append(len(stored(world).points))
            assert "the run was cut off" in stored(world).missing
        return measure(*arguments)

    monkeypatch.setattr(suite_module, "measure", look)
    suite_module.run(world.session)
    assert seen == list(range(1, 18))


def test_a_path_that_cannot_be_reached_leaves_the_others(world: World) -> None:
    world.broken_path = "memory"
    proof = suite_module.run(world.session)
    assert {path for path, _, _ in world.measured} == {"local", "g35"}
    assert any("path memory was not measured: no answer" in line for line in stored(world).missing)
    assert exit_code(replace(proof, verdicts=()), False) is not Exit.THRESHOLDS_MISSED


def test_engines_that_do_not_find_the_pool_again(world: World) -> None:
    world.unready = "gpu2:8100 finds nothing in the pool"
    proof = suite_module.run(world.session)
    assert world.measured == []
    assert any("finds nothing" in item.observed for item in proof.failures)
    assert exit_code(proof, False) is Exit.DEPLOY_FAILED
    assert world.moves[-1] == "back"


def test_a_measurement_that_is_not_whole_is_exit_1(world: World) -> None:
    world.incomplete = "g35-vllm-main.service on gpu1 was restarted or ended"
    proof = suite_module.run(world.session)
    assert exit_code(proof, False) is Exit.DEPLOY_FAILED
    assert any("g35-vllm-main.service" in line for line in stored(world).missing)
    assert not any(row.complete for row in stored(world).rows)


def test_a_site_that_is_not_back_is_told(world: World) -> None:
    world.stuck = True
    proof = suite_module.run(world.session)
    assert not stored(world).restored
    assert any("not back on its own configuration" in item.observed for item in proof.failures)


@pytest.mark.parametrize("error", [G35Error("ssh is gone", why="no route"), KeyboardInterrupt()])
def test_whatever_ends_it_the_site_is_put_back(world: World, error: BaseException) -> None:
    world.raises = error  # type: ignore[assignment]
    if isinstance(error, G35Error):
        proof = suite_module.run(world.session)
        assert exit_code(proof, False) is Exit.DEPLOY_FAILED
    else:
        with pytest.raises(KeyboardInterrupt):
            suite_module.run(world.session)
    assert world.moves == ["local", "back"]
    assert stored(world).restored


def test_nothing_is_touched_on_a_site_that_is_not_deployed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_module, "recorded_stages", lambda *_: {})
    proof = suite_module.run(world.session)
    assert world.moves == [] and world.measured == []
    assert "not deployed as planned" in proof.failures[0].observed
    assert exit_code(proof, False) is Exit.DEPLOY_FAILED


def test_a_site_without_engines_is_skipped(world: World) -> None:
    world.session.plan = build(load(str(content_root() / "inventories" / "lab")))
    proof = suite_module.run(world.session)
    assert [item.grade for item in proof.verdicts] == [Grade.SKIP]
    assert exit_code(proof, False) is Exit.OK


def test_a_missed_threshold_is_exit_7(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_module.probing, "equality", lambda _, path, *__: Equality(path, 3, 2, "question 1"))
    assert exit_code(suite_module.run(world.session), False) is Exit.THRESHOLDS_MISSED
