"""The thin shell around a stage that makes it an Ansible module."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-not-found,unused-ignore]

from .converge import ACTIONS, Stage, act
from .host import Host
from .schema import SchemaError


def run_stage_module(build: Callable[[Host, Dict[str, Any]], Stage]) -> None:
    """Parse the common arguments, run the asked action of the stage that ``build`` makes, and exit with its outcome."""
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": list(ACTIONS), "default": "apply"},
            "plan": {"type": "dict", "required": True},
            "allow_disruptive": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        stage = build(Host(), module.params["plan"])
    except SchemaError as error:
        module.fail_json(msg="the plan given to this module is not valid: %s" % error, findings=[])
    outcome = act(
        stage,
        module.params["action"],
        check=module.check_mode,
        allow_disruptive=module.params["allow_disruptive"],
    )
    result = outcome.result()
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
