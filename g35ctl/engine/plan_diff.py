"""What a deploy would change against what is on record: the ledger, the owners, and the plans of the runs that applied
them. Reads the site's own records, and no host: what changed there behind g35ctl's back is seen by ``deploy --check``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.module_utils.g35.schema import dump

from g35ctl.engine.folder import state_directory
from g35ctl.engine.ledger import Entry, Ledger, content_digest, first_stage_to_apply, read_json
from g35ctl.engine.stages import APPLIED, stage_plans
from g35ctl.plan.digest import NOT_ASKED
from g35ctl.plan.model import DisruptiveStep, HostPlan, Plan

#: what tells the items of a list from each other, in this order
_KEYS = ("uuid", "nqn", "path", "namespace_uuid", "netdev", "address", "name", "host")
NEW, CHANGED, CONTENT, UNKNOWN, FOLLOWS = WHY = ("new", "changed", "content", "unknown", "follows")
"""Why a stage is applied: never applied (or not to its end); asked something else; the same, by other modules or
roles; one of these, but the plan it was applied from is no longer kept; it stands on a stage that is applied."""


@dataclass(frozen=True)
class FieldChange:
    """One value of a stage plan, by its path. Empty: it is not there."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class StageChange:
    """A stage that would be applied to a host, why, and by which run it was applied last (empty when none is known)."""

    host: str
    stage: str
    why: str
    run: str = ""
    time: str = ""
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True)
class NamespaceChange:
    """A namespace whose owner on record is not the planned one. Empty: it has none, or is in no box of the site."""

    uuid: str
    nqn: str
    before: str
    after: str

    @property
    def moves(self) -> bool:
        """Whether data would have to go with it."""
        return bool(self.before and self.after)


@dataclass(frozen=True)
class PlanDiff:
    """Everything that differs. ``hosts_removed`` are on record and in the plan no more: nothing is undone on them."""

    site: str
    first: bool
    hosts_added: tuple[str, ...]
    hosts_removed: tuple[str, ...]
    namespaces: tuple[NamespaceChange, ...]
    stages: tuple[StageChange, ...]
    disruptive: tuple[DisruptiveStep, ...]

    @property
    def pending(self) -> bool:
        """Whether a deploy would have something to apply. What is gone from the plan is not: nothing is done there."""
        return bool(self.stages or any(item.after for item in self.namespaces))

    @property
    def empty(self) -> bool:
        """Whether the plan and what is on record agree in everything."""
        return not (self.stages or self.namespaces or self.hosts_added or self.hosts_removed)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dump(self)


def diff(inventory: str, plan: Plan) -> PlanDiff:
    """What differs. Raises G35Error when a record is damaged."""
    state = state_directory(inventory)
    ledger = Ledger(state / "ledger.json")
    on_record = set(ledger.hosts())
    planned = [host for host in plan.hosts if host.stages()]
    stages = tuple(_stages(planned, ledger, state / "runs"))
    applied = {(item.host, item.stage) for item in stages}
    owners = read_json(state / "ownership.json", "ownership record").get("namespaces", {})
    return PlanDiff(
        site=plan.site,
        first=not on_record,
        hosts_added=tuple(host.name for host in planned if on_record and host.name not in on_record),
        hosts_removed=tuple(sorted(on_record - {host.name for host in planned})),
        namespaces=tuple(_namespaces(plan, owners if isinstance(owners, dict) else {})),
        stages=stages,
        disruptive=tuple(step for step in plan.disruptive if (step.host, step.stage) in applied),
    )


def _namespaces(plan: Plan, owners: Mapping[str, Any]) -> Iterator[NamespaceChange]:
    known = {str(uuid): str(owner) for uuid, owner in owners.items()}
    for item in plan.ownership:
        before = known.pop(item.uuid, "")
        if before != item.owner:
            yield NamespaceChange(item.uuid, item.nqn, before, item.owner)
    for uuid, owner in sorted(known.items()):
        yield NamespaceChange(uuid, "", owner, "")


# --- stages ---------------------------------------------------------------------------------------------------------


def _stages(hosts: Sequence[HostPlan], ledger: Ledger, runs: Path) -> Iterator[StageChange]:
    content = content_digest()
    plans = _Plans(runs)
    for host in hosts:
        holding = [stage for stage in APPLIED if ledger.matches(host, stage, content)]
        first = first_stage_to_apply(host, holding)
        if not first:
            continue
        for stage in APPLIED[APPLIED.index(first) :]:
            if stage_plans(host, stage):
                yield _change(host, stage, ledger.entry(host.name, stage), stage in holding, plans)


def _change(host: HostPlan, stage: str, entry: Entry | None, holds: bool, plans: _Plans) -> StageChange:
    if entry is None:
        return StageChange(host.name, stage, NEW)
    if holds:
        return StageChange(host.name, stage, FOLLOWS, entry.run, entry.time)
    before = plans.host(entry.run, host.name)
    if before is None:
        return StageChange(host.name, stage, UNKNOWN, entry.run, entry.time)
    fields = tuple(
        change
        for name in stage_plans(host, stage)
        for change in _differences(name, before.get(name), dump(getattr(host, name)))
    )
    return StageChange(host.name, stage, CHANGED if fields else CONTENT, entry.run, entry.time, fields)


class _Plans:
    """Plans of past runs as plain data: another release may have written them, so no more is asked of their form."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._read: dict[str, dict[str, Any]] = {}

    def host(self, run: str, name: str) -> dict[str, Any] | None:
        """A host's plans in a run, by name of the plan; None when they are no longer kept."""
        if run not in self._read:
            self._read[run] = self._hosts(run)
        return self._read[run].get(name)

    def _hosts(self, run: str) -> dict[str, Any]:
        if not run or Path(run).name != run:
            return {}
        try:
            data = json.loads((self._runs / run / "plan.json").read_text(encoding="utf-8"))
            return {str(host["name"]): host for host in data["hosts"]}
        except (OSError, ValueError, TypeError, KeyError):
            return {}


def _differences(path: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            if key not in NOT_ASKED:
                yield from _differences(f"{path}.{key}", before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list):
        old, new = _keyed(before), _keyed(after)
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(f"{path}[{key}]", old.get(key), new.get(key))
        if list(old) != list(new) and set(old) == set(new):
            yield FieldChange(path, "the same in another order", "")
    elif before != after:
        yield FieldChange(path, _shown(before), _shown(after))


def _keyed(items: list[Any]) -> dict[str, Any]:
    for key in _KEYS:
        names = [str(item[key]) for item in items if isinstance(item, dict) and item.get(key)]
        if items and len(names) == len(items) == len(set(names)):
            return dict(zip(names, items, strict=True))
    if len(set(map(str, items))) == len(items) and not any(isinstance(item, dict | list) for item in items):
        return {str(item): item for item in items}
    return {str(number): item for number, item in enumerate(items)}


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value.count("\n") > 1:
        return f"{value.count(chr(10))} lines"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
