"""Carries out the moves of an act, one namespace at a time, each step on record before it is taken.

The order is that of the data: what is only in memory goes to other stores, the old store stops, its file system is
unmounted and its connections end, the box admits the new owner alone, who connects, mounts, puts its mark on it and
starts a store of its own. Between the stop of the old store and the start of the new one lies the client's time to
live: the master drops everything of a store that went silent when that time is over, also what a new store has
registered meanwhile, and stops even in good order are such a silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from g35ctl.engine.lifecycle.fence import Fence
from g35ctl.engine.lifecycle.hands import Hands, StepFailed, Stopped
from g35ctl.engine.lifecycle.heads import heads_of_move
from g35ctl.engine.lifecycle.record import (
    DONE,
    EMPTIED,
    GRANTED,
    LEAVING,
    LEFT,
    Act,
    Stage,
    load_custody,
    save_act,
    save_custody,
)
from g35ctl.engine.run import Failure
from g35ctl.plan.cache import segment
from g35ctl.plan.model import Plan
from g35ctl.verdict import Grade, Verdict

SUITE = "lifecycle"
#: added to the client's time to live: the master looks once a second, and clocks differ a little
MARGIN = 3.0
_EVIDENCE = "state.json"


class Mover:
    """One act at work. ``act`` is its latest state; ``gate`` is called between two moves and raises to stop."""

    def __init__(
        self, hands: Hands, act: Act, *, confirmed: bool = False, gate: Callable[[Stage], None] | None = None,
        empty_seconds: int = 300,
    ) -> None:  # fmt: skip
        self.hands = hands
        self.session = hands.session
        self.act = act
        self.confirmed = confirmed
        self.gate = gate
        self.empty_seconds = empty_seconds
        self.keys: dict[str, Any] = {}

    # the whole

    def run(self) -> tuple[Verdict, ...]:
        """All moves that are left, then the proof. Raises StepFailed or Stopped with the act on record as it is."""
        if self.act.stages and self.act.left:
            self._note()
        if self.act.dead:
            self._fence()
        elif len({item.move.source for item in self.act.stages}) == 1 and not self._keeps(self.act.stages[0]):
            # All of its stores at once: a value must not be moved from one that goes to another that goes.
            self._empty([item for item in self.act.stages if not item.reached(LEFT)])
        for key in [item.move.key for item in self.act.left]:
            self._move(key)
            if self.gate is not None and self.act.left:
                self.gate(self._stage(key))
        return self._prove()

    def _stage(self, key: str) -> Stage:
        return next(item for item in self.act.stages if item.move.key == key)

    def _save(self, key: str, **changes: Any) -> None:
        self.act = self.act.with_stage(key, **changes)
        save_act(self.session.state, self.act)

    # before anything moves

    def _note(self) -> None:
        """Write down every key, and the digests of some values: what has to be there in the end."""
        if self.act.noted >= 0:
            return
        wanted = [name for item in self.act.stages for name in item.segments]
        # Reading from a dead store only waits for timeouts.
        told = self._pool("note", segments=wanted, sample=0 if self.act.dead else 16)
        self.act = _replace(self.act, noted=int(told["keys"]), digests=dict(told["digests"]))
        save_act(self.session.state, self.act)
        self.session.display.say(f"pool: {told['keys']} keys, {len(told['digests'])} values sampled")

    def _empty(self, stages: Sequence[Stage]) -> None:
        """Move what exists only in the memory of these stores; refuse to go on while something does."""
        segments = [name for item in stages for name in item.segments]
        if segments:
            told = self._pool("empty", segments=segments, seconds=self.empty_seconds)
            if told.get("job"):
                self.act = _replace(self.act, jobs=(*self.act.jobs, str(told["job"])))
                save_act(self.session.state, self.act)
            count = int(told.get("left_count") or 0)
            if count:
                first = ", ".join(told.get("left") or [])
                raise StepFailed(
                    [
                        Failure(
                            self.act.subject, "pool", "pool.empty",
                            f"{count} values exist only in the memory of its stores, such as {first}",
                            "every value on flash or in another store's memory",
                            "give the other stores room (g35ctl status shows memory), then the same command again;"
                            f" g35ctl undrain {self.act.subject} takes it back",
                        )
                    ]
                )  # fmt: skip
            self.session.display.say(f"pool: nothing is only in the memory of {', '.join(segments)}")
        for item in stages:
            if not item.reached(EMPTIED):
                self._save(item.move.key, phase=EMPTIED)

    def empty_all(self) -> None:
        """Move what exists only in the memory of all stores of the act."""
        self._empty([item for item in self.act.stages if not item.reached(EMPTIED)])

    def _fence(self) -> None:
        """Shut the dead host out of what it owned, prove it, and wait until the master has forgotten its stores."""
        waiting = [item for item in self.act.stages if not item.reached(LEFT)]
        if not waiting:
            return
        if not all(item.move.key in self.act.proof for item in waiting):
            proof = Fence(self.hands, self.act.subject, confirmed=self.confirmed).close([item.move for item in waiting])
            self.act = _replace(self.act, proof={**self.act.proof, **proof})
            save_act(self.session.state, self.act)
        fenced_at = self.hands.now()
        segments = [name for item in waiting for name in item.segments]
        left = self._pool("gone", segments=segments, seconds=int(self._time_to_live() + 30))["left"]
        if left:
            raise StepFailed(
                [
                    Failure(
                        self.act.subject, "pool", "pool.alive", f"the master still hears from {', '.join(left)}",
                        f"no store of {self.act.subject} is alive", "power the host off, then the same command again",
                    )
                ]
            )  # fmt: skip
        for item in waiting:
            self._save(item.move.key, phase=LEFT, stopped=fenced_at)

    # one move

    def _move(self, key: str) -> None:
        stage = self._stage(key)
        self.session.display.say(f"moving {stage.move}, {stage.move.size >> 30} GiB, from phase {stage.phase}")
        if not stage.reached(LEFT):
            # Once more for this one: whoever started it over must not rely on an emptying of long ago.
            self._empty([stage])
            self._leave(key)
        if not self._stage(key).reached(GRANTED):
            self._switch(key)
            self.hands.apply("target", self._boxes(self._stage(key)))
            self._save(key, phase=GRANTED)
        self._attach(key)
        self._save(key, phase=DONE)
        save_custody(self.session.state, load_custody(self.session.state).marked(self._stage(key).move.uuids))
        self.session.replan()

    def _switch(self, key: str) -> None:
        """The record names the new owner; from here on every plan does."""
        move = self._stage(key).move
        custody = load_custody(self.session.state)
        save_custody(self.session.state, custody.moved(move.uuids, move.target))
        self.session.replan()

    def _leave(self, key: str) -> None:
        self._save(key, phase=LEAVING)
        self._switch(key)
        stage = self._stage(key)
        self.hands.release(stage.move.source)
        self._save(key, phase=LEFT, stopped=self.hands.now())
        self.session.replan()
        if self._keeps(stage):
            # Files of what it keeps named what is gone.
            for name in ("connect", "storage", "cache"):
                self.hands.apply(name, (stage.move.source,))

    def _keeps(self, stage: Stage) -> bool:
        """Whether the old owner keeps anything when this act is over."""
        going = {uuid for item in self.act.stages for uuid in item.move.uuids}
        return bool(set(load_custody(self.session.state).owned_by(stage.move.source)) - going)

    def _attach(self, key: str) -> None:
        stage = self._stage(key)
        target = (stage.move.target,)
        self.session.replan()
        self.hands.apply("connect", target)
        self.hands.apply("storage", target)
        self._wait_out(stage)
        self.hands.apply("cache", target)

    def _wait_out(self, stage: Stage) -> None:
        """Let the client's time to live pass since the old store stopped."""
        wanted = self._time_to_live() + MARGIN
        waited = self.hands.now() - stage.stopped
        # A clock that was set back must not make this wait for ever.
        left = min(wanted, wanted - waited) if stage.stopped else wanted
        if left > 0:
            self.session.display.say(f"waiting {left:.0f} s: the client's time to live of the old store")
        while left > 0:
            if self.session.interrupt.requested():
                raise Stopped
            self.hands.sleep(min(1.0, left))
            left -= 1.0

    def _time_to_live(self) -> float:
        masters = self.session.site.group("mooncake_masters")
        return float(masters[0].mooncake.master.client_ttl) if masters else 10.0

    def _boxes(self, stage: Stage) -> tuple[str, ...]:
        """The boxes of a move and their further heads."""
        return heads_of_move(self.session.site, stage.move)

    # after everything

    def _prove(self) -> tuple[Verdict, ...]:
        """Read back who took over, and compare the keys with those of the beginning."""
        boxes = [name for item in self.act.stages for name in self._boxes(item)]
        targets = [item.move.target for item in self.act.stages]
        wanted = tuple(dict.fromkeys([*boxes, *targets]))
        self.session.replan()
        if wanted:
            self.hands.verify(wanted)
        verdicts = [self._owner_verdict(item) for item in self.act.stages]
        if self.act.noted >= 0:
            self.keys = self._pool("compare", digests=dict(self.act.digests))
            verdicts += judge_keys(self.keys, lost_is_failure=not self.act.dead)
            self._pool("forget")
        return tuple(verdicts)

    def _owner_verdict(self, stage: Stage) -> Verdict:
        move = stage.move
        states = self.session.states.get(move.target, {}).get("storage", {}).get("mounts", [])
        marks = {item["uuid"]: (item.get("marker") or {}).get("owner") for item in states}
        good = all(marks.get(uuid) == move.target for uuid in move.uuids)
        return Verdict(
            suite=SUITE,
            check="move.owner",
            grade=Grade.PASS if good else Grade.FAIL,
            observed=f"marked for {', '.join(sorted({str(marks.get(uuid)) for uuid in move.uuids}))}",
            expected=f"mounted by and marked for {move.target}",
            host=move.target,
            subject=move.nqn,
            remedy="" if good else "g35ctl deploy",
            evidence=_EVIDENCE,
        )

    def _pool(self, action: str, **given: Any) -> dict[str, Any]:
        host = pool_host(self.session.plan, avoid=(self.act.subject,))
        if not host:
            raise StepFailed(
                [
                    Failure(
                        "", "pool", "pool.host", "no host has Mooncake's environment", "the master's host",
                        "g35ctl deploy --only cache",
                    )
                ]
            )  # fmt: skip
        return self.hands.pool(action, host, self.act.token, **given)


def judge_keys(told: dict[str, Any], *, lost_is_failure: bool) -> list[Verdict]:
    """Verdicts on the keys: none missing that the master did not evict, every sampled value the same.

    Without ``lost_is_failure`` missing keys are a warning: what an owner that died had only in memory is lost.
    """
    if not told.get("noted"):
        return [
            Verdict(
                SUITE, "keys.survive", Grade.SKIP, "the list of keys from the beginning is gone", "a list to compare",
                remedy="g35ctl validate proves the data path", evidence=_EVIDENCE,
            )
        ]  # fmt: skip
    lost, evicted = int(told["lost"]), int(told["evicted"])
    grade = Grade.PASS
    if lost:
        grade = Grade.WARN if lost <= evicted or not lost_is_failure else Grade.FAIL
    observed = f"{lost} of {told['before']} keys are missing"
    if lost:
        observed += f" (such as {', '.join(told['first'][:3])}); the master evicted {evicted} meanwhile"
    if not lost_is_failure:
        observed += f"; {told['after']} are known now"
    wrong = [*told["different"], *told["unreadable"]]
    bad = bool(told["different"]) or (bool(told["unreadable"]) and lost_is_failure)
    values = Grade.FAIL if bad else Grade.WARN if wrong else Grade.PASS
    return [
        Verdict(SUITE, "keys.survive", grade, observed, "every key is still known", evidence=_EVIDENCE),
        Verdict(
            SUITE, "keys.values", values,
            f"{told['read'] - len(wrong)} of {told['read']} sampled values read back byte-equal"
            + (f"; different: {len(told['different'])}, unreadable: {len(told['unreadable'])}" if wrong else ""),
            "all of them", evidence=_EVIDENCE,
        ),
    ]  # fmt: skip


def pool_host(plan: Plan, avoid: Sequence[str] = ()) -> str:
    """The host to work on the pool from: a master's, else any that has the environment; ``avoid`` come last."""
    able = [host for host in plan.hosts if host.probe is not None]
    able.sort(key=lambda host: (host.name in avoid, host.cache is None or host.cache.master is None))
    return able[0].name if able else ""


def segments_of(plan: Plan, host: str, uuids: Sequence[str]) -> tuple[str, ...]:
    """Names of the memory segments of a host's stores on these namespaces."""
    cache = plan.host(host).cache
    if cache is None or cache.store is None:
        return ()
    return tuple(segment(item) for item in cache.store.instances if set(item.members) & set(uuids))


def _replace(act: Act, **changes: Any) -> Act:
    from dataclasses import replace

    return replace(act, **changes)
