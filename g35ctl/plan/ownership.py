"""Who owns which namespace: moved on purpose before pinned before claimed before kept before planned.

An access list belongs to a subsystem, so the namespaces of one subsystem of one box go to one owner together. Nothing
that has an owner is moved to improve the balance; only what has none is placed, the largest first, each time with the
owner that holds least among those that share a rail with the box. The order of the inputs never matters.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from g35ctl.plan.model import Ownership
from g35ctl.plan.order import NaturalKey, natural

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

    def least(self, rails: frozenset[str]) -> str | None:
        """The owner with the fewest bytes (then the fewest namespaces, then the first name) that shares a rail."""
        tops = [self._top(heap) for key, heap in self._heaps.items() if key & rails]
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
) -> Assignment:
    """Give each namespace its owner.

    ``known`` maps a namespace's UUID to the owner it has had so far; for those in ``settled`` it was decided by an
    explicit act, which outweighs pins and claims. A namespace that no candidate can reach gets none and a warning says
    so; so does one whose owner is no longer a candidate and which therefore gets another.
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
    open_subsystems: list[_Subsystem] = []
    subsystems = _subsystems(namespaces)
    for subsystem in subsystems:
        choice = _fixed(subsystem, by_name, claimed_by, known, settled)
        if choice is None:
            open_subsystems.append(subsystem)
            continue
        decided[subsystem.box, subsystem.nqn] = choice
        balance.add(choice[0], subsystem.size)
    for subsystem in sorted(open_subsystems, key=lambda item: (-item.size, item.key)):
        owner = balance.least(subsystem.rails)
        if owner is not None:
            decided[subsystem.box, subsystem.nqn] = (owner, "planned")
            balance.add(owner, subsystem.size)
    ownership = tuple(
        Ownership(item.nqn, item.nsid, item.uuid, item.box, item.size, *decided[item.box, item.nqn])
        for subsystem in subsystems
        for item in subsystem.namespaces
        if (item.box, item.nqn) in decided
    )
    return Assignment(ownership, _warnings(subsystems, decided, by_name, known))


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


def _fixed(
    subsystem: _Subsystem,
    by_name: Mapping[str, Candidate],
    claimed_by: Mapping[str, str],
    known: Mapping[str, str],
    settled: Collection[str],
) -> tuple[str, str] | None:
    """The owner that is not up to the balance, and why it is not."""
    for item in subsystem.namespaces:
        if item.uuid in settled and known.get(item.uuid) in by_name:
            return known[item.uuid], "moved"
    for item in subsystem.namespaces:
        pinned = by_name.get(item.pinned)
        if pinned is not None and (pinned.accepts or known.get(item.uuid) == item.pinned):
            return item.pinned, "pinned"
    if subsystem.nqn in claimed_by:
        return claimed_by[subsystem.nqn], "claimed"
    for item in subsystem.namespaces:
        owner = by_name.get(known.get(item.uuid, ""))
        if owner is not None and owner.rails & subsystem.rails:
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
