#!/usr/bin/python
"""Ansible module g35_pool: ask and move what the KV pool holds, from the host of its master."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_pool
short_description: Empty stores' memory and compare the keys of a KV pool
version_added: "0.2.0"
description:
  - Runs where Mooncake's environment and the master's admin interface can be reached, usually on the master's host.
  - V(note) writes down every key and gives the digests of some values; V(compare) says which keys are missing since,
    and whether these values are still the same.
  - V(empty) closes memory segments and moves what exists only there to others; V(reopen) takes that back.
  - V(gone) and V(present) wait until the master lists none, or all, of the segments. V(forget) removes the list of
    V(note).
options:
  action:
    description: What to do.
    type: str
    choices: [note, compare, empty, reopen, gone, present, forget]
    required: true
  plan:
    description: The ProbePlan of this host, computed by g35ctl.
    type: dict
    required: true
  token:
    description: Names the act; the same for V(note), V(compare) and V(forget).
    type: str
    required: true
  segments:
    description: Memory segments (address:port).
    type: list
    elements: str
    default: []
  sample:
    description: How many values V(note) takes the digests of.
    type: int
    default: 16
  digests:
    description: What V(note) gave, for V(compare).
    type: dict
    default: {}
  job:
    description: The drain job that V(empty) told, for V(reopen).
    type: str
    default: ""
  seconds:
    description: How long V(empty), V(gone) and V(present) may take.
    type: int
    default: 300
attributes:
  check_mode:
    description: Does nothing in check mode.
    support: full
author: [g35ctl]
"""

EXAMPLES = r"""
- name: Empty the memory of a store before it is stopped
  g35_pool:
    action: empty
    plan: "{{ g35_probe_plan }}"
    token: 20261201T120000Z
    segments: ["192.0.2.21:50052"]
"""

RETURN = r"""
state:
  description: What was seen; the members depend on the action.
  returned: success
  type: dict
"""

import re  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.g35 import poolwork  # noqa: E402
from ansible.module_utils.g35.host import Host  # noqa: E402
from ansible.module_utils.g35.plans import ProbePlan  # noqa: E402
from ansible.module_utils.g35.pool import PoolError  # noqa: E402
from ansible.module_utils.g35.probe import ProbeFailed  # noqa: E402
from ansible.module_utils.g35.schema import SchemaError, load  # noqa: E402


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": list(poolwork.ACTIONS), "required": True},
            "plan": {"type": "dict", "required": True},
            "token": {"type": "str", "required": True, "no_log": False},
            "segments": {"type": "list", "elements": "str", "default": []},
            "sample": {"type": "int", "default": 16},
            "digests": {"type": "dict", "default": {}},
            "job": {"type": "str", "default": ""},
            "seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    given = module.params
    if not re.match(r"^[A-Za-z0-9._-]{1,64}$", given["token"]):
        module.fail_json(msg="token must be 1 to 64 letters, digits, dots, underscores or hyphens")
    if module.check_mode:
        module.exit_json(changed=False, msg="the pool is left alone in check mode", findings=[], state={})
    try:
        work = poolwork.Work(Host(), load(ProbePlan, given["plan"]), given["token"])
        wanted = {name: given[name] for name in ("segments", "sample", "digests", "job")}
        state = work.run(given["action"], seconds=float(given["seconds"]), **wanted)
    except SchemaError as error:
        module.fail_json(msg="the plan given to this module is not valid: %s" % error, findings=[])
    except (PoolError, ProbeFailed, OSError) as error:
        finding = {
            "check": "pool.%s" % given["action"],
            "subject": "master",
            "observed": str(error),
            "expected": "an answer",
            "remedy": "g35ctl status; then the same command again",
            "severity": "error",
        }
        module.fail_json(msg=str(error), findings=[finding], state={})
    module.exit_json(changed=given["action"] == "empty", msg="", findings=[], state=state)


if __name__ == "__main__":
    main()
