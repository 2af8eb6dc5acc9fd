"""The stages of a deploy: which plans each applies, to which hosts, and what it waits for. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import STAGES, HostPlan, Plan
from g35ctl.site.model import Site

#: waves of stages that run side by side; a wave starts when the one before it is over
WAVES: tuple[tuple[str, ...], ...] = (
    ("preflight",),
    ("target", "fabric"),
    ("connect",),
    ("storage",),
    ("cache",),
    ("inference",),
    ("validate",),
)
#: stages that change hosts and are remembered in the ledger
APPLIED = ("target", "fabric", "connect", "storage", "cache", "inference")


@dataclass(frozen=True)
class Selection:
    """What a run is limited to."""

    stages: tuple[str, ...]
    hosts: tuple[str, ...]


def stage_plans(host: HostPlan, stage: str) -> tuple[str, ...]:
    """Names of the host's plans that ``stage`` applies; empty when the host takes no part in it.

    A box gets its RoCE settings in stage target, right before its exports, and so takes no part in stage fabric.
    """
    have = host.stages()
    if stage == "preflight":
        return tuple(name for name in have if name != "probe")
    if stage == "validate":
        return tuple(name for name in have if name == "probe")
    if stage == "target":
        if "box" in have:
            return ("box",)
        return tuple(name for name in have if name in ("fabric", "target")) if "target" in have else ()
    if stage == "fabric" and "target" in have:
        return ()
    return tuple(name for name in have if name == stage)


def stage_of(host: HostPlan, plan_name: str) -> str:
    """The stage that applies one of the host's plans: the inverse of :func:`stage_plans`."""
    for stage in APPLIED:
        if plan_name in stage_plans(host, stage):
            return stage
    return "validate" if plan_name == "probe" else "preflight"


def logged_in(plan: Plan, hosts: Collection[str]) -> tuple[str, ...]:
    """Those of ``hosts`` that ssh goes to: all but boxes that are reached through their own interface only."""
    return tuple(host.name for host in plan.hosts if host.name in hosts and set(host.stages()) - {"box"})


def participants(plan: Plan, stage: str) -> tuple[str, ...]:
    """Hosts that take part in a stage, in plan order."""
    return tuple(host.name for host in plan.hosts if stage_plans(host, stage))


def select_stages(first: str, only: Sequence[str], skip: Sequence[str]) -> tuple[str, ...]:
    """Stages to run after ``--from``, ``--only`` and ``--skip``. Raises G35Error (usage) for an unknown name."""
    for name in (*([first] if first else []), *only, *skip):
        if name not in STAGES:
            close = fnmatch.filter(STAGES, name[:1] + "*")
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise G35Error(f"{name!r} is not a stage{hint}", why="stages: " + ", ".join(STAGES), exit_code=Exit.USAGE)
    chosen = [name for name in STAGES if not only or name in only]
    if first:
        # Preflight is cheap and reads only: starting later is no reason to go in blind.
        start = STAGES.index(first)
        chosen = [name for name in chosen if STAGES.index(name) >= start or (name == "preflight" and not only)]
    chosen = [name for name in chosen if name not in skip]
    if not chosen:
        raise G35Error("no stage is left to run", why="--from, --only and --skip exclude all", exit_code=Exit.USAGE)
    return tuple(chosen)


def select_hosts(site: Site, plan: Plan, limit: str) -> tuple[str, ...]:
    """Hosts of the plan that ``--limit`` names: host names, groups and globs joined by commas, ``!`` to leave out.

    Raises G35Error (usage) for a pattern that matches nothing.
    """
    names = [host.name for host in plan.hosts if host.stages()]
    patterns = [item.strip() for item in limit.replace(":", ",").split(",") if item.strip()]
    if not patterns:
        return tuple(names)
    groups = _groups(site)
    wanted = set(names) if all(item.startswith("!") for item in patterns) else set[str]()
    for item in patterns:
        bare = item.lstrip("!")
        everyone = names if bare == "all" else ()
        matched = {*groups.get(bare, ()), *fnmatch.filter(names, bare), *everyone}
        if not matched:
            raise G35Error(
                f"--limit {item}: no host or group of that name takes part in this site",
                why="hosts: " + ", ".join(names[:20]) + (" ..." if len(names) > 20 else ""),
                exit_code=Exit.USAGE,
            )
        wanted = wanted - matched if item.startswith("!") else wanted | matched
    chosen = tuple(name for name in names if name in wanted)
    if not chosen:
        raise G35Error(f"--limit {limit} leaves no host", exit_code=Exit.USAGE)
    return chosen


def _groups(site: Site) -> Mapping[str, Collection[str]]:
    found: dict[str, set[str]] = {}
    for host in site.hosts:
        for group in host.groups:
            found.setdefault(group, set()).add(host.name)
    found.setdefault("cache_owners", {host.name for host in site.group("cache_owners")})
    return found


def waves(stages: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """The chosen stages, grouped as they run."""
    return tuple(found for wave in WAVES if (found := tuple(name for name in wave if name in stages)))
