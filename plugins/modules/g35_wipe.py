#!/usr/bin/python
"""Ansible module g35_wipe: destroy the file systems of the namespaces a host owns."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_wipe
short_description: Destroy the data on the namespaces of a host
version_added: "0.2.0"
description:
  - Wipes the signatures of every file system that g35ctl made for exactly these namespaces and site.
  - Leaves what is mounted, what is not connected and what g35ctl did not make.
options:
  plan:
    description: The storage plan of this host.
    type: dict
    required: true
  site:
    description: Name of the site, as the operator typed it. Nothing is done when it is another.
    type: str
    required: true
attributes:
  check_mode:
    description: Says what would be destroyed.
    support: full
author: [g35ctl]
"""

EXAMPLES = r"""
- name: Destroy what is on the namespaces of this host
  g35_wipe:
    plan: "{{ g35_storage_plan }}"
    site: lab
"""

RETURN = r"""
state:
  description: What was wiped.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.g35.host import Host  # noqa: E402
from ansible.module_utils.g35.plans import StoragePlan  # noqa: E402
from ansible.module_utils.g35.schema import SchemaError, load  # noqa: E402
from ansible.module_utils.g35.wipe import wipe  # noqa: E402


def main() -> None:
    module = AnsibleModule(
        argument_spec={"plan": {"type": "dict", "required": True}, "site": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    try:
        plan = load(StoragePlan, module.params["plan"])
    except SchemaError as error:
        module.fail_json(msg="the plan given to this module is not valid: %s" % error, findings=[])
    result = wipe(Host(), plan, module.params["site"], check=module.check_mode)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
