"""Further lints of Mooncake: wheels that would not load, memory that would not be mapped, paths it refuses, and two
masters without what they need."""

from __future__ import annotations

import posixpath
import zipfile
from pathlib import Path

from g35ctl.site.lints.context import Context
from g35ctl.site.paths import wheelhouse
from g35ctl.site.problems import Problem
from g35ctl.site.sizes import format_size

_PAGE = {"none": 1, "2MiB": 2 * 2**20, "1GiB": 2**30}


def variants(context: Context) -> list[Problem]:
    """A CUDA wheel does not load where there is no GPU: libcuda comes with the driver."""
    found = []
    for host in context.cache_hosts:
        chosen = host.mooncake.distribution
        if chosen.endswith("non-cuda") or "gpu_hosts" in host.groups:
            continue
        what = f"{chosen} needs the NVIDIA driver, and the host is not in group gpu_hosts"
        hint = "distribution: mooncake-transfer-engine-non-cuda; variants of one version work together"
        found.append(context.at(host, ("g35_mooncake", "distribution"), what, hint))
    return found


def huge_pages(context: Context) -> list[Problem]:
    """The landing zone is made of whole huge pages."""
    found = []
    for host in context.owners:
        store = host.mooncake.store
        size = _PAGE[store.huge_pages]
        if store.segment_size % size:
            what = (
                f"segment_size {format_size(store.segment_size)} is no multiple of huge pages of {store.huge_pages}:"
                " what is left over would be taken from them all the same"
            )
            found.append(context.at(host, ("g35_mooncake", "store", "segment_size"), what, "use whole GiB"))
    return found


def paths(context: Context) -> list[Problem]:
    """Mooncake follows no indirection in its flash directory, and unit names are made of these paths."""
    found = []
    for host in context.cache_hosts:
        for at, path in (
            (("g35_storage", "mount_root"), host.storage.mount_root),
            (("g35_mooncake", "prefix"), host.mooncake.prefix),
        ):
            if posixpath.normpath(path) != path.rstrip("/"):
                what = f"{path} holds '.', '..' or doubled slashes"
                found.append(context.at(host, at, what, f"write {posixpath.normpath(path)}"))
    return found


def availability(context: Context) -> list[Problem]:
    """One master, or two with an etcd that survives the loss of a member: an even number survives no more than the odd
    one below it."""
    masters, members = context.masters, context.etcd
    found: list[Problem] = []
    for extra in masters[2:]:
        what = f"a third Mooncake master beside {masters[0].name} and {masters[1].name}"
        found.append(context.at_host(extra, what, "one leads and one stands by: leave two in group mooncake_masters"))
    if len(masters) < 2:
        for host in members[:1]:
            what = "group etcd has no effect with a single Mooncake master"
            hint = "add a second host to mooncake_masters, or empty group etcd"
            found.append(context.at_host(host, what, hint, severity="warning"))
        return found
    if len(members) < 3 or len(members) % 2 == 0:
        what = f"two Mooncake masters agree on their leader in etcd, and group etcd has {len(members)} hosts"
        hint = "put three hosts in group etcd, for example both masters and one more; five survive the loss of two"
        found.append(context.at_host(members[0] if members else masters[1], what, hint))
    first = masters[0]
    if first.mooncake.master.oplog:
        what = (
            "with the log of operations every value is written to flash at once, and a burst larger than the memory of"
            " the stores loses what was not yet written"
        )
        hint = "oplog: false keeps everything that is on flash over a change of leader (docs/high-availability.md)"
        found.append(context.at(first, ("g35_mooncake", "master", "oplog"), what, hint, severity="warning"))
    return found + _etcd_ports(context)


def _etcd_ports(context: Context) -> list[Problem]:
    found = []
    for host in context.etcd:
        mooncake = host.mooncake
        wanted = {"client_port": mooncake.etcd.client_port, "peer_port": mooncake.etcd.peer_port}
        taken: dict[int, str] = {}
        if host in context.masters:
            taken = {mooncake.master.rpc_port: "the master's rpc_port", mooncake.master.metrics_port: "metrics_port"}
        if host in context.owners:
            taken |= {mooncake.store.rpc_port: "the stores' rpc_port", mooncake.store.http_port: "http_port"}
        for name, port in wanted.items():
            if port in taken:
                what = f"etcd's {name} and {taken[port]} both need port {port} on {host.name}"
                found.append(context.at(host, ("g35_mooncake", "etcd", name), what, "move one of them"))
            taken[port] = f"etcd's {name}"
    return found


def raw_pool(context: Context) -> list[Problem]:
    """The experimental profile: a wheel that has it, one master, IPv4, and nobody who owns or mounts anything."""
    if context.site.identity.profile != "nof-experimental":
        return []
    found: list[Problem] = []
    for host in context.masters[1:]:
        what = (
            "a second master with profile nof-experimental: a new leader hands out space that is in use (silent damage)"
        )
        found.append(context.at_host(host, what, "leave one host in group mooncake_masters"))
    for host in context.masters[:1]:
        at = ("g35_mooncake", "wheelhouse")
        if not host.mooncake.wheelhouse:
            what = "no published wheel has the raw pool: profile nof-experimental needs a wheelhouse of your own"
            found.append(context.at(host, at, what, "build the wheel with -DUSE_NOF=ON and name its directory here"))
        elif lacks_raw_pool(wheelhouse(context.site, host)):
            what = f"the wheel in {wheelhouse(context.site, host)} was built without the raw pool"
            found.append(context.at(host, at, what, "build it with -DUSE_NOF=ON"))
    for box in context.boxes:
        assert box.box is not None
        for number, portal in enumerate(box.box.portals):
            if portal.address.version == 6:
                at_portal = ("g35_ebof", "portals", number, "address")
                found.append(context.at(box, at_portal, "Mooncake reaches raw namespaces over IPv4 only"))
        if box.box.driver in ("spdk", "redfish"):
            what = (
                f"with driver {box.box.driver} g35ctl admits single hosts only, and a raw pool wants any host admitted"
            )
            found.append(
                context.at(box, ("g35_ebof", "driver"), what, "driver nvmet; or static, and admit any host there")
            )
    consent = {uuid for host in context.site.hosts for uuid in host.storage.destroy}
    for host in context.owners:
        if host.storage.owns:
            what = "owns has no meaning with profile nof-experimental: no host owns or mounts a namespace"
            found.append(context.at(host, ("g35_storage", "owns"), what))
    for box, number, namespace in context.namespaces():
        at_namespace = ("g35_ebof", "namespaces", number)
        if namespace.owner is not None:
            what = "a namespace with an owner is mounted by it, and a raw pool would overwrite what is there"
            found.append(context.at(box, (*at_namespace, "owner"), what, "profile: owner"))
        if namespace.uuid not in consent:
            what = f"a raw pool overwrites whatever is on namespace {namespace.uuid} without looking"
            hint = "name it in g35_storage.destroy to say that it may go"
            found.append(context.at(box, (*at_namespace, "uuid"), what, hint))
    return found


def lacks_raw_pool(directory: Path) -> bool:
    """Whether a Mooncake wheel there says of itself that it was built without the raw pool."""
    for path in sorted(directory.glob("mooncake_transfer_engine*.whl")) if directory.is_dir() else []:
        try:
            with zipfile.ZipFile(path) as wheel:
                return b"USE_NOF is disabled" in wheel.read("mooncake/store.so")
        except (OSError, KeyError, zipfile.BadZipFile):
            return True
    return False


LINTS = (variants, huge_pages, paths, availability, raw_pool)
