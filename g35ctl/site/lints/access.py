"""Lints of how hosts are named and reached."""

from __future__ import annotations

import re

from g35ctl.site.lints.context import Context
from g35ctl.site.model import GROUPS, SiteHost, SiteSwitch
from g35ctl.site.positions import locate
from g35ctl.site.problems import Problem

# A host's name ends in paths, markers and unit files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")
_SWITCHES = ("ansible_host_key_checking", "ansible_ssh_host_key_checking")
# ssh takes the first value it is given, so what the inventory says here would win over g35ctl's own.
_UNCHECKED = re.compile(
    r"StrictHostKeyChecking\s*[= ]\s*[\"']?(?:no|off|accept-new)\b|UserKnownHostsFile\s*[= ]\s*[\"']?/dev/null", re.I
)
_HINT = "remove it, and pin the host's key with: g35ctl trust"


def host_names(context: Context) -> list[Problem]:
    """A name with anything but letters, digits, dots, dashes and underscores."""
    hosts: tuple[SiteHost | SiteSwitch, ...] = (*context.site.hosts, *context.site.switches)
    return [
        Problem(
            f"{host.name!r} cannot be the name of a host",
            context.index.host(host.name),
            "letters, digits, dots, dashes and underscores; put an address into ansible_host",
            hosts=(host.name,),
        )
        for host in hosts
        if set(host.groups) & set(GROUPS) and not _NAME.fullmatch(host.name)
    ]


def host_keys(context: Context) -> list[Problem]:
    """Connection variables that would switch the check of host keys off."""
    found: list[Problem] = []
    for host in context.site.hosts:
        variables = context.variables.get(host.name, {})
        for name in (*_ARGUMENTS, *_SWITCHES):
            value = str(variables.get(name, ""))
            off = value.strip().lower() in ("false", "no", "off", "0", "n", "f")
            if (name in _SWITCHES and off) or (name in _ARGUMENTS and _UNCHECKED.search(value)):
                position = locate(variables, (name,)) or context.index.host(host.name)
                what = "switches the check of host keys off, which g35ctl never does without"
                found.append(Problem(what, position, _HINT, name, (host.name,)))
    return found


LINTS = (host_names, host_keys)
