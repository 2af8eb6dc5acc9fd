#!/usr/bin/python
"""Ansible module g35_fabric: RoCE settings of a host's data ports."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_fabric
short_description: Bring a host's data ports to the traffic contract
version_added: "0.1.0"
description:
  - Sets MTU, global pause, DCBX, ETS, the DSCP map, PFC, the defaults of rdma_cm and kernel parameters of a host, and
    installs the unit that applies them again at boot. Reads first and writes only what differs.
  - A change that would make a link with live NVMe-oF controllers flap is refused unless O(allow_disruptive=true).
requirements:
  - iproute2 5.11 or newer with dcb
options:
  action:
    description: What to do. V(preflight) and V(verify) read only.
    type: str
    choices: [preflight, apply, verify, drain, remove]
    default: apply
  plan:
    description: The fabric plan of this host, as computed by g35ctl (see docs/variables.md).
    type: dict
    required: true
  allow_disruptive:
    description: Consent to changes that interrupt something live.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Says what would change and changes nothing.
  diff_mode:
    support: full
    description: Shows each setting before and after.
author:
  - The g35ctl authors
"""

EXAMPLES = r"""
- name: Apply the traffic contract to the data ports
  g35_fabric:
    plan:
      site: lab
      transport: rdma
      ports:
        - {netdev: eth1, rail: a, address: 192.0.2.21, prefix_length: 24, mtu: 4200}
      dscp: 26
      priority: 3
      cnp_dscp: 48
      cnp_priority: 6
      tos: 106
      bandwidth_percent: 50
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
  description: What was read - ports by network device, modules, kernel parameters, and whether lldpad runs.
  returned: always
  type: dict
"""

from ansible.module_utils.g35.fabric import build  # noqa: E402
from ansible.module_utils.g35.module import run_stage_module  # noqa: E402

if __name__ == "__main__":
    run_stage_module(build)
