"""What acts leave on record: who has what (ownership.json), and the act that is under way (act.json).

Both are written before what they announce is done, and every step can be done again. So a controller that is killed at
any moment has left behind where it was, and the next command goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from g35ctl.engine.ledger import read_json, write_atomically
from g35ctl.errors import G35Error
from g35ctl.plan.custody import Custody, CustodyError
from g35ctl.plan.moves import Move

SCHEMA_VERSION = 1
PLANNED, EMPTIED, LEAVING, LEFT, GRANTED, DONE = PHASES = (
    "planned", "emptied", "leaving", "left", "granted", "done",
)  # fmt: skip
"""Phases of a move, each reached when what it names is done; ``leaving`` when the record names the new owner.

emptied: nothing is only in its store's memory any more. left: the old owner has stopped, unmounted and disconnected, or
was fenced. granted: the box admits the new owner alone. done: its new store serves it."""


@dataclass(frozen=True)
class Stage:
    """A move and how far it is. ``segments`` are its stores' on the old owner; ``stopped`` is when they were certainly
    stopped, seconds since the epoch (0: not yet)."""

    move: Move
    phase: str = PLANNED
    segments: tuple[str, ...] = ()
    stopped: float = 0.0

    def reached(self, phase: str) -> bool:
        """Whether the move is as far as that, or further."""
        return PHASES.index(self.phase) >= PHASES.index(phase)


@dataclass(frozen=True)
class Act:
    """An act under way. ``subject`` is what it is about, ``token`` its name in logs and on the master's host, ``since``
    UTC, ``runs`` the runs that worked on it. ``dead``: the subject is fenced instead of asked to let go. ``proof`` says
    of each subsystem how it is known to be fenced, ``digests`` and ``jobs`` what the pool was asked before."""

    verb: str
    subject: str
    token: str
    since: str
    stages: tuple[Stage, ...] = ()
    dead: bool = False
    runs: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    noted: int = -1
    jobs: tuple[str, ...] = ()
    proof: Mapping[str, str] = field(default_factory=dict)

    def with_stage(self, key: str, **changes: Any) -> Act:
        """The same act with one of its moves further on."""
        stages = tuple(replace(item, **changes) if item.move.key == key else item for item in self.stages)
        return replace(self, stages=stages)

    @property
    def left(self) -> tuple[Stage, ...]:
        """Moves that are not done."""
        return tuple(item for item in self.stages if item.phase != DONE)

    def describe(self) -> str:
        """Where it is, in one line."""
        done = len(self.stages) - len(self.left)
        begun = [item for item in self.left if item.phase not in (PLANNED, EMPTIED)]
        now = f", {begun[0].move} is {begun[0].phase}" if begun else ""
        return f"{self.verb} {self.subject} of {self.since} was cut off: {done} of {len(self.stages)} moves done{now}"

    @property
    def command(self) -> str:
        """The command that goes on with it."""
        return "g35ctl rebalance --yes" if self.verb == "rebalance" else f"g35ctl {self.verb} {self.subject}"

    def overlay(self, custody: Custody) -> Custody:
        """The record as planning has to see it while this act is under way."""
        moving = [item for item in self.stages if item.reached(LEAVING) and item.phase != DONE]
        taken = {uuid: (item.move.source,) for item in moving for uuid in item.move.uuids}
        held = [item for item in self.stages if not item.reached(GRANTED)] if self.dead else []
        leaving = [item for item in self.stages if item.phase == LEAVING and not self.dead]
        return replace(
            custody,
            taken=taken,
            # Until the record names another, the plan must admit nobody: least of all the one that was shut out.
            fenced=frozenset(
                uuid
                for item in held
                for uuid in item.move.uuids
                if custody.namespaces.get(uuid, item.move.source) == item.move.source
            ),
            letting_go=frozenset(item.move.source for item in leaving),
        )


def load_custody(state: Path) -> Custody:
    """Everything on record, with the act that is under way. Raises G35Error when a record is damaged."""
    path = state / "ownership.json"
    try:
        custody = Custody.from_json(read_json(path, "ownership record"))
    except CustodyError as error:
        raise _damaged(path, str(error)) from error
    act = load_act(state)
    return act.overlay(custody) if act is not None else custody


def standing(state: Path) -> tuple[str, ...]:
    """What an operator should know of the record: an act that is unfinished, hosts and boxes out of service."""
    act, custody = load_act(state), load_custody(state)
    told = [f"{act.describe()}; go on with: {act.command}"] if act is not None else []
    for host, item in custody.away.items():
        how = "" if item.clean else ", and has not let go of what it had: g35ctl deploy does that when it answers"
        told.append(
            f"{host} is out of service since {item.since} ({item.why}){how}; g35ctl undrain {host} brings it back"
        )
    told += [f"box {name} was removed: take it out of the inventory" for name in sorted(custody.removed)]
    return tuple(told)


def save_custody(state: Path, custody: Custody) -> None:
    """Write the lasting part of the record."""
    data = read_json(state / "ownership.json", "ownership record")
    write_atomically(state / "ownership.json", {**data, **custody.to_json()})


def load_act(state: Path) -> Act | None:
    """The act under way, or None. Raises G35Error when its record is damaged."""
    path = state / "act.json"
    data = read_json(path, "record of the act under way")
    if not data:
        return None
    try:
        if data.pop("schema_version") != SCHEMA_VERSION:
            raise ValueError("written by another release")
        stages = tuple(
            Stage(
                _move(item["move"]), _phase(item["phase"]), tuple(item["segments"]), float(item["stopped"])
            )
            for item in data.pop("stages")
        )  # fmt: skip
        for name in ("runs", "jobs"):
            data[name] = tuple(data[name])
        return Act(stages=stages, **data)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def save_act(state: Path, act: Act) -> None:
    """Write down where the act is."""
    write_atomically(state / "act.json", {"schema_version": SCHEMA_VERSION, **asdict(act)})


def clear_act(state: Path) -> None:
    """The act is over."""
    (state / "act.json").unlink(missing_ok=True)


def _move(data: Mapping[str, Any]) -> Move:
    more = tuple((str(box), str(nqn)) for box, nqn in data.get("more", ()))
    return Move(**{**data, "uuids": tuple(data["uuids"]), "more": more})


def _phase(text: str) -> str:
    if text not in PHASES:
        raise ValueError(f"{text!r} is not a phase")
    return text


def _damaged(path: Path, why: str) -> G35Error:
    return G35Error(
        f"{path} is damaged",
        why=why,
        next_command=f"restore {path} from a copy; the marks on the namespaces say who owns them: g35ctl status",
    )
