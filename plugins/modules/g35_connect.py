#!/usr/bin/python
"""Ansible module g35_connect: NVMe-oF controllers of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_connect
short_description: Hold one NVMe-oF controller per subsystem and rail
version_added: "0.1.0"
description:
  - Writes the host's identity, loads modules, connects every missing path, disconnects stale controllers of this site
    and sets the multipath policy. Success is what sysfs shows afterwards, never an exit code.
  - Paths of portals that answer are connected even when another portal is down; the module then fails and names the
    portal and its rail.
  - Installs a unit that connects at boot and disconnects before the network goes down, and a timer that connects again
    what was lost.
  - Controllers of subsystems that do not belong to the site are never touched.
requirements:
  - nvme-cli 2.0 or newer
options:
  action:
    description: What to do. V(preflight) and V(verify) only read.
    type: str
    choices: [preflight, apply, verify, drain, remove]
    default: apply
  plan:
    description: The connect plan of this host, as computed by g35ctl.
    type: dict
    required: true
  allow_disruptive:
    description: Whether controllers of mounted namespaces may be disconnected.
    type: bool
    default: false
  secrets:
    description:
      - DH-HMAC-CHAP keys by host NQN, each with C(key) and C(controller_key), for a plan with C(authentication).
      - Never part of the plan and never logged; kept on the host in one file of mode 0600.
    type: dict
    default: {}
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
- name: Show what would be connected
  g35_connect:
    plan: "{{ g35_connect_plan }}"
  check_mode: true

- name: Disconnect this host in good order
  g35_connect:
    action: drain
    plan: "{{ g35_connect_plan }}"
"""

RETURN = r"""
changes:
  description: What was changed, or would be in check mode.
  returned: always
  type: list
  elements: dict
findings:
  description: What is not as it must be, with evidence and remedy.
  returned: always
  type: list
  elements: dict
state:
  description: Identity, paths with their controllers, subsystems and units as read last.
  returned: always
  type: dict
"""

from ansible.module_utils.g35.connect import build  # noqa: E402
from ansible.module_utils.g35.module import run_stage_module  # noqa: E402

if __name__ == "__main__":
    run_stage_module(build, secrets=True)
