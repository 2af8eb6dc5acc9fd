#!/usr/bin/python
"""Ansible module g35_release: let go of what a host's plans have no more."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_release
short_description: Stop, unmount and disconnect what this host no longer owns
version_added: "0.2.0"
description:
  - Takes the plans of what the host keeps. Stores, mounts and controllers of g35ctl that they have no more are
    stopped, unmounted and disconnected, in this order, and their units removed.
  - Success is read back. The data on the namespaces stays. Asking for it is consent to what it interrupts.
options:
  cache:
    description: The cache plan of what the host keeps.
    type: dict
  storage:
    description: The storage plan of what the host keeps.
    type: dict
  connect:
    description: The connect plan of what the host keeps.
    type: dict
  fenced:
    description: The host was shut out of its namespaces; connections go first, because nothing answers over them.
    type: bool
    default: false
attributes:
  check_mode:
    description: Computes every change and makes none.
    support: full
  diff_mode:
    description: Shows each change before and after.
    support: full
author: [g35ctl]
"""

EXAMPLES = r"""
- name: Let go of what was moved to other owners
  g35_release:
    cache: "{{ g35_cache_plan | default(omit) }}"
    storage: "{{ g35_storage_plan | default(omit) }}"
    connect: "{{ g35_connect_plan | default(omit) }}"
"""

RETURN = r"""
changes:
  description: What was let go of, or would be in check mode, each with its stage.
  returned: always
  type: list
  elements: dict
findings:
  description: What could not be let go of.
  returned: always
  type: list
  elements: dict
state:
  description: Stage to what was read last.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.g35 import cache, connect, storage  # noqa: E402
from ansible.module_utils.g35.host import Host  # noqa: E402
from ansible.module_utils.g35.module import Busy, alone  # noqa: E402
from ansible.module_utils.g35.release import ORDER, release  # noqa: E402

BUILDERS = {"cache": cache.build, "storage": storage.build, "connect": connect.build}


def main() -> None:
    arguments = {name: {"type": "dict"} for name in ORDER}
    module = AnsibleModule(
        argument_spec={**arguments, "fenced": {"type": "bool", "default": False}}, supports_check_mode=True
    )
    fenced = module.params["fenced"]
    plans = {name: module.params[name] for name in ORDER if module.params[name]}
    if module.check_mode:
        result = release(Host(), plans, BUILDERS, fenced=fenced, check=True)
    else:
        try:
            with alone():
                result = release(Host(), plans, BUILDERS, fenced=fenced)
        except Busy as error:
            module.fail_json(msg="another run is still changing this host: %s" % error, findings=[])
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
