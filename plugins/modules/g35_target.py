#!/usr/bin/python
"""Ansible module g35_target: the NVMe-oF target of a box."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_target
short_description: Export a box's SSDs over NVMe-oF with the kernel's nvmet
version_added: "0.1.0"
description:
  - Brings hosts, subsystems, namespaces and ports in configfs to the plan and installs the unit that restores them at
    boot. Subsystems and ports that g35ctl did not make are never touched, and a live controller of a subsystem that
    the change does not concern stays connected.
  - A change that drops live controllers is refused unless O(allow_disruptive=true).
options:
  action:
    description:
      - What to do. V(preflight) and V(verify) read only. V(drain) closes the portals and leaves everything else.
    type: str
    choices: [preflight, apply, verify, drain, remove]
    default: apply
  plan:
    description: The target plan of this box, as computed by g35ctl (see docs/variables.md).
    type: dict
    required: true
  allow_disruptive:
    description: Consent to changes that interrupt something live.
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
    support: full
    description: Says what would change and changes nothing.
  diff_mode:
    support: full
    description: Shows each item before and after.
author:
  - The g35ctl authors
"""

EXAMPLES = r"""
- name: Export one SSD to one host
  g35_target:
    plan:
      site: lab
      portals:
        - {address: 192.0.2.11, rail: a, port_id: 1}
      namespaces:
        - nqn: nqn.2026-01.example.g35:ebof1.ssd0
          nsid: 1
          uuid: 6f1d3f0e-2f4b-4a55-9c0c-3e8f1f0a1b01
          nguid: 6f1d3f0e2f4b4a559c0c3e8f1f0a1b01
          device: /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_SSD0001
          serial: SSD0001
          model: G35
          allowed_hosts:
            - nqn.2014-08.org.nvmexpress:uuid:0d5c9c4e-6a0e-5a0c-8a3e-2f1e0c9b7a11
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
  description: What was read - subsystems, ports and hosts in configfs, and the sessions that are connected.
  returned: always
  type: dict
"""

from ansible.module_utils.g35.module import run_stage_module  # noqa: E402
from ansible.module_utils.g35.target import build  # noqa: E402

if __name__ == "__main__":
    run_stage_module(build, secrets=True)
