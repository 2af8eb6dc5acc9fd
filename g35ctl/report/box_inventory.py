"""What a box exports as inventory: a ``g35_ebof`` that can be pasted, and what the box does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from ansible.module_utils.g35.box import SeenNamespace, SeenPortal, SeenSubsystem

from g35ctl.engine.discover import Answer
from g35ctl.site.model import BoxNamespace
from g35ctl.site.sizes import format_size

_CONFIGURED = ("nvmet", "spdk")


@dataclass(frozen=True)
class Unknown:
    """A value that the inventory needs and the box does not tell, and how to get it."""

    value: str
    how: str


@dataclass(frozen=True)
class BoxInventory:
    """``variable`` is the value of ``g35_ebof`` as far as it is known; ``notes`` explain parts of it, by NQN."""

    variable: dict[str, Any]
    unknown: tuple[Unknown, ...]
    notes: dict[str, str]


def inventory(answer: Answer) -> BoxInventory:
    """The box's variable from what it exports; what it does not tell is taken from the inventory where that knows."""
    unknown: list[Unknown] = []
    notes: dict[str, str] = {}
    plan, host = answer.plan, answer.host
    variable: dict[str, Any] = {"driver": plan.driver}
    if host is not None and host.box is not None and host.box.rated_gbps is not None:
        rated = host.box.rated_gbps
        variable["rated_gbps"] = int(rated) if rated.is_integer() else rated
    if plan.driver == "spdk" and plan.spdk is not None:
        variable["spdk"] = {"socket": plan.spdk.socket}
    if plan.driver == "redfish" and plan.redfish is not None:
        service: dict[str, Any] = {"addresses": list(plan.redfish.addresses), "username": plan.redfish.username}
        variable["redfish"] = service | ({"ca_file": plan.redfish.ca_file} if plan.redfish.ca_file else {})
        how = "it is never printed: add it as a vaulted value (ansible-vault encrypt_string)"
        unknown.append(Unknown("redfish.password", how))
    variable["portals"] = list(_portals(answer, unknown))
    variable["namespaces"] = [*_exported(answer, unknown), *_proposed(answer, notes)]
    if not variable["namespaces"]:
        how = "nothing is exported: create namespaces on the box, or ask as a host that it lets in (--from)"
        unknown.append(Unknown("namespaces", how))
    return BoxInventory(variable, tuple(unknown), notes)


def _portals(answer: Answer, unknown: list[Unknown]) -> Iterator[dict[str, Any]]:
    known = {(item.address, item.port): item.rail for item in answer.plan.portals if item.rail}
    seen = {portal for item in answer.seen.subsystems for portal in item.portals} | set(answer.seen.portals)
    if not seen:  # a box that exports nothing yet listens nowhere: what is planned stays
        seen = {SeenPortal(item.address, item.port, item.transport) for item in answer.plan.portals}
    for portal in sorted(seen, key=str):
        entry: dict[str, Any] = {"address": portal.address}
        rail = known.get((portal.address, portal.port)) or _rail(answer, portal.address)
        if rail:
            entry["rail"] = rail
        else:
            how = "name the rail of g35_fabric whose subnet holds the address, or add one"
            unknown.append(Unknown(f"rail of portal {portal}", how))
        if portal.port != 4420:
            entry["port"] = portal.port
        yield entry
    if not seen:
        unknown.append(Unknown("portals", "give the box addresses on the rails, and list them"))


def _rail(answer: Answer, address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return ""
    rails = answer.site.fabric.rails if answer.site is not None else ()
    return next((rail.name for rail in rails if found in rail.subnet), "")


def _exported(answer: Answer, unknown: list[Unknown]) -> Iterator[dict[str, Any]]:
    box = answer.host.box if answer.host is not None else None
    known = {(item.nqn, item.nsid): item for item in box.namespaces} if box is not None else {}
    for subsystem in sorted(answer.seen.subsystems, key=lambda item: _natural(item.nqn)):
        listed: Sequence[SeenNamespace] = subsystem.namespaces or [
            SeenNamespace(nsid) for nqn, nsid in known if nqn == subsystem.nqn
        ] or [SeenNamespace(1)]  # fmt: skip
        for item in listed:
            yield _namespace(answer, subsystem, item, known.get((subsystem.nqn, item.nsid)), unknown)


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts ssd2 before ssd10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def _namespace(
    answer: Answer, subsystem: SeenSubsystem, item: SeenNamespace, known: BoxNamespace | None, unknown: list[Unknown]
) -> dict[str, Any]:
    entry: dict[str, Any] = {"nqn": subsystem.nqn}
    if item.nsid != 1:
        entry["nsid"] = item.nsid
    uuid = item.uuid or (str(known.uuid) if known is not None else "")
    size = item.size or (known.size if known is not None else 0)
    entry |= ({"uuid": uuid} if uuid else {}) | ({"size": size} if size else {})
    where = f"nsid {item.nsid} of {subsystem.nqn}"
    connect = f"on a host that the box lets in: nvme connect -t {_transport(answer)} -n {subsystem.nqn} -a PORTAL"
    if not uuid:
        unknown.append(Unknown(f"uuid of {where}", f"{connect}, then cat /sys/class/block/nvmeXnY/uuid"))
    if not size:
        unknown.append(Unknown(f"size of {where}", f"{connect}, then blockdev --getsize64 /dev/nvmeXnY"))
    if answer.plan.driver in _CONFIGURED:
        key = "device" if answer.plan.driver == "nvmet" else "bdev"
        entry |= {key: item.device} if item.device else {}
        entry |= {"serial": subsystem.serial} if subsystem.serial else {}
    if known is not None and known.owner is not None:
        entry["owner"] = known.owner
    return entry


def _transport(answer: Answer) -> str:
    return answer.plan.portals[0].transport if answer.plan.portals else "rdma"


def _proposed(answer: Answer, notes: dict[str, str]) -> Iterator[dict[str, Any]]:
    """A namespace for each SSD that the box has and does not export; the same names whenever it is asked."""
    site, box = answer.plan.site, answer.plan.box
    taken = {item.nqn for item in answer.seen.subsystems}
    number = 0
    for item in answer.seen.free_devices:
        if not item.size:
            continue
        while (nqn := f"nqn.2026-01.io.g35ctl:{site}:{box}:ssd{number}".lower()) in taken:
            number += 1
        taken.add(nqn)
        notes[nqn] = "not exported yet; leave it out if the SSD is for something else"
        key = "device" if answer.plan.driver == "nvmet" else "bdev"
        identity = str(uuid5(NAMESPACE_URL, f"g35ctl:{site}:{box}:{item.device}"))
        yield {"nqn": nqn, "uuid": identity, "size": item.size, key: item.device}


def text(found: BoxInventory, answer: Answer) -> Iterator[str]:
    """The lines of a host_vars file. What is unknown is said in comments; its keys are left out."""
    import yaml

    seen = answer.seen
    told = ", ".join(part for part in (seen.product, f"chassis {seen.identity}" if seen.identity else "") if part)
    yield "---"
    yield f"# What {answer.plan.box} exports, read through driver {answer.plan.driver}{f' ({told})' if told else ''}."
    for item in found.unknown:
        yield f"# Unknown: {item.value}. {item.how[:1].upper()}{item.how[1:]}."
    namespaces = found.variable["namespaces"]
    rest = {key: value for key, value in found.variable.items() if key != "namespaces" and value != []}
    dumped = yaml.safe_dump({"g35_ebof": rest}, sort_keys=False, default_flow_style=False)
    yield from _indented(dumped.splitlines())
    if namespaces:
        yield "  namespaces:"
    for entry in namespaces:
        if entry["nqn"] in found.notes:
            yield f"    # {found.notes[entry['nqn']][:1].upper()}{found.notes[entry['nqn']][1:]}."
        lead = "    - "
        for key, value in entry.items():
            size = f"  # {format_size(value)}" if key == "size" else ""
            yield f"{lead}{key}: {_scalar(value)}{size}"
            lead = "      "


def _indented(lines: Sequence[str]) -> Iterator[str]:
    """Lists indented below their key, as everywhere in our inventories."""
    inside = 0
    for line in lines:
        bare = line.lstrip()
        indent = len(line) - len(bare)
        if bare.startswith("- "):
            inside = indent
        elif inside and indent <= inside:
            inside = 0
        yield f"  {line}" if inside and indent >= inside else line


def _scalar(value: Any) -> str:
    import yaml

    return str(yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0])
