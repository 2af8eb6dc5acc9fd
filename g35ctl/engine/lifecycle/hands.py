"""What an act can do to hosts: apply a stage, let go, fence, work on the pool, read back. Each does it or raises.

Hosts come from the session's plan as it is at that moment; whoever changes the record plans again first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from g35ctl.engine import failures as told
from g35ctl.engine.ledger import Ledger, content_digest, save_ownership
from g35ctl.engine.reading import Reading, read_back
from g35ctl.engine.run import Failure, StageResult
from g35ctl.engine.runner import Play, Played
from g35ctl.engine.session import Session
from g35ctl.engine.stages import APPLIED, stage_plans
from g35ctl.plan.model import Plan


class StepFailed(Exception):
    """A step did not end as it must; ``failures`` say on which hosts and why. Nothing after it was begun."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__("; ".join(f"{item.host}: {item.check}: {item.observed}" for item in failures))
        self.failures = tuple(failures)


class Stopped(Exception):
    """The user asked to stop; everything that was begun is ended."""


class Hands:
    """The steps of one session, and what they cost. ``sleep`` and ``now`` (seconds since the epoch) can be replaced."""

    def __init__(
        self, session: Session, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.time
    ) -> None:
        self.session = session
        self.sleep = sleep
        self.now = now
        self.ledger = Ledger(session.state / "ledger.json")
        self.content = content_digest()
        self.results: list[StageResult] = []

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.session.plan

    # steps

    def apply(self, stage: str, hosts: Sequence[str]) -> None:
        """Bring those hosts that take part in a stage to their plan of it; the ledger knows it afterwards."""
        taking_part = tuple(name for name in hosts if stage_plans(self.plan.host(name), stage))
        if not taking_part:
            return
        self.ledger.forget(taking_part, (stage,))
        if stage == "storage":
            self._record_owners(taking_part)
        play = Play(
            stage, stage, taking_part, forks=self.session.forks,
            variables={"g35_action": "apply", "g35_allow_disruptive": True},
        )  # fmt: skip
        self.play(play)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        applied = [self.plan.host(name) for name in taking_part]
        self.ledger.record(applied, stage, self.content, now, self.session.folder.identifier)

    def _record_owners(self, hosts: Sequence[str]) -> None:
        mine = [item for item in self.plan.ownership if item.owner in hosts]
        owners = {item.uuid: item.owner for item in mine}
        slots = {item.uuid: item.slot for item in mine}
        save_ownership(self.session.state / "ownership.json", owners, slots, self.plan.striped_sets(hosts))

    def release(self, host: str, *, fenced: bool = False) -> None:
        """Make a host let go of what its plans have no more: stores, mounts, connections. A host that was ``fenced``
        starts with the connections, because nothing that waits for them would ever end."""
        self.ledger.forget((host,), ("connect", "storage", "cache"))
        variables = {"g35_release_fenced": fenced}
        self.play(Play("release", "release", (host,), forks=self.session.forks, variables=variables))

    def fence(self, subsystems: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Shut everybody out of subsystems of Linux boxes; (box NQN) -> what the box says afterwards."""
        wanted = {box: list(nqns) for box, nqns in subsystems.items()}
        if not wanted:
            return {}
        play = Play("fence", "fence", tuple(wanted), variables={"g35_fence_subsystems": wanted})
        played = self.play(play)
        return {
            f"{event.host} {nqn}": dict(seen)
            for event in played.events
            if event.action == "g35_fence"
            for nqn, seen in (event.state.get("subsystems") or {}).items()
        }

    def pool(self, action: str, host: str, token: str, **given: Any) -> dict[str, Any]:
        """Work on the KV pool from a host that has Mooncake's environment; what the module brought."""
        variables = {"g35_pool_action": action, "g35_pool_token": token}
        variables |= {f"g35_pool_{name}": value for name, value in given.items()}
        played = self.play(Play("pool", "pool", (host,), variables=variables))
        for event in played.events:
            if event.action == "g35_pool" and event.state:
                return dict(event.state)
        raise StepFailed(
            [Failure(host, "pool", f"pool.{action}", "no answer", "what the pool holds", "see the stage's log")]
        )

    def remove(self, stages: Sequence[str], hosts: Sequence[str]) -> None:
        """Take stages off hosts again, in the order given: the roles' action ``remove``."""
        for stage in stages:
            taking_part = tuple(name for name in hosts if stage in self.plan.host(name).stages())
            if taking_part:
                self.ledger.forget(taking_part, APPLIED)
                given = {"g35_remove_stage": stage}
                self.play(Play("remove", "remove", taking_part, forks=self.session.forks, variables=given))

    def verify(self, hosts: Sequence[str], *, stage: str = "verify") -> Reading:
        """Read hosts back; raises when one cannot be read or does not hold."""
        reading = self.look(hosts, stage=stage)
        found = [
            Failure(
                host, stage, str(item.get("check", "")), str(item.get("observed", "")), str(item.get("expected", "")),
                str(item.get("remedy", "")), str(item.get("subject", "")),
            )
            for host, items in reading.findings.items() for item in items if item.get("severity") == "error"
        ]  # fmt: skip
        if reading.failures or found:
            raise StepFailed([*reading.failures, *found])
        return reading

    def look(self, hosts: Sequence[str], *, stage: str = "verify") -> Reading:
        """Read hosts back, whatever they say."""
        asked = tuple(name for name in hosts if self.plan.host(name).stages())
        self.session.display.stage_started(stage, asked)
        reading = read_back(self.session, asked, stage=stage)
        played = reading.played
        outcomes = {name: "failed" if self._errors(reading, name) else "ok" for name in asked}
        self._ended(StageResult(stage, outcomes, played.seconds, dict(played.executions), played.changed_tasks))
        return reading

    @staticmethod
    def _errors(reading: Reading, host: str) -> bool:
        unread = host not in reading.findings
        return unread or any(item.get("severity") == "error" for item in reading.findings[host])

    def preflight(self, hosts: Sequence[str]) -> None:
        """Ask hosts what would stop an apply of the plan in force."""
        asked = tuple(name for name in hosts if stage_plans(self.plan.host(name), "preflight"))
        self.play(Play("preflight", "preflight", asked, forks=self.session.forks))

    # accounting

    def play(self, play: Play) -> Played:
        """Run a playbook and account for it. Raises StepFailed, or Stopped when the user asked to."""
        if self.session.interrupt.requested():
            raise Stopped
        self.session.display.stage_started(play.stage, play.hosts)
        played = self.session.play(play)
        found: list[Failure] = []
        for event in played.events:
            found.extend(told.from_event(event))
            if event.state and event.action.startswith("g35_") and event.action not in ("g35_pool", "g35_fence"):
                self.session.remember(event.host, event.action.removeprefix("g35_"), event.state)
        broken = played.controller_failure(str(self.session.folder.log(play.stage)))
        found.extend([broken] if broken is not None else [])
        outcomes = {name: played.outcomes.get(name, "skipped") for name in play.hosts}
        if not found and not played.cancelled:
            found += [
                Failure(name, play.stage, "ansible.hosts", "no task ran", "the step's tasks", "g35ctl check")
                for name, how in outcomes.items()
                if how == "skipped"
            ]
        self._ended(StageResult(play.stage, outcomes, played.seconds, dict(played.executions), played.changed_tasks))
        if found:
            raise StepFailed(found)
        if played.cancelled:
            raise Stopped
        return played

    def _ended(self, result: StageResult) -> None:
        self.results.append(result)
        self.session.display.stage_ended(result)
