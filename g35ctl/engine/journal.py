"""What a validation changed on the site for a while, written before the change: whoever comes next puts it back.

The serving suite runs the site on other cache paths than its own. The inventory is not touched, so that the original
configuration is what the plan says; the ledger forgets the changed stage first, so that every deploy applies it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from g35ctl.engine.failures import from_event
from g35ctl.engine.folder import RunFolder
from g35ctl.engine.ledger import Ledger, content_digest, read_json, write_atomically
from g35ctl.engine.run import Failure
from g35ctl.engine.runner import Play
from g35ctl.engine.session import Session
from g35ctl.errors import G35Error
from g35ctl.plan.model import Plan

FILE = "journal.json"
STAGE = "cache"


@dataclass(frozen=True)
class Entry:
    """The site is, or may be, on another configuration: which, since when (ISO time), and by which run."""

    path: str
    since: str
    run: str
    hosts: tuple[str, ...]


def read(state: Path) -> Entry | None:
    """What is to be put back, or None. Raises G35Error when the journal is damaged."""
    data = read_json(state / FILE, "journal of a validation")
    if not data:
        return None
    try:
        return Entry(str(data["path"]), str(data["since"]), str(data["run"]), tuple(map(str, data["hosts"])))
    except (KeyError, TypeError) as error:
        raise G35Error(
            "the journal of a validation is damaged",
            why=f"{state / FILE}: {error}",
            next_command="g35ctl deploy --no-resume --allow-disruptive, then delete that file",
        ) from error


def leave(session: Session, plan: Plan, name: str) -> tuple[Failure, ...]:
    """Bring the site to another plan of the same site for a while; the failures of hosts that did not get there.

    ``name`` is the configuration's, in words. Until :func:`put_back` succeeded, the journal says so.
    """
    hosts = _participants(plan)
    entry = Entry(name, datetime.now(UTC).isoformat(timespec="seconds"), session.folder.identifier, hosts)
    # In this order: a crash in between leaves a site that is read as changed although it is not yet.
    write_atomically(session.state / FILE, {"schema_version": 1, **asdict(entry)})
    Ledger(session.state / "ledger.json").forget(hosts, (STAGE,))
    return _apply(session, plan, hosts, name, to_the_end=False)


def put_back(session: Session) -> tuple[Failure, ...]:
    """Bring the site back to its own plan if the journal says that it may not be there; what stood in the way.

    Goes on although the user asked to stop.
    """
    entry = read(session.state)
    if entry is None:
        return ()
    hosts = _participants(session.plan)
    failures = _apply(session, session.plan, hosts, "original", to_the_end=True)
    if failures:
        return failures
    now = datetime.now(UTC).isoformat(timespec="seconds")
    ledger = Ledger(session.state / "ledger.json")
    ledger.record([session.plan.host(name) for name in hosts], STAGE, content_digest(), now, session.folder.identifier)
    (session.state / FILE).unlink(missing_ok=True)
    return ()


def settle(session: Session) -> None:
    """What every locked run does first: put back what a run that was cut off had changed.

    Raises G35Error when that fails, except in a deploy, which applies the stage itself.
    """
    entry = read(session.state)
    if entry is None:
        return
    session.display.say(
        f"run {entry.run} was cut off while the site was on cache path {entry.path} (since {entry.since}): "
        "putting its own configuration back first"
    )
    failures = put_back(session)
    if failures and session.verb != "deploy":
        raise G35Error(
            "the site could not be put back to its own configuration",
            why="; ".join(f"{item.host or 'controller'}: {item.observed}" for item in failures[:3]),
            next_command="mend what is named, then g35ctl deploy --allow-disruptive",
        )


def settled(session: Session, hosts: Sequence[str]) -> None:
    """A deploy applied the stage to these hosts: when it was all of them, nothing is left to put back."""
    entry = read(session.state)
    if entry is not None and set(entry.hosts) <= set(hosts):
        (session.state / FILE).unlink(missing_ok=True)


def _participants(plan: Plan) -> tuple[str, ...]:
    return tuple(host.name for host in plan.hosts if host.cache is not None)


def _apply(session: Session, plan: Plan, hosts: tuple[str, ...], name: str, *, to_the_end: bool) -> tuple[Failure, ...]:
    """Play the stage with that plan, in a folder of its own below the run's: a plan file belongs to a folder."""
    folder = _folder(session, name)
    write_atomically(folder.plan, plan.to_json())
    detour = replace(session, plan=plan, folder=folder)
    consent = {"g35_action": "apply", "g35_allow_disruptive": True}
    session.display.stage_started(STAGE, hosts)
    played = detour.play(Play(STAGE, STAGE, hosts, forks=session.forks, variables=consent), to_the_end=to_the_end)
    failures = [failure for event in played.events for failure in from_event(event)]
    broken = played.controller_failure(str(folder.log(STAGE)))
    failures += [broken] if broken else []
    if not failures and (silent := [host for host in hosts if played.outcomes.get(host) not in ("ok", "changed")]):
        why = "the play was stopped" if played.cancelled else "the play did not reach it"
        failures = [Failure(host, STAGE, "applied", why, "applied", "g35ctl deploy --only cache") for host in silent]
    return tuple(failures)


def _folder(session: Session, name: str) -> RunFolder:
    root = session.folder.path / "switches"
    number = len(list(root.iterdir())) if root.is_dir() else 0
    folder = RunFolder(root / f"{number:03d}-{name}")
    (folder.path / "logs").mkdir(parents=True, mode=0o700)
    return folder
