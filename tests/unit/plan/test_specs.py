"""The generated documents are up to date, and the argument specs accept every plan and refuse what is none."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.g35.schema import dump
from sites import lab_site

from g35ctl.plan.build import build
from g35ctl.site.convert import VARIABLES

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
assert _SPEC is not None and _SPEC.loader is not None
generate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate)

CASES = [
    (role, stage, host.name)
    for role, stage in generate.ROLES.items()
    for host in build(lab_site()).hosts
    if stage in host.stages()
]


def validator(role: str) -> ArgumentSpecValidator:
    path = ROOT / "roles" / role / "meta" / "argument_specs.yml"
    options = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
    return ArgumentSpecValidator(_without_descriptions(options))


def _without_descriptions(options: dict) -> dict:
    found = {}
    for name, option in options.items():
        kept = {key: value for key, value in option.items() if key != "description"}
        if "options" in kept:
            kept["options"] = _without_descriptions(kept["options"])
        found[name] = kept
    return found


def test_generated_documents_are_up_to_date():
    assert generate.main(["--check"]) == 0, "run make docs"


def test_every_variable_of_a_site_is_documented():
    assert set(generate.VARIABLES) == set(VARIABLES)


def test_only_the_plan_is_generated():
    before = """\
argument_specs:
  main:
    options:
      g35_action: {type: str}
      g35_fabric_plan:
        type: dict
        description: Mine.
        options:
          old: {type: str}
      g35_other:
        type: str
"""
    after = generate.with_options(before, "fabric")
    options = yaml.safe_load(after)["argument_specs"]["main"]["options"]
    assert list(options) == ["g35_action", "g35_fabric_plan", "g35_other"]
    assert options["g35_fabric_plan"]["description"] == "Mine."
    assert "old" not in options["g35_fabric_plan"]["options"]
    assert options["g35_fabric_plan"]["options"]["ports"]["options"]["mtu"] == {
        "type": "int", "required": True, "description": "MTU, bytes",
    }  # fmt: skip
    assert generate.with_options(after, "fabric") == after


@pytest.mark.parametrize(("role", "stage", "host"), CASES)
def test_every_plan_passes_its_roles_specs(role, stage, host):
    plan = dump(getattr(build(lab_site()).host(host), stage))
    result = validator(role).validate({f"g35_{stage}_plan": plan})
    assert result.error_messages == []


@pytest.mark.parametrize(("role", "stage", "host"), CASES)
def test_a_missing_or_unknown_field_is_refused(role, stage, host):
    plan = dump(getattr(build(lab_site()).host(host), stage))
    missing, unknown = copy.deepcopy(plan), copy.deepcopy(plan)
    del missing["site"]
    unknown["sight"] = "x"
    for broken in (missing, unknown):
        assert validator(role).validate({f"g35_{stage}_plan": broken}).error_messages
