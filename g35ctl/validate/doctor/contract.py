"""Ports that are not set as the traffic contract says, with what most of the others have; and MTU on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ansible.module_utils.g35.dcb import Contract, Ets, ets_holds
from ansible.module_utils.g35.plans import FabricPlan, FabricPort

from g35ctl.observe.model import Port
from g35ctl.plan.model import HostPlan
from g35ctl.validate.doctor.model import ERROR, Case, Diagnosis, listed
from g35ctl.validate.doctor.reach import boxes_at, portals


@dataclass(frozen=True)
class _Seen:
    """One port, as planned and as read."""

    host: HostPlan
    fabric: FabricPlan
    planned: FabricPort
    port: Port

    @property
    def where(self) -> str:
        return f"{self.host.name} {self.planned.netdev}"

    @property
    def contract(self) -> Contract:
        plan = self.fabric
        return Contract(plan.dscp, plan.priority, plan.cnp_dscp, plan.cnp_priority, plan.bandwidth_percent)


@dataclass(frozen=True)
class _Rule:
    """One setting: ``have`` and ``want`` as text, None where it cannot be judged; ``checks`` are the findings that tell
    the same; ``command`` shows it on the host."""

    cause: str
    what: str
    have: Callable[[_Seen], str | None]
    want: Callable[[_Seen], str]
    checks: tuple[str, ...]
    command: str
    disruptive: bool = False


def _pfc(seen: _Seen) -> str | None:
    return None if seen.port.dcb is None else "priority " + listed(seen.port.dcb.pfc)


def _map(seen: _Seen) -> str | None:
    """The entries that matter, or the wanted text when none is missing and none contradicts."""
    if seen.port.dcb is None:
        return None
    contract, have = seen.contract, seen.port.dcb.dscp
    if not contract.missing(have) and not contract.contradicting(have):
        return _wanted_map(seen)
    return listed(f"{dscp} to {priority}" for dscp, priority in have)


def _wanted_map(seen: _Seen) -> str:
    return listed(f"{dscp} to {priority}" for dscp, priority in sorted(seen.contract.dscp_map))


def _ets(seen: _Seen) -> str | None:
    dcb = seen.port.dcb
    if dcb is None or not dcb.ets_selection:
        return None
    want = seen.contract.ets(dcb.classes)
    have = Ets(dcb.ets_priorities, dcb.ets_selection, dcb.ets_bandwidth)
    if want is not None and ets_holds(want, have, dcb.classes):
        return _wanted_ets(seen)
    pairs = zip(have.selection, have.bandwidth, strict=False)
    return "classes " + listed((f"{name} {percent} %" if name == "ets" else name for name, percent in pairs), 8)


def _wanted_ets(seen: _Seen) -> str:
    return f"{seen.fabric.bandwidth_percent} % for priority {seen.fabric.priority}, the rest shared, CNP strict"


def _tos(seen: _Seen) -> str | None:
    if seen.fabric.transport != "rdma" or not seen.port.rdma_device:
        return None
    return "not readable" if seen.port.tos is None else str(seen.port.tos)


_RULES = (
    _Rule("mtu.port", "MTU", lambda s: None if s.port.mtu is None else str(s.port.mtu), lambda s: str(s.planned.mtu),
          ("fabric.mtu", "fabric.path_mtu"), "ip link show {netdev}", True),
    _Rule("pfc.priority", "PFC", _pfc, lambda s: f"priority {s.fabric.priority}", ("fabric.pfc",),
          "dcb pfc show dev {netdev}", True),
    _Rule("dscp.map", "DSCP map", _map, _wanted_map, ("fabric.dscp",), "dcb app show dev {netdev}"),
    _Rule("ets.bandwidth", "ETS", _ets, _wanted_ets, ("fabric.ets",), "dcb ets show dev {netdev}"),
    _Rule("tos.default", "default ToS of RDMA connections", _tos, lambda s: str(s.fabric.tos), ("fabric.tos",),
          "cat /sys/kernel/config/rdma_cm/*/ports/1/default_roce_tos"),
)  # fmt: skip


def settings(case: Case) -> Iterator[Diagnosis]:
    """Each setting that deviates, once for all ports that deviate in the same way."""
    ports = _ports(case)
    for rule in _RULES:
        judged = [(seen, have, rule.want(seen)) for seen in ports if (have := rule.have(seen)) is not None]
        wrong: dict[tuple[str, str], list[_Seen]] = {}
        for seen, have, want in judged:
            if have != want:
                wrong.setdefault((have, want), []).append(seen)
        for (have, want), seen_ports in wrong.items():
            others = Counter(value for _, value, _ in judged)
            yield _setting(rule, have, want, seen_ports, others)


def _ports(case: Case) -> tuple[_Seen, ...]:
    found = []
    for host in case.reached():
        if host.fabric is None:
            continue
        read = {port.netdev: port for port in case.now.readings.ports.get(host.name, ())}
        found += [
            _Seen(host, host.fabric, planned, read[planned.netdev])
            for planned in host.fabric.ports
            if planned.netdev in read
        ]
    return tuple(found)


def _setting(rule: _Rule, have: str, want: str, ports: list[_Seen], others: Counter[str]) -> Diagnosis:
    hosts = tuple(dict.fromkeys(seen.host.name for seen in ports))
    total = sum(others.values())
    majority, count = others.most_common(1)[0]
    told = [f"{seen.where}: {have}, expected {want}" for seen in ports[:6]]
    told.append(f"{others[want]} of {total} ports have {want}; {len(ports)} of {total} have {have}")
    if majority not in (have, want):
        told.append(f"most ({count}) have {majority}")
    boxes = [seen.host.name for seen in ports if seen.host.target is not None]
    rest = [name for name in hosts if name not in boxes]
    commands = [f"g35ctl deploy --only target --limit {','.join(dict.fromkeys(boxes))}"] if boxes else []
    commands += [f"g35ctl deploy --only fabric --limit {','.join(rest)}"] if rest else []
    consent = " --allow-disruptive (the link flaps)" if rule.disruptive else ""
    look = rule.command.format(netdev=ports[0].planned.netdev)
    return Diagnosis(
        rule.cause, ERROR, f"{rule.what} is {have} instead of {want} on {listed(seen.where for seen in ports)}",
        tuple(told), "; ".join(command + consent for command in commands) + f"; look: {look}", hosts,
        tuple(f"setting/{rule.cause}/{seen.where}" for seen in ports), _follow(rule, ports),
    )  # fmt: skip


def _follow(rule: _Rule, ports: list[_Seen]) -> tuple[str, ...]:
    found = [f"finding/{seen.host.name}/{check}/{seen.planned.netdev}" for seen in ports for check in rule.checks]
    for seen in ports:
        if rule.cause == "mtu.port":
            rail, address = seen.planned.rail, seen.planned.address
            found += [f"way/{seen.host.name}/{rail}/*"]
            if address in portals(seen.host):
                found += [f"way/*/{rail}/{address}"]
        if rule.cause in ("pfc.priority", "dscp.map", "ets.bandwidth", "tos.default"):
            found += [f"errors/{seen.host.name}/{seen.planned.netdev}"]
        if rule.cause in ("dscp.map", "tos.default"):
            found += [f"priority/{seen.host.name}/{seen.planned.netdev}"]
    return tuple(found)


def way_mtu(case: Case) -> Iterator[Diagnosis]:
    """Full-size packets that are lost between ports that both have the MTU: something in the middle does not."""
    lost: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    fine: dict[str, set[str]] = {}
    for host in case.reached():
        for way in case.now.details.ways.get(host.name, ()):
            if way.answers and way.full is False:
                quoted = f"{host.name}: ping -M do -s {way.size - _headers(way.address)} -I {way.source_address}"
                lost.setdefault((way.rail, way.address, way.size), []).append(
                    (host.name, f"{quoted} {way.address}: {way.words}; smaller packets are answered")
                )
            elif way.full:
                fine.setdefault(way.address, set()).add(host.name)
    for (rail, address, size), told in lost.items():
        hosts = tuple(dict.fromkeys(name for name, _ in told))
        others = fine.get(address, set())
        boxes = boxes_at(case.plan, address)
        if others:
            where = f"between {listed(hosts)} and rail {rail}: {listed(sorted(others))} get {size} bytes through"
            look = f"the switch ports of {listed(hosts)} on rail {rail}"
        else:
            where = f"at the box or its switch port: no host gets {size} bytes to {address}"
            look = f"the switch port of {listed(boxes) if boxes else address} on rail {rail}, and the box's own MTU"
        yield Diagnosis(
            "mtu.way", ERROR, f"the MTU in the middle of rail {rail} is too small {where}",
            tuple(line for _, line in told[:4]),
            f"raise the MTU of {look} to at least {size} plus headers; both ends have it. Then: g35ctl doctor", hosts,
            tuple(f"way/{name}/{rail}/{address}" for name in hosts),
        )  # fmt: skip


def _headers(address: str) -> int:
    return 48 if ":" in address else 28
