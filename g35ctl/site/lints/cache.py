"""Lints of Mooncake: what it would accept without a word and then lose data, hang, or talk to nobody.

The memory rules come from measurements with Mooncake 0.3.13.post1: with the default bucket (256 MiB) and a memory pool
of 128 MiB, 3 of 192 MiB ever reached flash, the rest was evicted and lost, and nothing was logged.
"""

from __future__ import annotations

import re
from pathlib import Path

from g35ctl.site.lints.context import Context
from g35ctl.site.model import SiteHost
from g35ctl.site.paths import wheelhouse
from g35ctl.site.positions import Step
from g35ctl.site.problems import Problem
from g35ctl.site.sizes import format_size

# Ports Mooncake picks by itself: its transfer engine, and the names of its clients.
ENGINE_PORTS = range(15000, 17001)
CLIENT_PORTS = range(12300, 14301)
_LEASE = re.compile(r"^(\d+)(ms|s|m)?$")
_LEASE_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def lease_seconds(lease: str) -> float:
    """Seconds of a lease as Mooncake reads it: a bare number is milliseconds. Raises ValueError."""
    match = _LEASE.match(lease)
    if match is None:
        raise ValueError(f"{lease!r} is not a lease")
    return int(match.group(1)) * _LEASE_SECONDS[match.group(2) or "ms"]


def memory(context: Context) -> list[Problem]:
    """The landing zone, the bucket and the staging buffer of a store fit each other."""
    found: list[Problem] = []
    for host in context.owners:
        store, master = host.mooncake.store, host.mooncake.master
        path = ("g35_mooncake", "store")
        headroom = int(store.segment_size * (1 - master.eviction_high_watermark))
        told = (
            f"bucket_size {format_size(store.bucket_size)} against {format_size(headroom)} of headroom"
            f" (segment_size {format_size(store.segment_size)} above watermark {master.eviction_high_watermark:g})"
        )
        hint = f"bucket_size {_suggested(headroom // 2)} or less, or a larger segment_size"
        at = _written(context, host, path, ("bucket_size", "segment_size"))
        if store.bucket_size >= store.segment_size:
            what = (
                f"segment_size {format_size(store.segment_size)} does not exceed bucket_size"
                f" {format_size(store.bucket_size)}: no bucket ever fills, so nothing reaches flash"
            )
            found.append(context.at(host, at, what, hint))
        elif store.bucket_size > headroom:
            what = f"{told}: keys are evicted before their bucket is written, and lost in silence"
            found.append(context.at(host, at, what, hint))
        elif store.bucket_size * 2 > headroom:
            what = f"{told}: a burst may evict keys before their bucket is written"
            found.append(context.at(host, at, what, hint, severity="warning"))
        if store.local_buffer_size < store.bucket_size:
            what = (
                f"local_buffer_size {format_size(store.local_buffer_size)} is smaller than bucket_size"
                f" {format_size(store.bucket_size)}: flash reads and writes of a bucket cannot be staged"
            )
            at = _written(context, host, path, ("local_buffer_size", "bucket_size"))
            found.append(context.at(host, at, what, "local_buffer_size: 1280MiB is Mooncake's own default"))
    return found


def bucket_and_values(context: Context) -> list[Problem]:
    """Validation's values fit a bucket, and a namespace holds more than a few buckets."""
    found: list[Problem] = []
    value = context.site.validation.value_size
    sizes = [namespace.size for _, _, namespace in context.namespaces()]
    sizes += [item.size for host in context.owners for item in host.storage.directories]
    smallest = min(sizes, default=None)
    for host in context.owners:
        store = host.mooncake.store
        if value > store.bucket_size:
            what = (
                f"value_size {format_size(value)} of g35_validate does not fit bucket_size"
                f" {format_size(store.bucket_size)}"
            )
            found.append(context.at(host, ("g35_validate", "value_size"), what, hosts=()))
        if smallest is not None and store.bucket_size * 10 > smallest:
            what = (
                f"bucket_size {format_size(store.bucket_size)} is more than a tenth of the smallest namespace"
                f" ({format_size(smallest)}): whole buckets are evicted at a time"
            )
            at = _written(context, host, ("g35_mooncake", "store"), ("bucket_size",))
            found.append(context.at(host, at, what, "make buckets smaller"))
    return found


def leases(context: Context) -> list[Problem]:
    """A lease is long enough to load what it protects."""
    found = []
    for host in context.masters:
        master = host.mooncake.master
        path = ("g35_mooncake", "master", "lease")
        seconds = lease_seconds(master.lease)
        if seconds < 1:
            what = f"lease {master.lease!r} is {seconds * 1000:g} ms: Mooncake takes a bare number as milliseconds"
            found.append(context.at(host, path, what, "write the unit, such as 60s"))
        elif seconds < master.client_ttl:
            what = (
                f"lease {master.lease} is shorter than client_ttl {master.client_ttl} s: keys may be evicted"
                " while a reader still waits for a store that went silent"
            )
            found.append(
                context.at(host, path, what, "use at least the longest prefill load, such as 60s", severity="warning")
            )
        for host_ in context.owners:
            if host_.mooncake.store.heartbeat >= master.client_ttl:
                what = (
                    f"heartbeat {host_.mooncake.store.heartbeat} s is not below client_ttl {master.client_ttl} s:"
                    " offloading lags behind what the master believes"
                )
                found.append(context.at(host_, ("g35_mooncake", "store", "heartbeat"), what, "use 1 or 2 seconds"))
    return found


def same_everywhere(context: Context) -> list[Problem]:
    """One Mooncake release and one set of master settings: releases do not interoperate, and there is one master."""
    hosts = context.cache_hosts
    found: list[Problem] = []
    if not hosts:
        return found
    first = context.masters[0] if context.masters else hosts[0]
    for host in hosts:
        if host.mooncake is first.mooncake:
            continue
        if host.mooncake.version != first.mooncake.version:
            what = f"Mooncake {host.mooncake.version} here, {first.mooncake.version} on {first.name}"
            at = ("g35_mooncake", "version")
            found.append(context.at(host, at, what, f"one version everywhere ({context.position(first, at)})"))
        if host.mooncake.master != first.mooncake.master:
            what = f"settings of the master differ from those on {first.name}"
            at = ("g35_mooncake", "master")
            hint = f"set g35_mooncake.master once, for all hosts ({context.position(first, at)})"
            found.append(context.at(host, at, what, hint))
    return found


def ports(context: Context) -> list[Problem]:
    """Ports of a host's stores and of its master are distinct and out of the ranges Mooncake picks from."""
    found: list[Problem] = []
    stores = _stores_per_owner(context)
    for host in context.cache_hosts:
        mooncake = host.mooncake
        wanted: list[tuple[tuple[str, ...], str, range]] = []
        if "mooncake_masters" in host.groups:
            for name in ("rpc_port", "metrics_port"):
                port = getattr(mooncake.master, name)
                wanted.append((("g35_mooncake", "master", name), f"the master's {name}", range(port, port + 1)))
        if host.name in context.owner_names:
            for name in ("rpc_port", "http_port"):
                port = getattr(mooncake.store, name)
                count = stores.get(host.name, 1)
                told = f"the stores' {name}" + (f" ({port}-{port + count - 1})" if count > 1 else "")
                wanted.append((("g35_mooncake", "store", name), told, range(port, port + count)))
        for number, (path, name, used) in enumerate(wanted):
            at = _nearest(context, host, path)
            for _, other, taken in wanted[:number]:
                if _overlap(used, taken):
                    what = f"{name} and {other} both need port {max(used.start, taken.start)} on {host.name}"
                    found.append(context.at(host, at, what, "move one of them"))
            for owner, reserved in (("its transfer engine", ENGINE_PORTS), ("client names", CLIENT_PORTS)):
                if _overlap(used, reserved):
                    what = (
                        f"{name} lies in {reserved.start}-{reserved.stop - 1}, where Mooncake picks ports for {owner}"
                    )
                    found.append(context.at(host, at, what))
            if used.stop - 1 > 65535:
                found.append(context.at(host, at, f"{name} would pass 65535"))
    return found


def wheels(context: Context) -> list[Problem]:
    """The controller has the wheels to push; only a warning, since a bundle may be made later."""
    found = []
    checked: dict[Path, bool] = {}
    for host in context.cache_hosts:
        directory = wheelhouse(context.site, host)
        if directory not in checked:
            checked[directory] = directory.is_dir() and any(directory.glob("*.whl"))
        if checked[directory]:
            continue
        mooncake = host.mooncake
        command = f"g35ctl bundle create --distribution {mooncake.distribution} --release {mooncake.version}"
        if mooncake.wheelhouse:
            command += f" --output {directory}"
        what = f"no wheels in {directory}: deploy would have nothing to install"
        at = _nearest(context, host, ("g35_mooncake", "wheelhouse"))
        found.append(context.at(host, at, what, command, severity="warning", hosts=()))
    return found


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _suggested(size: int) -> str:
    """A round size to write, not above ``size``."""
    unit = 2**20 if size >= 2**20 else 2**10
    return f"{max(size // unit, 1)}{'MiB' if unit == 2**20 else 'KiB'}"


def _written(context: Context, host: SiteHost, path: tuple[str, ...], names: tuple[str, ...]) -> tuple[Step, ...]:
    """Path of the first of ``names`` that the user wrote below ``path``, to point at his line rather than a default."""
    here: object = context.variables.get(host.name, {})
    for step in path:
        here = here.get(step, {}) if isinstance(here, dict) else {}
    written = [name for name in names if isinstance(here, dict) and name in here]
    return (*path, (written or list(names))[0])


def _nearest(context: Context, host: SiteHost, path: tuple[str, ...]) -> tuple[Step, ...]:
    return _written(context, host, path[:-1], path[-1:])


def _stores_per_owner(context: Context) -> dict[str, int]:
    """How many stores a host will run at least: its pins and claims, or an equal share of everything; one where they
    form a striped set."""
    total, owners = sum(1 for _ in context.namespaces()), len(context.owners)
    share = -(-total // owners) if owners else 0
    found = {host.name: max(share, len(host.storage.owns), len(host.storage.directories), 1) for host in context.owners}
    pinned: dict[str, int] = {}
    for _, _, namespace in context.namespaces():
        if namespace.owner is not None:
            pinned[namespace.owner] = pinned.get(namespace.owner, 0) + 1
    striped = {host.name for host in context.owners if host.storage.layout == "striped"}
    return {name: 1 if name in striped else max(count, pinned.get(name, 0)) for name, count in found.items()}


LINTS = (memory, bucket_and_values, leases, same_everywhere, ports, wheels)
