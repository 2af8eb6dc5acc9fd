"""All rules on one case, in order of depth: what may explain another comes first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from g35ctl.validate.doctor import access, contract, counters, drift, engines, pool, reach
from g35ctl.validate.doctor.model import Case, Diagnosis
from g35ctl.validate.doctor.ranking import rank

Rule = Callable[[Case], Iterable[Diagnosis]]

RULES: tuple[Rule, ...] = (
    reach.unreachable,
    reach.links,
    reach.rails,
    access.identities,
    access.exports,
    contract.settings,
    contract.way_mtu,
    counters.judge,
    access.controllers,
    access.queues,
    pool.hands,
    pool.mounts,
    pool.master,
    pool.stores,
    engines.standing,
    drift.planned,
    drift.rest,
)


def diagnose(case: Case) -> tuple[Diagnosis, ...]:
    """Causes, worst first; what follows from another one is told with it."""
    return drift.merged(rank(item for rule in RULES for item in rule(case)))
