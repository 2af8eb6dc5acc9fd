#!/usr/bin/python
"""Ansible module: write and read values through the flash of every owner."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: g35_kv_probe
short_description: Write or read probe values through the KV pool of a G3.5 tier
description:
  - Action C(write) puts values into the segments of every owner the plan names and sees them to flash.
  - Action C(read) reads every value of the run from this host and compares it byte by byte.
  - Action C(clean) removes the values of this run and of earlier ones, which are named by their time.
    A value under another name was kept on purpose and stays.
  - It returns what it saw. Judging that is the controller's.
options:
  action:
    description: What to do.
    type: str
    choices: [write, read, clean]
    required: true
  plan:
    description: The ProbePlan of this host, computed by g35ctl.
    type: dict
    required: true
  token:
    description: Names this validation run; the same on every host and for every action.
    type: str
    required: true
  writer:
    description: Name of this host in the inventory.
    type: str
    required: true
  seconds:
    description: How long a write may wait until everything is on flash.
    type: int
    default: 300
attributes:
  check_mode:
    description: Does nothing in check mode.
    support: full
author: [g35ctl]
"""

EXAMPLES = r"""
- name: Write values through the flash of every owner
  g35_kv_probe:
    action: write
    plan: "{{ g35_probe_plan }}"
    token: "20261201T120000"
    writer: "{{ inventory_hostname }}"
"""

RETURN = r"""
state:
  description:
    - For C(write) the values with the place of each replica.
    - For C(read) whether each was equal, and the flash hits that the master counted.
  returned: success
  type: dict
"""

import re  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.g35 import probe  # noqa: E402
from ansible.module_utils.g35.host import Host  # noqa: E402
from ansible.module_utils.g35.plans import ProbePlan  # noqa: E402
from ansible.module_utils.g35.schema import SchemaError, load  # noqa: E402


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": list(probe.ACTIONS), "required": True},
            "plan": {"type": "dict", "required": True},
            "token": {"type": "str", "required": True, "no_log": False},
            "writer": {"type": "str", "required": True},
            "seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    given = module.params
    if not re.match(r"^[A-Za-z0-9._-]{1,64}$", given["token"]):
        module.fail_json(msg="token must be 1 to 64 letters, digits, dots, underscores or hyphens")
    if module.check_mode:
        module.exit_json(changed=False, msg="no values are written in check mode", findings=[], state={})
    try:
        plan = load(ProbePlan, given["plan"])
        state = probe.run(Host(), plan, given["action"], given["token"], given["writer"], float(given["seconds"]))
    except SchemaError as error:
        module.fail_json(msg="the plan given to this module is not valid: %s" % error, findings=[])
    except probe.ProbeFailed as error:
        finding = {
            "check": "validate.probe",
            "subject": given["action"],
            "observed": str(error),
            "expected": "an answer",
            "remedy": "g35ctl deploy --only cache, then validate again",
            "severity": "error",
        }
        module.fail_json(msg="the %s probe failed: %s" % (given["action"], error), findings=[finding], state={})
    # Probe values are removed again: nothing about the host is different afterwards.
    module.exit_json(changed=False, msg="", findings=[], state=state)


if __name__ == "__main__":
    main()
