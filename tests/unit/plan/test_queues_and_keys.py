"""Queues fit the budget of a host, and a plan knows keys by file and digest only."""

from __future__ import annotations

import json
import shutil

import pytest
from ansible.module_utils.g35 import dhchap
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.content import content_root
from g35ctl.engine.planning import make_plan
from g35ctl.plan.connect import io_queues
from g35ctl.site.keys import key_problem
from g35ctl.site.model import Nvme
from g35ctl.site.problems import SiteInvalid


@given(st.integers(1, 128), st.integers(1, 400), st.integers(2, 8192))
def test_queue_pairs_stay_within_the_budget_where_one_queue_each_does(asked: int, paths: int, budget: int) -> None:
    queues = io_queues(Nvme(io_queues=asked, queue_pair_budget=budget), paths)
    assert 1 <= queues <= asked
    assert queues == 1 or paths * (queues + 1) <= budget
    assert queues == asked or paths * (queues + 2) > budget


def test_a_box_with_24_ssds_and_a_host_with_128_cpus() -> None:
    assert io_queues(Nvme(io_queues=128), 24 * 2) == 20
    assert io_queues(Nvme(io_queues=16), 24 * 2) == 16


@pytest.fixture
def authenticated(tmp_path):
    site = tmp_path / "site"
    shutil.copytree(
        content_root() / "inventories" / "lab", site, ignore=shutil.ignore_patterns(".lab", ".g35", "lab_*")
    )
    variables = site / "group_vars" / "all.yml"
    variables.write_text(variables.read_text().replace("g35_nvme:\n", "g35_nvme:\n  authentication: {mode: dhchap}\n"))
    (site / ".keys").mkdir(mode=0o700)
    for name in ("gpu1", "gpu2"):
        key = site / ".keys" / f"{name}.key"
        key.write_text(dhchap.generate() + "\n")
        key.chmod(0o600)
    return site


def test_the_plan_names_the_key_of_each_owner_at_both_ends_and_holds_none(authenticated) -> None:
    _, plan = make_plan(str(authenticated))
    keys = {name: (authenticated / ".keys" / f"{name}.key").read_text().strip() for name in ("gpu1", "gpu2")}
    target = plan.host("ebof1").target
    assert target is not None
    assert {item.digest for item in target.authentication} == {dhchap.digest(key) for key in keys.values()}
    for name, key in keys.items():
        connect = plan.host(name).connect
        assert connect is not None and connect.authentication in target.authentication
        assert key not in json.dumps(plan.to_json())


def test_a_new_key_is_something_to_apply_and_a_moved_file_is_not(authenticated) -> None:
    before = make_plan(str(authenticated))[1]
    moved = authenticated.rename(authenticated.parent / "moved")
    assert make_plan(str(moved))[1].digest == before.digest
    (moved / ".keys" / "gpu1.key").write_text(dhchap.generate())
    assert make_plan(str(moved))[1].digest != before.digest


def test_keys_that_cannot_be_used_are_told_all_at_once_and_never_shown(authenticated) -> None:
    (authenticated / ".keys" / "gpu1.key").chmod(0o644)
    other = authenticated / ".keys" / "gpu2.key"
    key = other.read_text()[:-8]
    other.write_text(key)
    with pytest.raises(SiteInvalid) as caught:
        make_plan(str(authenticated))
    text = "\n".join(f"{item.what} {item.hint}" for item in caught.value.problems)
    assert "chmod 600" in text and "holds no usable key" in text and key not in text


def test_two_hosts_never_share_a_key(authenticated) -> None:
    (authenticated / ".keys" / "gpu2.key").write_text((authenticated / ".keys" / "gpu1.key").read_text())
    with pytest.raises(SiteInvalid) as caught:
        make_plan(str(authenticated))
    assert any("also that of gpu1" in item.what for item in caught.value.problems)


def test_a_missing_key_file_comes_with_the_command_that_makes_one(tmp_path) -> None:
    what, hint = key_problem(tmp_path / "gpu1.key")
    assert "there is no key file" in what and "gen-dhchap-key" in hint
