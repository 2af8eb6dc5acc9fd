"""Fencing a dead host: it is shut out where its data is, and that is proven before anybody else touches the data.

Proof is what the box says. A box that cannot say it, or cannot be told, needs a person: who switched the host off, or
took its permission away, says so by name, and what can be asked is asked all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from g35ctl.engine.lifecycle.hands import Hands, StepFailed
from g35ctl.engine.lifecycle.heads import heads_of
from g35ctl.engine.run import Failure
from g35ctl.plan.identity import host_nqn
from g35ctl.plan.moves import Move


class Fence:
    """Shuts one host out. ``confirmed``: the operator has said by name that it is off or shut out."""

    def __init__(self, hands: Hands, host: str, *, confirmed: bool = False) -> None:
        self.hands = hands
        self.session = hands.session
        self.host = host
        self.confirmed = confirmed

    @property
    def nqn(self) -> str:
        """Host NQN of the host that is shut out."""
        member = next(item for item in self.session.site.hosts if item.name == self.host)
        return host_nqn(self.session.site, member)

    def close(self, moves: Sequence[Move]) -> dict[str, str]:
        """Fence the subsystems of these moves on every head of their boxes; move -> how it is known.

        Raises StepFailed for those without proof, after all others were fenced: fencing more never hurts.
        """
        self.session.replan()  # the record says that nobody is admitted now
        closing = {
            move.key: [(name, nqn) for box, nqn in move.subsystems for name in heads_of(self.session.site, box)]
            for move in moves
        }
        doors = list(dict.fromkeys(door for found in closing.values() for door in found))
        names = tuple(dict.fromkeys(name for name, _ in doors))
        linux = [name for name in names if self.session.plan.host(name).target is not None]
        asked = [name for name in names if self.session.plan.host(name).box is not None]
        # First what survives a restart of the box, then what ends the connections that stand.
        self.hands.apply("target", linux)
        seen = self.hands.fence({name: [nqn for at, nqn in doors if at == name] for name in linux})
        self._tell(asked)
        proof: dict[str, str] = {}
        open_ones: list[Failure] = []
        for move in moves:
            told = {door: self._proof(*door, seen) for door in closing[move.key]}
            missing = [door for door, words in told.items() if not words]
            refuted = [door for door in missing if self._admits(*door)]
            if refuted or (missing and not self.confirmed):
                open_ones += [self._unproven(*door, door in refuted) for door in missing]
                continue
            words = "; ".join(
                f"{name}: {item}" if len(move.subsystems) == 1 else f"{name} {nqn}: {item}"
                for (name, nqn), item in told.items() if item
            )  # fmt: skip
            proof[move.key] = words or f"the operator says that {self.host} is off or shut out"
        if open_ones:
            raise StepFailed(open_ones)
        for key, words in proof.items():
            self.session.display.say(f"fenced {key.partition(' ')[2]}: {words}")
        return proof

    def _tell(self, boxes: Sequence[str]) -> None:
        """Let drivers that can take permissions back do so; the others only look, and say what a person has to do."""
        for name in boxes:
            try:
                self.hands.apply("target", (name,))
            except StepFailed as failed:
                silent = [item for item in failed.failures if not item.check.startswith("box.access")]
                if silent:
                    raise

    def _proof(self, box: str, nqn: str, seen: Mapping[str, Mapping[str, Any]]) -> str:
        """What the box says that proves it; empty when it does not."""
        told = seen.get(f"{box} {nqn}")
        if told is not None:
            if not told["present"]:
                return "does not export it"
            if told["any_host"] or told["allowed_hosts"] or told["controllers"]:
                return ""
            who = "has no controller" if told["controllers"] is not None else "was taken off its ports, which drops all"
            return f"admits nobody and {who}"
        state = self._subsystem(box, nqn)
        if state is None or state.get("any_host"):
            return ""
        allowed, controllers = state.get("allowed_hosts"), state.get("controllers")
        if allowed is None or self.nqn in allowed or controllers is None or self.nqn in controllers:
            return ""
        return "does not admit it and has no controller of it"

    def _admits(self, box: str, nqn: str) -> bool:
        """Whether the box itself says that the host can still get in, which no word of an operator outweighs."""
        state = self._subsystem(box, nqn)
        if state is None:
            return False
        return bool(state.get("any_host")) or self.nqn in [
            *(state.get("allowed_hosts") or ()), *(state.get("controllers") or ())
        ]  # fmt: skip

    def _subsystem(self, box: str, nqn: str) -> Mapping[str, Any] | None:
        state = self.session.states.get(box, {}).get("box") or {}
        return next((item for item in state.get("subsystems", ()) if item.get("nqn") == nqn), None)

    def _unproven(self, box: str, nqn: str, refuted: bool) -> Failure:
        remedy = (
            f"on {box}, remove host NQN {self.nqn} ({self.host}) from the hosts allowed on subsystem {nqn}"
            + ("" if refuted else f" or switch {self.host} off")
            + f"; then: g35ctl failover {self.host} --confirm-fenced {self.host}"
        )
        observed = "the box still admits it" if refuted else "the box cannot prove it"
        return Failure(box, "fence", "fence.proof", observed, f"{self.host} cannot write to {nqn}", remedy, nqn)
