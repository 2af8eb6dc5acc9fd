"""Hands each host its stage plans, so that plain ansible-playbook does what g35ctl deploy does."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.host import Host
from ansible.plugins.vars import BaseVarsPlugin

DOCUMENTATION = r"""
name: g35_plan
short_description: Stage plans of a g35ctl site, one variable per stage
version_added: "0.1.0"
description:
  - Plans the site that the inventory describes, with the planner of the C(g35ctl) command line, and gives each host
    C(g35_target_plan), C(g35_box_plan), C(g35_fabric_plan), C(g35_connect_plan), C(g35_storage_plan),
    C(g35_cache_plan), C(g35_inference_plan) and C(g35_probe_plan) where it takes part in the stage; a switch gets
    C(g35_switch_plan).
  - The environment variable C(G35_PLAN_FILE) names a plan in JSON that is taken instead; C(g35ctl deploy) sets it, so
    that a run works from one plan throughout. Set to C(none), no plan is made and the roles take the variables as the
    inventory gives them.
  - An inventory without a variable C(g35_site) is not a g35ctl site and gets nothing.
requirements:
  - g35ctl, installed in the Python environment of ansible-core, or this plugin inside a checkout of it
options: {}
author:
  - The g35ctl authors
"""

# One plan per process and source: the plugin is asked for every host, again and again.
_PLANS: dict[str, dict[str, dict[str, Any]]] = {}


class VarsModule(BaseVarsPlugin):
    """The variables plugin."""

    REQUIRES_ENABLED = False

    def get_vars(self, loader: Any, path: str, entities: Any, cache: bool = True) -> dict[str, Any]:
        """Stage plans of the host among ``entities``; nothing for groups."""
        super().get_vars(loader, path, entities)
        found: dict[str, Any] = {}
        for entity in entities if isinstance(entities, (list, tuple)) else [entities]:
            if isinstance(entity, Host):
                found.update(_plans().get(entity.get_name(), {}))
        return found


def _plans() -> dict[str, dict[str, Any]]:
    source = os.environ.get("G35_PLAN_FILE", "")
    if source == "none" or _loading():  # the site's loader reads variables itself: it must get the user's only
        return {}
    if source:
        if source not in _PLANS:
            _PLANS[source] = _from_file(source)
        return _PLANS[source]
    sources = context.CLIARGS.get("inventory") or ()
    _make_importable()
    if not sources:
        return {}
    key = "\0".join(sources)
    if key not in _PLANS:
        _PLANS[key] = {}  # whatever asks while the plan is being made gets none
        try:
            _PLANS[key] = _from_inventory(sources)
        except BaseException:
            del _PLANS[key]
            raise
    return _PLANS[key]


def _make_importable() -> None:
    """In a checkout, g35ctl lies beside plugins/; installed, it is importable or contains this file."""
    try:
        import g35ctl  # noqa: F401

        return
    except ImportError:
        pass
    here = os.path.dirname(os.path.realpath(__file__))
    for levels in (2, 4):  # <checkout>/plugins/vars, <site-packages>/g35ctl/_content/plugins/vars
        root = here
        for _ in range(levels):
            root = os.path.dirname(root)
        if os.path.isfile(os.path.join(root, "g35ctl", "__init__.py")):
            sys.path.insert(0, root)
            return
    raise AnsibleError("g35_plan: the Python package g35ctl cannot be found by %s" % sys.executable)


def _loading() -> bool:
    module = sys.modules.get("g35ctl.site.load")
    return bool(getattr(module, "loading", False))


def _from_file(path: str) -> dict[str, dict[str, Any]]:
    """Variables of each host from a plan in JSON: what HostPlan.variables gives, without loading the plan's types."""
    try:
        with open(path, encoding="utf-8") as handle:
            data = json.load(handle)
        found = {
            host["name"]: {
                "g35_%s_plan" % stage: plan for stage, plan in host.items() if stage != "name" and plan is not None
            }
            for host in data["hosts"]
        }
        found.update({switch["name"]: {"g35_switch_plan": switch} for switch in data.get("switches", [])})
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnsibleError("G35_PLAN_FILE=%s is not a plan of g35ctl: %s" % (path, error)) from error


def _from_inventory(sources: Any) -> dict[str, dict[str, Any]]:
    try:
        from g35ctl.engine.planning import is_site, make_plan, mentions
        from g35ctl.errors import G35Error
    except ImportError as error:
        raise AnsibleError(
            "g35_plan needs the package %s in the environment of %s: pip install g35ctl there"
            % (error.name, sys.executable)
        ) from error
    sites = [source for source in sources if is_site(source)]
    if not sites:
        return {}
    # Another inventory may come along, as Molecule's does, as long as it says nothing that the plan would miss.
    if len(sites) > 1 or any(source not in sites and mentions(source, b"g35_") for source in sources):
        raise AnsibleError(
            "g35_plan plans one inventory, and several were given (%s): put them into one directory"
            % ", ".join(sources)
        )
    try:
        return make_plan(sites[0])[1].variables()
    except G35Error as error:
        text = "\n".join(part for part in (error.what, error.why, error.next_command) if part)
        raise AnsibleError(text) from error
