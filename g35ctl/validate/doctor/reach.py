"""Hosts that do not answer, links without carrier, rails and portals that are silent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import escape

from ansible.module_utils.g35.plans import ConnectPath

from g35ctl.observe.details import Way
from g35ctl.observe.model import Controller
from g35ctl.plan.model import HostPlan, Plan
from g35ctl.validate.doctor.model import ERROR, Case, Diagnosis, listed, path_sign
from g35ctl.validate.paths import live_paths, paths_of
from g35ctl.validate.pool import segment_name


@dataclass(frozen=True)
class Leg:
    """One port of one host towards one portal: its planned paths, which of them serve, and what ping said."""

    host: str
    rail: str
    netdev: str
    source: str
    address: str
    paths: tuple[ConnectPath, ...]
    live: tuple[ConnectPath, ...]
    way: Way | None
    controllers: tuple[Controller, ...]

    @property
    def silent(self) -> bool:
        """Nothing comes back from the portal. A box that drops pings but serves its paths is not silent."""
        whole = len(self.live) == len(self.paths)
        if self.way is None or self.way.answers is None:
            return not self.live
        return self.way.answers is False and (not self.way.neighbour or not whole)

    @property
    def signs(self) -> tuple[str, ...]:
        return tuple(path_sign(self.host, self.rail, self.address, path.nqn) for path in self.paths)

    def evidence(self) -> tuple[str, ...]:
        """What ping and the controllers say, quoted."""
        told = []
        if self.way is not None and self.way.answers is False:
            neighbour = "" if self.way.neighbour else "; no neighbour entry"
            told.append(f"{self.host}: ping -I {self.source} {self.address}: {self.way.words}{neighbour}")
        states = [f"{item.name} {item.condition}" for item in self.controllers]
        told.append(
            f"{self.host}: {len(self.live)} of {len(self.paths)} paths over {self.netdev} to {self.address} serve"
            f" ({listed(states) if states else 'no controller'})"
        )
        return tuple(told)


def legs(case: Case) -> tuple[Leg, ...]:
    """Every leg of every host that was read."""
    found = []
    for host in case.reached():
        if host.connect is None or host.name not in case.now.readings.controllers:
            continue
        have = case.now.readings.controllers[host.name]
        ways = {(way.address, way.source_address): way for way in case.now.details.ways.get(host.name, ())}
        groups: dict[tuple[str, str], list[ConnectPath]] = {}
        for path in host.connect.paths:
            groups.setdefault((path.address, path.source_address), []).append(path)
        for (address, source), paths in groups.items():
            first = paths[0]
            own = tuple(item for path in paths for item in paths_of(path, have))
            found.append(
                Leg(
                    host.name, first.rail, first.netdev, source, address, tuple(paths), live_paths(paths, have),
                    ways.get((address, source)), own,
                )
            )  # fmt: skip
    return tuple(found)


def unreachable(case: Case) -> Iterator[Diagnosis]:
    """Hosts that brought nothing."""
    told = {item.host: f"{item.observed}; expected {item.expected}" for item in case.unread}
    remedies = {item.host: item.remedy for item in case.unread}
    for name in case.now.readings.unreached:
        plan = case.plan.host(name)
        patterns = [f"finding/{name}/*", f"path/{name}/*"]
        patterns += [f"path/*/*/{address}/*" for address in portals(plan)]
        if plan.cache is not None and plan.cache.master is not None:
            patterns += ["master", "finding/*/cache.master/*", "finding/*/cache.segment/*"]
        if plan.cache is not None and plan.cache.store is not None:
            patterns += [f"segment/{escape(segment_name(item))}" for item in plan.cache.store.instances]
        yield Diagnosis(
            "host.unreachable", ERROR, f"{name} cannot be read", (told.get(name, "no reading came back"),),
            remedies.get(name) or f"check its power and management network; then: g35ctl preflight --limit {name}",
            (name,), (f"host/{name}",), tuple(patterns),
        )  # fmt: skip


def links(case: Case) -> Iterator[Diagnosis]:
    """Data ports without carrier or without a device."""
    for host in case.reached():
        planned = {port.netdev: port for port in host.fabric.ports} if host.fabric is not None else {}
        for port in case.now.readings.ports.get(host.name, ()):
            if port.netdev not in planned or (port.mtu is not None and port.carrier):
                continue
            plan = planned[port.netdev]
            what = "does not exist" if port.mtu is None else "has no carrier"
            yield Diagnosis(
                "link.down", ERROR, f"{host.name}: {port.netdev} (rail {plan.rail}) {what}",
                (f"{host.name}: /sys/class/net/{port.netdev}{' is absent' if port.mtu is None else '/carrier is 0'}",),
                f"check cable, optics and switch port of {port.netdev}; on {host.name}: ip link show {port.netdev};"
                f" ethtool {port.netdev}",
                (host.name,), (f"link/{host.name}/{port.netdev}",),
                _port_patterns(host.name, plan.rail, port.netdev, plan.address, host.target is not None),
            )  # fmt: skip


def _port_patterns(host: str, rail: str, netdev: str, address: str, box: bool) -> tuple[str, ...]:
    """What follows when one port of one host is cut off."""
    own = [f"path/{host}/{rail}/*", f"way/{host}/{rail}/*", f"finding/{host}/fabric.*/{netdev}"]
    own += [f"flap/{host}/{netdev}", f"errors/{host}/{netdev}"]
    if box:
        own += [f"path/*/*/{address}/*", f"way/*/*/{address}"]
    return tuple(own)


def rails(case: Case) -> Iterator[Diagnosis]:
    """Silence, told at its widest: a whole rail, a portal, or one host's port."""
    everything = legs(case)
    told: set[str] = set()
    for rail in dict.fromkeys(leg.rail for leg in everything):
        on = [leg for leg in everything if leg.rail == rail]
        silent = [leg for leg in on if leg.silent]
        if len(silent) == len(on) and len({leg.host for leg in on}) > 1:
            yield _rail(case.plan, rail, on)
            continue
        for address in dict.fromkeys(leg.address for leg in silent):
            to = [leg for leg in on if leg.address == address]
            if all(leg.silent for leg in to) and len({leg.host for leg in to}) > 1:
                told |= {sign for leg in to for sign in leg.signs}
                yield _portal(case.plan, rail, address, to)
        for host in dict.fromkeys(leg.host for leg in silent):
            own = [leg for leg in silent if leg.host == host and not set(leg.signs) <= told]
            if own:
                yield _one(host, rail, own, len([leg for leg in on if leg.host == host]) == len(own))


def _explained(silent: Sequence[Leg]) -> tuple[str, ...]:
    found = []
    for leg in silent:
        found += [f"path/{leg.host}/{leg.rail}/{leg.address}/*", f"way/{leg.host}/{leg.rail}/{leg.address}"]
    return tuple(found)


def _some(silent: Sequence[Leg]) -> tuple[str, ...]:
    return tuple(line for leg in silent[:4] for line in leg.evidence())


def _rail(plan: Plan, rail: str, silent: Sequence[Leg]) -> Diagnosis:
    hosts = tuple(dict.fromkeys(leg.host for leg in silent))
    addresses = tuple(dict.fromkeys(leg.address for leg in silent))
    boxes = [name for address in addresses for name in boxes_at(plan, address)]
    where = f"the switch of rail {rail}" + (f", or the port of {listed(boxes)} on it" if len(addresses) == 1 else "")
    return Diagnosis(
        "rail.down", ERROR, f"rail {rail} is down: no host reaches {listed(addresses)}", _some(silent),
        f"check {where}: power, ports, VLAN; from a host: {_ping(silent[0])}", hosts,
        tuple(sign for leg in silent for sign in leg.signs), _explained(silent),
    )  # fmt: skip


def _portal(plan: Plan, rail: str, address: str, silent: Sequence[Leg]) -> Diagnosis:
    boxes = boxes_at(plan, address)
    whose = f"portal {address}" + (f" of {listed(boxes)}" if boxes else "")
    return Diagnosis(
        "portal.down", ERROR, f"{whose} on rail {rail} answers no host, other portals of the rail do", _some(silent),
        f"check the port of {listed(boxes) if boxes else 'the box'} on rail {rail}: cable, switch port, address; from a"
        f" host: {_ping(silent[0])}",
        (*boxes, *dict.fromkeys(leg.host for leg in silent)),
        tuple(sign for leg in silent for sign in leg.signs), _explained(silent),
    )  # fmt: skip


def _one(host: str, rail: str, silent: Sequence[Leg], whole: bool) -> Diagnosis:
    leg = silent[0]
    to = "every portal" if whole else listed(dict.fromkeys(item.address for item in silent))
    return Diagnosis(
        "rail.cut", ERROR, f"{host} is cut off rail {rail}: {to} is silent through {leg.netdev}", _some(silent),
        f"check the switch port and VLAN of {leg.netdev} on {host}, then its cable and optics; on {host}: {_ping(leg)}",
        (host,), tuple(sign for item in silent for sign in item.signs),
        (*_explained(silent), f"flap/{host}/{leg.netdev}", f"errors/{host}/{leg.netdev}"),
    )  # fmt: skip


def _ping(leg: Leg) -> str:
    return f"ping -I {leg.source} {leg.address}"


def boxes_at(plan: Plan, address: str) -> tuple[str, ...]:
    """Boxes of the plan that have this portal."""
    return tuple(host.name for host in plan.hosts if address in portals(host))


def portals(host: HostPlan) -> tuple[str, ...]:
    """Addresses at which a host exports."""
    return tuple(portal.address for plan in (host.target, host.box) if plan is not None for portal in plan.portals)
