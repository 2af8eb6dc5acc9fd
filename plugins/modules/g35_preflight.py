#!/usr/bin/python
"""Check a host before anything is changed on it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: g35_preflight
short_description: Check a host before anything is changed on it
description:
  - Checks the system (distribution, systemd, root, Python, clock, packages) and the preconditions of every stage.
  - Does so in one execution per host.
  - Changes nothing. Fails when a finding of severity error exists, after all of them were collected.
options:
  target:
    description: Plan of stage target; left out when the host takes no part in it.
    type: dict
  fabric:
    description: Plan of stage fabric; left out when the host takes no part in it.
    type: dict
  connect:
    description: Plan of stage connect; left out when the host takes no part in it.
    type: dict
  storage:
    description: Plan of stage storage; left out when the host takes no part in it.
    type: dict
  cache:
    description: Plan of stage cache; left out when the host takes no part in it.
    type: dict
  inference:
    description: Plan of stage inference; left out when the host takes no part in it.
    type: dict
attributes:
  check_mode:
    description: Runs in check mode; it never changes anything.
    support: full
author:
  - g35ctl developers
"""

EXAMPLES = r"""
- name: Check a host before anything is changed on it
  g35_preflight:
    fabric: "{{ g35_fabric_plan }}"
    connect: "{{ g35_connect_plan }}"
"""

RETURN = r"""
findings:
  description: What is not as it must be; each with stage, check, subject, observed, expected, remedy and severity.
  returned: always
  type: list
  elements: dict
state:
  description: What was read, by stage; C(system) describes the host itself.
  returned: always
  type: dict
"""

from ansible.module_utils.g35.aggregate import preflight  # noqa: E402
from ansible.module_utils.g35.every_stage import run_aggregate_module  # noqa: E402


def main() -> None:
    """See DOCUMENTATION."""
    run_aggregate_module(preflight)


if __name__ == "__main__":
    main()
