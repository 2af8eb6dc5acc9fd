#!/usr/bin/python
"""Ansible module: run a benchmark suite of g35ctl on this host, together with the others."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: g35_bench
short_description: Measure the fabric, the namespaces or the KV pool of a G3.5 tier
description:
  - Action C(run) drives perftest, fio or Mooncake's client as the job says. The hosts of a suite meet before each
    round, so all of them must be worked on at the same time (forks).
  - Action C(end) ends a benchmark that an interrupted run left behind, and removes what it left.
  - It returns what the tools said. Reading and judging that is the controller's.
options:
  action:
    description: What to do.
    type: str
    choices: [run, end]
    default: run
  job:
    description: The BenchJob of this host, computed by g35ctl.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Does nothing in check mode.
    support: full
author: [g35ctl]
"""

EXAMPLES = r"""
- name: Run the suite's part of this host
  g35_bench:
    job: "{{ g35_bench_jobs[inventory_hostname] }}"
"""

RETURN = r"""
state:
  description: What each tool said, with its command line, and the counters of the data ports before and after.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.g35 import bench, children  # noqa: E402
from ansible.module_utils.g35.bench_jobs import BenchJob  # noqa: E402
from ansible.module_utils.g35.host import Host  # noqa: E402
from ansible.module_utils.g35.schema import SchemaError, load  # noqa: E402


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": ["run", "end"], "default": "run"},
            "job": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, msg="nothing is measured in check mode", findings=[], state={})
    if module.params["action"] == "end":
        ended = children.end(Host())
        module.exit_json(changed=ended, msg="", findings=[], state={})
    stop = children.Stop()
    stop.arm()
    try:
        state = bench.run(Host(), load(BenchJob, module.params["job"]), stop)
    except SchemaError as error:
        module.fail_json(msg="the job given to this module is not valid: %s" % error, findings=[])
    except bench.BenchFailed as error:
        finding = {
            "check": "validate.bench",
            "subject": "",
            "observed": str(error),
            "expected": "the suite runs to its end",
            "remedy": error.remedy,
            "severity": "error",
        }
        module.fail_json(msg="the benchmark could not be run: %s" % error, findings=[finding], state={})
    # Its own file and values are removed again: nothing about the host is different afterwards.
    module.exit_json(changed=False, msg="", findings=[], state=state)


if __name__ == "__main__":
    main()
