"""A site that was left on another cache path is put back by whoever comes next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tier_sample

from g35ctl.engine import journal, planning
from g35ctl.engine.ledger import Ledger, content_digest
from g35ctl.engine.opening import open_session
from g35ctl.engine.progress import PlainLines
from g35ctl.engine.runner import Play, Played
from g35ctl.engine.session import Session
from g35ctl.errors import G35Error
from g35ctl.plan.model import Plan


class Listener(PlainLines):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def end(self) -> None: ...

    def stage_started(self, stage: str, hosts: Any) -> None: ...


class Site:
    """Remembers what was played; ``broken`` hosts fail."""

    def __init__(self) -> None:
        self.plays: list[tuple[Mapping[str, Any], bool, bool]] = []
        self.broken: set[str] = set()
        self.crash = False

    def play(self, session: Session, play: Play, *, to_the_end: bool = False) -> Played:
        assert play.playbook == "cache"
        assert play.variables == {"g35_action": "apply", "g35_allow_disruptive": True}
        told = json.loads(session.folder.plan.read_text())
        self.plays.append((told, to_the_end, (session.state / journal.FILE).exists()))
        if self.crash:
            raise KeyboardInterrupt
        outcomes = {host: "failed" if host in self.broken else "changed" for host in play.hosts}
        return Played(play.stage, play.hosts, outcomes, code=2 if self.broken else 0)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("G35_STATE", raising=False)
    monkeypatch.setattr(planning, "make_plan", lambda path: (tier_sample.site(), tier_sample.plan()))
    made = Site()

    def play(self: Session, wanted: Play, **options: Any) -> Played:
        return made.play(self, wanted, **options)

    monkeypatch.setattr(Session, "play", play)
    return made


def hosts_of(plan: Plan) -> list[Any]:
    return [host for host in plan.hosts if host.cache is not None]


def other_plan() -> Plan:
    data = tier_sample.plan().to_json()
    data["warnings"] = ["another configuration"]
    return Plan.from_json(data)


def test_leaving_and_coming_back(site: Site, tmp_path: Path) -> None:
    with open_session(str(tmp_path), "validate", Listener()) as session:
        hosts = hosts_of(session.plan)
        ledger = Ledger(session.state / "ledger.json")
        ledger.record(hosts, "cache", content_digest(), "now", "run")
        assert journal.leave(session, other_plan(), "memory") == ()
        entry = journal.read(session.state)
        assert entry is not None and entry.path == "memory" and entry.hosts == tuple(host.name for host in hosts)
        # A deploy must not believe that the stage holds.
        assert not any(Ledger(ledger.path).matches(host, "cache", content_digest()) for host in hosts)
        assert journal.put_back(session) == ()
        assert journal.read(session.state) is None
        assert all(Ledger(ledger.path).matches(host, "cache", content_digest()) for host in hosts)
    assert [told["warnings"] for told, _, _ in site.plays] == [["another configuration"], []]
    assert [to_the_end for _, to_the_end, _ in site.plays] == [False, True]
    assert all(written for _, _, written in site.plays)


def test_nothing_to_put_back(site: Site, tmp_path: Path) -> None:
    with open_session(str(tmp_path), "validate", Listener()) as session:
        assert journal.put_back(session) == ()
    assert site.plays == []


def test_a_crash_in_the_middle_is_mended_by_the_next_command(site: Site, tmp_path: Path) -> None:
    site.crash = True
    with pytest.raises(KeyboardInterrupt), open_session(str(tmp_path), "validate", Listener()) as session:
        journal.leave(session, other_plan(), "local")
    site.crash = False
    listener = Listener()
    with open_session(str(tmp_path), "validate", listener) as session:
        assert journal.read(session.state) is None
    assert any("cache path local" in line for line in listener.said)
    assert site.plays[-1][0]["warnings"] == []


def test_what_cannot_be_put_back_is_told_and_stays_on_record(site: Site, tmp_path: Path) -> None:
    with open_session(str(tmp_path), "validate", Listener()) as session:
        journal.leave(session, other_plan(), "local")
    site.broken = {"gpu1"}
    with pytest.raises(G35Error, match="could not be put back"), open_session(str(tmp_path), "validate", Listener()):
        pass
    # A deploy is what mends it: it is let in, and the journal is closed by it alone.
    with open_session(str(tmp_path), "deploy", Listener()) as session:
        entry = journal.read(session.state)
        assert entry is not None
        journal.settled(session, entry.hosts[:-1])
        assert journal.read(session.state) is not None
        journal.settled(session, entry.hosts)
        assert journal.read(session.state) is None


def test_a_host_that_the_play_did_not_reach_counts(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def play(self: Session, wanted: Play, **_: Any) -> Played:
        return Played(wanted.stage, wanted.hosts, dict.fromkeys(wanted.hosts[1:], "ok"))

    monkeypatch.setattr(Session, "play", play)
    with open_session(str(tmp_path), "validate", Listener()) as session:
        failures = journal.leave(session, other_plan(), "local")
        assert [item.host for item in failures] == [hosts_of(session.plan)[0].name]


def test_a_damaged_journal_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / journal.FILE).write_text('{"path": "local"}')
    with pytest.raises(G35Error) as caught:
        journal.read(tmp_path)
    assert "deploy" in str(caught.value.next_command)
