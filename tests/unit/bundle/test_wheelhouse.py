"""A wheelhouse: complete or not, altered or not, made once."""

from __future__ import annotations

import json
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from g35ctl.bundle import wheelhouse
from g35ctl.bundle.manifest import MANIFEST
from g35ctl.errors import G35Error

NAME = "mooncake-transfer-engine-non-cuda"
VERSION = "0.3.13.post1"
MOONCAKE = "mooncake_transfer_engine_non_cuda-0.3.13.post1-cp311-cp311-manylinux_2_28_x86_64.whl"


def make_wheel(path: Path, metadata: str = "Name: x\nLicense-Expression: Apache-2.0\n") -> None:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{path.name.split('-')[0]}.dist-info/METADATA", metadata)


class Pip:
    """Downloads what it is told; counts how often it was asked."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.calls: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> None:
        self.calls.append(list(arguments))
        target = Path(arguments[arguments.index("--dest") + 1])
        for name in self.names:
            make_wheel(target / name)


@pytest.fixture
def pip() -> Pip:
    return Pip(MOONCAKE, "pip-26.0-py3-none-any.whl", "requests-2.34.2-py3-none-any.whl")


def test_a_complete_wheelhouse_is_made_once_and_needs_no_index_again(tmp_path: Path, pip: Pip) -> None:
    made = wheelhouse.create(tmp_path, NAME, VERSION, pip=pip)
    assert [entry.licence for entry in made.wheels] == ["Apache-2.0"] * 3
    assert wheelhouse.create(tmp_path, NAME, VERSION, pip=pip) == made
    assert len(pip.calls) == 1
    assert "--only-binary=:all:" in pip.calls[0]
    assert not list(tmp_path.glob(".download-*"))


def test_a_lost_wheel_is_fetched_again(tmp_path: Path, pip: Pip) -> None:
    wheelhouse.create(tmp_path, NAME, VERSION, pip=pip)
    (tmp_path / MOONCAKE).unlink()
    assert wheelhouse.problems(tmp_path) == (f"{MOONCAKE}: missing",)
    wheelhouse.create(tmp_path, NAME, VERSION, pip=pip)
    assert wheelhouse.problems(tmp_path) == ()


def test_an_interrupted_download_does_not_look_complete(tmp_path: Path) -> None:
    def interrupted(arguments: Sequence[str]) -> None:
        make_wheel(Path(arguments[arguments.index("--dest") + 1]) / MOONCAKE)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wheelhouse.create(tmp_path, NAME, VERSION, pip=interrupted)
    with pytest.raises(G35Error, match="is not a wheelhouse"):
        wheelhouse.load(tmp_path)


def test_an_altered_and_a_foreign_wheel_are_named(tmp_path: Path, pip: Pip) -> None:
    wheelhouse.create(tmp_path, NAME, VERSION, pip=pip)
    with (tmp_path / MOONCAKE).open("ab") as handle:
        handle.write(b"x")
    make_wheel(tmp_path / "zzz-1.0-py3-none-any.whl")
    found = wheelhouse.problems(tmp_path)
    assert found == (
        f"{MOONCAKE}: its content is not what the manifest records",
        "zzz-1.0-py3-none-any.whl: not in the manifest",
    )


def test_another_version_in_the_same_directory_is_refused(tmp_path: Path, pip: Pip) -> None:
    wheelhouse.create(tmp_path, NAME, VERSION, pip=pip)
    with pytest.raises(G35Error, match="already holds"):
        wheelhouse.create(tmp_path, NAME, "0.3.14", pip=pip)


def test_reading_gives_digests_and_makes_the_archive(tmp_path: Path, pip: Pip) -> None:
    wheelhouse.create(tmp_path, NAME, VERSION, pip=pip)
    (tmp_path / wheelhouse.ARCHIVE).unlink()
    wheels = wheelhouse.read(tmp_path, NAME, VERSION)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert {wheel.name: wheel.sha256 for wheel in wheels} == {e["name"]: e["sha256"] for e in manifest["wheels"]}
    with tarfile.open(tmp_path / wheelhouse.ARCHIVE) as tar:
        assert sorted(tar.getnames()) == [wheel.name for wheel in wheels]


def test_a_changed_wheel_is_read_anew_and_archived_anew(tmp_path: Path, pip: Pip) -> None:
    wheelhouse.create(tmp_path, NAME, VERSION, pip=pip)
    before = {wheel.name: wheel.sha256 for wheel in wheelhouse.read(tmp_path, NAME, VERSION)}
    with (tmp_path / MOONCAKE).open("ab") as handle:
        handle.write(b"more")
    after = {wheel.name: wheel.sha256 for wheel in wheelhouse.read(tmp_path, NAME, VERSION)}
    assert before[MOONCAKE] != after[MOONCAKE]
    with tarfile.open(tmp_path / wheelhouse.ARCHIVE) as tar:
        assert tar.getmember(MOONCAKE).size == (tmp_path / MOONCAKE).stat().st_size


def test_a_directory_without_the_distribution_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(G35Error) as caught:
        wheelhouse.read(tmp_path, NAME, VERSION)
    assert "g35ctl bundle create" in caught.value.next_command
