#!/usr/bin/python
"""Ansible module g35_box: what a box exports that nobody logs in to."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_box
short_description: Bring a box that nobody logs in to its plan, through its own interface
version_added: "0.1.0"
description:
  - Speaks to a box through SPDK's JSON-RPC, Redfish, or its NVMe discovery service, and lets each namespace's owner in.
    Runs on the controller, or on a host that reaches the box; never on the box.
  - What the plan does not name is never touched. What the box offers no way to do is told as an instruction.
  - A change that drops live controllers is refused unless O(allow_disruptive=true).
options:
  action:
    description:
      - What to do. V(preflight), V(verify) and V(discover) read only. V(drain) takes the owners' permissions away.
    type: str
    choices: [preflight, apply, verify, drain, remove, discover]
    default: apply
  plan:
    description: The box plan, as computed by g35ctl (see docs/drivers.md).
    type: dict
    required: true
  allow_disruptive:
    description: Consent to changes that interrupt something live.
    type: bool
    default: false
  secret:
    description: Password of the Redfish account. Never part of a plan, a log or a result.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
    description: Says what would change and changes nothing.
  diff_mode:
    support: full
    description: Shows each item before and after.
author:
  - The g35ctl authors
"""

EXAMPLES = r"""
- name: Let each owner in through Redfish
  g35_box:
    plan: "{{ g35_box_plan }}"
    secret: "{{ g35_ebof.redfish.password }}"
  delegate_to: localhost
"""

RETURN = r"""
changes:
  description: What was (or in check mode would be) changed, each with what, before, after and disruptive.
  returned: always
  type: list
  elements: dict
findings:
  description: What does not hold, each with check, subject, observed, expected, remedy and severity.
  returned: always
  type: list
  elements: dict
state:
  description: What the box exports - subsystems with portals, namespaces and allowed hosts.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.g35.box import act  # noqa: E402
from ansible.module_utils.g35.box_drivers import build  # noqa: E402
from ansible.module_utils.g35.converge import ACTIONS  # noqa: E402
from ansible.module_utils.g35.host import Host  # noqa: E402


def main() -> None:
    """Run the asked action and exit with its outcome."""
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": [*ACTIONS, "discover"], "default": "apply"},
            "plan": {"type": "dict", "required": True},
            "allow_disruptive": {"type": "bool", "default": False},
            "secret": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    result = act(
        lambda: build(Host(), asked["plan"], asked["secret"]),
        asked["action"],
        check=module.check_mode,
        allow_disruptive=asked["allow_disruptive"],
    )
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
