"""Lints of switches: what their vendors can express of the traffic contract, and thresholds that make sense."""

from __future__ import annotations

from collections.abc import Callable

from g35ctl.site.lints.context import Context, same_twice
from g35ctl.site.model import SiteSwitch, TrafficContract
from g35ctl.site.positions import Step
from g35ctl.site.problems import Problem
from g35ctl.site.switch_vendors import effective_mtu, lossless_priorities, marking, vendors

_TRAFFIC = ("g35_fabric", "traffic")


def contract(context: Context) -> list[Problem]:
    """The one contract must be expressible on each switch; the problem stands where the contract does."""
    traffic = context.site.fabric.traffic
    checks = (_lossless, _cnp_class, _order)
    return [problem for item in context.site.switches for check in checks for problem in check(context, item, traffic)]


def _lossless(context: Context, item: SiteSwitch, traffic: TrafficContract) -> list[Problem]:
    able = lossless_priorities(item.switch)
    if traffic.priority in able:
        return []
    title = vendors()[item.switch.vendor].title
    what = (
        f"{title} cannot make priority {traffic.priority} lossless here: it can"
        f" {', '.join(str(priority) for priority in able)}"
    )
    hint = (
        "choose one of these, or list what this switch's buffers are laid out for in g35_switch.lossless_priorities"
        if traffic.priority
        else "priority 0 is the class of all other traffic; choose one of these"
    )
    return [context.at(item, (*_TRAFFIC, "priority"), what, hint)]


def _cnp_class(context: Context, item: SiteSwitch, traffic: TrafficContract) -> list[Problem]:
    if traffic.cnp_priority != 0:
        return []
    what = "congestion notification packets on priority 0 share the class of all other traffic: it cannot be strict"
    return [context.at(item, (*_TRAFFIC, "cnp_priority"), what, "give cnp_priority another priority, such as 6")]


def _order(context: Context, item: SiteSwitch, traffic: TrafficContract) -> list[Problem]:
    vendor = vendors()[item.switch.vendor]
    if not vendor.strict_above or traffic.cnp_priority > traffic.priority or traffic.cnp_priority == 0:
        return []
    what = (
        f"{vendor.title} serves a strict queue only above its round-robin queues: cnp_priority {traffic.cnp_priority}"
        f" is below priority {traffic.priority}"
    )
    return [context.at(item, (*_TRAFFIC, "cnp_priority"), what, "give cnp_priority a higher priority, such as 6")]


def transport(context: Context) -> list[Problem]:
    """With TCP no host marks or queues by the contract, so lossless classes on switches stay empty."""
    if context.site.fabric.transport != "tcp":
        return []
    what = "transport is tcp: no host marks traffic by the contract, and the lossless class of this switch stays empty"
    return [context.at(item, ("g35_fabric", "transport"), what, severity="warning") for item in context.site.switches]


def mtu(context: Context) -> list[Problem]:
    """A frame that hosts may send must pass every switch."""
    found = []
    for item in context.site.switches:
        vendor = vendors()[item.switch.vendor]
        have, need = effective_mtu(item.switch), context.site.fabric.mtu + vendor.header_bytes
        if have >= need:
            continue
        counted = f" with {vendor.header_bytes} bytes of headers, which {vendor.title} counts" * bool(
            vendor.header_bytes
        )
        limit = f"; {vendor.title} ends at {vendor.largest_mtu}" * (have < item.switch.mtu)
        what = f"MTU {have} is smaller than the hosts' {context.site.fabric.mtu}{counted}{limit}"
        hint = "use 9216 on switches and 9000 on hosts"
        found.append(context.at(item, ("g35_switch", "mtu"), what, hint))
    return found


def thresholds(context: Context) -> list[Problem]:
    """Every port has ECN thresholds, in order, and ECN acts before PFC."""
    return [problem for item in context.site.switches for problem in _thresholds(context, item)]


def _thresholds(context: Context, item: SiteSwitch) -> list[Problem]:
    switch = item.switch
    found: list[Problem] = []
    seen: dict[object, str] = {}
    for number, own in enumerate(switch.thresholds):
        path = ("g35_switch", "thresholds", number)
        earlier = same_twice(seen, own.speed, f"thresholds[{number}]")
        if earlier:
            found.append(context.at(item, (*path, "speed"), f"{own.speed} is given twice, first in {earlier}"))
        if own.ecn_min >= own.ecn_max:
            what = f"ecn_min {own.ecn_min} is not below ecn_max {own.ecn_max}: marking would be all or nothing"
            found.append(context.at(item, (*path, "ecn_min"), what, "ecn_min is where marking begins"))
    told: set[str] = set()
    own_speeds = {own.speed: number for number, own in enumerate(switch.thresholds)}
    for number, port in enumerate(switch.ports):
        if port.speed in told:
            continue
        told.add(port.speed)
        here = marking(switch, port.speed)
        if here is None:
            if context.is_partial(item, "g35_switch"):
                continue
            what = f"there is no published ECN threshold for {port.speed} ports of {vendors()[switch.vendor].title}"
            hint = f"thresholds: [{{speed: {port.speed}, ecn_min: ..., ecn_max: ..., probability: ...}}]"
            found.append(context.at(item, ("g35_switch", "ports", number, "speed"), what, hint))
        elif switch.xoff and here.ecn_min >= switch.xoff:
            what = (
                f"PFC pauses at {switch.xoff} bytes, before ECN marks {port.speed} ports at {here.ecn_min}:"
                " senders would be stopped without ever being told to slow down"
            )
            own_number = own_speeds.get(port.speed)
            where: tuple[Step, ...] = ("xoff",) if own_number is None else ("thresholds", own_number, "ecn_min")
            found.append(context.at(item, ("g35_switch", *where), what, "lower ecn_min or raise xoff"))
    return found


def ports(context: Context) -> list[Problem]:
    """A port is listed once."""
    found: list[Problem] = []
    for item in context.site.switches:
        seen: dict[object, str] = {}
        for number, port in enumerate(item.switch.ports):
            earlier = same_twice(seen, port.name, f"g35_switch.ports[{number}]")
            if earlier:
                what = f"{port.name} is listed twice, first in {earlier}"
                found.append(context.at(item, ("g35_switch", "ports", number, "name"), what))
    return found


def watchdog(context: Context) -> list[Problem]:
    """The watchdog's times fit its polling, and its action is one the vendor has."""
    found = []
    for item in context.site.switches:
        asked = item.switch.watchdog
        if not asked.enabled:
            what = "without the PFC watchdog one broken NIC can stop the lossless class of the whole fabric"
            found.append(context.at(item, ("g35_switch", "watchdog", "enabled"), what, severity="warning"))
            continue
        vendor = vendors()[item.switch.vendor]
        # EOS wants two polls in each; SONiC refuses less than one; a storm needs two to be told from a pause.
        shortest = min(asked.detection_ms, asked.restoration_ms)
        if asked.poll_ms * 2 > shortest:
            what = f"poll_ms {asked.poll_ms} is more than half of {shortest}, the shorter of detection and restoration"
            found.append(context.at(item, ("g35_switch", "watchdog", "poll_ms"), what, "poll at least twice in it"))
        if asked.action not in vendor.watchdog_actions:
            what = f"{vendor.title} cannot {asked.action} packets in a storm: it can {vendor.watchdog_actions[0]} them"
            found.append(context.at(item, ("g35_switch", "watchdog", "action"), what))
    return found


LINTS: tuple[Callable[[Context], list[Problem]], ...] = (
    contract,
    transport,
    mtu,
    ports,
    thresholds,
    watchdog,
)
