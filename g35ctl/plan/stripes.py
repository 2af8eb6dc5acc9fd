"""What the stores of an owner lie on: single namespaces, and striped sets of them. Pure.

A RAID 0 takes no further member in with its data, and loses everything with one of them. So a set, once on record,
stays what it is wherever it is moved; what comes to its owner later gets a store of its own; and namespaces that have
stores of their own are not gathered into a set. Only an owner all of whose namespaces are named in
``g35_storage.destroy`` starts anew, as its layout says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ansible.module_utils.g35.stripe import set_uuid

from g35ctl.plan.custody import Custody
from g35ctl.plan.model import Ownership
from g35ctl.site.model import SiteHost

STRIPED = "striped"
_SHOWN = 8


@dataclass(frozen=True)
class Volume:
    """What one store lies on. ``uuid`` is the namespace's or the set's, ``members`` what the site has of it, ``every``
    the UUIDs of all its namespaces in the order of the array."""

    uuid: str
    members: tuple[Ownership, ...]
    every: tuple[str, ...]

    @property
    def striped(self) -> bool:
        """Whether it is a striped set."""
        return len(self.every) > 1

    @property
    def slot(self) -> int:
        """The place of its store among its owner's ports."""
        return self.members[0].slot

    @property
    def lost(self) -> tuple[str, ...]:
        """Namespaces of the set that the site does not have (any more): nothing of it can be read without them."""
        have = {item.uuid for item in self.members}
        return tuple(uuid for uuid in self.every if uuid not in have)


def recorded(site: str, custody: Custody) -> Mapping[str, tuple[str, ...]]:
    """Striped sets on record: UUID of the set to those of its namespaces, in the order of the array."""
    return {set_uuid(site, members): members for members in custody.sets if members}


def form(
    site: str, ownership: Sequence[Ownership], hosts: Mapping[str, SiteHost], custody: Custody
) -> tuple[tuple[Ownership, ...], tuple[str, ...]]:
    """``ownership`` with the striped set of each namespace, and what an operator should know about it."""
    sets = recorded(site, custody)
    of_member = {uuid: key for key, members in sets.items() for uuid in members}
    stripes: dict[str, str] = {}
    warnings: list[str] = []
    for owner, items in _by_owner(ownership).items():
        host = hosts[owner]
        anew = starts_anew(host, items)
        kept = {} if anew else {item.uuid: of_member[item.uuid] for item in items if item.uuid in of_member}
        rest = [item for item in items if item.uuid not in kept]
        fresh = anew or not any(item.uuid in custody.namespaces for item in items)
        stripes |= kept
        if host.storage.layout == STRIPED and fresh and len(rest) > 1:
            members = [item.uuid for item in rest]
            stripes |= dict.fromkeys(members, set_uuid(site, members))
        warnings += _told(host, items, stripes, sets, custody)
    return tuple(replace(item, stripe=stripes.get(item.uuid, "")) for item in ownership), tuple(warnings)


def starts_anew(host: SiteHost, items: Iterable[Ownership]) -> bool:
    """Whether the site says of each namespace of an owner that what it holds may go.

    Of each: a name left behind from an earlier time destroys nothing when a further namespace comes.
    """
    named = {str(uuid) for uuid in host.storage.destroy}
    return all(item.uuid in named for item in items)


def _by_owner(ownership: Sequence[Ownership]) -> dict[str, list[Ownership]]:
    found: dict[str, list[Ownership]] = {}
    for item in ownership:
        found.setdefault(item.owner, []).append(item)
    return found


def volumes(site: str, items: Sequence[Ownership], custody: Custody) -> tuple[Volume, ...]:
    """What an owner's stores lie on, in the order of its namespaces. ``items`` are those of one owner."""
    sets = recorded(site, custody)
    groups: dict[str, list[Ownership]] = {}
    for item in items:
        groups.setdefault(item.stripe or item.uuid, []).append(item)
    found = []
    for key, members in groups.items():
        every = sets.get(key, tuple(item.uuid for item in members)) if members[0].stripe else (key,)
        found.append(Volume(key, tuple(members), every))
    return tuple(found)


def _told(
    host: SiteHost,
    items: Sequence[Ownership],
    stripes: Mapping[str, str],
    sets: Mapping[str, tuple[str, ...]],
    custody: Custody,
) -> Iterable[str]:
    here = [item.uuid for item in items]
    alone = [uuid for uuid in here if uuid not in stripes]
    found = dict.fromkeys(stripes[uuid] for uuid in here if uuid in stripes)
    way = f"name all {len(here)} namespaces of {host.name} in g35_storage.destroy: what is on them is lost then"
    if host.storage.layout == STRIPED and alone and len(here) > 1:
        yield (
            f"{host.name} is to stripe, but {_listed(alone)} {_have(alone)} a store of {_own(alone)}: a RAID 0 takes"
            f" nothing in without losing what is there. To have one set over everything, {way}"
        )
    for key in found:
        missing = [uuid for uuid in sets.get(key, ()) if uuid not in here]
        members = [item for item in items if stripes.get(item.uuid) == key]
        if missing:
            yield (
                f"striped set {key} of {host.name} lacks {_listed(missing)}, which no box of this site has: nothing of"
                f" it can be read. Put the namespace back into the inventory; or {way}"
            )
        if host.storage.layout != STRIPED and not {item.uuid for item in members} & custody.settled:
            yield (
                f"{host.name} has striped set {key} of {len(members)} namespaces, and keeps it. To give each of them a"
                f" store of its own, {way}"
            )
        if len({item.size for item in members}) > 1:
            yield (
                f"namespaces of striped set {key} of {host.name} differ in size: the end of the larger ones is striped"
                " over fewer SSDs, and mdadm before 4.2 cannot make such a set"
            )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have each"


def _own(names: Sequence[str]) -> str:
    return "its own" if len(names) == 1 else "their own"
