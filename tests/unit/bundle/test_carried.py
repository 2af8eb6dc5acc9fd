"""A bundle holds exactly what a site needs, is the same whenever it is made, and a single flipped byte is found."""

from __future__ import annotations

import io
import json
import random
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_wheelhouse import NAME, VERSION

from g35ctl.bundle import carried, wheelhouse
from g35ctl.bundle.carried import Need
from g35ctl.bundle.manifest import MANIFEST
from g35ctl.bundle.packages import DebianPackages, Images, RpmPackages
from g35ctl.bundle.wheelhouse import Target
from g35ctl.errors import G35Error

P311, P313 = Target("3.11"), Target("3.13")


def make_wheel(path: Path) -> None:
    """The same bytes whenever it is made."""
    with zipfile.ZipFile(path, "w") as wheel:
        member = zipfile.ZipInfo(f"{path.name.split('-')[0]}.dist-info/METADATA")
        wheel.writestr(member, "Name: x\nLicense-Expression: Apache-2.0\n")


class Index:
    """A package index: a different wheel for each Python and machine, pure ones for all. ``reachable`` may be false."""

    def __init__(self) -> None:
        self.reachable = True
        self.asked: list[str] = []

    def __call__(self, arguments: Sequence[str]) -> None:
        if not self.reachable:
            raise G35Error("pip could not download", why="no route to the index")
        words = list(arguments)
        place, python = Path(words[words.index("--dest") + 1]), words[words.index("--python-version") + 1]
        machine = words[words.index("--platform") + 1].removeprefix("manylinux_2_28_")
        self.asked.append(f"{python}/{machine}")
        tag = python.replace(".", "")
        make_wheel(place / f"{NAME.replace('-', '_')}-{VERSION}-cp{tag}-cp{tag}-manylinux_2_28_{machine}.whl")
        # A pure wheel of another release for each Python: both can be in one house, and neither host may get both.
        make_wheel(place / f"idna-{tag}-py3-none-any.whl")
        make_wheel(place / "requests-2.34.2-py3-none-any.whl")


@pytest.fixture
def index() -> Index:
    return Index()


def need(where: Path, *targets: Target) -> Need:
    return Need(str(where / f"{NAME}-{VERSION}"), NAME, VERSION, targets or (P311,))


def every_byte(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Several Pythons in one wheelhouse


def test_each_host_gets_the_wheels_of_its_own_python_and_no_other(tmp_path: Path, index: Index) -> None:
    aarch = Target("3.11", "aarch64")
    wheelhouse.create(tmp_path, NAME, VERSION, (P311, P313, aarch), pip=index)
    for target, tag in ((P311, "311"), (P313, "313"), (aarch, "311")):
        names = [wheel.name for wheel in wheelhouse.read(tmp_path, NAME, VERSION, str(target))]
        assert [name for name in names if name.startswith("idna")] == [f"idna-{tag}-py3-none-any.whl"]
        assert [name for name in names if name.startswith("mooncake")] == [
            f"mooncake_transfer_engine_non_cuda-{VERSION}-cp{tag}-cp{tag}-manylinux_2_28_{target.machine}.whl"
        ]
    with pytest.raises(G35Error, match=r"for Python 3\.12"):
        wheelhouse.read(tmp_path, NAME, VERSION, "3.12/x86_64")


def test_a_python_is_added_and_the_ones_before_are_kept(tmp_path: Path, index: Index) -> None:
    wheelhouse.create(tmp_path, NAME, VERSION, (P311,), pip=index)
    made = wheelhouse.create(tmp_path, NAME, VERSION, (P313,), pip=index)
    assert made.targets == ("3.11/x86_64", "3.13/x86_64")
    asked = len(index.asked)
    wheelhouse.create(tmp_path, NAME, VERSION, (P311,), pip=index)
    assert len(index.asked) == asked


def test_a_further_package_is_collected_once_and_kept(tmp_path: Path, index: Index) -> None:
    asked: list[Sequence[str]] = []

    def pip(arguments: Sequence[str]) -> None:
        asked.append(arguments)
        index(arguments)

    wheelhouse.create(tmp_path, NAME, VERSION, (P311,), pip=pip)
    made = wheelhouse.create(tmp_path, NAME, VERSION, (P311,), pip=pip, extras=("lmcache==0.5.6",))
    assert "lmcache==0.5.6" in asked[-1] and made.extras == ("lmcache==0.5.6",)
    assert wheelhouse.create(tmp_path, NAME, VERSION, (P311,), pip=pip) == made and len(asked) == 2
    wheelhouse.create(tmp_path, NAME, VERSION, (P313,), pip=pip)
    assert "lmcache==0.5.6" in asked[-1]


def test_a_wheelhouse_from_before_there_were_targets_is_read(tmp_path: Path, index: Index) -> None:
    made = wheelhouse.create(tmp_path, NAME, VERSION, (P311,), pip=index)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    del manifest["targets"]
    for entry in manifest["wheels"]:
        del entry["targets"]
    (tmp_path / MANIFEST).write_text(json.dumps({**manifest, "schema_version": 1, "python": "3.11"}))
    assert wheelhouse.load(tmp_path) == made and wheelhouse.problems(tmp_path) == ()


@pytest.mark.parametrize(
    ("wheel", "fits"),
    [
        ("x-1-py3-none-any.whl", True),
        ("x-1-py2.py3-none-any.whl", True),
        ("x-1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", True),
        ("x-1-cp311-cp311-manylinux_2_28_aarch64.whl", False),
        ("x-1-cp312-cp312-manylinux_2_28_x86_64.whl", False),
        ("x-1-cp39-abi3-manylinux_2_28_x86_64.whl", True),
        ("x-1-cp312-abi3-manylinux_2_28_x86_64.whl", False),
        ("x-1-1-cp311-cp311-manylinux_2_28_x86_64.whl", True),
    ],
)
def test_what_fits_a_python_is_read_from_the_name(wheel: str, fits: bool) -> None:
    assert P311.fits(wheel) is fits


# The bundle


def test_a_bundle_is_the_same_whenever_and_wherever_it_is_made(tmp_path: Path, index: Index) -> None:
    first = carried.create(tmp_path / "a", "lab", [need(tmp_path / "x", P311, P313)], pip=index)
    second = carried.create(tmp_path / "b" / "c", "lab", [need(tmp_path / "y", P313, P311)], pip=index)
    assert every_byte(tmp_path / "a") == every_byte(tmp_path / "b" / "c")
    assert {item.licence for item in first.items if item.kind == "wheel"} == {"Apache-2.0"}
    assert first.items == second.items
    assert str(tmp_path) not in (tmp_path / "a" / "manifest.json").read_text()


def test_a_complete_bundle_is_left_alone_and_needs_no_index(tmp_path: Path, index: Index) -> None:
    made = carried.create(tmp_path, "lab", [need(tmp_path / "x")], pip=index)
    index.reachable = False
    assert carried.create(tmp_path, "lab", [need(tmp_path / "x")], pip=index) == made


def test_what_the_controller_deploys_from_is_carried_without_an_index(tmp_path: Path, index: Index) -> None:
    wanted = need(tmp_path / "cache", P311, P313)
    wheelhouse.create(wanted.directory, NAME, VERSION, wanted.targets, pip=index)
    index.reachable = False
    carried.create(tmp_path / "bundle", "lab", [wanted], pip=index)
    assert carried.problems(tmp_path / "bundle") == ()


def test_what_the_site_no_longer_needs_leaves_the_bundle(tmp_path: Path, index: Index) -> None:
    carried.create(tmp_path / "b", "lab", [need(tmp_path / "x", P311, P313)], pip=index)
    (tmp_path / "b" / "stray").write_text("x")
    made = carried.create(tmp_path / "b", "lab", [need(tmp_path / "x", P311)], pip=index)
    assert not [item.path for item in made.items if "cp313" in item.path]
    assert not (tmp_path / "b" / "stray").exists() and carried.problems(tmp_path / "b") == ()


def test_every_flipped_byte_is_found(tmp_path: Path, index: Index) -> None:
    carried.create(tmp_path, "lab", [need(tmp_path / "x", P311, P313)], pip=index)
    chance = random.Random(35)
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for _ in range(4):
            place = chance.randrange(len(whole))
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :])
            try:
                found = carried.problems(tmp_path)
            except (G35Error, UnicodeDecodeError):
                found = ("the manifest cannot be read",)
            assert found, path
        path.write_bytes(whole)
    assert carried.problems(tmp_path) == ()


def test_a_lost_and_a_foreign_file_are_named(tmp_path: Path, index: Index) -> None:
    made = carried.create(tmp_path, "lab", [need(tmp_path / "x")], pip=index)
    lost = next(item.path for item in made.items if item.kind == "wheel")
    (tmp_path / lost).unlink()
    (tmp_path / "wheels" / "evil.whl").write_text("x")
    assert carried.problems(tmp_path) == (f"{lost}: missing", "wheels/evil.whl: not in the manifest")


def test_an_altered_bundle_is_not_installed(tmp_path: Path, index: Index) -> None:
    wanted = need(tmp_path / "site")
    made = carried.create(tmp_path / "b", "lab", [wanted], pip=index)
    with (tmp_path / "b" / made.items[0].path).open("ab") as handle:
        handle.write(b"x")
    with pytest.raises(G35Error, match="is not what its manifest says"):
        carried.install(tmp_path / "b", [wanted])
    assert not Path(wanted.directory).exists()


def test_a_bundle_brings_another_controller_all_it_needs_without_an_index(tmp_path: Path, index: Index) -> None:
    carried.create(tmp_path / "b", "lab", [need(tmp_path / "here", P311, P313)], pip=index)
    index.reachable = False
    there = need(tmp_path / "there", P311, P313)
    carried.install(tmp_path / "b", [there])
    assert wheelhouse.problems(there.directory) == ()
    assert wheelhouse.create(there.directory, NAME, VERSION, there.targets, pip=index)
    for target in ("3.11/x86_64", "3.13/x86_64"):
        assert len(wheelhouse.read(there.directory, NAME, VERSION, target)) == 3
    carried.install(tmp_path / "b", [there])
    with pytest.raises(G35Error) as caught:
        carried.install(tmp_path / "b", [need(tmp_path / "there", Target("3.12"))])
    assert "3.12" in caught.value.why


# Packages and images, with the tools answered by a script


def deb(copyright: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        member = tarfile.TarInfo("./usr/share/doc/nftables/copyright")
        member.size = len(copyright)
        tar.addfile(member, io.BytesIO(copyright.encode()))
    return data.getvalue()


class Tools:
    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.present: set[str] = set()

    def __call__(self, argv: Sequence[str]) -> bytes:
        words = list(argv)
        self.ran.append(words)
        if words[0] == "apt-get" and "install" in words:
            place = next(word.partition("=")[2] for word in words if word.startswith("Dir::Cache::archives="))
            (Path(place) / "nftables_1%3a1.0_amd64.deb").write_bytes(b"package")
            assert Path(place).parent.joinpath("status").read_text() == ""
        elif words[:2] == ["dpkg-deb", "--field"]:
            return b"Package: nftables\nVersion: 1:1.0\n"
        elif words[:2] == ["dpkg-deb", "--fsys-tarfile"]:
            return deb("Files: *\nLicense: GPL-2\nFiles: x\nLicense: LGPL-2.1+\n")
        elif words[:2] == ["dnf", "download"]:
            place = next(word.partition("=")[2] for word in words if word.startswith("--destdir="))
            (Path(place) / "nftables-1.0.x86_64.rpm").write_bytes(b"package")
        elif words[0] == "rpm":
            return b"GPLv2"
        elif words[:2] == ["podman", "save"]:
            assert words[-1] in self.present
            Path(words[words.index("--output") + 1]).write_bytes(b"image of " + words[-1].encode())
        elif words[:2] == ["podman", "pull"]:
            self.present.add(words[-1])
        elif words[:3] == ["podman", "image", "inspect"]:
            if words[-1] not in self.present:
                raise G35Error("no such image")
            return b"Apache-2.0\n" if "--format" in words else b""
        return b""


def test_packages_and_images_are_listed_with_their_licences(tmp_path: Path, index: Index) -> None:
    tools = Tools()
    made = carried.create(
        tmp_path, "lab", [need(tmp_path / "x")],
        repositories=[
            DebianPackages("bookworm", "http://mirror.invalid/debian", ("nftables",), run=tools),
            RpmPackages("9", ("nftables",), run=tools),
        ],
        images=Images(("localhost/engine:1",), run=tools), pip=index,
    )  # fmt: skip
    licences = {item.path: item.licence for item in made.items if item.kind in ("package", "image")}
    assert licences == {
        "packages/debian-bookworm-x86_64/nftables_1:1.0_amd64.deb": "GPL-2; LGPL-2.1+",
        "packages/rpm-9-x86_64/nftables-1.0.x86_64.rpm": "GPLv2",
        "images/localhost_engine_1.tar": "Apache-2.0",
    }
    stanza = (tmp_path / "packages/debian-bookworm-x86_64/Packages").read_text()
    assert "Filename: ./nftables_1:1.0_amd64.deb\nSize: 7\nSHA256: " in stanza
    assert carried.problems(tmp_path) == ()
    assert ["podman", "pull", "--quiet", "localhost/engine:1"] in tools.ran
    assert made.images == ("localhost/engine:1",)
