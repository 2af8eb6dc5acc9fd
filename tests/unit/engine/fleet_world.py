"""A tier as a script: boxes that admit, hosts that mount and serve, a master that forgets late. Plays change it as the
modules would, and whatever would harm data fails the test at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from g35ctl.engine import folder, ledger, planning, session
from g35ctl.engine.events import TaskEvent
from g35ctl.engine.lifecycle import hands
from g35ctl.engine.lifecycle.hands import Hands
from g35ctl.engine.runner import Play, Played
from g35ctl.engine.session import Session
from g35ctl.plan import build as build_module
from g35ctl.plan.cache import segment
from g35ctl.site.model import Site

TTL = 10.0


class Killed(BaseException):
    """The controller dies: nothing may catch it."""


class Quiet:
    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, title: str, stages: Any, hosts: Any) -> None: ...
    def stage_started(self, stage: str, hosts: Any) -> None: ...
    def task(self, event: Any) -> None: ...
    def stage_ended(self, result: Any) -> None: ...
    def end(self) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


class Asked:
    asked = False

    def requested(self) -> bool:
        return self.asked


@dataclass
class Store:
    """A store that runs, or ran: ``stopped`` is None while it does. ``uuid`` is its namespace's or its striped set's,
    ``members`` are the namespaces it lies on."""

    host: str
    uuid: str
    segment: str
    members: tuple[str, ...]
    stopped: float | None = None
    only_in_memory: set[str] = field(default_factory=set)


class World:
    """The hosts. ``kill_at`` is the number of the play at which the controller dies, before or after its effect."""

    def __init__(self, inventory: Path, site: Site) -> None:
        self.inventory = str(inventory)
        self.site = site
        self.now = 1000.0
        self.admits: dict[str, set[str]] = {}
        self.connected: dict[str, set[str]] = {}
        self.mounted: dict[str, set[str]] = {}
        self.marks: dict[str, str] = {}
        self.stores: list[Store] = []
        self.flash: dict[str, set[str]] = {}
        self.noted: set[str] | None = None
        self.dead: set[str] = set()
        self.deaf: set[str] = set()
        self.plays: list[tuple[str, tuple[str, ...]]] = []
        self.taken_off: list[tuple[str, str]] = []
        self.kill_at = -1
        self.kill_after = False
        self.count = 0
        self.interrupt = Asked()
        self.display = Quiet()
        self.memory_is_stuck = False
        self.broken: Callable[[Play], str] = lambda play: ""

    # the controller

    def session(self, verb: str) -> Session:
        from g35ctl.engine.planning import plan_again

        state = folder.state_directory(self.inventory)
        run = folder.create(state, verb)
        plan = plan_again(self.inventory, self.site)
        self.display = Quiet()
        session = Session(
            self.inventory, verb, self.site, plan, state, run, self.display, self.interrupt, datetime.now(UTC)
        )  # type: ignore[arg-type]
        session.play = lambda play: self.play(session, play)  # type: ignore[assignment,method-assign]
        return session

    def hands(self, verb: str) -> Hands:
        return Hands(self.session(verb), self.sleep, lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    # the hosts

    def play(self, session: Session, play: Play) -> Played:
        self.count += 1
        if self.count == self.kill_at and not self.kill_after:
            raise Killed
        self.plays.append((play.stage, play.hosts))
        self.now += 1.0
        played = Played(play.stage, play.hosts)
        for host in play.hosts:
            if host in self.dead:
                played.take(TaskEvent(play.stage, host, "t", "setup", "unreachable", False, 0, message="no answer"))
                continue
            problem = self.broken(play)
            if problem:
                found = ({"severity": "error", "check": problem, "observed": "o", "expected": "e", "remedy": "r"},)
                action = f"g35_{play.stage}"
                played.take(TaskEvent(play.stage, host, "t", action, "failed", False, 1, findings=found))
                continue
            action, state = self.do(session, play, host)
            played.take(TaskEvent(play.stage, host, "t", action, "ok", play.stage != "verify", 1, state=state))
        if self.count == self.kill_at:
            raise Killed
        return played

    def do(self, session: Session, play: Play, host: str) -> tuple[str, dict[str, Any]]:
        plan = session.plan.host(host)
        if play.playbook == "target":
            assert plan.target is not None
            for item in plan.target.namespaces:
                self.admits[item.nqn] = set(item.allowed_hosts)
                for other, nqns in self.connected.items():
                    if item.nqn in nqns and self.nqn(other) not in item.allowed_hosts and other not in self.deaf:
                        shut_out = session.verb == "failover" or item.uuid not in self.mounted.get(other, set())
                        assert shut_out, f"{other} was shut out of {item.nqn} while it was mounted"
                        nqns.discard(item.nqn)
            return "g35_target", {"subsystems": {}}
        if play.playbook == "fence":
            seen = {}
            for nqn in play.variables["g35_fence_subsystems"][host]:
                self.admits[nqn] = set()
                for nqns in self.connected.values():
                    nqns.discard(nqn)
                seen[nqn] = {"present": True, "allowed_hosts": [], "any_host": False, "controllers": None}
            return "g35_fence", {"subsystems": seen}
        if play.playbook == "release":
            self.release(session, host)
            return "g35_release", {"cache": {}}
        if play.playbook == "remove":
            self.take_off(session, host, play.variables["g35_remove_stage"])
        if play.playbook == "wipe":
            assert play.variables["g35_wipe_site"] == session.plan.site
            for mount in plan.storage.mounts if plan.storage is not None else ():
                assert not [name for name, uuids in self.mounted.items() if mount.uuid in uuids]
                assert mount.nqn in self.connected[host]
                self.flash.pop(mount.stripe or mount.uuid, None)
                self.marks.pop(mount.uuid, None)
        if play.playbook == "connect":
            assert plan.connect is not None
            for nqn in {path.nqn for path in plan.connect.paths}:
                assert self.nqn(host) in self.admits[nqn], f"{host} is refused by {nqn}"
                self.connected.setdefault(host, set()).add(nqn)
        if play.playbook == "storage":
            assert plan.storage is not None
            for mount in plan.storage.mounts:
                assert mount.nqn in self.connected[host], f"{host} has no path to {mount.nqn}"
                self.mount(host, mount.uuid, mount.previous_owners)
        if play.playbook == "cache":
            assert plan.cache is not None
            for item in plan.cache.store.instances if plan.cache.store else ():
                self.start(host, item.namespace_uuid, segment(item), item.members)
        if play.playbook == "pool":
            return "g35_pool", self.pool(play.variables)
        if play.playbook == "verify":
            return "g35_verify", self.read(session, host)
        return f"g35_{play.stage}", {"system": {}}

    def release(self, session: Session, host: str) -> None:
        plan = session.plan.host(host)
        assert plan.cache is not None and plan.storage is not None and plan.connect is not None, "no plan to let go by"
        keep = {mount.uuid for mount in plan.storage.mounts}
        for store in self.running(host):
            if not keep.issuperset(store.members):
                assert not keep.intersection(store.members), f"a part of {store.uuid} was taken away"
                assert not store.only_in_memory, f"values in the memory of {store.segment} are lost"
                store.stopped = self.now
        self.mounted[host] = self.mounted.get(host, set()) & keep
        nqns = {path.nqn for path in plan.connect.paths}
        self.connected[host] = self.connected.get(host, set()) & nqns

    def take_off(self, session: Session, host: str, stage: str) -> None:
        """A role's action remove: what stands on the stage must be gone already."""
        self.taken_off.append((stage, host))
        if stage == "cache":
            for store in self.running(host):
                store.stopped = self.now
        elif stage == "storage":
            assert not self.running(host)
            self.mounted[host] = set()
        elif stage == "connect":
            assert not self.mounted.get(host)
            self.connected[host] = set()
        elif stage == "target":
            plan = session.plan.host(host).target
            assert plan is not None
            for item in plan.namespaces:
                assert not [name for name, nqns in self.connected.items() if item.nqn in nqns]
                self.admits.pop(item.nqn, None)

    def mount(self, host: str, uuid: str, previous: tuple[str, ...]) -> None:
        users = [name for name, uuids in self.mounted.items() if uuid in uuids and name != host]
        alive = [name for name in users if self.nqn_of(uuid) in self.connected.get(name, set())]
        assert not alive, f"{uuid} is mounted on {host} and {alive}"
        mark = self.marks.get(uuid)
        assert mark in (None, host, *previous), f"{uuid} is marked for {mark}, {host} may replace {previous}"
        self.marks[uuid] = host
        self.mounted.setdefault(host, set()).add(uuid)

    def start(self, host: str, uuid: str, name: str, members: tuple[str, ...]) -> None:
        assert all(item in self.mounted.get(host, set()) and self.marks[item] == host for item in members)
        if any(store.uuid == uuid for store in self.running(host)):
            return
        for store in self.stores:
            if store.uuid == uuid and store.stopped is not None:
                assert self.now - store.stopped >= TTL, f"a store of {uuid} started within the client's time to live"
            assert store.uuid != uuid or store.stopped is not None, f"two stores of {uuid}"
        self.stores.append(Store(host, uuid, name, members))

    def running(self, host: str) -> list[Store]:
        return [store for store in self.stores if store.host == host and store.stopped is None]

    def pool(self, given: dict[str, Any]) -> dict[str, Any]:
        action, segments = given["g35_pool_action"], given.get("g35_pool_segments", [])
        if action == "note":
            self.noted = self.noted if self.noted is not None else self.served()
            return {"action": action, "keys": len(self.noted), "digests": {"k": "d"}}
        if action == "compare":
            lost = (self.noted or set()) - self.served()
            return {"action": action, "noted": self.noted is not None, "before": len(self.noted or ()),
                    "after": len(self.served()), "lost": len(lost), "first": sorted(lost), "evicted": 0, "read": 1,
                    "different": [], "unreadable": []}  # fmt: skip
        if action == "forget":
            self.noted = None
        if action == "empty" and not self.memory_is_stuck:
            others = [store for store in self.stores if store.stopped is None and store.segment not in segments]
            for store in self.stores:
                if store.segment in segments and store.stopped is None:
                    assert others
                    others[0].only_in_memory |= store.only_in_memory
                    store.only_in_memory = set()
        stuck = 3 if action == "empty" and self.memory_is_stuck else 0
        gone = [name for name in segments if any(s.segment == name and s.stopped is None for s in self.stores)]
        return {"action": action, "left_count": stuck, "left": gone if action == "gone" else ["k"] * stuck,
                "closed": [], "job": "7-8" if action == "empty" else ""}  # fmt: skip

    def served(self) -> set[str]:
        """Keys that somebody serves."""
        served = {store.uuid for store in self.stores if store.stopped is None}
        found = {key for uuid in served for key in self.flash.get(uuid, set())}
        return found | {key for store in self.stores if store.stopped is None for key in store.only_in_memory}

    def read(self, session: Session, host: str) -> dict[str, Any]:
        plan = session.plan.host(host)
        mounts = plan.storage.mounts if plan.storage is not None else ()
        for mount in mounts:
            assert mount.uuid in self.mounted.get(host, set()), f"verify: {host} does not mount {mount.uuid}"
        return {"storage": {"mounts": [{"uuid": m.uuid, "marker": {"owner": self.marks[m.uuid]}} for m in mounts]}}

    def nqn(self, host: str) -> str:
        from g35ctl.plan.identity import host_nqn

        return host_nqn(self.site, next(item for item in self.site.hosts if item.name == host))

    def nqn_of(self, uuid: str) -> str:
        return next(
            item.nqn for host in self.site.hosts if host.box is not None for item in host.box.namespaces
            if str(item.uuid) == uuid
        )  # fmt: skip

    def die(self, host: str) -> None:
        """Power off: its connections stand at the target until it is shut out; its memory is lost."""
        self.dead.add(host)
        for store in self.running(host):
            store.stopped = self.now
            store.only_in_memory = set()

    def owners(self) -> dict[str, str]:
        return {store.uuid: store.host for store in self.stores if store.stopped is None}

    def deploy(self) -> None:
        """What a deploy of the present record leaves behind, with the ledger that goes with it."""
        hands = self.hands("deploy")
        for stage in ("target", "fabric", "connect", "storage", "cache"):
            hands.apply(stage, [host.name for host in hands.plan.hosts])
        for host in hands.plan.hosts:
            for mount in host.storage.mounts if host.storage is not None else ():
                lies_on = mount.stripe or mount.uuid
                self.flash.setdefault(lies_on, {f"{lies_on}-{n}" for n in range(3)})
        for store in self.stores:
            store.only_in_memory = {f"memory-{store.segment}"}


def deployed_world(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which the site was deployed, with no play counted yet."""
    monkeypatch.delenv("G35_STATE", raising=False)
    # What files say is tested elsewhere; rendering them takes most of the time of a plan.
    monkeypatch.setattr(build_module, "with_files", lambda plan, site, host: plan)
    monkeypatch.setattr(hands, "content_digest", lambda: "content")
    monkeypatch.setattr(planning, "content_digest", lambda: "content")
    # Nor does a test's record have to outlive a power cut, or its plan be read by Ansible.
    monkeypatch.setattr(ledger.os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(session, "write_atomically", lambda path, data: None)
    made = World(tmp_path / "hosts.yml", site)
    made.deploy()
    made.plays.clear()
    made.count = 0
    return made
