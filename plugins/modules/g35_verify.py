#!/usr/bin/python
"""Read back every stage of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_verify
short_description: Read back every stage of a host
description:
  - Reads the state of every stage the host takes part in and judges it against its plan in one execution.
  - Changes nothing. Fails when a stage does not hold.
options:
  target:
    description: Plan of stage target; left out when the host takes no part in it.
    type: dict
  fabric:
    description: Plan of stage fabric; left out when the host takes no part in it.
    type: dict
  connect:
    description: Plan of stage connect; left out when the host takes no part in it.
    type: dict
  storage:
    description: Plan of stage storage; left out when the host takes no part in it.
    type: dict
  cache:
    description: Plan of stage cache; left out when the host takes no part in it.
    type: dict
attributes:
  check_mode:
    description: Runs in check mode; it never changes anything.
    support: full
author:
  - g35ctl developers
"""

EXAMPLES = r"""
- name: Read back every stage of a host
  g35_verify:
    fabric: "{{ g35_fabric_plan }}"
    connect: "{{ g35_connect_plan }}"
"""

RETURN = r"""
findings:
  description: What is not as it must be; each with stage, check, subject, observed, expected, remedy and severity.
  returned: always
  type: list
  elements: dict
state:
  description: What was read, by stage; C(system) describes the host itself.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

# AnsiballZ packs what it sees imported, so every stage is named although aggregate finds them by name.
from ansible.module_utils.g35 import cache, connect, fabric, storage, target  # noqa: E402
from ansible.module_utils.g35.aggregate import STAGES, verify  # noqa: E402
from ansible.module_utils.g35.host import Host  # noqa: E402

_BUILDERS = {
    "target": target.build,
    "fabric": fabric.build,
    "connect": connect.build,
    "storage": storage.build,
    "cache": cache.build,
}


def main() -> None:
    """Run the aggregate over the plans that were given and exit with its result."""
    module = AnsibleModule(
        argument_spec={name: {"type": "dict"} for name in STAGES},
        supports_check_mode=True,
    )
    plans = {name: module.params[name] for name in STAGES if module.params[name]}
    result = verify(Host(), plans, _BUILDERS.__getitem__)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
