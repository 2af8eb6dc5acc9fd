"""Lints of flash: roles of hosts, identities of namespaces, and who owns them."""

from __future__ import annotations

from g35ctl.site.lints.context import Context, same_twice
from g35ctl.site.model import SiteHost
from g35ctl.site.problems import Problem, did_you_mean
from g35ctl.site.sizes import format_size

# mkfs.xfs refuses anything smaller.
SMALLEST_XFS = 300 * 2**20


def groups(context: Context) -> list[Problem]:
    """The site has boxes, owners and a master, and no host is both sides of the network."""
    found = []
    site = context.site
    if not site.group("ebof") and not any(host.storage.directories for host in context.owners):
        found.append(context.at_site("no host is in group ebof: there is no flash", "add the boxes to group ebof"))
    if not context.owners:
        what = "no host is in group gpu_hosts or cache_owners: nobody can own a namespace"
        found.append(context.at_site(what, "add the hosts to gpu_hosts"))
    if not context.masters:
        found.append(
            context.at_site("no host is in group mooncake_masters", "add one host, for example the first of gpu_hosts")
        )
    for host in site.group("ebof"):
        other = [name for name in ("gpu_hosts", "cache_owners", "mooncake_masters", "etcd") if name in host.groups]
        if other:
            what = f"the host is in group ebof and in {', '.join(other)}: a box cannot be its own initiator"
            found.append(context.at_host(host, what, "put it in one of them"))
        if host.box is None and not context.is_partial(host, "g35_ebof"):
            hint = "set it in host_vars of the box: driver, portals, namespaces"
            found.append(context.at_host(host, "g35_ebof is not set for a host of group ebof", hint))
    for host in site.hosts:
        if host.box is not None and "ebof" not in host.groups:
            what = "g35_ebof is set for a host that is not in group ebof"
            found.append(context.at(host, ("g35_ebof",), what, "add the host to group ebof, or remove the variable"))
    return found


def namespace_identity(context: Context) -> list[Problem]:
    """NQN with nsid, UUID, serial and device each name one namespace."""
    found: list[Problem] = []
    names: dict[object, str] = {}
    uuids: dict[object, str] = {}
    serials: dict[str, tuple[str, str]] = {}
    devices: dict[object, str] = {}
    boxes: dict[str, str] = {}
    for host, number, namespace in context.namespaces():
        if host.box is not None and host.box.head_of is not None:
            continue  # the same namespaces as its box, by intention: see boxes.heads
        path = ("g35_ebof", "namespaces", number)
        who = f"{host.name} namespaces[{number}]"
        earlier = same_twice(names, (namespace.nqn, namespace.nsid), who)
        if earlier:
            what = f"{namespace.nqn} nsid {namespace.nsid} is already {earlier}"
            found.append(context.at(host, (*path, "nqn"), what))
        elif boxes.setdefault(namespace.nqn, host.name) != host.name:
            what = f"subsystem {namespace.nqn} is already exported by {boxes[namespace.nqn]}"
            found.append(context.at(host, (*path, "nqn"), what, "a subsystem belongs to one box"))
        earlier = same_twice(uuids, namespace.uuid, who)
        if earlier:
            what = f"namespace UUID {namespace.uuid} is already that of {earlier}"
            found.append(context.at(host, (*path, "uuid"), what, "hosts would take the two SSDs for paths to one"))
        if namespace.serial is not None:
            nqn, first = serials.setdefault(namespace.serial, (namespace.nqn, who))
            if nqn != namespace.nqn:
                what = f"serial {namespace.serial} is already that of {first}"
                found.append(context.at(host, (*path, "serial"), what))
        if namespace.device is not None:
            earlier = same_twice(devices, (host.name, namespace.device), who)
            if earlier:
                what = f"{namespace.device} is already exported by {earlier}"
                found.append(context.at(host, (*path, "device"), what))
    return found


def namespace_backing(context: Context) -> list[Problem]:
    """A box that g35ctl configures says which SSD is behind each namespace, and the SSD can hold a file system."""
    found = []
    for host, number, namespace in context.namespaces():
        path = ("g35_ebof", "namespaces", number)
        driver = host.box.driver if host.box is not None else "static"
        if driver == "nvmet" and namespace.device is None and not context.is_partial(host, "g35_ebof"):
            what = "driver nvmet needs the device of each namespace"
            found.append(context.at(host, path, what, "device: /dev/disk/by-id/nvme-MODEL_SERIAL"))
        if driver == "nvmet" and namespace.device is not None and _unstable(namespace.device):
            what = f"{namespace.device} may be another SSD after a reboot"
            found.append(context.at(host, (*path, "device"), what, "use the link below /dev/disk/by-id"))
        if driver != "nvmet" and namespace.device is not None:
            what = f"device has no effect with driver {driver}"
            found.append(context.at(host, (*path, "device"), what, severity="warning"))
        if namespace.size < SMALLEST_XFS:
            what = f"{format_size(namespace.size)} is too small for XFS, which needs {format_size(SMALLEST_XFS)}"
            found.append(context.at(host, (*path, "size"), what))
    return found


def _unstable(device: str) -> bool:
    return device.startswith("/dev/") and not device.startswith(("/dev/disk/by-", "/dev/mapper/"))


def ownership(context: Context) -> list[Problem]:
    """Each namespace can have exactly one owner: no contradictory pins and claims, and somebody who reaches it."""
    found: list[Problem] = []
    pins: dict[str, tuple[str, str]] = {}
    for host, number, namespace in context.namespaces():
        path = ("g35_ebof", "namespaces", number)
        wanted: list[tuple[str, str]] = []
        if namespace.owner is not None:
            where = str(context.position(host, (*path, "owner")))
            wanted.append((namespace.owner, f"pinned at {where}"))
            if namespace.owner not in context.owner_names:
                what = f"owner {namespace.owner!r} is not a cache owner"
                hint = did_you_mean(namespace.owner, sorted(context.owner_names))
                found.append(context.at(host, (*path, "owner"), what, hint))
            first, at = pins.setdefault(namespace.nqn, (namespace.owner, where))
            if first != namespace.owner:
                what = f"owner {namespace.owner!r}, but {namespace.nqn} has a namespace pinned to {first!r} ({at})"
                found.append(context.at(host, (*path, "owner"), what, "a subsystem admits one host: pin them alike"))
        for claimant, claim in context.owner_claims.get(namespace.nqn, ()):
            where = str(context.position(claimant, ("g35_storage", "owns", claim)))
            wanted.append((claimant.name, f"claimed at {where}"))
        names = dict.fromkeys(name for name, _ in wanted)
        if len(names) > 1:
            told = ", ".join(f"{name} ({how})" for name, how in wanted)
            what = f"namespace {namespace.nqn} nsid {namespace.nsid} has {_number(len(names))} owners: {told}"
            position = ("owner",) if namespace.owner is not None else ("nqn",)
            found.append(context.at(host, (*path, *position), what, "leave one: two hosts never mount one file system"))
        found += _reachable(context, host, number, [name for name in names if name in context.owner_names])
    return found


def _number(count: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(count, str(count))


def _reachable(context: Context, box: SiteHost, number: int, wanted: list[str]) -> list[Problem]:
    """The named owners, or else some owner, have a port on a rail of the box."""
    assert box.box is not None
    path = ("g35_ebof", "namespaces", number)
    rails = frozenset(portal.rail for portal in box.box.portals)
    unknown = {host for host, variable in context.partial if variable == "g35_ports"}
    if context.is_partial(box, "g35_ebof") or unknown:
        return []
    shown = f"a rail of {box.name} ({', '.join(sorted(rails))})"
    if wanted:
        return [
            context.at(box, path, f"owner {name} has no port on {shown}")
            for name in wanted
            if not rails & context.owner_rails[name]
        ]
    if not context.owners or any(rails & reached for reached in context.owner_rails.values()):
        return []
    return [context.at(box, path, f"no possible owner: no cache owner has a port on {shown}")]


def claims(context: Context) -> list[Problem]:
    """Claims and destroy lists name things that exist, and are made by hosts that may own."""
    found = []
    nqns = {namespace.nqn for _, _, namespace in context.namespaces()}
    uuids = {namespace.uuid for _, _, namespace in context.namespaces()}
    complete = not any(context.is_partial(host, "g35_ebof") for host in context.site.group("ebof"))
    for host in context.site.hosts:
        for number, nqn in enumerate(host.storage.owns):
            path = ("g35_storage", "owns", number)
            if host.name not in context.owner_names:
                found.append(context.at(host, path, "the host claims a subsystem but is not a cache owner"))
            if nqn not in nqns and complete:
                hint = did_you_mean(nqn, sorted(nqns)) if len(nqns) <= 64 else ""
                found.append(context.at(host, path, f"no box exports {nqn}", hint))
            if nqn in host.storage.owns[:number]:
                found.append(context.at(host, path, f"{nqn} is claimed twice by the same host", severity="warning"))
        for number, uuid in enumerate(host.storage.destroy):
            path = ("g35_storage", "destroy", number)
            if uuid not in uuids and complete:
                found.append(context.at(host, path, f"no namespace has the UUID {uuid}"))
            else:
                what = f"contents of namespace {uuid} may be overwritten"
                hint = "remove the line once the namespace is in service"
                found.append(context.at(host, path, what, hint, severity="warning"))
    return found


def directories(context: Context) -> list[Problem]:
    """Local directories stand in for a box, on hosts that may own, each used once and none inside another."""
    found = []
    for host in context.site.hosts:
        for number, item in enumerate(host.storage.directories):
            path = ("g35_storage", "directories", number)
            if context.site.group("ebof"):
                what = "local directories have no effect on a site with a box: its namespaces are the flash"
                found.append(context.at(host, path, what, "remove the directories, or the hosts of group ebof"))
            elif host.name not in context.owner_names:
                what = "the host has a directory for a store but is not a cache owner"
                found.append(context.at(host, path, what, "add it to cache_owners, or remove the directory"))
            inside = f"{item.path.rstrip('/')}/"
            for other in host.storage.directories[:number]:
                earlier = f"{other.path.rstrip('/')}/"
                if inside.startswith(earlier) or earlier.startswith(inside):
                    what = f"{item.path} and {other.path} lie in one another: two stores never share one directory"
                    found.append(context.at(host, (*path, "path"), what))
                elif inside.replace("/", "-") == earlier.replace("/", "-"):
                    what = f"{item.path} and {other.path} would give their stores one name"
                    found.append(context.at(host, (*path, "path"), what, "name one of them differently"))
    return found


LINTS = (groups, namespace_identity, namespace_backing, ownership, claims, directories)
