"""Changing DH-HMAC-CHAP keys on a running tier, one host at a time, without losing a path.

For each host: everything about it must hold; a new key replaces the old one in its file; the boxes it connects to get
it (sessions go on); its controllers prove themselves with it one after the other (stage connect does that); both ends
are read back; the old key is forgotten. The first host that does not come through stops the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g35ctl.engine import keyfiles
from g35ctl.engine.deploy import Deployment, DeployOptions
from g35ctl.engine.ledger import write_atomically
from g35ctl.engine.planning import make_plan
from g35ctl.engine.reading import read_back
from g35ctl.engine.run import Failure, Run, StageResult
from g35ctl.engine.session import Session, record
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import HostPlan, Plan
from g35ctl.site.keys import read_key

#: stages whose findings keep a key from being changed
_CONCERNED = ("target", "connect")
_AGAIN = "g35ctl doctor, then g35ctl secrets rotate (goes on) or g35ctl secrets rotate --back (returns to the old key)"


@dataclass(frozen=True)
class Rotated:
    """What became of a host's key; ``before`` and ``after`` are digests. ``done``: proven, and the old one is gone."""

    host: str
    before: str
    after: str
    done: bool
    why: str = ""


def candidates(plan: Plan, hosts: Sequence[str]) -> tuple[HostPlan, ...]:
    """The plans of those of ``hosts`` that prove themselves with a key. Raises G35Error (usage) when none does."""
    found = tuple(
        host
        for host in plan.hosts
        if host.name in hosts and host.connect is not None and host.connect.authentication is not None
    )
    if not found:
        raise G35Error(
            "no host has a key to rotate",
            why="g35_nvme.authentication.mode is dhchap on none of the chosen hosts",
            next_command="g35ctl secrets list",
            exit_code=Exit.USAGE,
        )
    return found


def boxes_of(plan: Plan, host: HostPlan) -> tuple[str, ...]:
    """Boxes that must know the key of ``host``. Raises G35Error (usage) for one that g35ctl does not give keys to."""
    assert host.connect is not None
    wanted = {path.nqn for path in host.connect.paths}
    serving = {
        item.name
        for item in plan.hosts
        if item.target is not None and wanted & {space.nqn for space in item.target.namespaces}
    }
    owning = {item.box for item in plan.ownership if item.nqn in wanted}
    others = sorted(owning - serving)
    if others:
        raise G35Error(
            f"{host.name}: its key cannot be rotated, because g35ctl does not set keys on {', '.join(others)}",
            why="boxes of driver nvmet get their keys from g35ctl, others have their own means",
            next_command="set the new key there, write it to its file, then g35ctl deploy --only connect",
            exit_code=Exit.USAGE,
        )
    return tuple(item.name for item in plan.hosts if item.name in serving)


class Rotation:
    """One rotation of one session. ``back`` puts replaced keys back instead of making new ones."""

    def __init__(self, session: Session, hosts: Sequence[str], *, back: bool = False) -> None:
        self.session = session
        self.back = back
        self.chosen = candidates(session.plan, hosts)
        # Everything that cannot be done is said before anything is.
        self.boxes = {host.name: boxes_of(session.plan, host) for host in self.chosen}
        self.results: list[StageResult] = []
        self.failures: list[Failure] = []
        self.rotated: list[Rotated] = []

    def run(self) -> Run:
        """Rotate host after host; never raises for what goes wrong on hosts."""
        session = self.session
        for host in self.chosen:
            if session.interrupt.requested() or self.failures:
                break
            self._host(host)
        session.save_states()
        return record(session, self.results, self.failures, self._exit_code())

    def _exit_code(self) -> Exit:
        if self.session.interrupt.requested():
            return Exit.INTERRUPTED
        if not self.failures:
            return Exit.OK
        return Exit.PARTIAL if any(item.done for item in self.rotated) else Exit.DEPLOY_FAILED

    def _host(self, host: HostPlan) -> None:
        files = _key_files(host)
        pending = any(keyfiles.is_rotating(path) for path in files)
        if self.back and not pending:
            self.session.display.say(f"{host.name}: no rotation was left unfinished")
            return
        around = (*self.boxes[host.name], host.name)
        before = _digest(host)
        if not pending and not self._holds(host.name, around):
            remedy = "g35ctl deploy first: a key is only changed while every path is live"
            self._stop(host.name, before, before, "it does not hold as deployed", remedy)
            return
        for path in files:
            if self.back and keyfiles.is_rotating(path):
                keyfiles.go_back(path)
            elif not pending:
                keyfiles.replace(path)
        self._plan_again()
        after = _digest(self.session.plan.host(host.name))
        self.session.display.say(f"{host.name}: key {before} -> {after}")
        self.session.display.end()  # each deployment has a display of its own
        options = DeployOptions(limit=",".join(around), only=_CONCERNED, resume=False)
        deployed = Deployment(self.session, options).run().run
        self.results += deployed.stages
        self.failures += deployed.failures
        if deployed.failures or deployed.exit_code is not Exit.OK:
            self._stop(host.name, before, after, "it was not taken over everywhere", _AGAIN)
            return
        if not self._holds(host.name, around):
            self._stop(host.name, before, after, "what was read back does not hold", _AGAIN)
            return
        left = _holders(self.session.states, around, _digests_of_previous(files))
        if left:
            self._stop(host.name, before, after, f"the old key is still in force on {', '.join(left)}", _AGAIN)
            return
        for path in files:
            keyfiles.settle(path)
        self.rotated.append(Rotated(host.name, before, after, True))

    def _holds(self, host: str, around: tuple[str, ...]) -> bool:
        """Read the host and its boxes back; what does not hold, and who is silent, is noted as a failure."""
        reading = read_back(self.session, around)
        found = [
            item
            for name in around
            for item in reading.findings.get(name, ())
            if item.get("severity") == "error" and item.get("stage") in _CONCERNED
        ]
        self.failures += [
            Failure(
                host, str(item.get("stage")), str(item.get("check")), str(item.get("observed")),
                str(item.get("expected")), str(item.get("remedy")), str(item.get("subject", "")),
            )
            for item in found
        ]  # fmt: skip
        silent = [name for name in around if name not in reading.findings]
        self.failures += [item for item in reading.failures if item.host in silent or not item.host]
        return not found and not silent

    def _stop(self, host: str, before: str, after: str, why: str, remedy: str) -> None:
        self.rotated.append(Rotated(host, before, after, False, why))
        self.failures.append(Failure(host, "connect", "secrets.rotate", why, "every path live, at both ends", remedy))

    def _plan_again(self) -> None:
        self.session.site, self.session.plan = make_plan(self.session.inventory)
        write_atomically(self.session.folder.plan, self.session.plan.to_json())


def _key_files(host: HostPlan) -> tuple[Path, ...]:
    assert host.connect is not None and host.connect.authentication is not None
    key = host.connect.authentication
    return tuple(Path(path) for path in (key.key_file, key.controller_key_file) if path)


def _digest(host: HostPlan) -> str:
    assert host.connect is not None and host.connect.authentication is not None
    return host.connect.authentication.digest


def _digests_of_previous(files: Sequence[Path]) -> frozenset[str]:
    from ansible.module_utils.g35.dhchap import digest

    places = [keyfiles.previous_of(path) for path in files]
    return frozenset(digest(read_key(path)) for path in places if path.exists())


def _holders(states: Mapping[str, Mapping[str, Any]], hosts: Sequence[str], old: frozenset[str]) -> list[str]:
    """Hosts on which one of the ``old`` digests was read: kept in a file, set on a box, or used by a controller."""
    return [name for name in hosts if any(old & _digests_in(states.get(name, {}).get(stage)) for stage in _CONCERNED)]


def _digests_in(state: Any) -> set[str]:
    keys = state.get("keys") if isinstance(state, Mapping) else None
    return set(_texts(keys))


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) and value else []
