#!/usr/bin/python
"""Ansible module g35_fence: nobody reaches these subsystems of a Linux box any more."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_fence
short_description: Shut everybody out of subsystems of a Linux NVMe-oF target and prove it
version_added: "0.2.0"
description:
  - Takes each subsystem off its ports for a moment, which drops every controller, and leaves nobody allowed.
  - Reads back who is allowed and, where the kernel tells, who is connected. Fails while anybody is.
  - Stage target lets the next owner in. The data on the SSDs is not touched.
options:
  subsystems:
    description: NQNs of the subsystems.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Says who would be shut out, and changes nothing.
    support: full
author: [g35ctl]
"""

EXAMPLES = r"""
- name: Shut a dead host out of what it owned
  g35_fence:
    subsystems: [nqn.2026-01.io.g35ctl:lab:ebof1:ssd1]
"""

RETURN = r"""
state:
  description:
    - For each subsystem whether it is there, who is allowed and who is connected (none where the kernel does not tell).
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.g35.fencing import fence  # noqa: E402
from ansible.module_utils.g35.host import Host  # noqa: E402
from ansible.module_utils.g35.module import Busy, alone  # noqa: E402


def main() -> None:
    module = AnsibleModule(
        argument_spec={"subsystems": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    try:
        with alone():
            result = fence(Host(), module.params["subsystems"], check=module.check_mode)
    except Busy as error:
        module.fail_json(msg="another run is still changing this host: %s" % error, findings=[])
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
