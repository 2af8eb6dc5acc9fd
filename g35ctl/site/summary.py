"""A site in one sentence."""

from __future__ import annotations

from g35ctl.site.model import Site
from g35ctl.site.sizes import format_size


def summary(site: Site) -> dict[str, object]:
    """Name, and numbers of what the site consists of (``capacity`` in bytes)."""
    boxes = [host.box for host in site.group("ebof") if host.box is not None]
    namespaces = [namespace for box in boxes for namespace in box.namespaces]
    return {
        "name": site.identity.name,
        "boxes": len(boxes),
        "namespaces": len(namespaces),
        "capacity": sum(namespace.size for namespace in namespaces),
        "gpu_hosts": len(site.group("gpu_hosts")),
        "cache_owners": len(site.group("cache_owners")),
        "rails": [rail.name for rail in site.fabric.rails],
        "transport": site.fabric.transport,
        "switches": len(site.switches),
    }


def sentence(site: Site) -> str:
    """``site NAME is valid: 1 box, 4 namespaces (4 GiB), ...``."""
    told = summary(site)
    capacity = format_size(int(str(told["capacity"])))
    return (
        f"site {told['name']} is valid: {_many(told['boxes'], 'box', 'boxes')},"
        f" {_many(told['namespaces'], 'namespace', 'namespaces')} ({capacity}),"
        f" {_many(told['gpu_hosts'], 'GPU host', 'GPU hosts')},"
        f" {_many(told['cache_owners'], 'cache owner', 'cache owners')},"
        f" {_many(len(site.fabric.rails), 'rail', 'rails')}, {told['transport']}"
        + (f", {_many(len(site.switches), 'switch', 'switches')}" if site.switches else "")
    )


def _many(count: object, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
