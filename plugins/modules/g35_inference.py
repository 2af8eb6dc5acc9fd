#!/usr/bin/python
"""Ansible module: inference engines and routers on one host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: g35_inference
short_description: Run inference engines and routers on a host of a G3.5 tier
description:
  - Brings the vLLM and SGLang engines of one host, and the routers in front of the site's engines, to their plan in one
    execution. That is their Python environments built from pushed wheels or their images, their settings of the KV pool
    and their units.
  - Success is what the services say of themselves afterwards, that they are healthy and serve the planned model.
  - With installation mode C(files), files and units are written and nothing is installed, started, stopped or reloaded.
  - When an environment has to be built and its wheels are not on the host yet, it changes nothing and names the
    distribution in C(awaiting); the role pushes the wheels and calls again.
options:
  action:
    description: What to do, as in the role contract.
    type: str
    choices: [preflight, apply, verify, drain, remove]
    default: apply
  part:
    description: Which services this execution is about.
    type: str
    choices: [whole, vllm, sglang, router]
    default: whole
  plan:
    description: The InferencePlan of this host, computed by g35ctl.
    type: dict
    required: true
  allow_disruptive:
    description: Whether services that run may be restarted.
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
- name: Bring the vLLM engines to their plan
  g35_inference:
    part: vllm
    plan: "{{ g35_inference_plan }}"
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
  description: Distributions whose wheels the controller has to push before their environments can be built.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.g35.inference import PARTS, WHOLE, build  # noqa: E402
from ansible.module_utils.g35.module import run_stage_module  # noqa: E402

if __name__ == "__main__":
    run_stage_module(build, options={"part": {"type": "str", "choices": list(PARTS), "default": WHOLE}})
