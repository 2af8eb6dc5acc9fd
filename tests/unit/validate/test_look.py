"""A look at a site leaves nothing behind and judges only what came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tier_sample as tier
import tier_states

from g35ctl.engine.reading import Reading
from g35ctl.engine.runner import Played
from g35ctl.engine.session import Session
from g35ctl.validate import look as looking
from g35ctl.verdict import Grade


def test_look_reads_every_host_once_without_lock_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("G35_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(looking, "make_plan", lambda inventory: (tier.site(), tier.plan()))
    used: list[Path] = []

    def read_back(session: Session, hosts: Any) -> Reading:
        assert set(hosts) == {"ebof1", "gpu1", "gpu2"}
        assert session.folder.plan.is_file()
        used.append(session.folder.path)
        for host, state in tier_states.states().items():
            for stage, data in state.items():
                session.remember(host, stage, data)
        return Reading(Played("verify", tuple(hosts)), dict.fromkeys(hosts, ()))

    monkeypatch.setattr(looking, "read_back", read_back)
    found = looking.look("inventory")
    assert {item.grade for item in found.verdicts} == {Grade.PASS}
    assert not found.readings.problems
    assert len(used) == 1
    assert not used[0].exists()
    assert not (tmp_path / "state").exists()
