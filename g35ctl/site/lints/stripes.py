"""Lints of striped sets: what they need, and what they would be without a word."""

from __future__ import annotations

from g35ctl.site.lints.context import Context
from g35ctl.site.model import SiteHost
from g35ctl.site.problems import Problem
from g35ctl.site.sizes import format_size

_LAYOUT = ("g35_storage", "layout")
STRIPED = "striped"


def layout(context: Context) -> list[Problem]:
    """Only an owner of namespaces can stripe, and only over two of them."""
    found: list[Problem] = []
    total, owners = sum(1 for _ in _own_namespaces(context)), len(context.owners)
    complete = not any(context.is_partial(host, "g35_ebof") for host in context.site.group("ebof"))
    for host in _striped(context):
        if context.site.identity.profile == "nof-experimental":
            what = "layout striped has no meaning with profile nof-experimental: no host owns or mounts a namespace"
            found.append(context.at(host, _LAYOUT, what, "remove it"))
        elif not context.site.group("ebof"):
            what = "layout striped has no effect on a site without a box: each local directory has a store"
            found.append(
                context.at(host, _LAYOUT, what, "remove it, or add the boxes to group ebof", severity="warning")
            )
        elif complete and 0 < total <= owners and not _named(context, host):
            what = f"layout striped has no effect: {owners} owners share {total} namespaces, one each"
            hint = "a set takes two or more; export more namespaces, or leave the layout at per_namespace"
            found.append(context.at(host, _LAYOUT, what, hint, severity="warning"))
    return found


def sizes(context: Context) -> list[Problem]:
    """Namespaces that the site itself gives to a striping owner have one size."""
    found: list[Problem] = []
    for host in _striped(context):
        first: tuple[int, str] | None = None
        for box, number, size in _named(context, host):
            where = f"{box.name} namespaces[{number}]"
            if first is None:
                first = (size, where)
            elif size != first[0]:
                what = (
                    f"{host.name} stripes over this namespace of {format_size(size)} and {first[1]} of"
                    f" {format_size(first[0])}: the end of the larger ones is striped over fewer SSDs"
                )
                path = ("g35_ebof", "namespaces", number, "size")
                hint = "give a striping owner namespaces of one size; mdadm before 4.2 refuses others"
                found.append(context.at(box, path, what, hint, severity="warning"))
    return found


def destruction(context: Context) -> list[Problem]:
    """Who names some, but not all, of the namespaces that a striping owner certainly has starts nothing anew."""
    found: list[Problem] = []
    for host in _striped(context):
        named = {str(uuid) for uuid in host.storage.destroy}
        every = [
            (box, number)
            for box, number, _ in _named(context, host)
            if str(_uuid(box, number)) not in named
        ]  # fmt: skip
        if named and every:
            box, number = every[0]
            at = context.position(box, ("g35_ebof", "namespaces", number))
            what = (
                f"a striped set is made anew only where every namespace of {host.name} is named;"
                f" {_uuid(box, number)} ({at}) is not"
            )
            hint = "name it too, or leave the list to namespaces that hold something foreign"
            found.append(context.at(host, ("g35_storage", "destroy"), what, hint, severity="warning"))
    return found


def _striped(context: Context) -> list[SiteHost]:
    return [host for host in context.owners if host.storage.layout == STRIPED]


def _uuid(box: SiteHost, number: int) -> object:
    assert box.box is not None
    return box.box.namespaces[number].uuid


def _own_namespaces(context: Context) -> list[tuple[SiteHost, int]]:
    """Every namespace once, not again for each further head of its box."""
    return [
        (box, number)
        for box, number, _ in context.namespaces()
        if box.box is not None and box.box.head_of is None
    ]  # fmt: skip


def _named(context: Context, host: SiteHost) -> list[tuple[SiteHost, int, int]]:
    """What the site pins to an owner, or the owner claims: box, index and size in bytes."""
    return [
        (box, number, namespace.size)
        for box, number, namespace in context.namespaces()
        if box.box is not None
        and box.box.head_of is None
        and (namespace.owner == host.name or (namespace.owner is None and namespace.nqn in host.storage.owns))
    ]


LINTS = (layout, sizes, destruction)
