"""Groups: every host plays a part, and a mistyped group name does not go unnoticed."""

from __future__ import annotations

from difflib import get_close_matches

from g35ctl.site.model import GROUPS
from g35ctl.site.positions import SourceIndex, locate
from g35ctl.site.problems import Problem, did_you_mean
from g35ctl.site.source import RawGroup, RawInventory

_ALWAYS = {"all", "ungrouped"}
SWITCHES = "switches"


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


def misplaced_switches(raw: RawInventory, index: SourceIndex) -> list[Problem]:
    """Switches without ``g35_switch`` or with another part to play, and hosts with a ``g35_switch``."""
    found: list[Problem] = []
    for host in raw.hosts:
        others = sorted(set(host.groups) & (set(GROUPS) - {SWITCHES}))
        if SWITCHES not in host.groups:
            if "g35_switch" in host.variables:
                position = locate(host.variables, ("g35_switch",), key=True) or index.host(host.name)
                hint = f"put the host into group {SWITCHES}, or set g35_switch there only"
                what = f"the host is not in group {SWITCHES}"
                found.append(Problem(what, position, hint, "g35_switch", (host.name,)))
            continue
        if others:
            what = f"a switch is only rendered, but it is also in group {', '.join(others)}"
            hint = f"take it out of {SWITCHES} or out of the others"
            found.append(Problem(what, index.host(host.name), hint, "", (host.name,)))
        if "g35_switch" not in host.variables:
            hint = "g35_switch: {vendor: sonic, ports: [{name: Ethernet0, speed: 100G}]}"
            found.append(Problem("g35_switch is not set", index.host(host.name), hint, "", (host.name,)))
    return found


def _known(raw: RawInventory, host: str) -> bool:
    return any(host in raw.groups[name].hosts for name in GROUPS if name in raw.groups)


def _related(group: RawGroup) -> bool:
    """A part of a known group, or made of known groups."""
    return bool((group.ancestors | group.descendants) & set(GROUPS))


def _inside(raw: RawInventory, group: RawGroup, name: str) -> bool:
    """True when all its hosts are in the known group anyway: it was not mistyped for it."""
    return bool(group.hosts) and name in raw.groups and group.hosts <= raw.groups[name].hosts
