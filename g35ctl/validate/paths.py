"""Functional checks from the box to the file system: fenced exports, live paths on every rail, right mounts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from ansible.module_utils.g35.plans import ConnectPath, Mount, StoragePlan, TargetNamespace

from g35ctl.observe.model import Controller, Export, FileSystem
from g35ctl.validate.judging import Judging, listed
from g35ctl.verdict import Verdict


def judge(judging: Judging) -> Iterator[Verdict]:
    """Every exported namespace, every subsystem's paths, every owned file system."""
    for host in judging.plan.hosts:
        if host.target is not None:
            missing = judging.missing("target", host.name)
            exports = {item.uuid: item for item in judging.readings.exports.get(host.name, ())}
            portals = sorted(f"{portal.address}:{portal.port}" for portal in host.target.portals)
            for namespace in host.target.namespaces:
                found_export = exports.get(namespace.uuid)
                yield _export(judging, host.name, portals, namespace, found_export, missing)
                yield _fence(judging, host.name, namespace, found_export, missing)
        if host.connect is not None:
            missing = judging.missing("connect", host.name)
            controllers = judging.readings.controllers.get(host.name, ())
            for nqn in dict.fromkeys(path.nqn for path in host.connect.paths):
                paths = [path for path in host.connect.paths if path.nqn == nqn]
                yield _paths(judging, host.name, nqn, paths, controllers, missing)
        if host.storage is not None:
            missing = judging.missing("storage", host.name)
            found = {item.uuid: item for item in judging.readings.file_systems.get(host.name, ())}
            for mount in host.storage.mounts:
                yield _mount(judging, host.name, host.storage, mount, found.get(mount.uuid), missing)
                yield _marker(judging, host.name, host.storage, mount, found.get(mount.uuid), missing)


def _export(
    judging: Judging, host: str, portals: Sequence[str], plan: TargetNamespace, found: Export | None, missing: str
) -> Verdict:
    """The namespace is enabled and its subsystem is on every portal."""
    wanted = f"namespace {plan.uuid} on {listed(portals)}"
    if missing:
        return judging.skip("target.export", missing, wanted, host=host, subject=plan.nqn)
    told = "not exported"
    if found is not None:
        told = f"namespace {found.uuid} on {listed(found.portals)}" + ("" if found.enabled else ", disabled")
        if (found.nqn, found.nsid) != (plan.nqn, plan.nsid):
            told += f", as namespace {found.nsid} of {found.nqn}"
    remedy = f"run: g35ctl deploy --only target --limit {host}"
    return judging.verdict("target.export", told == wanted, told, wanted, host=host, subject=plan.nqn, remedy=remedy)


def _fence(judging: Judging, host: str, plan: TargetNamespace, found: Export | None, missing: str) -> Verdict:
    """Only the owner may connect, whatever else happens."""
    wanted = "any host" if plan.allowed_hosts == ("*",) else listed(sorted(plan.allowed_hosts))
    if missing or found is None:
        reason = missing or "not exported"
        return judging.skip("target.fence", reason, wanted, host=host, subject=plan.nqn)
    told = "any host" if found.any_host else listed(sorted(found.allowed_hosts))
    remedy = f"run: g35ctl deploy --only target --limit {host}; until then another host could write to this namespace"
    return judging.verdict("target.fence", told == wanted, told, wanted, host=host, subject=plan.nqn, remedy=remedy)


def _paths(
    judging: Judging, host: str, nqn: str, plan: Sequence[ConnectPath], have: Sequence[Controller], missing: str
) -> Verdict:
    transport = plan[0].transport
    rails = [path.rail for path in plan]
    wanted = f"{len(plan)} live over {transport} on {_rails(rails)}"
    if missing:
        return judging.skip("paths.live", missing, wanted, host=host, subject=nqn)
    live = live_paths(plan, have)
    down = [path for path in plan if path not in live]
    told = []
    for path in down:
        state = listed(f"{item.name} {item.condition} over {item.transport}" for item in paths_of(path, have))
        told.append(f"rail {path.rail}: {'no controller' if state == 'none' else state}")
    observed = f"{len(live)} live over {transport} on {_rails([path.rail for path in live])}" if live else "none live"
    if told:
        observed += "; " + "; ".join(told)
    ports = listed(f"{path.netdev} to {path.address}:{path.port}" for path in down)
    remedy = f"check the way from {ports} (link, switch port, portal); then: g35ctl deploy --only connect"
    distinct = len({path.rail for path in live}) == len(set(rails))
    return judging.verdict(
        "paths.live", len(live) == len(plan) and distinct, observed, wanted, host=host, subject=nqn, remedy=remedy
    )


def live_paths(plan: Sequence[ConnectPath], have: Sequence[Controller]) -> tuple[ConnectPath, ...]:
    """The planned paths that a usable controller over the right transport holds up."""
    return tuple(
        path for path in plan if any(item.usable and item.transport == path.transport for item in paths_of(path, have))
    )


def paths_of(path: ConnectPath, have: Sequence[Controller]) -> tuple[Controller, ...]:
    """The controllers that are this planned path, in whatever state."""
    return tuple(item for item in have if item.nqn == path.nqn and _same(path, item))


def _rails(rails: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(rails))
    return ("rail " if len(distinct) == 1 else "rails ") + listed(distinct)


def _same(path: ConnectPath, controller: Controller) -> bool:
    return (
        _address(path.address) == _address(controller.address)
        and str(path.port) == controller.port
        and _address(path.source_address) == _address(controller.source_address)
    )


def _address(text: str) -> str:
    try:
        return str(ip_address(text.partition("%")[0]))
    except ValueError:
        return text


def _mount(
    judging: Judging, host: str, plan: StoragePlan, mount: Mount, found: FileSystem | None, missing: str
) -> Verdict:
    """What is mounted is the multipath device of exactly this namespace."""
    over = f"striped set {mount.stripe} with " if mount.stripe else ""
    wanted = f"{plan.file_system} of {over}namespace {mount.uuid} of {mount.nqn} on a multipath device"
    subject = _place(mount)
    if missing:
        return judging.skip("mount.namespace", missing, wanted, host=host, subject=subject)
    problems = []
    if found is None:
        problems.append("the mount was not read")
    elif not found.device:
        problems.append("no path shows the namespace")
    else:
        if found.device_uuid.lower() != mount.uuid.lower():
            problems.append(f"{found.device} is namespace {found.device_uuid or 'without UUID'}")
        if not found.multipath:
            problems.append(f"{found.device} is not a multipath device")
        if not found.mounted:
            problems.append(f"{found.device} is not mounted there as {plan.file_system}")
        if found.used_by:
            problems.append(f"also used by {listed(found.used_by)}")
    remedy = f"run: g35ctl deploy --only storage --limit {host}"
    return judging.verdict(
        "mount.namespace",
        not problems,
        "; ".join(problems) or f"{plan.file_system} on {over}{found.device if found else ''}, namespace {mount.uuid}",
        wanted,
        host=host,
        subject=subject,
        remedy=remedy,
    )


def _marker(
    judging: Judging, host: str, plan: StoragePlan, mount: Mount, found: FileSystem | None, missing: str
) -> Verdict:
    """The file system itself says whose it is."""
    wanted = f"owner {plan.host}, site {plan.site}, namespace {mount.uuid}"
    subject = _place(mount)
    if missing or found is None or not found.mounted:
        reason = missing or "not mounted"
        return judging.skip("mount.marker", reason, wanted, host=host, subject=subject)
    told = f"owner {found.marker_owner or 'none'}, site {found.marker_site or 'none'}, "
    # The marker of a striped set names the set, and each of its namespaces.
    named = found.marker_uuid
    if mount.stripe:
        named = mount.uuid if named == mount.stripe and mount.uuid in found.marker_members else f"set {named}"
    told += f"namespace {named or 'none'}"
    remedy = "two owners of one file system corrupt it: find out who else mounted this namespace before going on"
    return judging.verdict("mount.marker", told == wanted, told, wanted, host=host, subject=subject, remedy=remedy)


def _place(mount: Mount) -> str:
    """What a verdict on a mount is about; of a striped set, one of its namespaces."""
    return f"{mount.mount_point} {mount.uuid}" if mount.stripe else mount.mount_point
