"""Rolling deploys: a canary, then batches, each looked at before the next; the first bad one stops.

Boxes come before hosts, one canary of each. Every computation that concerns the whole site stays whole: a batch is
only a limit to who is touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from g35ctl.engine.deploy import Deployed, Deployment, DeployOptions
from g35ctl.engine.lifecycle.hands import Hands, StepFailed
from g35ctl.engine.lifecycle.mover import pool_host, segments_of
from g35ctl.engine.lifecycle.settle import settle
from g35ctl.engine.lifecycle.verb import closed_run
from g35ctl.engine.run import Failure, StageResult
from g35ctl.engine.session import Session
from g35ctl.engine.stages import select_hosts
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import Plan

_SIZE = re.compile(r"^(\d+)(%?)$")
#: counters whose rise after a batch says that something is lost or broken on the wire
_BAD = re.compile(
    r"crc|symbol_err|discard|out_of_buffer|missed|retry_exc|local_ack_timeout|out_of_sequence|packet_seq_err"
)
_STAGE = "gate"


def batch_size(spec: str, hosts: int) -> int:
    """Hosts per batch that ``1``, ``N`` or ``20%`` mean for so many hosts; at least 1. Raises G35Error (usage)."""
    found = _SIZE.match(spec)
    number = int(found.group(1)) if found else 0
    if not found or number < 1 or (found.group(2) and number > 100):
        raise G35Error(f"--batch {spec} is neither a number nor a percentage", exit_code=Exit.USAGE)
    return max(1, hosts * number // 100) if found.group(2) else number


def batches(boxes: Sequence[str], hosts: Sequence[str], spec: str) -> tuple[tuple[str, ...], ...]:
    """Who is touched when: a canary box, the other boxes, a canary host, the other hosts. Raises G35Error (usage)."""
    found: list[tuple[str, ...]] = []
    for members in (list(boxes), list(hosts)):
        size = batch_size(spec, len(members))
        found += [tuple(members[:1])] if members else []
        found += [tuple(members[at : at + size]) for at in range(1, len(members), size)]
    return tuple(found)


def raised(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Error counters of a host's ports that are higher than before, as "port counter +n"."""
    told = []
    for port, groups in after.items():
        for group in ("ethtool", "rdma", "link"):
            had = (before.get(port) or {}).get(group) or {}
            for name, value in (groups.get(group) or {}).items():
                if _BAD.search(name) and value > had.get(name, 0):
                    told.append(f"{port} {name} +{value - had.get(name, 0)}")
    return told


def run_deploy(session: Session, options: DeployOptions, batch: str = "") -> Deployed:
    """What ``g35ctl deploy`` does: what was cut off comes first, then the deploy, in batches where asked.

    Raises G35Error for a usage error, and when an unfinished act needs hosts that the options leave out.
    """
    partial = bool(options.limit or options.only or options.skip or options.first)
    results, failures = settle(session, check=options.check, partial=partial)
    if failures:
        return Deployed(closed_run(session, list(results), (), failures, False), None)
    done = (RollingDeployment(session, options, batch) if batch else Deployment(session, options)).run()
    return Deployed(replace(done.run, stages=(*results, *done.run.stages)), done.proof)


class RollingDeployment:
    """A deploy in batches."""

    def __init__(self, session: Session, options: DeployOptions, spec: str) -> None:
        self.session = session
        self.options = options
        plan = session.plan
        chosen = select_hosts(session.site, plan, options.limit)
        boxes = [name for name in chosen if _is_box(plan, name)]
        self.batches = batches(boxes, [name for name in chosen if name not in boxes], spec)
        self.whole = not options.limit and not options.only and not options.skip and not options.first
        self.results: list[StageResult] = []
        self.failures: list[Failure] = []

    def run(self) -> Deployed:
        """Do it all; never raises for what goes wrong on hosts."""
        say = self.session.display.say
        # Everybody is asked first: a problem of the last host must not wait for the last batch.
        last = self._part(self._alone("preflight"))
        for number, batch in enumerate(self.batches, 1):
            if self.failures or self.session.interrupt.requested():
                break
            say(f"batch {number} of {len(self.batches)}: {', '.join(batch)}")
            last = self._batch(batch)
            if self.failures:
                left = sum(len(item) for item in self.batches[number:])
                say(f"stopped at batch {number}: {left} hosts were not touched")
        if not self.failures and not self.session.interrupt.requested() and self.whole:
            last = self._part(self._alone("validate"))
        return Deployed(self._merged(last), last.proof)

    def _alone(self, stage: str) -> DeployOptions:
        """One stage on everybody that is meant, whatever part of the others is."""
        return replace(self.options, first="", only=(stage,), skip=(), resume=False)

    def _part(self, options: DeployOptions) -> Deployed:
        done = Deployment(self.session, options).run()
        self.results += done.run.stages
        self.failures += done.run.failures
        return done

    def _batch(self, batch: tuple[str, ...]) -> Deployed:
        token = f"gate-{self.session.folder.identifier}"[:64]
        kept = self._values(batch, token)
        done = self._part(
            replace(self.options, limit=",".join(batch), skip=(*self.options.skip, "preflight", "validate"))
        )
        before = {name: (self.session.states.get(name) or {}).get("counters") for name in batch}
        touched = any(stage.changed_tasks for stage in done.run.stages)
        if not self.failures and touched and not self.options.check:
            self._gate(batch, before, kept, token)
        return done

    def _values(self, batch: Sequence[str], token: str) -> dict[str, str]:
        """Digests of some values on the stores of a batch, where there is a pool that already works."""
        plan = self.session.plan
        host = pool_host(plan, avoid=batch)
        names = [
            item for name in batch if (storage := plan.host(name).storage) is not None
            for item in segments_of(plan, name, [mount.uuid for mount in storage.mounts])
        ]  # fmt: skip
        if self.options.check or not host or not names:
            return {}
        hands = Hands(self.session)
        if hands.ledger.entry(host, "cache") is None or hands.ledger.entry(batch[0], "cache") is None:
            return {}
        try:
            return dict(hands.pool("note", host, token, segments=names, sample=8)["digests"])
        except StepFailed:
            return {}  # what is broken before the batch is for the batch to mend

    def _gate(self, batch: Sequence[str], before: Mapping[str, Any], kept: Mapping[str, str], token: str) -> None:
        """Paths live, stores healthy, values as they were, no new error counters."""
        hands = Hands(self.session)
        try:
            hands.verify(batch, stage="verify")
            if kept:
                host = pool_host(self.session.plan, avoid=batch)
                told = hands.pool("compare", host, token, digests=dict(kept))
                hands.pool("forget", host, token)
                self._judge_values(batch, told)
        except StepFailed as failed:
            self.failures += failed.failures
        self.results += hands.results
        for name in batch:
            after = (self.session.states.get(name) or {}).get("counters")
            for words in raised(before[name], after) if before.get(name) and after else ():
                self.failures.append(
                    Failure(name, _STAGE, "gate.counters", words, "no new errors", "g35ctl doctor", words.split()[0])
                )
        outcome = "failed" if self.failures else "ok"
        self.session.display.say(f"gate: {', '.join(batch)}: {outcome}")

    def _judge_values(self, batch: Sequence[str], told: Mapping[str, Any]) -> None:
        wrong = [*told.get("different", ()), *told.get("unreadable", ())]
        if wrong:
            self.failures.append(
                Failure(
                    batch[0], _STAGE, "gate.values", f"{len(wrong)} of {told.get('read')} values are not as before",
                    "values read back byte-equal", "g35ctl doctor, then g35ctl validate",
                )
            )  # fmt: skip

    def _merged(self, last: Deployed) -> Any:
        """One run of all parts: each stage once, with every host it came to."""
        stages: dict[str, StageResult] = {}
        for item in self.results:
            have = stages.get(item.stage)
            if have is None:
                stages[item.stage] = item
                continue
            executions = dict(have.module_executions)
            for host, count in item.module_executions.items():
                executions[host] = executions.get(host, 0) + count
            stages[item.stage] = StageResult(
                item.stage, {**have.hosts, **item.hosts}, round(have.seconds + item.seconds, 2), executions,
                have.changed_tasks + item.changed_tasks,
            )  # fmt: skip
        code = last.run.exit_code
        if self.failures and code in (Exit.OK, Exit.CHANGES_PENDING):
            code = Exit.PARTIAL
        changed = any(item.changed_tasks for item in stages.values())
        if code is Exit.OK and self.options.check and changed:
            code = Exit.CHANGES_PENDING
        return replace(
            last.run, stages=tuple(stages.values()), failures=tuple(self.failures), exit_code=code,
            seconds=self.session.seconds, state=self.session.states,
        )  # fmt: skip


def _is_box(plan: Plan, name: str) -> bool:
    host = plan.host(name)
    return host.target is not None or host.box is not None
