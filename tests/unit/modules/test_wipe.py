"""Destroying: only what is ours, only when nothing uses it, only when the site's name was typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.g35 import wipe
from nvme_kernel import SITE, namespace_uuid, storage_plan
from test_storage import Flash, superblock


@pytest.fixture
def flash(tmp_path: Path) -> Flash:
    made = Flash(tmp_path)
    made.content(superblock())
    return made


def wiped(flash: Flash) -> list[list[str]]:
    return flash.ran("wipefs")


def test_ours_is_wiped(flash: Flash) -> None:
    result = wipe.wipe(flash.host, storage_plan(), SITE)
    assert not result["failed"] and result["changed"]
    assert wiped(flash) == [["wipefs", "--all", "--force", "/dev/nvme0n1"]]


def test_a_check_says_so_and_wipes_nothing(flash: Flash) -> None:
    result = wipe.wipe(flash.host, storage_plan(), SITE, check=True)
    assert result["changed"] and not wiped(flash)


def test_another_name_destroys_nothing(flash: Flash) -> None:
    result = wipe.wipe(flash.host, storage_plan(), "other")
    assert result["failed"] and not wiped(flash)


def test_what_is_mounted_is_left(flash: Flash) -> None:
    flash.mount("nvme0n1", f"/flash/{namespace_uuid(0)}")
    result = wipe.wipe(flash.host, storage_plan(), SITE)
    assert result["failed"] and "used by" in result["msg"] and not wiped(flash)


def test_what_g35ctl_did_not_make_is_left(flash: Flash) -> None:
    flash.content(superblock(site="another"))
    result = wipe.wipe(flash.host, storage_plan(), SITE)
    assert not wiped(flash) and not result["changed"]
    assert result["findings"][0]["check"] == "wipe.content"
