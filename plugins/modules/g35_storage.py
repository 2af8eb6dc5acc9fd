#!/usr/bin/python
"""Ansible module g35_storage: file systems of the namespaces a host owns."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_storage
short_description: Give each owned namespace its file system and mount it
version_added: "0.1.0"
description:
  - Finds each namespace by subsystem and identifier, checks its UUID, makes an XFS where it is empty, mounts it through
    a systemd mount unit and marks its owner in the file system. Namespaces of a striped set (C(plan.sets)) get one md
    array of level 0 with one XFS instead, assembled by a unit of its own when all of them are there.
  - Refuses anything that is not empty and was not made by g35ctl for exactly this namespace and site, unless the plan
    names the namespace's UUID under C(destroy). Refuses a file system that is marked for another owner.
  - Draining and removing unmount; they never wipe.
requirements:
  - xfsprogs
  - util-linux
  - mdadm, where the plan has a striped set
options:
  action:
    description: What to do. V(preflight) and V(verify) only read.
    type: str
    choices: [preflight, apply, verify, drain, remove]
    default: apply
  plan:
    description: The storage plan of this host, as computed by g35ctl.
    type: dict
    required: true
  allow_disruptive:
    description: Kept for the role contract; no change of this stage interrupts a working mount.
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
- name: Mount what this host owns
  g35_storage:
    plan: "{{ g35_storage_plan }}"

- name: Read the mounts and their markers
  g35_storage:
    action: verify
    plan: "{{ g35_storage_plan }}"
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
  description: Each mount with its device, contents, live paths, marker and capacity as read last.
  returned: always
  type: dict
"""

from ansible.module_utils.g35.module import run_stage_module  # noqa: E402
from ansible.module_utils.g35.storage import build  # noqa: E402

if __name__ == "__main__":
    run_stage_module(build)
