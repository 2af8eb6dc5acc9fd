"""What preflight and verify look at besides the stages themselves: the host around them and the way to the portals."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from . import arp, counters, holders, kernelconfig, portals, surroundings
from .converge import Finding
from .host import Host
from .plans import FabricPlan, FabricPort
from .schema import SchemaError, load

Plans = Mapping[str, Dict[str, Any]]


def preflight(host: Host, state: Dict[str, Any], plans: Plans) -> List[Tuple[str, Finding]]:
    """Findings with the stage they are about. Adds ``firmware`` and ``portals`` to the host's ``state``."""
    ports = _ports(plans)
    answers = portals.ask(host, portals.pairs_of(plans), at_most_current=True)
    state["firmware"] = surroundings.firmware(host, ports)
    state["portals"] = portals.plain(answers)
    found = kernelconfig.kernel_findings(host, plans)
    around = surroundings.sshd_findings(host)
    around += surroundings.space_findings(host, plans)
    around += surroundings.clock_findings(host, state.get("time_synchronized"))
    around += surroundings.firmware_findings(state["firmware"])
    around += surroundings.module_findings(host, plans)
    around += arp.duplicate_findings(host, ports)
    found += [("preflight", item) for item in around]
    return found + [("connect", item) for item in portals.preflight_findings(answers)]


def verify(host: Host, state: Dict[str, Any], plans: Plans) -> List[Tuple[str, Finding]]:
    """Findings with the stage they are about. Adds ``counters``, ``portals`` and ``uses`` to what was read."""
    answers = portals.ask(host, portals.pairs_of(plans))
    state["portals"] = portals.plain(answers)
    state["counters"] = counters.read_counters(host, _ports(plans))
    state["uses"] = holders.uses(host, plans)
    return [("connect", item) for item in portals.verify_findings(answers)]


def _ports(plans: Plans) -> Tuple[FabricPort, ...]:
    """Data ports of the plan; none where it is not valid (which its stage tells)."""
    try:
        return load(FabricPlan, dict(plans["fabric"])).ports if plans.get("fabric") else ()
    except SchemaError:
        return ()
