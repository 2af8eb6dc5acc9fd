"""What a site needs from outside: wheels for the Python of each host, and the packages of each system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ansible.module_utils.g35.support import BENCH_TOOLS, STRIPE_TOOL, TLS_TOOL, TOOLS

from g35ctl.bundle.carried import Need
from g35ctl.bundle.wheelhouse import Target
from g35ctl.engine import folder
from g35ctl.engine.ledger import read_json
from g35ctl.engine.planning import controller_paths, make_plan
from g35ctl.plan.cache import wheel_set
from g35ctl.plan.context import WheelSet
from g35ctl.plan.inference_program import wheel_sets as engine_wheels
from g35ctl.plan.model import Plan


def wheels_needed(inventory: str) -> tuple[str, tuple[Need, ...]]:
    """The site's name, and the wheels that its hosts need.

    A host's Python is what the site states (g35_mooncake.python), else what a run of this site last read there, else
    the default. Raises SiteInvalid.
    """
    site, plan = make_plan(inventory)
    paths = controller_paths(inventory)
    read = _pythons_read(inventory)
    found: dict[WheelSet, set[Target]] = {}
    for host in site.hosts:
        planned = plan.host(host.name)
        wanted = [wheel_set(paths, host)] if planned.cache is not None else []
        wanted += engine_wheels(paths, site, host) if planned.inference is not None else ()
        for item in wanted:
            bare = WheelSet(item.directory, item.distribution, item.version)
            stated = Target.parse(item.target) if item.target else Target(read.get(host.name, Target().python))
            found.setdefault(bare, set()).add(stated)
    return site.identity.name, tuple(
        Need(item.directory, item.distribution, item.version, tuple(sorted(targets, key=str)))
        for item, targets in sorted(found.items(), key=lambda pair: pair[0].directory)
    )


def _pythons_read(inventory: str) -> Mapping[str, str]:
    """Host to its Python (3.N), from the latest run that read it."""
    found: dict[str, str] = {}
    for run in folder.runs(folder.state_directory(inventory)):
        path: Path = run.path / "state.json"
        states = read_json(path, "record of a run") if path.is_file() else {}
        for host, state in states.items():
            told = str((state.get("system") or {}).get("python", "")) if isinstance(state, dict) else ""
            if told.startswith("3.") and told.count(".") == 2:
                found[host] = told.rpartition(".")[0]
    return found


def packages_needed(plan: Plan, family: str) -> tuple[str, ...]:
    """Names of the packages that the stages of this plan, and the suites that measure it, use on hosts of a family
    (debian or redhat)."""
    stages = {name for host in plan.hosts for name in host.stages()}
    wanted = {tool.package(family) for name in stages for tool in TOOLS.get(name, ())}
    if any(part is not None and part.tls for host in plan.hosts for part in (host.connect, host.target)):
        wanted.add(TLS_TOOL.package(family))
    if any(host.storage is not None and host.storage.sets for host in plan.hosts):
        wanted.add(STRIPE_TOOL.package(family))
    wanted |= {tool.package(family) for tool in BENCH_TOOLS.values()} if stages else set()
    return tuple(sorted(wanted))
