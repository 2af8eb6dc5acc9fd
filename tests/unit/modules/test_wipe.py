"""Destroying: only what is ours, only when nothing uses it, only when the site's name was typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.g35 import contents, wipe
from ansible.module_utils.g35.host import Result
from nvme_kernel import MIB, SITE, namespace_uuid, storage_plan
from test_storage import Flash, checks, run, superblock


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


class Used(Flash):
    """Flash with data all over it, on which wipefs erases the signature and nothing else."""

    def __init__(self, root: Path, discards: bool) -> None:
        super().__init__(root)
        self.discards = discards
        self.content(superblock())
        self.write(100 * MIB, b"values" * MIB)
        self.write(self.device().stat().st_size - 4096, b"x" * 4096)

    def write(self, offset: int, data: bytes) -> None:
        with self.device().open("r+b") as handle:
            handle.seek(offset)
            handle.write(data)

    def _wipefs(self, words: list[str]) -> Result:
        self.content(bytes(4))
        return Result(words, 0, "", "")

    def _blkdiscard(self, words: list[str]) -> Result:
        if not self.discards:
            return Result(words, 1, "", "blkdiscard: BLKDISCARD ioctl failed: Operation not supported")
        size = self.device().stat().st_size
        self.device().write_bytes(b"")
        with self.device().open("r+b") as handle:
            handle.truncate(size)
        return Result(words, 0, "", "")


@pytest.mark.parametrize("discards", [True, False])
def test_what_was_wiped_is_free_for_the_next_deploy(tmp_path: Path, discards: bool) -> None:
    used = Used(tmp_path, discards)
    assert not wipe.wipe(used.host, storage_plan(), SITE)["failed"]
    size = used.device().stat().st_size
    assert contents.look(used.host, "/dev/nvme0n1", size).kind == contents.EMPTY
    again = wipe.wipe(used.host, storage_plan(), SITE)
    assert not again["changed"] and not again["findings"]
    outcome = run(used)
    assert not outcome.failed and "-f" not in used.ran("mkfs.xfs")[0], outcome.message


@pytest.mark.parametrize("offset", [4096, 399 * MIB, 400 * MIB - 4096])
def test_what_somebody_wrote_there_since_is_theirs(tmp_path: Path, offset: int) -> None:
    used = Used(tmp_path, discards=False)
    wipe.wipe(used.host, storage_plan(), SITE)
    used.write(offset, b"not yours" * 8192 if offset < 399 * MIB else b"not yours")
    assert "storage.content" in checks(run(used))
    assert not used.ran("mkfs.xfs")
