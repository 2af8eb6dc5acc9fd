"""Groups: every host plays a part, and a mistyped group name does not go unnoticed."""

from __future__ import annotations

from difflib import get_close_matches

from g35ctl.site.model import GROUPS
from g35ctl.site.positions import SourceIndex
from g35ctl.site.problems import Problem, did_you_mean
from g35ctl.site.source import RawGroup, RawInventory

_ALWAYS = {"all", "ungrouped"}


def check_groups(raw: RawInventory, index: SourceIndex) -> list[Problem]:
    """Unknown groups that look like known ones or have no effect, and hosts that are in no known group.

    Other groups are the user's own business (racks, rows), as long as their hosts take part through a known one.
    """
    found: list[Problem] = []
    explained: set[str] = set()
    for group in raw.groups.values():
        if group.name in _ALWAYS or group.name in GROUPS or _related(group):
            continue
        idle = {name for name in group.hosts if not _known(raw, name)}
        similar = get_close_matches(group.name, GROUPS, n=1, cutoff=0.8)
        close = [name for name in similar if not _inside(raw, group, name)]
        if idle or close:
            hint = did_you_mean(group.name, GROUPS)
            hosts = tuple(sorted(idle))
            found.append(Problem(f"unknown group {group.name!r}", index.group(group.name), hint, "", hosts))
            explained |= idle
        elif not group.has_variables:
            what = f"group {group.name!r} means nothing to g35ctl and sets no variable"
            found.append(Problem(what, index.group(group.name), did_you_mean(group.name, GROUPS), severity="warning"))
    for host in raw.hosts:
        if host.name not in explained and not set(host.groups) & set(GROUPS):
            what = "the host is in none of the groups that g35ctl knows"
            hint = f"put it in one of {', '.join(GROUPS)}"
            found.append(Problem(what, index.host(host.name), hint, "", (host.name,)))
    return found


def _known(raw: RawInventory, host: str) -> bool:
    return any(host in raw.groups[name].hosts for name in GROUPS if name in raw.groups)


def _related(group: RawGroup) -> bool:
    """A part of a known group, or made of known groups."""
    return bool((group.ancestors | group.descendants) & set(GROUPS))


def _inside(raw: RawInventory, group: RawGroup, name: str) -> bool:
    """True when all its hosts are in the known group anyway: it was not mistyped for it."""
    return bool(group.hosts) and name in raw.groups and group.hosts <= raw.groups[name].hosts
