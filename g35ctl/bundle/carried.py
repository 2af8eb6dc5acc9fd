"""A bundle: everything a site needs from outside, in one directory to carry to a controller without internet.

``wheels/<distribution>-<release>/`` are wheelhouses, ``packages/<release>/`` repositories of system packages (where
asked), ``images/`` container images by name (where asked). ``manifest.json`` lists every file with digest, size and
licence; ``SHA256SUMS`` covers the manifest too and is read by sha256sum. What is in a bundle decides its every byte:
it holds no time, no host name and no path of the controller.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from g35ctl.bundle import manifest, wheelhouse
from g35ctl.bundle.manifest import MANIFEST, file_digest
from g35ctl.bundle.packages import Images, Repository
from g35ctl.bundle.wheelhouse import Pip, Target, Wheelhouse
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

SUMS = "SHA256SUMS"
_SCHEMA = 1


@dataclass(frozen=True)
class Need:
    """Wheels that the site needs: where its deploys look for them, and for which Pythons."""

    directory: str
    distribution: str
    version: str
    targets: tuple[Target, ...]

    @property
    def name(self) -> str:
        return f"{self.distribution}-{self.version}"


@dataclass(frozen=True)
class Item:
    """A file of a bundle: its path in it, SHA-256 in hexadecimal, size in bytes, licence, and what it is (wheel,
    package, image, or index)."""

    path: str
    sha256: str
    size: int
    licence: str
    kind: str


@dataclass(frozen=True)
class Bundle:
    """A bundle as its manifest describes it. ``wheelhouses`` are directories in it, ``packages`` systems, ``images``
    names."""

    directory: str
    site: str
    wheelhouses: tuple[str, ...]
    packages: tuple[str, ...]
    images: tuple[str, ...]
    items: tuple[Item, ...]

    @property
    def size(self) -> int:
        """Everything in it, bytes."""
        return sum(item.size for item in self.items)


def create(
    directory: str | Path,
    site: str,
    needs: Sequence[Need],
    *,
    repositories: Sequence[Repository] = (),
    images: Images | None = None,
    pip: Pip | None = None,
) -> Bundle:
    """Collect a bundle; a complete one that holds what is asked for is left as it is, and needs no network.

    Raises G35Error when something cannot be had, or when the directory holds another site's bundle.
    """
    folder = Path(directory)
    if (folder / MANIFEST).is_file():
        have = load(folder)
        if have.site != site:
            raise G35Error(
                f"{folder} is the bundle of site {have.site}",
                next_command="name another directory with --into",
                exit_code=Exit.USAGE,
            )
        if _holds(have, needs, repositories, images) and not problems(folder):
            return have
        (folder / MANIFEST).unlink()  # written last: a bundle without one is not complete
    folder.mkdir(parents=True, exist_ok=True)
    houses = _wheels(folder, needs, pip)
    collected = [item for repository in repositories for item in repository.collect(folder / "packages")]
    pictures = images.collect(folder / "images") if images is not None and images.names else []
    items = [
        *(_house_items(folder, house) for house in houses),
        [_item(folder, item.path, "package", item.licence) for item in collected if item.licence],
        [_item(folder, item.path, "index", "made by g35ctl") for item in collected if not item.licence],
        [_item(folder, item.path, "image", item.licence) for item in pictures],
    ]
    made = Bundle(
        str(folder),
        site,
        tuple(sorted(str(Path(house.directory).relative_to(folder)) for house in houses)),
        tuple(sorted(repository.system for repository in repositories)),
        tuple(sorted(images.names)) if images is not None else (),
        tuple(sorted((item for group in items for item in group), key=lambda item: item.path)),
    )
    _drop_strangers(folder, made)
    data = asdict(made)
    del data["directory"]
    text = json.dumps({"schema_version": _SCHEMA, **data}, indent=1, sort_keys=True) + "\n"
    (folder / SUMS).write_text(_sums(made, text), encoding="ascii")
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    return made


def _holds(have: Bundle, needs: Sequence[Need], repositories: Sequence[Repository], images: Images | None) -> bool:
    houses = {name: wheelhouse.load(Path(have.directory) / name) for name in have.wheelhouses}
    wanted = {f"wheels/{need.name}": {str(target) for target in need.targets} for need in needs}
    return (
        {name: set(house.targets) for name, house in houses.items()} == wanted
        and set(have.packages) == {item.system for item in repositories}
        and set(have.images) == set(images.names if images is not None else ())
    )


def _wheels(folder: Path, needs: Sequence[Need], pip: Pip | None) -> tuple[Wheelhouse, ...]:
    houses = []
    for need in needs:
        place = folder / "wheels" / need.name
        source = Path(need.directory)
        wanted = {str(target) for target in need.targets}
        if place.is_dir() and set(_targets(place)) - wanted:
            shutil.rmtree(place)  # exactly what the site needs
        # What this controller deploys from is taken as it is: the bundle then holds the very same wheels.
        if not (place / MANIFEST).is_file() and set(_targets(source)) == wanted and not wheelhouse.problems(source):
            _copy(source, place)
        houses.append(wheelhouse.create(place, need.distribution, need.version, need.targets, pip))
        (place / wheelhouse.ARCHIVE).unlink()  # made again where it is installed; here it would double the size
    return tuple(houses)


def _targets(directory: Path) -> tuple[str, ...]:
    return wheelhouse.load(directory).targets if (directory / MANIFEST).is_file() else ()


def _copy(source: Path, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.whl")):
        shutil.copy2(path, place / path.name)
    shutil.copy2(source / MANIFEST, place / MANIFEST)  # last: until then it is not complete


def _house_items(folder: Path, house: Wheelhouse) -> list[Item]:
    place = Path(house.directory)
    name = str(place.relative_to(folder))
    listed = [Item(f"{name}/{item.name}", item.sha256, item.size, item.licence, "wheel") for item in house.wheels]
    return [*listed, _item(folder, f"{name}/{MANIFEST}", "index", "made by g35ctl")]


def _item(folder: Path, path: str, kind: str, licence: str) -> Item:
    return Item(path, file_digest(folder / path), (folder / path).stat().st_size, licence, kind)


def _drop_strangers(folder: Path, made: Bundle) -> None:
    listed = {item.path for item in made.items}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and str(path.relative_to(folder)) not in listed:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _sums(made: Bundle, text: str) -> str:
    lines = [f"{item.sha256}  {item.path}\n" for item in made.items]
    return f"{hashlib.sha256(text.encode()).hexdigest()}  {MANIFEST}\n" + "".join(lines)


def is_bundle(directory: str | Path) -> bool:
    """Whether a directory is (or was) a bundle rather than a single wheelhouse."""
    return (Path(directory) / SUMS).is_file()


def load(directory: str | Path) -> Bundle:
    """Read the manifest. Raises G35Error (usage) when it is absent or not ours."""

    def made(data: dict[str, Any]) -> Bundle:
        names = {key: tuple(data[key]) for key in ("wheelhouses", "packages", "images")}
        return Bundle(str(directory), data["site"], items=tuple(Item(**item) for item in data["items"]), **names)

    return manifest.read(directory, "bundle", made, f"g35ctl -i SITE bundle create --into {directory}")


def problems(directory: str | Path) -> tuple[str, ...]:
    """Everything that differs between a bundle and its manifest, and between the manifest and its sum."""
    folder = Path(directory)
    made = load(folder)
    found = manifest.altered(folder, ((item.path, item.size, item.sha256) for item in made.items))
    listed = {item.path for item in made.items} | {MANIFEST, SUMS}
    strangers = [path for path in folder.rglob("*") if path.is_file() and str(path.relative_to(folder)) not in listed]
    found += [f"{path.relative_to(folder)}: not in the manifest" for path in sorted(strangers)]
    text = (folder / MANIFEST).read_text(encoding="utf-8")
    sums = (folder / SUMS).read_text(encoding="utf-8") if (folder / SUMS).is_file() else ""
    if sums != _sums(made, text):
        found.append(f"{SUMS}: does not belong to this manifest")
    return tuple(found)


def install(directory: str | Path, needs: Iterable[Need]) -> tuple[Wheelhouse, ...]:
    """Put the wheels of a verified bundle where the site's deploys look for them.

    Raises G35Error when the bundle is altered, or lacks something that the site needs.
    """
    folder = Path(directory)
    altered = problems(folder)
    if altered:
        raise G35Error(f"{folder} is not what its manifest says", why="\n".join(altered), exit_code=Exit.DEPLOY_FAILED)
    made = load(folder)
    wanted = list(needs)
    missing = [
        f"{need.distribution} {need.version} for Python {target}"
        for need in wanted
        for target in need.targets
        if str(target) not in _targets(folder / "wheels" / need.name)
    ]
    if missing:
        raise G35Error(
            f"the bundle of site {made.site} lacks what this site needs",
            why="\n".join(missing),
            next_command="where there is internet: g35ctl -i SITE bundle create --into DIRECTORY",
            exit_code=Exit.USAGE,
        )
    houses = []
    for need in wanted:
        place = Path(need.directory)
        if not (place / MANIFEST).is_file() or wheelhouse.problems(place) or not _covers(place, need):
            for stale in (*place.glob("*.whl"), place / MANIFEST):
                stale.unlink(missing_ok=True)
            _copy(folder / "wheels" / need.name, place)
        wheelhouse.archive(place)
        houses.append(replace(wheelhouse.load(place), directory=str(place)))
    return tuple(houses)


def _covers(place: Path, need: Need) -> bool:
    return {str(target) for target in need.targets} <= set(_targets(place))
