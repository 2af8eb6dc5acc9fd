"""Custody: what is on record of namespaces and hosts that no inventory says. ``.g35/ownership.json`` is its file.

The inventory says what the user wants. Who holds a namespace now, which ports its store has, which host is out of
service and what it owned before: that comes from what was done, and planning has to stand on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

DRAIN, FAILOVER, REMOVED = "drain", "failover", "removed"


class CustodyError(ValueError):
    """The record is not one; the text says where."""


@dataclass(frozen=True)
class Absence:
    """A host out of service. ``why`` is drain, failover or removed, ``since`` UTC; ``home`` are the UUIDs of what it
    owned, which undrain brings back. Not ``clean``: it may still run what it had, and must let go of it first."""

    why: str
    since: str
    home: tuple[str, ...] = ()
    clean: bool = True


@dataclass(frozen=True)
class Custody:
    """``namespaces`` maps UUIDs to owners, ``slots`` to the place of their store's ports. ``settled`` were moved by an
    explicit act: for them the record outweighs pins and claims. ``removed`` are boxes taken out of service, ``marks``
    further hosts whose mark a namespace may carry, because a move of it was given up. ``sets`` are striped sets: the
    UUIDs of all namespaces of each, in the order of the array.

    The rest belongs to an act that is under way: ``fenced`` namespaces are exported to nobody, ``taken`` maps UUIDs to
    owners whose mark may be replaced, ``letting_go`` are hosts that get plans that ask them to hold nothing."""

    namespaces: Mapping[str, str] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    settled: frozenset[str] = frozenset()
    away: Mapping[str, Absence] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sets: tuple[tuple[str, ...], ...] = ()
    fenced: frozenset[str] = frozenset()
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    letting_go: frozenset[str] = frozenset()

    def moved(self, uuids: tuple[str, ...], owner: str) -> Custody:
        """These namespaces now belong to ``owner``, by an explicit act; its store's ports are chosen anew."""
        slots = {uuid: slot for uuid, slot in self.slots.items() if uuid not in uuids}
        return replace(
            self, namespaces={**self.namespaces, **dict.fromkeys(uuids, owner)}, slots=slots,
            settled=self.settled | frozenset(uuids),
        )  # fmt: skip

    def without(self, host: str, absence: Absence) -> Custody:
        """The host is out of service."""
        return replace(self, away={**self.away, host: absence})

    def back(self, host: str) -> Custody:
        """The host is in service again. What came home with it is no longer a matter of the record alone."""
        absence = self.away.get(host)
        home = frozenset(absence.home) if absence else frozenset()
        returned = {uuid for uuid in home if self.namespaces.get(uuid) == host}
        away = {name: item for name, item in self.away.items() if name != host}
        return replace(self, away=away, settled=self.settled - returned)

    def previous(self, uuid: str) -> tuple[str, ...]:
        """Hosts whose mark on a namespace its owner may replace."""
        return tuple(dict.fromkeys((*self.taken.get(uuid, ()), *self.marks.get(uuid, ()))))

    def marked(self, uuids: tuple[str, ...]) -> Custody:
        """These namespaces carry their owner's mark."""
        return replace(self, marks={uuid: names for uuid, names in self.marks.items() if uuid not in uuids})

    def owned_by(self, host: str) -> tuple[str, ...]:
        """UUIDs of what the record says the host owns, sorted."""
        return tuple(sorted(uuid for uuid, owner in self.namespaces.items() if owner == host))

    def to_json(self) -> dict[str, Any]:
        """The lasting part, as ownership.json holds it."""
        return {
            "namespaces": dict(self.namespaces),
            "slots": dict(self.slots),
            "settled": sorted(self.settled),
            "away": {
                host: {"why": item.why, "since": item.since, "home": list(item.home), "clean": item.clean}
                for host, item in self.away.items()
            },
            "removed": sorted(self.removed),
            "marks": {uuid: list(names) for uuid, names in self.marks.items()},
            "sets": [list(members) for members in self.sets],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Custody:
        """Read ownership.json; members it does not have are empty. Raises CustodyError."""
        try:
            return Custody(
                namespaces={str(uuid): str(owner) for uuid, owner in dict(data.get("namespaces", {})).items()},
                slots={str(uuid): int(slot) for uuid, slot in dict(data.get("slots", {})).items()},
                settled=frozenset(str(uuid) for uuid in data.get("settled", ())),
                away={str(host): _absence(item) for host, item in dict(data.get("away", {})).items()},
                removed=frozenset(str(name) for name in data.get("removed", ())),
                marks={
                    str(uuid): tuple(str(name) for name in names) for uuid, names in dict(data.get("marks", {})).items()
                },
                sets=tuple(_set(members) for members in data.get("sets", ())),
            )
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise CustodyError(f"{type(error).__name__}: {error}") from error


def _set(members: Any) -> tuple[str, ...]:
    if not isinstance(members, list) or len(set(members)) != len(members):
        raise ValueError(f"{members!r} is no list of namespaces")
    return tuple(str(UUID(str(uuid))) for uuid in members)


def _absence(item: Mapping[str, Any]) -> Absence:
    why = str(item["why"])
    if why not in (DRAIN, FAILOVER, REMOVED):
        raise ValueError(f"{why!r} is no reason for a host to be away")
    home = tuple(str(uuid) for uuid in item.get("home", ()))
    return Absence(why, str(item.get("since", "")), home, bool(item.get("clean", True)))


def allot(owners: Mapping[str, str], custody: Custody) -> Mapping[str, int]:
    """The place of each namespace's store among its owner's ports: recorded ones stay, new ones fill the gaps.

    ``owners`` maps UUIDs to owners in the order of the namespaces' names. What was placed before places were recorded
    comes first, in that order: exactly as it was placed then.
    """
    places: dict[str, int] = {}
    taken: dict[str, set[int]] = {}

    def known(uuid: str, owner: str) -> bool:
        return custody.namespaces.get(uuid) == owner

    for uuid, owner in owners.items():
        slot = custody.slots.get(uuid)
        if slot is not None and known(uuid, owner) and slot not in taken.setdefault(owner, set()):
            places[uuid] = slot
            taken[owner].add(slot)
    rest = [uuid for uuid in owners if uuid not in places]
    for uuid in sorted(rest, key=lambda item: not known(item, owners[item])):  # stable: known ones first
        used = taken.setdefault(owners[uuid], set())
        places[uuid] = next(number for number in range(len(used) + 1) if number not in used)
        used.add(places[uuid])
    return places
