"""The sample sites of tests/fixtures/inference, planned; and copies of them that tests break, one thing at a time."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from ansible.module_utils.g35.plans_inference import EnginePlan, InferencePlan

from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.site.load import inspect, load
from g35ctl.site.problems import Problem

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "inference"
SITES = tuple(sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))


@cache
def plan_of(site: str) -> Plan:
    return build(load(str(FIXTURES / site)))


def inference(site: str, host: str = "gpu1") -> InferencePlan:
    found = plan_of(site).host(host).inference
    assert found is not None
    return found


def engine(site: str, name: str = "main", host: str = "gpu1") -> EnginePlan:
    return next(item for item in inference(site, host).engines if item.name == name)


def arguments(item: EnginePlan) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in item.arguments)}


def environment(item: EnginePlan) -> dict[str, str]:
    return dict(word.split("=", 1) for word in item.environment)


def broken(tmp_path: Path, site: str, *changes: tuple[str, str], file: str = "group_vars/all.yml") -> Path:
    """A copy of a sample site with texts replaced."""
    root = tmp_path / site
    shutil.copytree(FIXTURES / site, root, dirs_exist_ok=True)
    text = (root / file).read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    (root / file).write_text(text)
    return root


def problems(root: Path) -> list[Problem]:
    """What is wrong with a site, without what the controller lacks."""
    return [item for item in inspect(str(root))[1] if "wheels" not in item.what]
