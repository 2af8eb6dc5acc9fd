"""Who owns which namespace: moved on purpose before pinned before claimed before kept before planned.

An access list belongs to a subsystem, so the namespaces of one subsystem of one box go to one owner together, and so do
those of a striped set, whatever subsystems and boxes they are of: a unit is what can only go as a whole. Nothing
that has an owner is moved to improve the balance; only what has none is placed, the largest first, each time with the
owner that holds least among those that share a rail with the box. The order of the inputs never matters.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from g35ctl.plan.model import Ownership
from g35ctl.plan.order import NaturalKey, natural, together

_SHOWN = 8


@dataclass(frozen=True)
class Claimable:
    """A namespace that wants an owner. ``rails`` are those of its box's portals; ``pinned`` is the owner the site
    names for it, or empty; ``size`` in bytes."""

    nqn: str
    nsid: int
    uuid: str
    box: str
    size: int
    rails: frozenset[str]
    pinned: str = ""


@dataclass(frozen=True)
class Candidate:
    """A host that can own namespaces: the rails it has ports on, and the subsystems (NQN) it claims. One that does not
    accept (``accepts``) keeps what it has and is given nothing: it is out of service, or about to be."""

    name: str
    rails: frozenset[str]
    claims: frozenset[str] = frozenset()
    accepts: bool = True


@dataclass(frozen=True)
class Assignment:
    """The decision, ordered by box, subsystem and namespace; and what an operator should know about it."""

    ownership: tuple[Ownership, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Subsystem:
    box: str
    nqn: str
    size: int
    rails: frozenset[str]
    namespaces: tuple[Claimable, ...]

    @property
    def key(self) -> tuple[NaturalKey, NaturalKey]:
        return natural(self.box), natural(self.nqn)


@dataclass(frozen=True)
class _Unit:
    """Subsystems that go to one owner together, in the order of their keys."""

    parts: tuple[_Subsystem, ...]

    @property
    def key(self) -> tuple[NaturalKey, NaturalKey]:
        return self.parts[0].key

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def rails(self) -> frozenset[frozenset[str]]:
        """An owner must share one of each of these."""
        return frozenset(part.rails for part in self.parts)

    @property
    def namespaces(self) -> tuple[Claimable, ...]:
        return tuple(item for part in self.parts for item in part.namespaces)

    def reached_by(self, rails: frozenset[str]) -> bool:
        return all(part.rails & rails for part in self.parts)


class _Balance:
    """Finds the least loaded owner among those with a given set of rails, in logarithmic time.

    Owners with equal rail sets share a heap; entries that a later placement made stale are dropped when they surface.
    """

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._accepting = {candidate.name for candidate in candidates if candidate.accepts}
        self._rails = {candidate.name: candidate.rails for candidate in candidates}
        self._load: dict[str, tuple[int, int]] = dict.fromkeys(self._rails, (0, 0))
        self._heaps: dict[frozenset[str], list[tuple[int, int, NaturalKey]]] = defaultdict(list)
        for candidate in candidates:
            if candidate.accepts:
                self._heaps[candidate.rails].append((0, 0, natural(candidate.name)))
        for heap in self._heaps.values():
            heapq.heapify(heap)

    def add(self, owner: str, size: int) -> None:
        """Count ``size`` bytes more for ``owner``."""
        load, count = self._load[owner]
        self._load[owner] = (load + size, count + 1)
        if owner not in self._accepting:
            return
        heapq.heappush(self._heaps[self._rails[owner]], (load + size, count + 1, natural(owner)))

    def least(self, rails: frozenset[frozenset[str]]) -> str | None:
        """The owner with the fewest bytes (then the fewest namespaces, then the first name) that shares a rail with
        each of these sets of rails."""
        tops = [self._top(heap) for key, heap in self._heaps.items() if all(key & item for item in rails)]
        return min(tops)[2][1] if tops else None

    def _top(self, heap: list[tuple[int, int, NaturalKey]]) -> tuple[int, int, NaturalKey]:
        while (heap[0][0], heap[0][1]) != self._load[heap[0][2][1]]:
            heapq.heappop(heap)
        return heap[0]


def assign(
    namespaces: Sequence[Claimable],
    candidates: Sequence[Candidate],
    known: Mapping[str, str] | None = None,
    settled: Collection[str] = (),
    sets: Collection[Sequence[str]] = (),
) -> Assignment:
    """Give each namespace its owner.

    ``known`` maps a namespace's UUID to the owner it has had so far; for those in ``settled`` it was decided by an
    explicit act, which outweighs pins and claims. ``sets`` are striped sets, as UUIDs of their namespaces. A namespace
    that no candidate can reach gets none and a warning says so; so does one whose owner is no longer a candidate and
    which therefore gets another.
    """
    known = known or {}
    by_name = {candidate.name: candidate for candidate in candidates}
    claimed_by = {
        nqn: candidate.name
        for candidate in sorted(candidates, key=lambda item: natural(item.name), reverse=True)
        for nqn in candidate.claims
        if candidate.accepts
    }
    balance = _Balance(candidates)
    decided: dict[tuple[str, str], tuple[str, str]] = {}
    open_units: list[_Unit] = []
    subsystems = _subsystems(namespaces)
    units = _units(subsystems, sets)
    for unit in units:
        choice = _fixed(unit, by_name, claimed_by, known, settled)
        if choice is None:
            open_units.append(unit)
            continue
        decided.update({(part.box, part.nqn): choice for part in unit.parts})
        balance.add(choice[0], unit.size)
    for unit in sorted(open_units, key=lambda item: (-item.size, item.key)):
        owner = balance.least(unit.rails)
        if owner is not None:
            decided.update({(part.box, part.nqn): (owner, "planned") for part in unit.parts})
            balance.add(owner, unit.size)
    ownership = tuple(
        Ownership(item.nqn, item.nsid, item.uuid, item.box, item.size, *decided[item.box, item.nqn])
        for subsystem in subsystems
        for item in subsystem.namespaces
        if (item.box, item.nqn) in decided
    )
    torn = _torn(units, by_name, claimed_by, decided)
    return Assignment(ownership, torn + _warnings(subsystems, decided, by_name, known))


def _subsystems(namespaces: Sequence[Claimable]) -> list[_Subsystem]:
    groups: dict[tuple[str, str], list[Claimable]] = defaultdict(list)
    for item in namespaces:
        groups[item.box, item.nqn].append(item)
    made = []
    for (box, nqn), items in groups.items():
        rails = frozenset[str]().union(*(item.rails for item in items))
        ordered = tuple(sorted(items, key=lambda item: (item.nsid, item.uuid)))
        made.append(_Subsystem(box, nqn, sum(item.size for item in items), rails, ordered))
    return sorted(made, key=lambda item: item.key)


def _units(subsystems: Sequence[_Subsystem], sets: Collection[Sequence[str]]) -> list[_Unit]:
    stripes = {uuid: place for place, members in enumerate(sets) for uuid in members}
    groups = together(
        subsystems, lambda item: [stripes[one.uuid] for one in item.namespaces if one.uuid in stripes]
    )  # fmt: skip
    return [_Unit(tuple(group)) for group in groups]


def _torn(
    units: Sequence[_Unit],
    by_name: Mapping[str, Candidate],
    claimed_by: Mapping[str, str],
    decided: Mapping[tuple[str, str], tuple[str, str]],
) -> tuple[str, ...]:
    """Striped sets whose namespaces the site wants at several owners."""
    found = []
    for unit in units:
        wanted = {item.pinned for item in unit.namespaces if item.pinned in by_name}
        wanted |= {claimed_by[part.nqn] for part in unit.parts if part.nqn in claimed_by}
        first = unit.parts[0]
        if len(unit.parts) > 1 and len(wanted) > 1 and (first.box, first.nqn) in decided:
            names = ", ".join(sorted(wanted, key=natural))
            found.append(
                f"{_listed([part.nqn for part in unit.parts])} hold one striped set, which the site pins or claims for"
                f" {names}: it goes as a whole, to {decided[first.box, first.nqn][0]}"
            )
    return tuple(found)


def _fixed(
    unit: _Unit,
    by_name: Mapping[str, Candidate],
    claimed_by: Mapping[str, str],
    known: Mapping[str, str],
    settled: Collection[str],
) -> tuple[str, str] | None:
    """The owner that is not up to the balance, and why it is not."""
    for item in unit.namespaces:
        if item.uuid in settled and known.get(item.uuid) in by_name:
            return known[item.uuid], "moved"
    for item in unit.namespaces:
        pinned = by_name.get(item.pinned)
        if pinned is not None and (pinned.accepts or known.get(item.uuid) == item.pinned):
            return item.pinned, "pinned"
    for part in unit.parts:
        if part.nqn in claimed_by:
            return claimed_by[part.nqn], "claimed"
    for item in unit.namespaces:
        owner = by_name.get(known.get(item.uuid, ""))
        if owner is not None and unit.reached_by(owner.rails):
            return owner.name, "kept"
    return None


def _warnings(
    subsystems: Sequence[_Subsystem],
    decided: Mapping[tuple[str, str], tuple[str, str]],
    by_name: Mapping[str, Candidate],
    known: Mapping[str, str],
) -> tuple[str, ...]:
    unreachable: list[str] = []
    moved: dict[tuple[str, str], list[str]] = defaultdict(list)
    for subsystem in subsystems:
        owner, since = decided.get((subsystem.box, subsystem.nqn), ("", ""))
        for item in subsystem.namespaces:
            before = known.get(item.uuid, "")
            if not owner:
                unreachable.append(f"{item.nqn} of {item.box}")
            elif before and before != owner:
                reason = _reason(before, since, by_name)
                moved[before, reason].append(f"{item.nqn} (now {owner})")
    found = []
    if unreachable:
        found.append(f"no cache owner shares a rail with {_listed(unreachable)}: not used")
    for (before, reason), items in sorted(moved.items()):
        found.append(
            f"{before} {reason}: {_listed(items)} planned for another owner. The data stays where it is; the new owner"
            f" mounts nothing that carries the mark of {before} until the move is made by an explicit act"
        )
    return tuple(found)


def _reason(before: str, since: str, by_name: Mapping[str, Candidate]) -> str:
    if since in ("pinned", "claimed"):
        return f"loses what the site has {since} elsewhere"
    if before in by_name:
        return "no longer shares a rail with the box"
    return "is no longer a cache owner of this site"


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def bytes_per_owner(ownership: Iterable[Ownership]) -> Mapping[str, int]:
    """Bytes that each owner holds."""
    held: Counter[str] = Counter()
    for item in ownership:
        held[item.owner] += item.size
    return held
