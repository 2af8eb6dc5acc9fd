"""From an inventory to its Plan, with everything that has to be read on the way.

The command line, the engine and Ansible's variables plugin all come through here, so that there is one planner behind
every door.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ansible.module_utils.g35.plans import Wheel

from g35ctl.bundle.wheelhouse import default_directory, read
from g35ctl.bundle.wheelhouse import load as wheelhouse
from g35ctl.engine.folder import state_directory
from g35ctl.engine.ledger import Ledger, content_digest
from g35ctl.engine.lifecycle.record import load_custody, standing
from g35ctl.errors import G35Error
from g35ctl.plan import inference_program
from g35ctl.plan.build import build
from g35ctl.plan.cache import wheel_set
from g35ctl.plan.context import Paths, WheelSet
from g35ctl.plan.custody import Custody
from g35ctl.plan.disruptive import Recorded, disruptive_steps
from g35ctl.plan.model import Plan, Summary
from g35ctl.plan.workload.figures import figures
from g35ctl.plan.workload.hardware import hardware_of
from g35ctl.plan.workload.inherit import effective_workload
from g35ctl.plan.workload.model import WorkloadFigures
from g35ctl.site.keys import HostKeys, read_host_keys
from g35ctl.site.load import load
from g35ctl.site.model import Site
from g35ctl.site.model_config import site_shape


def make_plan(inventory: str) -> tuple[Site, Plan]:
    """Load the site and plan it: sticky to the recorded owners, with the wheels the controller has.

    Raises g35ctl.site.problems.SiteInvalid when the site is not valid, G35Error when a record is damaged. Missing
    wheels are a warning of the plan: everything but the cache stage can be planned and rendered without them.
    """
    with _without_collections():
        site = load(inventory)
        return site, _plan(inventory, site)


def plan_again(inventory: str, site: Site, custody: Custody | None = None) -> Plan:
    """Plan a site that is loaded already, from ``custody`` or what is on record now. Raises G35Error when a record is
    damaged."""
    with _without_collections():
        return _plan(inventory, site, custody)


def _plan(inventory: str, site: Site, custody: Custody | None = None) -> Plan:
    paths = controller_paths(inventory)
    custody = custody or load_custody(state_directory(inventory))
    plan = build(site, None, _wheels(site, paths), paths, _keys(site), custody)
    plan = replace(plan, warnings=plan.warnings + standing(state_directory(inventory)))
    plan = replace(plan, workload=workload_figures(site, plan.summary))
    recorded = recorded_stages(inventory, plan)
    return replace(plan, disruptive=disruptive_steps(plan.hosts, recorded)) if recorded else plan


def workload_figures(site: Site, summary: Summary) -> WorkloadFigures | None:
    """What the tier can hold and carry for the site's workload; None for a site that states none."""
    workload, hardware = effective_workload(site, summary), hardware_of(site, summary)
    if workload is None or not hardware.hosts:
        return None
    return figures(workload, site.validation.prices, site_shape(site.inventory, workload), hardware)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Nearly everything made while planning is kept, so that looking for garbage meanwhile is a fifth of the time of
    a large site, for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_site(inventory: str) -> bool:
    """Whether an inventory describes a g35ctl site: it, or the variables beside it, mention ``g35_site``."""
    return mentions(inventory, b"g35_site")


def mentions(inventory: str, word: bytes) -> bool:
    """Whether an inventory, or the variables beside it, hold a word.

    A script's variables cannot be known without running it; one is taken to hold it. Cheap, and never raises: the
    variables plugin asks for inventories that may have nothing to do with g35ctl.
    """
    path = Path(inventory)
    if path.is_file():
        if os.access(path, os.X_OK):
            return True
        roots = [path, path.parent / "group_vars", path.parent / "host_vars"]
    else:
        roots = [path]
    files = (file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*"))))
    return any(
        word in file.read_bytes()
        for file in files
        if ".g35" not in file.parts and file.is_file() and os.access(file, os.R_OK)
    )


def controller_paths(inventory: str) -> Paths:
    """Where relative paths of the inventory start, and where wheelhouses are kept that no site names."""
    path = Path(inventory).absolute()
    directory = path if path.is_dir() else path.parent
    return Paths(str(directory), str(default_directory("", "").parent))


def recorded_stages(inventory: str, plan: Plan) -> Recorded:
    """What the ledger knows of this plan's stages: host to stage to whether it holds what is planned now."""
    path = state_directory(inventory) / "ledger.json"
    if not path.is_file():
        return {}
    ledger = Ledger(path)
    content = content_digest()
    found: dict[str, dict[str, bool]] = {}
    for stage, names in plan.stage_hosts.items():
        for name in names:
            if ledger.entry(name, stage) is not None:
                found.setdefault(name, {})[stage] = ledger.matches(plan.host(name), stage, content)
    return found


def pending(inventory: str, plan: Plan) -> tuple[tuple[str, str], ...]:
    """The (host, stage) pairs that a deploy would apply: everything that the ledger does not know to hold."""
    recorded = recorded_stages(inventory, plan)
    return tuple(
        (host, stage)
        for stage, hosts in plan.stage_hosts.items()
        if stage not in ("preflight", "validate")
        for host in hosts
        if not recorded.get(host, {}).get(stage, False)
    )


def _keys(site: Site) -> Mapping[str, HostKeys]:
    """The key files of hosts that authenticate; the site's checks have already named those that cannot be read."""
    found = {host.name: read_host_keys(site, host) for host in site.group("cache_owners")}
    return {name: keys for name, keys in found.items() if keys is not None}


def _wheels(site: Site, paths: Paths) -> Mapping[WheelSet, tuple[Wheel, ...]]:
    found: dict[WheelSet, tuple[Wheel, ...]] = {}
    for host in site.hosts:
        if host.box is not None and not host.ports:
            continue
        wanted = wheel_set(paths, host)
        if wanted not in found:
            try:
                found[wanted] = read(wanted.directory, wanted.distribution, wanted.version, wanted.target)
            except G35Error:
                found[wanted] = ()
    for host in site.hosts:
        for wanted in inference_program.wheel_sets(paths, site, host):
            if wanted not in found:
                # Gigabytes: what the manifest says is taken, and each host checks what it was pushed.
                try:
                    found[wanted] = wheelhouse(wanted.directory).plan_wheels()
                except G35Error:
                    found[wanted] = ()
    return found
