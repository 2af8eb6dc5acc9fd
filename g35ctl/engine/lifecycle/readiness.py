"""What must be true before an act begins: hosts are as planned, and those that are given more can take it.

An act applies stages with consent. On a host that is not as planned, that consent would also cover whatever else the
inventory has asked of it since.
"""

from __future__ import annotations

from collections.abc import Sequence

from g35ctl.engine.lifecycle.hands import Hands
from g35ctl.engine.lifecycle.heads import heads_of
from g35ctl.engine.session import Session
from g35ctl.engine.stages import APPLIED, stage_plans
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.custody import Custody
from g35ctl.plan.ownership import Candidate
from g35ctl.site.model import Site

_SHOWN = 8


def must_be_as_planned(hands: Hands, hosts: Sequence[str], act: str) -> None:
    """Refuse (G35Error) where a stage of a host was not applied from this very plan; then read the hosts back, which
    raises StepFailed for those that do not hold."""
    differing = [
        f"{name}: {stage}"
        for name in hosts
        for stage in APPLIED
        if stage_plans(hands.plan.host(name), stage)
        and not hands.ledger.matches(hands.plan.host(name), stage, hands.content)
    ]
    if differing:
        more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        raise G35Error(
            f"{act}: the inventory asks for more than was deployed",
            why="not deployed as planned: " + ", ".join(differing[:_SHOWN]) + more,
            next_command="g35ctl deploy, then the same command again",
            exit_code=Exit.PREFLIGHT_FAILED,
        )
    hands.verify(hosts, stage="verify")


def must_fit(hands: Hands, custody: Custody, hosts: Sequence[str]) -> None:
    """Ask hosts whether they can take what ``custody`` gives them: memory, ports, tools. Raises StepFailed."""
    session = hands.session
    session.replan(custody)
    try:
        hands.preflight(hosts)
    finally:
        session.replan()


def candidates(site: Site, custody: Custody) -> tuple[Candidate, ...]:
    """Hosts that can own namespaces, as the planner sees them."""
    names = {rail.name for rail in site.fabric.rails}
    return tuple(
        Candidate(
            host.name, frozenset(port.rail for port in host.ports) & names, frozenset(host.storage.owns),
            host.name not in custody.away,
        )
        for host in site.group("cache_owners")
    )  # fmt: skip


def rails(site: Site) -> dict[str, frozenset[str]]:
    """Rails of each box, those of its further heads included."""
    found: dict[str, frozenset[str]] = {}
    members = {host.name: host.box for host in site.group("ebof") if host.box is not None}
    for name in members:
        heads = [members[item] for item in heads_of(site, name)]
        found[name] = frozenset(portal.rail for box in heads for portal in box.portals)
    return found


def must_be_owner(session: Session, host: str) -> None:
    known = [item.name for item in session.site.group("cache_owners")]
    if host not in known:
        raise G35Error(
            f"{host} is no cache owner of this site", why="owners: " + ", ".join(known[:20]), exit_code=Exit.USAGE
        )


def must_not_be_master(session: Session, host: str) -> None:
    masters = [item.name for item in session.site.group("mooncake_masters")]
    if masters == [host]:
        raise G35Error(
            f"the Mooncake master is on {host}",
            why="without a master there is no pool to give its namespaces to",
            next_command="put another host into group mooncake_masters, deploy it, then the same command again",
            exit_code=Exit.PREFLIGHT_FAILED,
        )


def must_be_away(custody: Custody, host: str) -> None:
    if host not in custody.away:
        out = ", ".join(custody.away) or "none"
        raise G35Error(f"{host} is in service", why=f"hosts out of service: {out}", exit_code=Exit.USAGE)
