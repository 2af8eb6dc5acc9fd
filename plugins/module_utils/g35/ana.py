"""Asymmetric namespace access on a box: through which portal each group of namespaces is best reached.

A group that the kernel makes anew is inaccessible until it is told otherwise, so groups get their state before any
namespace joins them and before a port opens, and they go after the last namespace has left.
"""

from __future__ import annotations

import functools
from typing import Dict, List, Mapping, Sequence

from . import nvmet
from .converge import Change, Finding
from .host import Host
from .plans import Portal, TargetNamespace, TargetPlan

STATES = ("optimized", "non-optimized", "inaccessible", "persistent-loss", "change")
#: the kernel's limit of groups
GROUPS = 128
_OWN = "1"


def wanted(portal: Portal, namespaces: Sequence[TargetNamespace]) -> Dict[str, str]:
    """Each group's state on a port: optimized unless the portal says otherwise."""
    groups = {1} | {item.ana_group for item in namespaces} | {item.group for item in portal.ana}
    told = {item.group: item.state for item in portal.ana}
    return {str(group): told.get(group, "optimized") for group in sorted(groups)}


def additions(
    host: Host, port_id: str, want: Mapping[str, str], have: Mapping[str, str], peers: Sequence[str]
) -> List[Change]:
    """Groups that are missing on a port or say something else. ``peers`` are connected through it."""
    todo = []
    for group, state in want.items():
        if have.get(group, "") == state:
            continue
        cuts = peers and have.get(group) in STATES[:2] and state not in STATES[:2]
        note = "paths through port %s (connected: %s)" % (port_id, ", ".join(peers)) if cuts else ""
        do = functools.partial(nvmet.write_ana_state, host, port_id, group, state)
        todo.append(Change("ana group %s of port %s" % (group, port_id), have.get(group) or "absent", state, do, note))
    return todo


def removals(host: Host, port_id: str, want: Mapping[str, str], have: Mapping[str, str]) -> List[Change]:
    """Groups of a port that nothing is planned for."""
    return [
        Change("ana group %s of port %s" % (group, port_id), have[group], "absent",
               functools.partial(nvmet.remove_ana_group, host, port_id, group))
        for group in have if group not in want and group != _OWN
    ]  # fmt: skip


def plan_findings(plan: TargetPlan) -> List[Finding]:
    """Groups, states and controller identifiers that no kernel takes."""
    found = []
    correct = "correct g35_ebof in the inventory"
    groups = [(item.nqn, item.ana_group) for item in plan.namespaces]
    groups += [("port %d" % portal.port_id, item.group) for portal in plan.portals for item in portal.ana]
    for subject, group in groups:
        if not 1 <= group <= GROUPS:
            found.append(Finding("target.ana", subject, "group %d" % group, "1 to %d" % GROUPS, correct))
    for portal in plan.portals:
        for item in portal.ana:
            if item.state not in STATES:
                found.append(Finding("target.ana", "port %d" % portal.port_id, item.state, ", ".join(STATES), correct))
    ids = plan.controller_ids
    if ids is not None and not 1 <= ids.lowest < ids.highest <= 65519:
        observed = "%d to %d" % (ids.lowest, ids.highest)
        found.append(Finding("target.controller_ids", plan.site, observed, "a range within 1 to 65519", correct))
    return found
