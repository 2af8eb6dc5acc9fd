"""Renders the switches of a site: a configuration and a verification list for each, from templates/switch/<vendor>/."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2

from g35ctl.content import content_root
from g35ctl.errors import G35Error
from g35ctl.plan.switch import sonic
from g35ctl.plan.switch.intent import Intent, intent, ranges
from g35ctl.plan.switch.model import SwitchFile, SwitchPlan, SwitchPlanPort
from g35ctl.site.model import Site, SiteSwitch

SUFFIXES = {"sonic": "json", "nvue": "nv", "eos": "cfg", "nxos": "cfg", "comware": "cfg", "cloudengine": "cfg"}

# Local priorities 0 to 7 in the words that Comware and CloudEngine have for them.
BEHAVIOURS = ("be", "af1", "af2", "af3", "af4", "ef", "cs6", "cs7")


def plan_switches(site: Site) -> tuple[SwitchPlan, ...]:
    """The plan of every switch, in inventory order. Raises G35Error when a value cannot be put into a file."""
    return tuple(_plan(site, item) for item in site.switches)


def _plan(site: Site, item: SiteSwitch) -> SwitchPlan:
    wanted = intent(site, item)
    stem = f"{wanted.vendor}/{item.name}"
    configuration = sonic.text(wanted) if wanted.vendor == "sonic" else _render(wanted, "config.j2")
    return SwitchPlan(
        site=wanted.site,
        name=item.name,
        vendor=wanted.vendor,
        model=wanted.model,
        mtu=wanted.mtu,
        ports=tuple(
            SwitchPlanPort(
                port.name, port.speed, port.cable_m, port.profile.ecn_min, port.profile.ecn_max,
                port.profile.probability,
            )
            for port in wanted.ports
        ),
        files=(
            SwitchFile(f"{stem}.{SUFFIXES[wanted.vendor]}", configuration),
            SwitchFile(f"{stem}.verify.txt", _render(wanted, "verify.txt.j2")),
        ),
    )  # fmt: skip


def _render(wanted: Intent, template: str) -> str:
    name = f"switch/{wanted.vendor}/{template}"
    suffix = SUFFIXES[wanted.vendor]
    try:
        return _environment().get_template(name).render(
            intent=wanted, behaviours=BEHAVIOURS, file=f"{wanted.name}.{suffix}", wred_name=sonic.wred_name
        )  # fmt: skip
    except (jinja2.TemplateError, ValueError) as error:
        raise G35Error(
            f"cannot render the configuration of switch {wanted.name}",
            why=f"templates/{name}: {error}",
            next_command="correct the value in the inventory, then g35ctl check",
        ) from error


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - the results are switch configurations, not HTML
        loader=jinja2.FileSystemLoader(content_root() / "templates"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_one_line,
        auto_reload=False,
    )
    environment.filters["ranges"] = ranges
    return environment


def _one_line(value: Any) -> Any:
    """What a user writes can fill a line but never start one."""
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"{value!r} holds a line break or a control character")
    return value
