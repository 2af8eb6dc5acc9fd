"""Lints of in-band authentication: every key is there, private and whole, and no two hosts share one."""

from __future__ import annotations

from g35ctl.site.keys import key_file, key_problem, read_key
from g35ctl.site.lints.context import Context, same_twice
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


LINTS = (authentication,)
