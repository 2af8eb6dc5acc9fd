"""Namespaces in the wrong hands, file systems that are not mounted, stores and segments that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape

from ansible.module_utils.g35.plans import ConnectPath, StoreInstance

from g35ctl.observe.model import Pool
from g35ctl.plan.model import HostPlan
from g35ctl.validate.doctor.model import ERROR, Case, Diagnosis, listed, path_sign
from g35ctl.validate.pool import segment_name


def hands(case: Case) -> Iterator[Diagnosis]:
    """Namespaces used by a host that does not own them, and file systems that say they are somebody else's."""
    owners = {(item.nqn, item.nsid): item.owner for item in case.plan.ownership}
    for host in case.reached():
        for use in case.now.details.uses.get(host.name, ()):
            if use.owned or not use.used_by:
                continue
            owner = owners.get((use.nqn, use.nsid), "")
            yield Diagnosis(
                "namespace.foreign_use", ERROR,
                f"{host.name} uses namespace {use.nsid} of {use.nqn}, which {owner or 'nobody of this site'} owns",
                (f"{host.name}: {use.device} (UUID {use.uuid}) is used by {listed(use.used_by)}",
                 f"planned owner: {owner or 'none'}"),
                f"two hosts that write one XFS destroy it. On {host.name}: umount {use.used_by[0]}; then close the"
                f" fence: g35ctl deploy --only target, and check the file system with xfs_repair -n on {owner}",
                (host.name, *([owner] if owner else [])), (f"use/{host.name}/{use.nqn}/{use.nsid}",),
                (f"finding/{host.name}/connect.stale/*{use.nqn}*",),
            )  # fmt: skip
        for system in case.now.readings.file_systems.get(host.name, ()):
            if system.mounted and system.marker_owner and system.marker_owner != host.name:
                yield Diagnosis(
                    "namespace.marker", ERROR,
                    f"the file system at {system.mount_point} on {host.name} says that {system.marker_owner} owns it",
                    (f"{host.name}: marker: owner {system.marker_owner}, site {system.marker_site}",),
                    f"find out whether {system.marker_owner} still mounts it before anything is written:"
                    " g35ctl status; g35ctl plan shows the planned owner",
                    (host.name, system.marker_owner), (f"marker/{host.name}/{system.uuid}",),
                    (f"finding/{host.name}/storage.owner/*", f"finding/{host.name}/storage.marker/*"),
                )  # fmt: skip


def mounts(case: Case) -> Iterator[Diagnosis]:
    """Owned namespaces that are not mounted, once for each host."""
    for host in case.reached():
        if host.storage is None or host.name not in case.now.readings.file_systems:
            continue
        found = {item.uuid: item for item in case.now.readings.file_systems[host.name]}
        missing = [mount for mount in host.storage.mounts if mount.uuid not in found or not found[mount.uuid].mounted]
        if not missing:
            continue
        told, signs, patterns = [], [f"mount/{host.name}"], [f"finding/{host.name}/storage.*/*"]
        gone = [mount for mount in missing if mount.uuid not in found or not found[mount.uuid].device]
        for mount in missing:
            seen = "no path shows the namespace" if mount in gone else f"{found[mount.uuid].device} is there"
            what = f"{mount.mount_point} (namespace {mount.uuid})" if mount.stripe else mount.mount_point
            told.append(f"{host.name}: {what} is not mounted; {seen}")
        stores = host.cache.store.instances if host.cache is not None and host.cache.store is not None else ()
        uuids = {mount.uuid for mount in missing}
        for store in stores:
            if uuids & set(store.members):
                patterns += [f"store/{host.name}/{store.name}", *_segment_patterns(store)]
        if {mount.mount_point for mount in gone} == {mount.mount_point for mount in missing}:
            # Without any path, also to a single member of a striped set, this follows from whatever took the paths.
            lost = {mount.uuid for mount in gone}
            signs = [path_sign(host.name, path.rail, path.address, path.nqn) for path in _paths(host, lost)] or signs
        yield Diagnosis(
            "namespace.unmounted", ERROR, f"{host.name} does not mount {len(missing)} of its namespaces",
            tuple(told[:6]), f"g35ctl deploy --only storage --limit {host.name}", (host.name,), tuple(signs),
            tuple(patterns),
        )  # fmt: skip


def _segment_patterns(store: StoreInstance) -> tuple[str, ...]:
    """What follows when a store does not run."""
    name = escape(segment_name(store))
    return (f"segment/{name}", f"finding/*/cache.*/*{store.unit}*", f"finding/*/cache.segment/{name}*")


def _paths(host: HostPlan, uuids: set[str]) -> list[ConnectPath]:
    assert host.storage is not None
    nqns = {mount.nqn for mount in host.storage.mounts if mount.uuid in uuids}
    return [path for path in (host.connect.paths if host.connect is not None else ()) if path.nqn in nqns]


def master(case: Case) -> Iterator[Diagnosis]:
    """A master that nobody reaches, or that only its own host reaches."""
    hosts = [host for host in case.plan.hosts if host.cache is not None and host.cache.master is not None]
    if not hosts:
        return
    own = hosts[0]
    assert own.cache is not None
    plan = own.cache.master
    assert plan is not None
    caches = case.now.readings.caches
    deaf = [name for name, cache in caches.items() if cache.pool is None]
    if not deaf:
        return
    hearing = [name for name in caches if name not in deaf]
    what = "answers nobody" if not hearing else f"does not answer {listed(deaf)}"
    remedy = f"on {own.name}: systemctl status g35-mooncake-master; journalctl -u g35-mooncake-master -n 50"
    if hearing:
        remedy = f"check the way to {plan.address}:{plan.metrics_port} and the firewall on {own.name}: nft list ruleset"
    yield Diagnosis(
        "master.unreachable", ERROR, f"the Mooncake master on {own.name} {what}",
        tuple(f"{name}: no answer from {plan.address}:{plan.metrics_port}" for name in deaf[:6]), remedy,
        (own.name, *(name for name in deaf if name != own.name)), ("master",),
        (*(f"finding/{name}/cache.master/*" for name in deaf), *(f"finding/{name}/cache.segment/*" for name in deaf),
         *(() if hearing else ("segment/*", "finding/*/cache.store/*", f"finding/{own.name}/cache.unit/*master*",
                               "store/*"))),
    )  # fmt: skip


def stores(case: Case) -> Iterator[Diagnosis]:
    """Stores that are not healthy, and segments the master does not list or lists over another protocol."""
    pool = _pool(case)
    listed_segments = {segment.name: segment for segment in pool.segments} if pool is not None else {}
    for host in case.reached():
        planned = host.cache.store.instances if host.cache is not None and host.cache.store is not None else ()
        if not planned or host.name not in case.now.readings.caches:
            continue
        have = {store.name: store for store in case.now.readings.caches[host.name].stores}
        for instance in planned:
            store, name = have.get(instance.name), segment_name(instance)
            if store is None or not store.healthy:
                state = "does not answer" if store is None or not store.answers else "says it is unhealthy"
                log = store.errors[:2] if store is not None else ()
                yield Diagnosis(
                    "store.down", ERROR, f"store {instance.name} on {host.name} {state}",
                    (f"{host.name}: {instance.unit}: http port {instance.http_port} {state}",
                     *(f"{host.name}: log: {line}" for line in log)),
                    f"on {host.name}: journalctl -u {instance.unit} -n 50; then: g35ctl deploy --only cache --limit"
                    f" {host.name}",
                    (host.name,), (f"store/{host.name}/{instance.name}",),
                    _segment_patterns(instance),
                )  # fmt: skip
            if pool is None:
                continue
            segment = listed_segments.get(name)
            if segment is None or segment.protocol != instance.protocol:
                told = "not listed" if segment is None else f"listed with protocol {segment.protocol}"
                yield Diagnosis(
                    "segment.missing" if segment is None else "segment.protocol", ERROR,
                    f"the master has segment {name} of {host.name} {told}",
                    (f"master lists {listed(listed_segments)}" if segment is None else f"{name}: {segment.protocol}",),
                    f"on {host.name}: systemctl restart {instance.unit}; journalctl -u {instance.unit} -n 50 (a store"
                    " that fell back to TCP found no RDMA device)",
                    (host.name,), (f"segment/{name}",), (f"finding/*/cache.segment/{escape(name)}*",),
                )  # fmt: skip


def _pool(case: Case) -> Pool | None:
    return next((cache.pool for cache in case.now.readings.caches.values() if cache.pool is not None), None)
