"""Asking one box what it exports, from wherever it is best asked. Takes no lock, and changes nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible.module_utils.g35.box import Seen, instruction
from ansible.module_utils.g35.plans import BoxPlan, Portal, RedfishAccess, SpdkAccess, TargetNamespace
from ansible.module_utils.g35.schema import dump, load

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.site.model import Site, SiteHost

_TOLD_LINES = 8
_FROM = "ask from a host on the storage network: --from HOST"
# Drivers that cannot let anybody in.
_BY_HAND = ("static", "discovery")


@dataclass(frozen=True)
class Question:
    """What the user said about the box; empty or None is taken from the inventory.

    ``addresses`` are management addresses with driver redfish and portals with discovery. ``asker`` is the host that
    asks; empty for the controller. ``password`` is never shown and goes no further than the login.
    """

    box: str
    driver: str = ""
    addresses: tuple[str, ...] = ()
    username: str = ""
    password: str = ""
    ca_file: str = ""
    socket: str = ""
    asker: str = ""
    transport: str = ""


@dataclass(frozen=True)
class Answer:
    """What the box exports, and what it was asked with. ``site`` is None while the inventory is not valid;
    ``findings`` compare it with the inventory, as far as that knows the box."""

    plan: BoxPlan
    seen: Seen
    site: Site | None
    host: SiteHost | None
    findings: tuple[Mapping[str, Any], ...] = ()

    @property
    def instructions(self) -> tuple[str, ...]:
        """What the operator of a box that g35ctl cannot configure does for each subsystem, in one sentence each."""
        if self.plan.driver not in _BY_HAND:
            return ()
        done = {
            item.nqn: item.allowed_hosts for item in self.seen.subsystems if item.allowed_hosts and not item.any_host
        }
        wanted = {item.nqn: item.allowed_hosts for item in self.plan.namespaces}
        return tuple(
            instruction(self.plan, nqn, host_nqn)
            for nqn, hosts in wanted.items()
            for host_nqn in hosts
            if done.get(nqn) != (host_nqn,)
        )


def discover(inventory: str, question: Question) -> Answer:
    """Ask the box. The inventory need not be valid, nor know the box, as long as the question says how to reach it.

    Raises G35Error: usage when it is not known how to ask, unreachable when nobody answers.
    """
    from g35ctl.site.load import inspect

    site = inspect(inventory)[0] if Path(inventory).exists() else None
    host = next((item for item in site.hosts if item.name == question.box), None) if site is not None else None
    plan = _plan(inventory, question, site, host)
    secret = question.password
    if not secret and host is not None and host.box is not None and host.box.redfish is not None:
        secret = host.box.redfish.password.get_secret_value()
    place = question.box if plan.driver == "nvmet" else question.asker or plan.run_on
    result = _on_host(inventory, place, plan) if place else _here(plan, secret)
    if result.get("failed") or not result.get("state"):
        raise _silence(question.box, result)
    seen = load(Seen, dict(result["state"]))
    if seen.problems and not seen.portals:
        # Every portal was silent: that is no box without namespaces.
        raise _silence(question.box, {"findings": [{"observed": "\n".join(seen.problems), "remedy": _FROM}]})
    return Answer(plan, seen, site, host, _compare(plan, seen))


def _plan(inventory: str, question: Question, site: Site | None, host: SiteHost | None) -> BoxPlan:
    """The plan to ask with: the inventory's, changed by what the question says."""
    known = host.box if host is not None else None
    driver = question.driver or (known.driver if known is not None else "")
    if not driver:
        raise G35Error(
            f"{question.box} is not a box of a valid inventory",
            why=f"{inventory} does not say how to ask it",
            next_command=f"g35ctl check, or g35ctl discover {question.box} --driver redfish --address A --username U",
            exit_code=Exit.USAGE,
        )
    planned = _planned(inventory, site, host, driver, question.box)
    transport = question.transport or (site.fabric.transport if site is not None else "rdma")
    if driver == "discovery" and question.addresses:
        planned = replace(planned, portals=tuple(_portal(item, transport) for item in question.addresses), run_on="")
    if driver == "redfish":
        planned = replace(planned, redfish=_redfish(question, planned.redfish))
    if driver == "spdk" and question.socket:
        planned = replace(planned, spdk=SpdkAccess(question.socket))
    missing = {
        "redfish": not planned.redfish or not planned.redfish.addresses or not planned.redfish.username,
        "spdk": planned.spdk is None,
        "discovery": not planned.portals,
        "static": known is None,
    }
    if missing.get(driver):
        needed = {"redfish": "--address and --username", "spdk": "--socket", "discovery": "--address"}.get(driver)
        raise G35Error(
            f"driver {driver} is not told how to reach {question.box}",
            why=f"give {needed}" if needed else "a static box is only what the inventory says",
            exit_code=Exit.USAGE,
        )
    return planned


def _planned(inventory: str, site: Site | None, host: SiteHost | None, driver: str, box: str) -> BoxPlan:
    """What the inventory says of the box, in the form of a plan; with its owners where those can connect."""
    bare = BoxPlan(site.identity.name if site else "site", box, driver, (), ())
    if site is None or host is None or host.box is None:
        return bare
    from g35ctl.engine.planning import make_plan

    planned = make_plan(inventory)[1]
    made = planned.host(host.name).box
    if made is not None and made.driver == driver:
        return made
    connecting = {item.name: item.connect.host_nqn for item in planned.hosts if item.connect is not None}
    mine = [item for item in planned.ownership if item.box == host.name and item.owner in connecting]
    allowed = {item.nqn: (connecting[item.owner],) for item in mine}
    owners = {connecting[item.owner]: item.owner for item in mine}
    family = {4: "ipv4", 6: "ipv6"}
    portals = tuple(
        Portal(str(item.address), item.rail, site.fabric.transport, item.port, family[item.address.version])
        for item in host.box.portals
    )
    spaces = tuple(
        TargetNamespace(
            item.nqn,
            item.nsid,
            str(item.uuid),
            item.uuid.hex,
            str(item.device or ""),
            "",
            "",
            allowed.get(item.nqn, ()),
        )
        for item in host.box.namespaces
    )
    return replace(bare, portals=portals, namespaces=spaces, owners=owners)


def _portal(text: str, transport: str) -> Portal:
    from ansible.module_utils.g35.redfish import split_address

    address, port = split_address(text)
    plain = text in {address, f"[{address}]"}
    family = "ipv6" if ":" in address else "ipv4"
    return Portal(address, "", transport, 4420 if plain else port, family)


def _redfish(question: Question, known: RedfishAccess | None) -> RedfishAccess:
    base = known or RedfishAccess((), "")
    return replace(
        base,
        addresses=question.addresses or base.addresses,
        username=question.username or base.username,
        ca_file=question.ca_file or base.ca_file,
        interfaces=base.interfaces if known is not None and not question.addresses else (),
    )


def _here(plan: BoxPlan, secret: str) -> dict[str, Any]:
    from ansible.module_utils.g35 import box
    from ansible.module_utils.g35.box_drivers import driver
    from ansible.module_utils.g35.host import Host

    return box.act(lambda: box.BoxStage(Host(), driver(Host(), plan, secret)), "discover")


def _on_host(inventory: str, name: str, plan: BoxPlan) -> dict[str, Any]:
    """Run the module on a host through its ssh connection."""
    from g35ctl.engine.events import TaskEvent
    from g35ctl.engine.folder import RunFolder, state_directory
    from g35ctl.engine.runner import Play, run_play

    events: list[TaskEvent] = []
    with tempfile.TemporaryDirectory(prefix="g35-discover-") as temporary:
        folder = RunFolder(Path(temporary))
        folder.log("discover").parent.mkdir(mode=0o700)
        # No plan of the site is needed, and there may be none yet.
        folder.plan.write_text(json.dumps({"hosts": []}), encoding="utf-8")
        play = Play("discover", "discover", (name,), variables={"g35_discover_plan": dump(plan)})
        played = run_play(play, folder, state_directory(inventory), inventory, events.append)
    told = next((event for event in events if event.action == "g35_box"), None)
    if told is None or told.outcome == "unreachable":
        said = told.message if told is not None else "\n".join(played.talk[-_TOLD_LINES:])
        finding = {"observed": said or "no answer", "remedy": f"g35ctl preflight --limit {name}"}
        return {"failed": True, "findings": [finding]}
    return {
        "failed": told.outcome == "failed",
        "state": dict(told.state),
        "findings": [dict(item) for item in told.findings] or [{"observed": told.message, "remedy": ""}],
    }


def _silence(box: str, result: Mapping[str, Any]) -> G35Error:
    first: Mapping[str, Any] = next(iter(result.get("findings") or ()), {})
    return G35Error(
        f"{box} cannot be asked",
        why=str(first.get("observed") or result.get("msg") or "no answer"),
        next_command=str(first.get("remedy") or ""),
        exit_code=Exit.UNREACHABLE,
    )


def _compare(plan: BoxPlan, seen: Seen) -> tuple[Mapping[str, Any], ...]:
    """How what was seen differs from an inventory that lists namespaces."""
    from dataclasses import asdict

    from ansible.module_utils.g35.box import Driver
    from ansible.module_utils.g35.host import Host

    if not plan.namespaces or plan.driver == "static":
        return ()
    return tuple(asdict(item) for item in Driver(Host(), plan).findings(seen) if item.check != "box.access")
