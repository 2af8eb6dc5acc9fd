"""Keys are made where they are missing and rotated on a running tier: one host at a time, the old one kept until the
new one is proven, and no crash ever loses the key that is in force."""

from __future__ import annotations

import io
import json
import shutil
import stat
import sys
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from ansible.module_utils.g35 import dhchap
from hypothesis import given, settings
from hypothesis import strategies as st

from g35ctl.cli import main as cli
from g35ctl.content import content_root
from g35ctl.engine import folder, keyfiles
from g35ctl.engine.events import TaskEvent
from g35ctl.engine.planning import make_plan
from g35ctl.engine.rotation import Rotation
from g35ctl.engine.run import Run
from g35ctl.engine.runner import Play, Played
from g35ctl.engine.session import Session
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import Plan
from g35ctl.site.keys import read_key

HOSTS = ("gpu1", "gpu2")


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """The lab's inventory with authentication asked for and no key made yet."""
    site = tmp_path / "site"
    shutil.copytree(
        content_root() / "inventories" / "lab", site, ignore=shutil.ignore_patterns(".lab", ".g35", "lab_*", ".keys")
    )
    variables = site / "group_vars" / "all.yml"
    variables.write_text(
        variables.read_text().replace(
            "g35_nvme:\n",
            "g35_nvme:\n  authentication: {mode: dhchap, controller_key_file: '.keys/{host}.box'}\n",
        )
    )
    return site


def g35(inventory: Path, *words: str) -> tuple[int, dict[str, Any]]:
    out = io.StringIO()
    argv = ["g35ctl", "-i", str(inventory), "-o", "json", *words]
    with (
        patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(io.StringIO()),
        pytest.raises(SystemExit) as ended,
    ):  # fmt: skip
        cli.main()
    return int(ended.value.code or 0), json.loads(out.getvalue())


def key(inventory: Path, name: str) -> str:
    return read_key(inventory / ".keys" / name)


# Making and listing


def test_missing_keys_are_made_private_and_whole_and_never_again(inventory: Path) -> None:
    code, told = g35(inventory, "secrets", "list")
    assert code == 1 and {item["condition"] for item in told["secrets"]} == {"missing"}
    code, told = g35(inventory, "secrets", "init")
    assert code == 0 and len(told["made"]) == 4
    files = sorted((inventory / ".keys").glob("gpu*"))
    assert [path.name for path in files] == ["gpu1.box", "gpu1.key", "gpu2.box", "gpu2.key"]
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert dhchap.problem(read_key(path)) == ""
    assert stat.S_IMODE((inventory / ".keys").stat().st_mode) == 0o700
    before = {path: path.read_bytes() for path in files}
    assert g35(inventory, "secrets", "init")[1]["made"] == []
    assert {path: path.read_bytes() for path in files} == before
    code, told = g35(inventory, "secrets", "list")
    assert code == 0
    assert {item["digest"] for item in told["secrets"]} == {dhchap.digest(read_key(path)) for path in files}
    assert not any(read_key(path) in json.dumps(told) for path in files)
    make_plan(str(inventory))


def test_a_key_that_others_can_read_is_listed_with_the_remedy(inventory: Path) -> None:
    g35(inventory, "secrets", "init")
    (inventory / ".keys" / "gpu1.key").chmod(0o644)
    code, told = g35(inventory, "secrets", "list")
    assert code == 1
    assert [(item["host"], item["check"]) for item in told["failures"]] == [("gpu1", "secrets.unusable")]
    assert "chmod 600" in told["failures"][0]["remedy"]


def test_a_broken_site_is_told_even_where_keys_are_missing(inventory: Path) -> None:
    variables = inventory / "group_vars" / "all.yml"
    variables.write_text(variables.read_text().replace("mtu: 4200", "mtu: many"))
    code, told = g35(inventory, "secrets", "init")
    assert code == Exit.SITE_INVALID and "many" in json.dumps(told) and "no key file" not in json.dumps(told)
    assert not (inventory / ".keys").exists()


def test_encrypted_keys_are_read_planned_and_stay_encrypted(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible.constants import config
    from ansible.parsing.vault import VaultSecret, VaultSecretsContext

    assert config is not None
    secrets = VaultSecretsContext([("default", VaultSecret(b"open sesame"))])
    monkeypatch.setattr(VaultSecretsContext, "_current", secrets)
    code, told = g35(inventory, "secrets", "init", "--vault")
    assert code == 0 and len(told["made"]) == 4
    path = inventory / ".keys" / "gpu1.key"
    assert path.read_bytes().startswith(b"$ANSIBLE_VAULT;")
    assert {item["kept"] for item in g35(inventory, "secrets", "list")[1]["secrets"]} == {"vault"}
    connect = make_plan(str(inventory))[1].host("gpu1").connect
    assert connect is not None and connect.authentication is not None
    assert connect.authentication.digest == dhchap.digest(read_key(path))
    before = read_key(path)
    keyfiles.replace(path)
    assert path.read_bytes().startswith(b"$ANSIBLE_VAULT;") and read_key(path) != before
    monkeypatch.setattr(VaultSecretsContext, "_current", None)
    code, told = g35(inventory, "secrets", "list")
    assert code == 1 and "no vault secret opens it" in told["failures"][0]["observed"]


# Replacing a file


class Crash(BaseException):
    pass


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.sampled_from(["replace", "go_back", "settle"]), max_size=6), crash=st.integers(0, 12))
def test_no_crash_loses_the_key_in_force(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], crash: int
) -> None:
    path = tmp_path_factory.mktemp("keys") / "gpu1.key"
    keyfiles.create(path)
    in_force = {read_key(path)}  # a box may have this one, or the one that is about to be brought to it
    left = crash
    real = Path.replace

    def fragile(self: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash
        return real(self, target)

    with pytest.MonkeyPatch.context() as fragile_files:
        fragile_files.setattr(Path, "replace", fragile)
        try:
            for step in steps:
                rotating = keyfiles.is_rotating(path)
                if step == "replace" and not rotating:
                    in_force = {read_key(path)}
                    keyfiles.replace(path)
                elif step == "go_back" and rotating:
                    in_force = {read_key(path), read_key(keyfiles.previous_of(path))}
                    keyfiles.go_back(path)
                elif step == "settle":
                    in_force = {read_key(path)}
                    keyfiles.settle(path)
        except Crash:
            pass
    keyfiles.is_rotating(path)
    kept = {read_key(item) for item in (path, keyfiles.previous_of(path)) if item.exists()}
    assert in_force <= kept
    assert all(
        stat.S_IMODE(item.stat().st_mode) == 0o600 for item in (path, keyfiles.previous_of(path)) if item.exists()
    )


# Rotating


class Tier:
    """A box and two hosts that keep keys: what a play brings about, and what verify then reads.

    ``stuck`` are hosts whose controllers refuse a new key; ``forgetful`` are boxes that keep the old one beside it.
    """

    def __init__(self, inventory: Path) -> None:
        self.inventory = inventory
        self.box: dict[str, str] = {}
        self.hosts: dict[str, str] = {}
        self.stuck: set[str] = set()
        self.down: set[str] = set()
        self.forgetful = False
        self.order: list[tuple[str, str]] = []
        self.session: Session | None = None
        plan = make_plan(str(inventory))[1]
        self.take(plan, "target", ("ebof1",))
        self.take(plan, "connect", HOSTS)
        self.order.clear()

    def rotation(self, *, back: bool = False, hosts: tuple[str, ...] = HOSTS) -> tuple[Run, Rotation]:
        state = self.inventory / ".g35"
        site, plan = make_plan(str(self.inventory))
        run = folder.create(state, "rotate")
        session = Session(
            str(self.inventory),
            "rotate",
            site,
            plan,
            state,
            run,
            Quiet(),
            Never(),
            datetime.now(UTC),  # type: ignore[arg-type]
        )
        self.session = session
        session.play = self.play  # type: ignore[method-assign]
        made = Rotation(session, hosts, back=back)
        return made.run(), made

    def take(self, plan: Plan, stage: str, hosts: tuple[str, ...]) -> set[str]:
        """Bring a stage about; returns the hosts on which it failed."""
        failed = set()
        for name in hosts:
            self.order.append((stage, name))
            host = plan.host(name)
            if stage == "target" and host.target is not None:
                self.box = {item.host_nqn: item.digest for item in host.target.authentication}
            elif host.connect is not None and host.connect.authentication is not None:
                wanted = host.connect.authentication
                if name in self.stuck or self.box[wanted.host_nqn] != wanted.digest:
                    failed.add(name)
                else:
                    self.hosts[name] = wanted.digest
        return failed

    def play(self, play: Play) -> Played:
        assert self.session is not None
        plan = self.session.plan
        played = Played(play.stage, play.hosts)
        failed = self.take(plan, play.stage, play.hosts) if play.stage != "verify" else set()
        for name in play.hosts:
            findings = self.findings(plan, name) if play.stage == "verify" or name in failed else []
            played.take(
                TaskEvent(
                    play.stage, name, "task", "g35_verify" if play.stage == "verify" else f"g35_{play.stage}",
                    "failed" if findings else "ok", not findings, 1, findings=tuple(findings), state=self.state(name),
                )
            )  # fmt: skip
        return played

    def findings(self, plan: Plan, name: str) -> list[dict[str, str]]:
        connect = plan.host(name).connect
        if connect is None or connect.authentication is None:
            return []
        if name in self.down or self.hosts[name] != connect.authentication.digest:
            return [
                {"stage": "connect", "check": "connect.path", "severity": "error", "subject": "p", "observed": "down",
                 "expected": "live", "remedy": "r"}
            ]  # fmt: skip
        return []

    def state(self, name: str) -> dict[str, Any]:
        if name == "ebof1":
            old = {"nqn.old": [self.old]} if self.forgetful else {}
            return {"target": {"keys": {**{nqn: [item] for nqn, item in self.box.items()}, **old}}}
        return {"connect": {"keys": {"kept": [self.hosts[name]], "controllers": {"nvme0": [self.hosts[name]]}}}}

    old = ""


class Quiet:
    def begin(self, title: str, stages: object, hosts: object) -> None: ...
    def stage_started(self, stage: str, hosts: object) -> None: ...
    def task(self, event: object) -> None: ...
    def stage_ended(self, result: object) -> None: ...
    def say(self, text: str) -> None: ...
    def end(self) -> None: ...


class Never:
    def requested(self) -> bool:
        return False


@pytest.fixture
def tier(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> Tier:
    from g35ctl.engine import deploy, planning

    monkeypatch.setattr(deploy, "content_digest", lambda: "content")
    monkeypatch.setattr(planning, "content_digest", lambda: "content")
    monkeypatch.delenv("G35_STATE", raising=False)
    g35(inventory, "secrets", "init")
    return Tier(inventory)


def test_each_host_gets_a_new_key_box_first_and_the_old_ones_are_gone(tier: Tier) -> None:
    before = {name: key(tier.inventory, f"{name}.key") for name in HOSTS}
    run, rotation = tier.rotation()
    assert run.exit_code is Exit.OK, run.failures
    assert [(item.host, item.done) for item in rotation.rotated] == [("gpu1", True), ("gpu2", True)]
    assert tier.order == [("target", "ebof1"), ("connect", "gpu1"), ("target", "ebof1"), ("connect", "gpu2")]
    for name in HOSTS:
        after = key(tier.inventory, f"{name}.key")
        assert after != before[name] and tier.hosts[name] == dhchap.digest(after)
    assert not list((tier.inventory / ".keys").glob("*.previous"))
    assert dhchap.digest(before["gpu1"]) not in json.dumps([tier.box, tier.hosts])


def test_a_host_with_a_path_down_keeps_its_key_and_stops_the_rest(tier: Tier) -> None:
    tier.down.add("gpu1")
    before = {name: key(tier.inventory, f"{name}.key") for name in HOSTS}
    run, _ = tier.rotation()
    assert run.exit_code is Exit.DEPLOY_FAILED and tier.order == []
    assert {name: key(tier.inventory, f"{name}.key") for name in HOSTS} == before
    assert any("every path is live" in item.remedy for item in run.failures)


def test_a_rotation_that_stopped_is_continued_with_the_same_key(tier: Tier) -> None:
    old = key(tier.inventory, "gpu1.key")
    tier.stuck.add("gpu1")
    run, _ = tier.rotation()
    assert run.exit_code is Exit.DEPLOY_FAILED and ("connect", "gpu2") not in tier.order
    new = key(tier.inventory, "gpu1.key")
    assert new != old and key(tier.inventory, "gpu1.key.previous") == old
    tier.stuck.clear()
    run, _ = tier.rotation(hosts=("gpu1",))
    assert run.exit_code is Exit.OK, run.failures
    assert key(tier.inventory, "gpu1.key") == new and tier.hosts["gpu1"] == dhchap.digest(new)
    assert not list((tier.inventory / ".keys").glob("*.previous"))


def test_a_rotation_that_stopped_can_be_taken_back(tier: Tier) -> None:
    old = key(tier.inventory, "gpu1.key")
    tier.stuck.add("gpu1")
    tier.rotation(hosts=("gpu1",))
    tier.stuck.clear()
    run, rotation = tier.rotation(back=True)
    assert run.exit_code is Exit.OK, run.failures
    assert key(tier.inventory, "gpu1.key") == old and tier.hosts["gpu1"] == dhchap.digest(old)
    assert [item.host for item in rotation.rotated] == ["gpu1"]
    assert not list((tier.inventory / ".keys").glob("*.previous"))


def test_an_old_key_that_is_still_in_force_somewhere_is_told_and_kept(tier: Tier) -> None:
    tier.old = dhchap.digest(key(tier.inventory, "gpu1.key"))
    tier.forgetful = True
    run, _ = tier.rotation(hosts=("gpu1",))
    assert run.exit_code is Exit.DEPLOY_FAILED
    assert any("still in force on ebof1" in item.observed for item in run.failures)
    assert (tier.inventory / ".keys" / "gpu1.key.previous").exists()


def test_boxes_that_g35ctl_gives_no_keys_to_are_named_before_anything_is_done(tier: Tier) -> None:
    box = tier.inventory / "host_vars" / "ebof1.yml"
    box.write_text(box.read_text().replace("driver: nvmet", "driver: static"))
    before = key(tier.inventory, "gpu1.key")
    with pytest.raises(G35Error, match="does not set keys on ebof1") as caught:
        tier.rotation()
    assert caught.value.exit_code is Exit.USAGE and key(tier.inventory, "gpu1.key") == before


def test_no_key_is_ever_in_the_run_folder(tier: Tier) -> None:
    before = [read_key(path) for path in (tier.inventory / ".keys").glob("gpu*")]
    tier.rotation()
    secrets = before + [read_key(path) for path in (tier.inventory / ".keys").glob("gpu*")]
    for path in (tier.inventory / ".g35").rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not [item for item in secrets if item in text], path
    assert list((tier.inventory / ".g35" / "runs").iterdir())
