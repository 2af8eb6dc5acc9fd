"""Reading a site back: one execution per host, told stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from g35ctl.engine.failures import from_event
from g35ctl.engine.run import Failure
from g35ctl.engine.runner import Play, Played
from g35ctl.engine.session import Session
from g35ctl.engine.stages import APPLIED, stage_of, stage_plans
from g35ctl.plan.model import HostPlan


@dataclass(frozen=True)
class Reading:
    """What verify read. ``findings`` maps each host that answered to its findings (every severity; each has ``stage``,
    the name of the plan it is about); ``failures`` holds hosts that could not be read at all."""

    played: Played
    findings: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()

    def holding(self, host: HostPlan) -> tuple[str, ...]:
        """Stages of the host that hold as read; none when it did not answer."""
        if host.name not in self.findings:
            return ()
        broken = {
            stage_of(host, str(item.get("stage", "")))
            for item in self.findings[host.name]
            if item.get("severity") == "error"
        }
        return tuple(stage for stage in APPLIED if stage_plans(host, stage) and stage not in broken)


def read_back(session: Session, hosts: Sequence[str], *, stage: str = "verify", check: bool = False) -> Reading:
    """Run verify on ``hosts``. What it read lands in ``session.states`` (host -> plan name -> state)."""
    play = Play(stage, "verify", tuple(hosts), check=check, forks=session.forks)
    played = session.play(play)
    findings: dict[str, tuple[Mapping[str, Any], ...]] = {}
    failures: list[Failure] = []
    for event in played.events:
        if event.action == "g35_verify" and (event.state or event.findings):
            findings[event.host] = event.findings
            for name, state in event.state.items():
                session.remember(event.host, name, state)
        elif event.action == "g35_box" and (event.state or event.findings):
            # A box that nobody logs in to has one plan, and so its module does not say which.
            findings[event.host] = tuple({**item, "stage": "box"} for item in event.findings)
            session.remember(event.host, "box", event.state)
        else:
            failures.extend(from_event(event))
    broken = played.controller_failure(str(session.folder.log(stage)))
    return Reading(played, findings, (*failures, *([broken] if broken else [])))


def probe(
    session: Session, hosts: Sequence[str], *, stage: str = "validate"
) -> tuple[Played, dict[str, dict[str, Any]]]:
    """Run the functional probe on ``hosts``: the play, and host -> probe action -> what it brought."""
    # Two runs must never take each other's values for their own.
    token = {"g35_probe_token": session.folder.identifier}
    played = session.play(Play(stage, "validate", tuple(hosts), forks=session.forks, variables=token))
    brought: dict[str, dict[str, Any]] = {}
    for event in played.events:
        if event.action == "g35_kv_probe" and event.state:
            brought.setdefault(event.host, {})[str(event.state.get("action") or event.task)] = dict(event.state)
    return played, brought
