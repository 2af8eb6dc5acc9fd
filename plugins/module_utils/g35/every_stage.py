"""Modules that act on all stages of a host at once: the one table of stages, and what those modules' ``main`` does.

Apart from ``aggregate``: AnsiballZ packs what it sees imported, and a module of one stage must not carry all of them.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-not-found,unused-ignore]

from . import cache, connect, fabric, inference, storage, target
from .aggregate import STAGES, Builder
from .host import Host

BUILDERS: Dict[str, Builder] = {
    "target": target.build,
    "fabric": fabric.build,
    "connect": connect.build,
    "storage": storage.build,
    "cache": cache.build,
    "inference": inference.build,
}

Act = Callable[[Host, Mapping[str, Dict[str, Any]], Callable[[str], Builder]], Dict[str, Any]]


def run_aggregate_module(act: Act) -> None:
    """Run ``aggregate.preflight`` or ``aggregate.verify`` over the plans that were given and exit with its result."""
    module = AnsibleModule(argument_spec={name: {"type": "dict"} for name in STAGES}, supports_check_mode=True)
    plans = {name: module.params[name] for name in STAGES if module.params[name]}
    result = act(Host(), plans, BUILDERS.__getitem__)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
