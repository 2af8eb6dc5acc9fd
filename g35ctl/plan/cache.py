"""Mooncake on a host: the environment, the master where it belongs, and a store per owned namespace or striped set."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from ansible.module_utils.g35.plans import CachePlan, EtcdPlan, MasterPlan, RuntimePlan, StoreInstance, StorePlan

from g35ctl.plan.context import Context, Paths, WheelSet
from g35ctl.plan.identity import endpoint
from g35ctl.plan.nof import plan_nof
from g35ctl.plan.storage import capacity, mount_point, volume_bytes
from g35ctl.site.model import SiteHost, StorageDirectory

_HUGE_PAGES = {"none": 0, "2MiB": 2 * 2**20, "1GiB": 2**30}


def plan_cache(context: Context, host: SiteHost) -> CachePlan | None:
    """Everything Mooncake on ``host``, or None when it is neither master nor owner of anything, nor part of etcd, and
    has nothing to let go."""
    master = _master(context, host)
    store = _store(context, host)
    etcd = _etcd(context, host)
    nof = plan_nof(context, host)
    if (master, store, etcd, nof) == (None, None, None, None) and host.name not in context.custody.letting_go:
        return None
    return CachePlan(context.site.identity.name, _runtime(context, host), master, store, etcd, nof)


def wheel_set(paths: Paths, host: SiteHost) -> WheelSet:
    """Which wheels ``host`` needs, and where they lie on the controller."""
    mooncake = host.mooncake
    if mooncake.wheelhouse:
        where = posixpath.normpath(posixpath.join(paths.inventory, mooncake.wheelhouse))
    else:
        where = posixpath.join(paths.wheelhouses, f"{mooncake.distribution}-{mooncake.version}")
    target = (
        f"{mooncake.python or '3.11'}/{mooncake.machine}" if mooncake.python or mooncake.machine != "x86_64" else ""
    )
    return WheelSet(where, mooncake.distribution, mooncake.version, target)


def _runtime(context: Context, host: SiteHost) -> RuntimePlan:
    wanted = wheel_set(context.paths, host)
    return RuntimePlan(
        version=host.mooncake.version,
        distribution=host.mooncake.distribution,
        wheels=context.wheels.get(wanted, ()),
        wheel_directory=wanted.directory,
        prefix=host.mooncake.prefix,
        user=host.mooncake.user,
    )


def _master(context: Context, host: SiteHost) -> MasterPlan | None:
    port = context.first_port(host)
    if context.master is None or host.name not in context.master.hosts or port is None:
        return None
    ports, address = host.mooncake.master, str(port.address)
    single = MasterPlan(context.site.identity.name, address, ports.rpc_port, ports.metrics_port)
    if not context.master.cluster_id:
        return single
    return replace(
        single,
        etcd=context.master.rpc.removeprefix("etcd://"),
        cluster_id=context.master.cluster_id,
        admins=context.master.admin,
    )


def _etcd(context: Context, host: SiteHost) -> EtcdPlan | None:
    for member, port in context.etcd_members:
        if member.name == host.name:
            settings = host.mooncake.etcd
            return EtcdPlan(
                site=context.site.identity.name,
                name=host.name,
                address=str(port.address),
                client_port=settings.client_port,
                peer_port=settings.peer_port,
                members=tuple(
                    f"{each.name}=http://{endpoint(its.address, each.mooncake.etcd.peer_port)}"
                    for each, its in context.etcd_members
                ),
                program=settings.program,
            )
    return None


def _store(context: Context, host: SiteHost) -> StorePlan | None:
    owned = context.owned.get(host.name) or local_directories(context, host)
    if not owned or context.master is None:
        return None
    return StorePlan(
        site=context.site.identity.name,
        master_address=context.master.rpc,
        instances=instances(context, host),
        master_admin=context.master.admin,
        cluster_id=context.master.cluster_id,
    )


def instances(context: Context, host: SiteHost) -> tuple[StoreInstance, ...]:
    """The stores of ``host``, one per namespace or striped set, each at the ports of its slot; on a site without a box
    one per local directory."""
    port = context.first_port(host)
    if port is None:
        return ()
    settings, reserve = host.mooncake.store, host.storage.reserve_percent
    places = [
        (
            item.slot, item.uuid, item.uuid, mount_point(host.storage, item.uuid),
            capacity(volume_bytes(item, host.storage.chunk_size), reserve), item.every if item.striped else (),
        )
        for item in context.volumes.get(host.name, ())
    ] or [
        (slot, item.path.strip("/").replace("/", "-"), "", item.path.rstrip("/"),
         item.size * (100 - reserve) // 100, ())
        for slot, item in enumerate(local_directories(context, host))
    ]  # fmt: skip
    return tuple(
        StoreInstance(
            name=name,
            address=str(port.address),
            rpc_port=settings.rpc_port + place,
            http_port=settings.http_port + place,
            protocol=context.protocol,
            devices=context.devices(host),
            segment_size=settings.segment_size,
            directory=f"{where}/store",
            namespace_uuid=uuid,
            capacity=usable,
            unit=f"g35-mooncake-store-{name}.service",
            mount_point=where,
            local_buffer_size=settings.local_buffer_size,
            bucket_size=settings.bucket_size,
            huge_page_size=_HUGE_PAGES[settings.huge_pages],
            stripe=stripe,
        )
        for place, name, uuid, where, usable, stripe in places
    )


def local_directories(context: Context, host: SiteHost) -> tuple[StorageDirectory, ...]:
    """The local directories that stand in for namespaces; none where the site has a box or the host may own nothing."""
    if context.boxes or host not in context.site.group("cache_owners"):
        return ()
    return host.storage.directories


def segment(instance: StoreInstance) -> str:
    """The name under which the master lists a store's memory segment."""
    return endpoint(instance.address, instance.rpc_port)
