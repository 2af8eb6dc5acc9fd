#!/usr/bin/python
"""Ansible module: Mooncake on one host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: g35_cache
short_description: Run Mooncake on a host of a G3.5 tier
description:
  - Brings Mooncake on one host to its plan in one execution. That is its own Python environment built from pushed
    wheels, an unprivileged user, the nftables table C(inet g35), the master where the plan has one, and one store per
    owned namespace.
  - Success is what Mooncake itself says afterwards, the master's role and the segments it lists with their transport.
  - When the environment has to be built and the wheels are not on the host yet, it changes nothing and names them in
    C(awaiting); the role pushes them and calls again.
options:
  action:
    description: What to do, as in the role contract.
    type: str
    choices: [preflight, apply, verify, drain, remove]
    default: apply
  plan:
    description: The CachePlan of this host, computed by g35ctl.
    type: dict
    required: true
  allow_disruptive:
    description: Whether running stores and masters may be restarted.
    type: bool
    default: false
  part:
    description:
      - C(environment) brings about only what all hosts can do at once before any service is touched, that is the user
        and the Python environment. The returned state then says in C(whole) whether nothing else is left to do either.
    type: str
    choices: [whole, environment]
    default: whole
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
- name: Bring Mooncake to its plan
  g35_cache:
    plan: "{{ g35_cache_plan }}"
"""

RETURN = r"""
changes:
  description: What was, or in check mode would be, changed.
  returned: always
  type: list
  elements: dict
findings:
  description: What is not as it must be, each with evidence and remedy.
  returned: always
  type: list
  elements: dict
state:
  description: What was read last.
  returned: always
  type: dict
awaiting:
  description: Wheels the controller has to push before the environment can be built.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.g35.cache import PARTS, WHOLE, build  # noqa: E402
from ansible.module_utils.g35.module import run_stage_module  # noqa: E402

if __name__ == "__main__":
    run_stage_module(build, options={"part": {"type": "str", "choices": list(PARTS), "default": WHOLE}})
