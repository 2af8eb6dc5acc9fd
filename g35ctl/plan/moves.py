"""Which namespaces move to whom: out of a host, back to it, or between owners that hold too much and too little. Pure.

The namespaces of one subsystem of one box move together, because an access list belongs to a subsystem; those of a
striped set do, because it is assembled where all of them are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from g35ctl.plan.model import Ownership
from g35ctl.plan.order import natural, together
from g35ctl.plan.ownership import Candidate


@dataclass(frozen=True)
class Move:
    """What goes from one owner to another at once: a subsystem with its namespaces and their data, and ``more``
    (box, NQN) that a striped set ties to it. ``size`` in bytes."""

    box: str
    nqn: str
    uuids: tuple[str, ...]
    size: int
    source: str
    target: str
    more: tuple[tuple[str, str], ...] = ()

    @property
    def subsystems(self) -> tuple[tuple[str, str], ...]:
        """(Box, NQN) of everything that goes."""
        return ((self.box, self.nqn), *self.more)

    @property
    def key(self) -> str:
        """What names the move within an act."""
        return f"{self.box} {self.nqn}"

    def __str__(self) -> str:
        what = ", ".join(f"{nqn} of {box}" for box, nqn in self.subsystems)
        return f"{what} from {self.source} to {self.target}"


class NoTarget(ValueError):
    """Some subsystems cannot go anywhere; ``subsystems`` names them as "NQN of BOX"."""

    def __init__(self, subsystems: Sequence[str]) -> None:
        super().__init__(", ".join(subsystems))
        self.subsystems = tuple(subsystems)


def away_from(
    host: str, ownership: Sequence[Ownership], candidates: Sequence[Candidate], rails: Mapping[str, frozenset[str]]
) -> tuple[Move, ...]:
    """Everything that ``host`` owns, each to the owner that holds least then and shares a rail with the box, the
    largest first. ``rails`` are those of each box. Raises NoTarget."""
    load = _load(ownership, candidates)
    moves, stuck = [], []
    for items in _subsystems(ownership, lambda item: item.owner == host):
        first, size = items[0], sum(item.size for item in items)
        fits = [item.name for item in candidates if item.accepts and item.name != host and _reaches(item, items, rails)]
        if not fits:
            stuck.append(f"{first.nqn} of {first.box}")
            continue
        target = min(fits, key=lambda name: (load[name], natural(name)))
        load[target] += size
        moves.append(_move(items, target))
    if stuck:
        raise NoTarget(stuck)
    return tuple(moves)


def home_to(host: str, home: Collection[str], ownership: Sequence[Ownership]) -> tuple[Move, ...]:
    """What ``host`` owned before (``home``, UUIDs) and others own now. What the site no longer has is left out."""
    wanted = set(home)
    found = _subsystems(ownership, lambda item: item.uuid in wanted and item.owner != host)
    return tuple(_move(items, host) for items in found)


def evened_out(
    ownership: Sequence[Ownership],
    candidates: Sequence[Candidate],
    rails: Mapping[str, frozenset[str]],
    *,
    tolerance: float = 0.1,
    most: int = 0,
) -> tuple[Move, ...]:
    """Moves that bring owners closer to holding the same number of bytes, as few as greed finds.

    Each goes from the owner with most to one with less, and lessens their difference. What the site pins or claims
    stays, no owner is left with nothing, and no subsystem moves twice. Ends when what the fullest holds above the
    emptiest is within ``tolerance`` of the mean, or after ``most`` moves (0: no limit).
    """
    load = _load(ownership, candidates)
    by_name = {item.name: item for item in candidates}
    held: dict[str, list[list[Ownership]]] = defaultdict(list)
    for items in _subsystems(ownership, lambda item: item.owner in by_name):
        held[items[0].owner].append(items)
    moves: list[Move] = []
    moved: set[str] = set()
    while not most or len(moves) < most:
        accepting = [name for name, item in by_name.items() if item.accepts]
        if len(accepting) < 2:
            break
        mean = sum(load[name] for name in accepting) / len(accepting)
        if max(load[name] for name in accepting) - min(load[name] for name in accepting) <= tolerance * mean:
            break
        step = _best(accepting, load, held, by_name, rails, moved)
        if step is None:
            break
        moves.append(step)
        moved.add(step.key)
        load[step.source] -= step.size
        load[step.target] += step.size
        items = next(items for items in held[step.source] if _key(items) == step.key)
        held[step.source].remove(items)
        held[step.target].append(items)
    return tuple(moves)


def _best(
    accepting: Sequence[str],
    load: Mapping[str, int],
    held: Mapping[str, list[list[Ownership]]],
    by_name: Mapping[str, Candidate],
    rails: Mapping[str, frozenset[str]],
    moved: Collection[str],
) -> Move | None:
    """The move that lessens a difference most, from the fullest owner that has one to give."""
    for source in sorted(accepting, key=lambda name: (-load[name], natural(name))):
        best: tuple[int, Move] | None = None
        if len(held.get(source, ())) < 2:
            continue
        for items in held[source]:
            size = sum(item.size for item in items)
            if _key(items) in moved or any(item.since in ("pinned", "claimed") for item in items):
                continue
            for target in sorted(accepting, key=lambda name: (load[name], natural(name))):
                gap = load[source] - load[target]
                if size >= gap:  # it would only swap who holds more
                    break
                if _reaches(by_name[target], items, rails):
                    after = abs(gap - 2 * size)
                    if best is None or after < best[0]:
                        best = (after, _move(items, target))
                    break
        if best is not None:
            return best[1]
    return None


def _load(ownership: Sequence[Ownership], candidates: Sequence[Candidate]) -> dict[str, int]:
    load = {item.name: 0 for item in candidates}
    for item in ownership:
        load[item.owner] = load.get(item.owner, 0) + item.size
    return load


def _reaches(candidate: Candidate, items: Sequence[Ownership], rails: Mapping[str, frozenset[str]]) -> bool:
    """Whether a host shares a rail with the box of each of these namespaces."""
    return all(candidate.rails & rails.get(box, frozenset()) for box in {item.box for item in items})


def ties(item: Ownership) -> list[object]:
    """What a namespace cannot be parted from: its subsystem, and its striped set."""
    return [(item.box, item.nqn), *([item.stripe] if item.stripe else [])]


def _subsystems(ownership: Sequence[Ownership], wanted: Callable[[Ownership], bool]) -> list[list[Ownership]]:
    """Namespaces by what can only go as a whole, the largest first, then by name."""
    return sorted(
        together([item for item in ownership if wanted(item)], ties),
        key=lambda items: (-sum(item.size for item in items), natural(items[0].box), natural(items[0].nqn)),
    )


def _key(items: Sequence[Ownership]) -> str:
    return f"{items[0].box} {items[0].nqn}"


def _move(items: Sequence[Ownership], target: str) -> Move:
    first = items[0]
    places = tuple(dict.fromkeys((item.box, item.nqn) for item in items))
    uuids = tuple(item.uuid for item in sorted(items, key=lambda item: (item.box, item.nqn, item.nsid, item.uuid)))
    return Move(first.box, first.nqn, uuids, sum(item.size for item in items), first.owner, target, places[1:])
