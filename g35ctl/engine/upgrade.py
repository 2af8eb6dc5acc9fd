"""Upgrading Mooncake on a running tier: one host at a time, each looked at before the next, and back again.

The site says the release (g35_mooncake.version). Environments of releases lie side by side on a host, so that going
back moves a link and restarts services. What was there before is on record (``.g35/upgrade.json``) before anything is
touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import yaml

from g35ctl.engine.batches import RollingDeployment
from g35ctl.engine.deploy import Deployed, DeployOptions
from g35ctl.engine.ledger import read_json, write_atomically
from g35ctl.engine.planning import plan_again
from g35ctl.engine.reading import read_back
from g35ctl.engine.session import Session
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site


@dataclass(frozen=True)
class UpgradePath:
    """One release to another. ``tested`` names what tried it; empty where nothing did."""

    before: str
    after: str
    tested: str = ""
    note: str = ""


def known_paths() -> tuple[UpgradePath, ...]:
    """The table of upgrade paths."""
    text = (resources.files("g35ctl.engine") / "upgrade_paths.yml").read_text(encoding="utf-8")
    return tuple(
        UpgradePath(str(item["from"]), str(item["to"]), str(item.get("tested", "")), str(item.get("note", "")))
        for item in yaml.safe_load(text)["paths"]
    )


@dataclass(frozen=True)
class Step:
    """What a host has and is to have. ``before`` is empty on a host that has no environment yet."""

    host: str
    before: str
    after: str


def steps(plan: Plan, states: Mapping[str, Mapping[str, Any]]) -> tuple[Step, ...]:
    """What an upgrade changes, from what was read of each host; hosts that are where they should be are left out."""
    found = []
    for host in plan.hosts:
        if host.cache is None:
            continue
        runtime = ((states.get(host.name) or {}).get("cache") or {}).get("runtime") or {}
        current = str(runtime.get("current") or "")
        wanted = str(runtime.get("path") or "").rpartition("/")[2]
        if wanted and current != wanted:
            found.append(Step(host.name, current.rpartition("-")[0], host.cache.runtime.version))
    return tuple(found)


def untested(found: Sequence[Step], paths: Sequence[UpgradePath]) -> tuple[str, ...]:
    """The upgrades among ``found`` that no test has tried, in words; a first installation is none."""
    tried = {(path.before, path.after) for path in paths if path.tested}
    notes = {(path.before, path.after): path.note for path in paths}
    return tuple(
        f"{before} to {after}" + (f" ({notes[before, after]})" if notes.get((before, after)) else "")
        for before, after in dict.fromkeys((step.before, step.after) for step in found)
        if before and (before, after) not in tried
    )


class Upgrade:
    """One upgrade, or the way back, of one session."""

    def __init__(self, session: Session, *, consent: bool, allow_untested: bool = False, back: bool = False) -> None:
        self.session = session
        self.consent = consent or session.site.identity.allow_disruptive
        self.allow_untested = allow_untested
        self.back = back
        self.record = session.state / "upgrade.json"
        self.steps: tuple[Step, ...] = ()

    def run(self) -> Deployed | None:
        """Do it; None when every host is where it should be. Raises G35Error (usage) for what must be decided first,
        before anything is touched; not for what goes wrong on hosts."""
        session = self.session
        if self.back:
            session.site = _as_before(session.site, self._recorded())
            session.plan = plan_again(session.inventory, session.site)
            write_atomically(session.folder.plan, session.plan.to_json())
        hosts = tuple(host.name for host in session.plan.hosts if host.cache is not None)
        reading = read_back(session, hosts)
        silent = sorted(set(hosts) - set(reading.findings))
        if silent:
            raise G35Error(
                "nothing was begun: not every host could be read", why=", ".join(silent),
                next_command="g35ctl status", exit_code=Exit.UNREACHABLE,
            )  # fmt: skip
        self.steps = steps(session.plan, session.states)
        if not self.steps:
            return None
        self._decide()
        if not self.back:
            self._write_record()
        for step in self.steps:
            session.display.say(f"{step.host}: Mooncake {step.before or 'not installed'} -> {step.after}")
        names = ",".join(step.host for step in self.steps)
        inference = any(session.plan.host(step.host).inference is not None for step in self.steps)
        only = ("cache", "inference") if inference else ("cache",)
        done = RollingDeployment(
            session, DeployOptions(limit=names, only=only, allow_disruptive=self.consent), "1"
        ).run()
        if done.run.exit_code is Exit.OK and self.back:
            self.record.unlink(missing_ok=True)
        elif done.run.exit_code is Exit.OK:
            write_atomically(self.record, {**self._read_record(), "ended": _now()})
        return done

    def _decide(self) -> None:
        tried = untested(self.steps, known_paths())
        if tried and not self.allow_untested and not self.back:
            raise G35Error(
                "this upgrade was not tested with g35ctl", why="\n".join(tried),
                next_command="read the release's notes, then: g35ctl upgrade --untested", exit_code=Exit.USAGE,
            )  # fmt: skip
        if not self.consent:
            raise G35Error(
                "an upgrade restarts stores and masters, one host at a time",
                why="values of a store that are in memory and not yet on flash are lost with its restart",
                next_command="g35ctl upgrade --allow-disruptive in a maintenance window", exit_code=Exit.USAGE,
            )  # fmt: skip

    def _write_record(self) -> None:
        """Before anything is touched. One that did not end is continued: where it began stays on record."""
        have = self._read_record()
        begun = not have.get("ended") and isinstance(have.get("before"), dict)
        before = {step.host: step.before for step in self.steps if step.before}
        if begun:
            before |= have["before"]
        write_atomically(
            self.record,
            {"before": before, "begun": have["begun"] if begun else _now(), "run": self.session.folder.identifier},
        )

    def _read_record(self) -> dict[str, Any]:
        return read_json(self.record, "record of the upgrade")

    def _recorded(self) -> Mapping[str, str]:
        before = self._read_record().get("before")
        if not isinstance(before, dict) or not before:
            raise G35Error(
                "there is no upgrade to go back from",
                why=f"{self.record} names no release",
                next_command="set g35_mooncake.version to the release before, then g35ctl upgrade",
                exit_code=Exit.USAGE,
            )
        return {str(host): str(version) for host, version in before.items()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _as_before(site: Site, before: Mapping[str, str]) -> Site:
    """The site with the releases that its hosts had."""
    hosts = tuple(
        host.model_copy(update={"mooncake": host.mooncake.model_copy(update={"version": before[host.name]})})
        if host.name in before
        else host
        for host in site.hosts
    )
    return site.model_copy(update={"hosts": hosts})
