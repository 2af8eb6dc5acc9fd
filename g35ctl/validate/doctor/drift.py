"""What is not as it was last applied, and whatever a host found that no other rule told."""

from __future__ import annotations

from collections.abc import Iterator

from g35ctl.engine.stages import APPLIED, stage_plans
from g35ctl.validate.doctor.model import ERROR, INFO, WARNING, Case, Diagnosis, Note, listed

_SETTINGS = tuple(f"fabric.{name}" for name in ("mtu", "pfc", "dscp", "ets", "tos", "carrier", "netdev"))


def planned(case: Case) -> Iterator[Diagnosis]:
    """Stages whose plan is not the one that was last applied (the ledger), once for each stage."""
    if not case.recorded:
        yield Diagnosis(
            "drift.unknown", INFO, "nothing is recorded as applied from this inventory",
            ("there is no ledger beside the inventory",),
            "g35ctl deploy writes it; until then only what hosts show can be judged",
        )  # fmt: skip
        return
    other: list[tuple[str, str]] = []
    never: list[tuple[str, str]] = []
    for host in case.plan.hosts:
        for stage in APPLIED:
            if stage_plans(host, stage):
                holds = case.recorded.get(host.name, {}).get(stage)
                if not holds:
                    (never if holds is None else other).append((host.name, stage))
    if other:
        yield _drift("drift.plan", "last applied from another plan", "the inventory or g35ctl changed since", other)
    if never:
        yield _drift("drift.never_applied", "not recorded as applied", "never applied, or the last try failed", never)


def _drift(cause: str, what: str, why: str, pairs: list[tuple[str, str]]) -> Diagnosis:
    """One diagnosis over all hosts and stages. What differs on those hosts follows from it."""
    stages = list(dict.fromkeys(stage for _, stage in pairs))
    hosts = tuple(dict.fromkeys(name for name, _ in pairs))
    evidence = tuple(
        f"ledger: stage {stage} on {listed(name for name, own in pairs if own == stage)}: {why}" for stage in stages
    )
    return Diagnosis(
        cause, WARNING, f"stage{'s' if len(stages) > 1 else ''} {listed(stages)} on {listed(hosts)}: {what}", evidence,
        "g35ctl plan shows what would change; then: g35ctl deploy", hosts,
        tuple(f"drift/{name}/{stage}" for name, stage in pairs),
        tuple(f"finding/{name}/{stage}.file/*" for name, stage in pairs),
    )  # fmt: skip


def rest(case: Case) -> Iterator[Diagnosis]:
    """Findings of the hosts themselves, once for each check. Those that another diagnosis explains are told there."""
    for severity in (ERROR, WARNING):
        checks: dict[str, list[Note]] = {}
        for note in case.now.notes:
            if note.severity == severity and not _told(case, note):
                checks.setdefault(note.check, []).append(note)
        for check, notes in checks.items():
            # One for each, so that the ranking can take out what is explained; merged afterwards.
            for note in notes:
                yield Diagnosis(
                    f"finding.{check}", severity, f"{check} does not hold on {note.host}: {note.subject}",
                    (f"{note.host}: {note.subject}: {note.observed}, expected {note.expected}",),
                    note.remedy, (note.host,), (note.sign,),
                )  # fmt: skip


def _told(case: Case, note: Note) -> bool:
    """Whether a rule has judged the very reading that this finding is about."""
    by_paths = note.check in ("connect.path", "connect.path_mtu") and note.host in case.now.readings.controllers
    by_settings = note.check in _SETTINGS and note.host in case.now.readings.ports
    return by_paths or by_settings or (note.check == "connect.queues" and note.observed.startswith("queue size"))


def merged(found: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """Findings of one check as one diagnosis."""
    groups: dict[tuple[str, str], list[Diagnosis]] = {}
    for item in found:
        key = (item.cause, item.severity) if item.cause.startswith("finding.") else (item.cause, item.title)
        groups.setdefault(key, []).append(item)
    return tuple(_one(items) for items in groups.values())


def _one(items: list[Diagnosis]) -> Diagnosis:
    first = items[0]
    if len(items) == 1:
        return first
    hosts = tuple(dict.fromkeys(name for item in items for name in item.hosts))
    check = first.cause.removeprefix("finding.")
    evidence = tuple(line for item in items for line in item.evidence)
    more = (f"and {len(evidence) - 6} more",) if len(evidence) > 6 else ()
    return Diagnosis(
        first.cause, first.severity, f"{check} does not hold on {listed(hosts)} ({len(items)} times)",
        (*evidence[:6], *more), first.remedy, hosts, tuple(sign for item in items for sign in item.about),
        first.explains, tuple(dict.fromkeys(title for item in items for title in item.follows)),
    )  # fmt: skip
