"""Two samples, one execution each; silent hosts are waited for once; the verb's document and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import tier_sample as tier
from sick import HOSTS, Sick, finding, states
from typer.testing import CliRunner

from g35ctl.cli.main import app
from g35ctl.engine.connections import Connection
from g35ctl.engine.failures import unreachable
from g35ctl.engine.reading import Reading
from g35ctl.engine.run import Failure
from g35ctl.engine.runner import Played
from g35ctl.engine.session import Session
from g35ctl.report.doctor import exit_code, lines, to_json
from g35ctl.validate.doctor import examine as examining
from g35ctl.validate.doctor.diagnose import diagnose
from g35ctl.validate.doctor.examine import examine


class Field:
    """The site: who is silent, what is read, and every reading that was asked for."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.silent: set[str] = set()
        self.asked: list[tuple[str, ...]] = []
        self.slept = 0.0
        self.samples = [states(), states()]
        monkeypatch.setenv("G35_STATE", str(tmp_path / "state"))
        monkeypatch.setattr(examining, "make_plan", lambda inventory: (tier.site(), tier.plan()))
        monkeypatch.setattr(examining, "connections", lambda inventory, hosts: [Connection(h, h) for h in hosts])
        monkeypatch.setattr(examining, "answering", self.answering)
        monkeypatch.setattr(examining, "read_back", self.read_back)
        monkeypatch.setattr(examining, "recorded_stages", lambda inventory, plan: Sick().recorded)

    def answering(self, found: Sequence[Connection]) -> tuple[Failure, ...]:
        return tuple(unreachable("preflight", item.host, "timed out") for item in found if item.host in self.silent)

    def read_back(self, session: Session, hosts: Sequence[str], *, stage: str) -> Reading:
        for host in hosts:
            for name, data in self.samples[len(self.asked)][host].items():
                session.remember(host, name, data)
        self.asked.append(tuple(hosts))
        return Reading(Played(stage, tuple(hosts)), dict.fromkeys(hosts, ()))

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


@pytest.fixture
def field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Field:
    return Field(tmp_path, monkeypatch)


def test_every_host_is_read_once_for_each_sample_and_nothing_is_left_behind(field: Field, tmp_path: Path) -> None:
    case = examine("inventory", 5.0, sleep=field.sleep)
    assert [set(hosts) for hosts in field.asked] == [set(HOSTS), set(HOSTS)]
    assert field.slept == 5.0
    assert diagnose(case) == ()
    assert not (tmp_path / "state").exists()


def test_what_rises_between_the_samples_is_found(field: Field) -> None:
    field.samples[1]["gpu1"]["counters"]["eth1"]["rdma"]["packet_seq_err"] = 3
    (found,) = diagnose(examine("inventory", 1.0, sleep=field.sleep))
    assert found.cause == "sequence.errors"
    assert "packet_seq_err +3" in found.evidence[0]


def test_no_seconds_means_one_sample(field: Field) -> None:
    case = examine("inventory", 0.0, sleep=field.sleep)
    assert len(field.asked) == 1
    assert case.first is case.second
    assert field.slept == 0.0


def test_silent_hosts_are_in_no_sample(field: Field) -> None:
    field.silent = {"gpu2"}
    case = examine("inventory", 1.0, sleep=field.sleep)
    assert all("gpu2" not in hosts for hosts in field.asked)
    found = diagnose(case)
    assert [(item.cause, item.hosts) for item in found] == [("host.unreachable", ("gpu2",))]
    assert exit_code(case, found) == 5


def test_nobody_answers(field: Field) -> None:
    field.silent = set(HOSTS)
    case = examine("inventory", 5.0, sleep=field.sleep)
    assert field.asked == []
    assert field.slept == 0.0
    assert {item.cause for item in diagnose(case)} == {"host.unreachable"}


def test_exit_codes_and_documents() -> None:
    sick = Sick()
    healthy = sick.case()
    assert exit_code(healthy, diagnose(healthy)) == 0
    assert lines(healthy, ())[0].startswith("NOTHING FOUND")
    assert to_json(healthy, ())["ok"] is True
    sick.cut("gpu1", "b")
    sick.findings["gpu1"].append(finding("storage.multipath", "/dev/nvme0n1", "warning"))
    case = sick.case()
    found = diagnose(case)
    assert exit_code(case, found) == 1
    document = json.loads(json.dumps(to_json(case, found)))
    assert document["diagnoses"][0]["cause"] == "rail.cut"
    assert [item["check"] for item in document["failures"]] == ["rail.cut"]
    text = "\n".join(lines(case, found))
    assert "1. ERROR rail.cut: gpu1 is cut off rail b" in text
    assert "ping -I 198.51.100.21 198.51.100.11" in text
    assert max(len(line) for line in text.splitlines()) <= 160


def test_notes_alone_are_no_finding() -> None:
    sick = Sick()
    sick.recorded.clear()
    case = sick.case()
    assert [item.severity for item in diagnose(case)] == ["info"]
    assert exit_code(case, diagnose(case)) == 0


def test_verb_prints_one_document(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    field.samples[0]["gpu2"]["fabric"]["ports"]["eth1"]["tos"] = 0
    arguments = ["-i", "inventory", "-o", "json", "doctor", "--seconds", "0"]
    monkeypatch.setattr(sys, "argv", ["g35ctl", *arguments])  # the verb's module is loaded when it is named there
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1, done.output
    assert [item["cause"] for item in json.loads(done.output)["diagnoses"]] == ["tos.default"]
