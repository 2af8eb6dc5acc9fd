"""Lints of in-band authentication and TLS: every key is there, private and whole, and no two hosts share one."""

from __future__ import annotations

from ansible.module_utils.g35 import tlspsk

from g35ctl.site.keys import key_file, key_problem, read_key
from g35ctl.site.lints.context import Context, same_twice
from g35ctl.site.model import SiteHost
from g35ctl.site.problems import Problem


def authentication(context: Context) -> list[Problem]:
    """A host that authenticates has a key of its own, in a file that nobody else can read."""
    found: list[Problem] = []
    seen: dict[object, str] = {}
    for host in context.owners:
        asked = host.nvme.authentication
        if asked.mode == "none":
            continue
        for name, stated in (("key_file", asked.key_file), ("controller_key_file", asked.controller_key_file)):
            if not stated and name == "controller_key_file":
                continue
            path, where = key_file(context.site, host, stated), ("g35_nvme", "authentication", name)
            what, hint = key_problem(path)
            if what:
                found.append(context.at(host, where, what, hint))
                continue
            earlier = same_twice(seen, read_key(path), f"{host.name} ({name})")
            if earlier:
                what = f"the key in {path} is also that of {earlier}: who has one can pass for the other"
                found.append(context.at(host, where, what, "give each host, and each direction, a key of its own"))
    return found


def tls(context: Context) -> list[Problem]:
    """TLS needs TCP, a key for each owner, and boxes that take it; a portal takes it from all hosts or from none."""
    owners = [host for host in context.owners if host.nvme.tls.mode == "psk"]
    if not owners:
        return []
    found: list[Problem] = []
    mode = ("g35_nvme", "tls", "mode")
    if context.site.fabric.transport != "tcp":
        what = f"TLS is for NVMe/TCP, and g35_fabric.transport is {context.site.fabric.transport}"
        found.append(_once(context, owners, what, "g35_fabric.transport: tcp, or g35_nvme.tls.mode: none"))
    if context.site.identity.profile == "nof-experimental":
        what = "with profile nof-experimental Mooncake opens the namespaces itself, and it cannot use TLS"
        found.append(_once(context, owners, what, "g35_nvme.tls.mode: none"))
    found += [
        context.at(host, mode, "other owners use TLS, and a portal takes it from all hosts or from none",
                   "give every host of cache_owners the same g35_nvme.tls.mode")
        for host in context.owners if host.nvme.tls.mode != "psk"
    ]  # fmt: skip
    found += [
        context.at(host, mode, "TLS and DH-HMAC-CHAP at once: the TLS key already proves who each side is",
                   "g35_nvme.authentication.mode: none")
        for host in owners if host.nvme.authentication.mode != "none"
    ]  # fmt: skip
    for box in context.boxes:
        if box.box is not None and box.box.driver != "nvmet":
            what = (
                f"g35ctl does not set TLS on a box with driver {box.box.driver}: set it by hand, with each owner's key"
            )
            hint = "require TLS 1.3 on every portal, and register the key of each owner's host NQN"
            found.append(context.at(box, ("g35_ebof", "driver"), what, hint, severity="warning"))
    return found + _tls_keys(context, owners)


def _once(context: Context, owners: list[SiteHost], what: str, hint: str) -> Problem:
    names = tuple(host.name for host in owners)
    return context.at(owners[0], ("g35_nvme", "tls", "mode"), what, hint, hosts=names)


def _tls_keys(context: Context, owners: list[SiteHost]) -> list[Problem]:
    found: list[Problem] = []
    seen: dict[object, str] = {}
    for host in owners:
        path, where = key_file(context.site, host, host.nvme.tls.key_file), ("g35_nvme", "tls", "key_file")
        what, hint = key_problem(path, tlspsk.problem)
        if what:
            found.append(context.at(host, where, what, hint))
            continue
        earlier = same_twice(seen, read_key(path), host.name)
        if earlier:
            what = f"the key in {path} is also that of {earlier}: who has one can pass for the other"
            found.append(context.at(host, where, what, "give each host a key of its own"))
    return found


LINTS = (authentication, tls)
