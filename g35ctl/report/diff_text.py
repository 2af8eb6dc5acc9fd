"""What a deploy would change, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from g35ctl.engine.plan_diff import CHANGED, CONTENT, FOLLOWS, NEW, UNKNOWN, PlanDiff
from g35ctl.report.sections import Section, listed

_WHY = {
    NEW: "not applied yet",
    CHANGED: "the plan asks something else",
    CONTENT: "g35ctl's own modules or roles changed",
    UNKNOWN: "changed since a run whose plan is no longer kept",
    FOLLOWS: "stands on a stage that is applied",
}
_SHOWN_FIELDS = 12


def diff_sections(found: PlanDiff) -> tuple[Section, ...]:
    """Everything that differs; one line when nothing does."""
    every = [
        Section("Against what is on record (no host was asked)", (), tuple((line,) for line in _headline(found))),
        Section(
            "Namespaces", ("namespace", "subsystem", "owner on record", "planned owner", ""),
            tuple(
                (
                    item.uuid, item.nqn or "in no box of this site", item.before or "none", item.after or "none",
                    "moves: an explicit act, a deploy refuses it" if item.moves else "",
                )
                for item in found.namespaces
                if item.before
            ),
        ),
        Section("Stages to apply", ("stage", "why", "hosts", "names"), tuple(_stages(found)), frozenset({"hosts"})),
        Section("Values that change", ("where", "before", "after"), tuple(_fields(found))),
        Section(
            "Disruptive steps (need --allow-disruptive where they hit something live)", (),
            tuple(_disruptive(found)),
        ),
    ]  # fmt: skip
    return tuple(section for section in every if section.rows)


def _headline(found: PlanDiff) -> Iterator[str]:
    if found.empty:
        yield f"site {found.site}: nothing to apply"
        return
    if found.first:
        yield f"site {found.site}: nothing was deployed yet"
    hosts = {item.host for item in found.stages}
    yield f"to apply: {len(found.stages)} stages on {len(hosts)} hosts"
    first = Counter(item.after for item in found.namespaces if not item.before)
    if first:
        owners = listed(f"{owner} {count}" for owner, count in sorted(first.items()))
        yield f"namespaces that get their first owner: {sum(first.values())} ({owners})"
    if found.hosts_added:
        yield f"hosts added: {listed(found.hosts_added)}"
    if found.hosts_removed:
        yield f"on record and in the plan no more: {listed(found.hosts_removed)}; a deploy undoes nothing there"


def _stages(found: PlanDiff) -> Iterator[tuple[str, ...]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for item in found.stages:
        groups.setdefault((item.stage, item.why), []).append(item.host)
    for (stage, why), hosts in groups.items():
        yield stage, _WHY[why], str(len(hosts)), listed(hosts)


def _disruptive(found: PlanDiff) -> Iterator[tuple[str, ...]]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for step in found.disruptive:
        groups.setdefault((step.stage, step.what, step.interrupts), []).append(step.host)
    for (stage, what, interrupts), hosts in groups.items():
        yield (f"{stage} on {listed(hosts)}: {what}; interrupts {interrupts}",)


def _fields(found: PlanDiff) -> Iterator[tuple[str, ...]]:
    """Each change once with its hosts: forty hosts that get the same new value make one line."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for item in found.stages:
        for field in item.fields:
            groups.setdefault((field.path, field.before, field.after), []).append(item.host)
    for place, ((path, before, after), hosts) in enumerate(groups.items()):
        if place == _SHOWN_FIELDS:
            yield f"and {len(groups) - place} more (-o json shows all)", "", ""
            return
        yield f"{listed(hosts)}: {path}", _cut(before), _cut(after)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
