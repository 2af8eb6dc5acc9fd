"""The life of a deploy: what still holds is kept, the rest is applied wave by wave, the end is proved.

Nothing here knows how a stage works: roles and modules do, driven by the plan. What happened comes from events, what
holds from what was read back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from g35ctl.engine import failures as told
from g35ctl.engine import journal
from g35ctl.engine.ledger import Ledger, content_digest, first_stage_to_apply, save_ownership, site_digest
from g35ctl.engine.proof import Proof, prove
from g35ctl.engine.reading import Reading, read_back
from g35ctl.engine.run import Failure, Run, StageResult
from g35ctl.engine.runner import Play, Played
from g35ctl.engine.session import Session, record
from g35ctl.engine.stages import (
    APPLIED,
    participants,
    select_hosts,
    select_stages,
    stage_plans,
    waves,
)


@dataclass(frozen=True)
class DeployOptions:
    """The options of ``g35ctl deploy``; see docs/deploy.md."""

    limit: str = ""
    first: str = ""
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    check: bool = False
    diff: bool = False
    resume: bool = True
    allow_disruptive: bool = False


@dataclass(frozen=True)
class Deployed:
    """A finished deploy and, where the last stage ran, its proof."""

    run: Run
    proof: Proof | None


class Deployment:
    """One deploy of one session."""

    def __init__(self, session: Session, options: DeployOptions) -> None:
        self.session = session
        self.options = options
        self.stages = select_stages(options.first, options.only, options.skip)
        self.hosts = select_hosts(session.site, session.plan, options.limit)
        self.ledger = Ledger(session.state / "ledger.json")
        self.content = content_digest()
        self.results: list[StageResult] = []
        self.failures: list[Failure] = []
        self.held: dict[str, tuple[str, ...]] = {}
        self.lost: set[str] = set()
        self.reading: Reading | None = None
        self.proof: Proof | None = None

    def run(self) -> Deployed:
        """Do it all; never raises for what goes wrong on hosts."""
        title = f"{self.session.verb}{' (check)' if self.options.check else ''} of site {self.session.plan.site}"
        self.session.display.begin(title, self.stages, self.hosts)
        for warning in self.session.plan.warnings:
            self.session.display.say(f"warning: {warning}")
        if self.options.resume and not self.options.first and not self.options.only:
            self._keep_what_holds()
        for wave in waves(self.stages):
            if self.session.interrupt.requested() or self._nothing_left(wave):
                break
            if wave == ("validate",):
                self._validate()
            elif len(wave) == 1:
                self._apply(wave[0])
            else:
                with ThreadPoolExecutor(len(wave)) as pool:
                    list(pool.map(self._apply, wave))
        self.session.save_states()
        return Deployed(self._finished(), self.proof)

    # -- what is already done ------------------------------------------------------------------------------------

    def _keep_what_holds(self) -> None:
        """Read hosts back that the ledger knows something of: a stage whose record and reading agree is held."""
        plan = self.session.plan
        known = {
            name: tuple(
                stage for stage in APPLIED
                if stage_plans(plan.host(name), stage) and self.ledger.matches(plan.host(name), stage, self.content)
            )
            for name in self.hosts
        }  # fmt: skip
        candidates = tuple(name for name in self.hosts if known[name])
        if not candidates:
            return
        self.session.display.say(f"verify: reading back {len(candidates)} hosts that were deployed before")
        reading = read_back(self.session, candidates, check=self.options.check)
        self.reading = reading
        for failure in reading.failures:
            self.lose(failure)
        for name in candidates:
            host = plan.host(name)
            holding = tuple(stage for stage in reading.holding(host) if stage in known[name])
            first = first_stage_to_apply(host, holding)
            # Later stages stand on earlier ones: from the first that does not hold on, all are applied again.
            self.held[name] = tuple(
                stage for stage in holding if not first or APPLIED.index(stage) < APPLIED.index(first)
            )
            if first and name in reading.findings:
                self.session.display.say(f"{name}: stage {first} does not hold or is new; applying from there")
        self.results.append(_result("verify", reading.played, dict.fromkeys(reading.findings, "ok")))

    def _nothing_left(self, wave: Sequence[str]) -> bool:
        """Preflight stops everybody, before anything was touched; later stages go on with the hosts that are left."""
        if tuple(wave) != ("preflight",) and any(item.stage in ("preflight", "verify") for item in self.failures):
            return True
        return any(not failure.host for failure in self.failures)

    # -- stages --------------------------------------------------------------------------------------------------

    def _apply(self, stage: str) -> None:
        plan = self.session.plan
        taking_part = [name for name in participants(plan, stage) if name in self.hosts]
        if not taking_part:
            return
        held = [name for name in taking_part if self._is_held(name, stage)]
        left_out = [name for name in taking_part if name in self.lost or self._stands_on_a_lost_box(name, stage)]
        todo = tuple(name for name in taking_part if name not in left_out and name not in held)
        outcomes = {**dict.fromkeys(held, "held"), **dict.fromkeys(left_out, "skipped")}
        if not todo:
            self._stage_ended(StageResult(stage, outcomes, 0.0))
            return
        self.session.display.stage_started(stage, todo)
        changing = stage != "preflight" and not self.options.check
        if changing:
            self._before(stage, todo)
        played = self.session.play(self._play(stage, todo))
        self._account(stage, played)
        outcomes |= {name: self._outcome(played, name) for name in todo}
        done = [name for name in todo if outcomes[name] in ("ok", "changed")]
        if changing:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self.ledger.record(
                [plan.host(name) for name in done], stage, self.content, now, self.session.folder.identifier
            )
            if stage == journal.STAGE:
                journal.settled(self.session, done)
        self._stage_ended(_result(stage, played, outcomes))

    def _stands_on_a_lost_box(self, name: str, stage: str) -> bool:
        """A host cannot connect to a box that failed: leaving it out keeps the one cause from being told many times."""
        paths = self.session.plan.host(name).connect
        if stage != "connect" or paths is None or name in self.lost:
            return False
        wanted = {path.nqn for path in paths.paths}
        boxes = sorted({item.box for item in self.session.plan.ownership if item.nqn in wanted} & self.lost)
        if boxes:
            self.session.display.say(f"{name}: left out from here on, because {', '.join(boxes)} failed")
            self.lost.add(name)
        return bool(boxes)

    def _is_held(self, name: str, stage: str) -> bool:
        held = self.held.get(name, ())
        if stage == "preflight":
            return bool(held) and not first_stage_to_apply(self.session.plan.host(name), held)
        return stage in held

    def _play(self, stage: str, hosts: tuple[str, ...]) -> Play:
        consent = self.options.allow_disruptive or self.session.site.identity.allow_disruptive
        return Play(
            stage, stage, hosts, check=self.options.check, diff=self.options.diff, forks=self.session.forks,
            variables={} if stage == "preflight" else {"g35_action": "apply", "g35_allow_disruptive": consent},
        )  # fmt: skip

    def _before(self, stage: str, hosts: Sequence[str]) -> None:
        """Until the stage has ended well, nothing is known of it."""
        self.ledger.forget(hosts, (stage,))
        if stage != "storage":
            return
        # Written before the first byte is: a controller that dies in the middle must not move these namespaces.
        owners = {
            mount.uuid: name
            for name in hosts
            if (storage := self.session.plan.host(name).storage) is not None
            for mount in storage.mounts
        }
        slots = {item.uuid: item.slot for item in self.session.plan.ownership if item.uuid in owners}
        sets = self.session.plan.striped_sets(hosts)
        save_ownership(self.session.state / "ownership.json", owners, slots, sets)

    def _account(self, stage: str, played: Played) -> None:
        for event in played.events:
            for failure in told.from_event(event):
                self.lose(failure)
            if event.state:
                self._remember(event.host, stage, event.action, event.state)
        for warning in told.warnings(played.events):
            self.session.display.say(warning)
        broken = played.controller_failure(str(self.session.folder.log(stage)))
        if broken is not None:
            self.failures.append(broken)

    def _remember(self, host: str, stage: str, action: str, state: Mapping[str, Any]) -> None:
        if stage == "preflight":
            for name, value in state.items():
                self.session.remember(host, name, value)
        elif action.startswith("g35_"):
            # A module is named after the plan it applies; stage target applies two of them to a box.
            self.session.remember(host, action.removeprefix("g35_"), state)

    def lose(self, failure: Failure) -> None:
        """Note a failure; its host takes no further part."""
        self.failures.append(failure)
        if failure.host:
            self.lost.add(failure.host)

    def _outcome(self, played: Played, name: str) -> str:
        known = played.outcomes.get(name)
        if played.cancelled and known not in ("failed", "unreachable"):
            return "interrupted"
        if known in (None, "skipped"):
            # Ansible never came to this host, or a role skipped it for want of its plan: nothing was done, so say so.
            if known == "skipped" or played.code == 0:
                self.lose(
                    Failure(name, played.stage, "ansible.hosts", "no task ran", "the stage's tasks", "g35ctl check")
                )
            return "failed"
        return known

    def _stage_ended(self, result: StageResult) -> None:
        self.results.append(result)
        self.session.display.stage_ended(result)

    # -- the end -------------------------------------------------------------------------------------------------

    def _validate(self) -> None:
        """Prove the whole site. A part of it proves nothing: then the stage is skipped, and says so."""
        plan = self.session.plan
        whole = set(self.hosts) == {host.name for host in plan.hosts if host.stages()}
        if self.options.check or self.failures or not whole:
            why = (
                "nothing was changed"
                if self.options.check
                else "hosts failed"
                if self.failures
                else "--limit is in use"
            )
            self.session.display.say(f"validate: skipped, because {why}")
            names = [name for name in participants(plan, "validate") if name in self.hosts]
            self._stage_ended(StageResult("validate", dict.fromkeys(names, "skipped"), 0.0))
            return
        untouched = all(
            not stage.changed_tasks and set(stage.hosts.values()) <= {"held"}
            for stage in self.results
            if stage.stage != "verify"
        )
        digest = site_digest(plan, self.content)
        standing = self.ledger.proof(digest) if untouched else None
        self.proof = prove(self.session, self.reading if untouched else None, standing)
        self.failures.extend(self.proof.failures)
        if standing is None and self.proof.verdicts and not self.proof.failed and not self.proof.failures:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self.ledger.record_proof(digest, now, self.session.folder.identifier)
        for result in self.proof.stages:
            self._stage_ended(result)

    def _finished(self) -> Run:
        session = self.session
        interrupted = session.interrupt.requested()
        failed = self.proof is not None and self.proof.failed
        code = told.exit_code(
            self.results, self.failures, check=self.options.check, interrupted=interrupted, verdicts_failed=failed
        )
        return record(session, self.results, self.failures, code, check=self.options.check)


def _result(stage: str, played: Played, outcomes: Mapping[str, str]) -> StageResult:
    return StageResult(stage, dict(outcomes), played.seconds, dict(played.executions), played.changed_tasks)
