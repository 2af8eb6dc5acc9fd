"""What works, but should be known before it is relied on."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from g35ctl.plan.cache import local_directories, wheel_set
from g35ctl.plan.context import Context
from g35ctl.plan.model import HostPlan
from g35ctl.plan.nof import EXPERIMENTAL
from g35ctl.site.model import SiteHost

_SHOWN = 8
# drivers that change nothing on the box
_LOOKED_AT = ("static", "discovery")


def plan_warnings(context: Context, hosts: Sequence[HostPlan]) -> tuple[str, ...]:
    """Warnings of a whole plan, each one said once however many hosts it concerns."""
    return (
        *_master(context),
        *((EXPERIMENTAL,) if context.raw else ()),
        *_idle_owners(context),
        *_local_flash(context),
        *_single_path(hosts),
        *_queues(context, hosts),
        *_lossy(context),
        *_static_boxes(context),
        *_missing_wheels(context, hosts),
        *_missing_engine_wheels(context, hosts),
        *_destroy(context),
        *_empty_stores(hosts),
    )


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _master(context: Context) -> Iterator[str]:
    if context.master is None:
        yield "no host of group mooncake_masters has a data port: no cache is planned"


def _idle_owners(context: Context) -> Iterator[str]:
    idle = (
        []
        if context.raw
        else [
            host.name
            for host in context.site.group("cache_owners")
            if host.name not in context.owned and not local_directories(context, host)
        ]
    )
    if idle:
        yield f"own nothing, because there are not enough namespaces that they can reach: {_listed(idle)}"


def _local_flash(context: Context) -> Iterator[str]:
    local = [host.name for host in context.site.group("cache_owners") if local_directories(context, host)]
    if local:
        yield (
            f"flash is a local directory, no shared box: what is on it is lost to the pool together with its host, and"
            f" figures say nothing about an EBOF: {_listed(local)}"
        )


def _single_path(hosts: Sequence[HostPlan]) -> Iterator[str]:
    single = []
    for host in hosts:
        if host.connect is not None:
            rails: dict[str, set[str]] = {}
            for path in host.connect.paths:
                rails.setdefault(path.nqn, set()).add(path.rail)
            if any(len(found) < 2 for found in rails.values()):
                single.append(host.name)
    if single:
        yield f"reach namespaces over one rail only, so one cable is enough to lose them: {_listed(single)}"


def _queues(context: Context, hosts: Sequence[HostPlan]) -> Iterator[str]:
    fewer: dict[tuple[int, int, int], list[str]] = {}
    over = []
    for host in hosts:
        if host.connect is None:
            continue
        nvme, paths = context.hosts[host.name].nvme, len(host.connect.paths)
        if paths * 2 > nvme.queue_pair_budget:
            over.append(host.name)
        elif host.connect.io_queues < nvme.io_queues:
            fewer.setdefault((host.connect.io_queues, nvme.io_queues, paths), []).append(host.name)
    for (queues, asked, paths), names in fewer.items():
        yield (
            f"{queues} I/O queues per controller instead of {asked}, so that {paths} paths stay within"
            f" g35_nvme.queue_pair_budget: {_listed(names)}"
        )
    if over:
        yield f"more paths than g35_nvme.queue_pair_budget allows, even with one I/O queue each: {_listed(over)}"


def _lossy(context: Context) -> Iterator[str]:
    fabric = context.site.fabric
    if fabric.transport == "rdma" and fabric.lossless == "unavailable":
        yield "g35_fabric.lossless is 'unavailable': without PFC, RDMA throughput collapses under congestion"


def _static_boxes(context: Context) -> Iterator[str]:
    used = {head for item in context.ownership for head in context.heads(item.box)}
    boxes = {name: host.box.driver for name, host in context.boxes.items() if host.box is not None and name in used}
    static = [name for name, driver in boxes.items() if driver in _LOOKED_AT]
    if static:
        yield (
            f"not configured by g35ctl: {_listed(static)}. Let each subsystem admit the host NQN of its owner only, as"
            " this plan lists them"
        )


def _missing_wheels(context: Context, hosts: Sequence[HostPlan]) -> Iterator[str]:
    missing: dict[tuple[str, str, str, str], list[str]] = {}
    for plan, host in zip(hosts, context.site.hosts, strict=True):
        if plan.cache is not None and not plan.cache.runtime.wheels:
            wanted = wheel_set(context.paths, host)
            missing.setdefault((wanted.directory, wanted.distribution, wanted.version, wanted.target), []).append(
                host.name
            )
    for (directory, distribution, version, target), names in missing.items():
        command = ["g35ctl", "bundle", "create", "--output", directory]
        command += ["--distribution", distribution, "--release", version]
        command += ["--python", target] if target else []
        needed = f"{distribution} {version}, which is needed on {_listed(names)}"
        yield f"{directory} lacks {needed}: run {shlex.join(command)}"


def _missing_engine_wheels(context: Context, hosts: Sequence[HostPlan]) -> Iterator[str]:
    missing: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = {}
    for host in hosts:
        for item in host.inference.runtimes if host.inference is not None else ():
            if not item.wheels:
                others = _beside(context.hosts[host.name], host, item.distribution)
                key = (item.wheel_directory, item.distribution, item.version, others)
                missing.setdefault(key, []).append(host.name)
    for (directory, distribution, version, others), names in missing.items():
        command = ["g35ctl", "bundle", "create", "--output", directory]
        command += ["--distribution", distribution, "--release", version]
        for name in others:
            command += ["--with", name]
        needed = f"{distribution} {version}, which is needed on {_listed(names)}"
        yield f"{directory} lacks {needed}: run {shlex.join(command)}"


def _beside(host: SiteHost, plan: HostPlan, distribution: str) -> tuple[str, ...]:
    """What an engine's environment needs besides its own wheel; Mooncake in the variant that the engine can load."""
    found: dict[str, None] = {}
    for engine in plan.inference.engines if plan.inference is not None else ():
        for package in engine.packages if engine.program.distribution == distribution else ():
            name, _, version = package.partition("==")
            if name == "mooncake-transfer-engine" and engine.device == "cpu":
                name += "-non-cuda"
            elif name == "mooncake-transfer-engine" and not host.mooncake.distribution.endswith("-non-cuda"):
                name = host.mooncake.distribution
            found[f"{name}=={version}"] = None
    return tuple(found)


def _destroy(context: Context) -> Iterator[str]:
    owned = {item.uuid: item.owner for item in context.ownership}
    for host in context.site.hosts:
        for uuid in host.storage.destroy:
            owner = owned.get(str(uuid))
            if owner is None:
                yield f"{host.name}: g35_storage.destroy names {uuid}, which is no namespace of this site: no effect"


def _empty_stores(hosts: Sequence[HostPlan]) -> Iterator[str]:
    small = [
        item.namespace_uuid
        for host in hosts
        if host.cache is not None and host.cache.store is not None
        for item in host.cache.store.instances
        if item.capacity <= 0 and not item.stripe  # of a set, something is missing, which is told already
    ]
    if small:
        yield f"too small to hold a file system and its reserve: namespaces {_listed(small)}"
