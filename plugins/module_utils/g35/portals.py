"""Does every portal answer from the port that is to reach it, and does a full-size packet get there unfragmented?

One short ping for each pair of source address and portal, all at once. A smaller one follows only where the full one
had no answer; the neighbour table then tells a silent way from a filter that drops pings.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .converge import Finding
from .host import Host
from .plans import ConnectPlan, FabricPlan
from .schema import SchemaError, load

WIDTH = 32
#: how long an answer is waited for, seconds
PATIENCE = 2
_REPLIES = 2


@dataclass(frozen=True)
class Pair:
    """A portal and the port that reaches it. ``mtu`` is what the port is to carry, bytes."""

    address: str
    source_address: str
    netdev: str
    rail: str
    mtu: int


@dataclass(frozen=True)
class Answer:
    """What came back. ``size`` is the packet that was tried, bytes with its headers; ``full`` and ``answers`` tell
    whether that and whether a small one was answered (None where there is no ping); ``neighbour`` is the hardware
    address of the portal or its gateway, empty where nobody answered on the port's own network."""

    address: str
    source_address: str
    netdev: str
    rail: str
    mtu: int
    size: int
    full: Optional[bool]
    answers: Optional[bool]
    neighbour: str
    words: str


def pairs(connect: ConnectPlan, fabric: Optional[FabricPlan]) -> Tuple[Pair, ...]:
    """Every portal of the plan from every port that reaches it, once."""
    mtu = {port.netdev: port.mtu for port in fabric.ports} if fabric is not None else {}
    found = {
        (path.address, path.source_address): Pair(
            path.address, path.source_address, path.netdev, path.rail, mtu.get(path.netdev, 0)
        )
        for path in connect.paths
    }
    return tuple(found.values())


def pairs_of(plans: Mapping[str, Mapping[str, Any]]) -> Tuple[Pair, ...]:
    """Pairs of the plans a module was given; none without a valid plan (which is told elsewhere)."""
    try:
        connect = load(ConnectPlan, dict(plans["connect"])) if plans.get("connect") else None
        fabric = load(FabricPlan, dict(plans["fabric"])) if plans.get("fabric") else None
    except SchemaError:
        return ()
    return pairs(connect, fabric) if connect is not None else ()


def ask(host: Host, wanted: Sequence[Pair], *, at_most_current: bool = False) -> Tuple[Answer, ...]:
    """Ping every pair at once. ``at_most_current`` keeps to the port's MTU of now, before the fabric is set up."""
    if not wanted:
        return ()
    with ThreadPoolExecutor(min(WIDTH, len(wanted))) as pool:
        return tuple(pool.map(lambda pair: _ask(host, pair, at_most_current), wanted))


def _ask(host: Host, pair: Pair, at_most_current: bool) -> Answer:
    now = int(host.read_value("/sys/class/net/%s/mtu" % pair.netdev) or 0)
    size = pair.mtu or now or 1500
    if at_most_current and now:
        size = min(size, now)
    full, words = _ping(host, pair, size)
    answers = full
    if full is False:
        answers, less = _ping(host, pair, 84 if ip_address(pair.address).version == 4 else 104)
        words = words if answers else less
    return Answer(
        pair.address, pair.source_address, pair.netdev, pair.rail, pair.mtu, size, full, answers,
        "" if answers else _neighbour(host, pair), "" if full else words,
    )  # fmt: skip


def _ping(host: Host, pair: Pair, size: int) -> Tuple[Optional[bool], str]:
    headers = 28 if ip_address(pair.address).version == 4 else 48
    argv = ["ping", "-n", "-c", str(_REPLIES), "-i", "0.2", "-W", str(PATIENCE), "-M", "do", "-s", str(size - headers)]
    result = host.run(argv + ["-I", pair.source_address, pair.address], timeout=PATIENCE + 5.0)
    if result.code == 127:
        return None, "ping is not installed"
    said = [line for line in (result.out + "\n" + result.err).splitlines() if "message too long" in line.lower()]
    lost = [line for line in result.out.splitlines() if "packets transmitted" in line]
    words = (said or lost or [result.err.strip() or "no answer"])[0]
    return result.ok, words


def _neighbour(host: Host, pair: Pair) -> str:
    """Hardware address the portal has on this port's network; "routed" behind a gateway; empty where it is silent."""
    told = host.run(["ip", "-j", "route", "get", pair.address, "from", pair.source_address])
    try:
        if told.ok and json.loads(told.out)[0].get("gateway"):
            return "routed"
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    told = host.run(["ip", "-j", "neigh", "show", "to", pair.address, "dev", pair.netdev])
    try:
        entries = json.loads(told.out or "[]") if told.ok else []
    except ValueError:
        entries = []
    usable = [item for item in entries if isinstance(item, dict) and "FAILED" not in (item.get("state") or ())]
    return str(usable[0].get("lladdr") or "") if usable else ""


def plain(answers: Sequence[Answer]) -> List[Dict[str, Any]]:
    """JSON form."""
    return [asdict(item) for item in answers]


def preflight_findings(answers: Sequence[Answer]) -> List[Finding]:
    """What keeps a host from its portals before anything is set up. A full-size packet that is lost only warns: the
    MTU of the other side may be what the deploy is about to set."""
    found: List[Finding] = []
    for item in answers:
        subject = "portal %s on rail %s" % (item.address, item.rail)
        way = "ping -I %s %s" % (item.source_address, item.address)
        if item.answers is None:
            continue  # a missing ping is told with the missing packages
        if not item.answers:
            silent = not item.neighbour
            found.append(
                Finding(
                    "network.reach", subject,
                    "nobody answers on the network of %s" % item.netdev if silent else "no answer to ping",
                    "an answer through %s" % item.netdev,
                    "check that the box is up, the cable and switch port of %s and its VLAN: %s" % (item.netdev, way)
                    if silent
                    else "the address is there but pings are dropped: allow ICMP echo on the rails, or check: " + way,
                    "error" if silent else "warning",
                )
            )  # fmt: skip
        elif not item.full:
            found.append(
                Finding(
                    "network.path_mtu", subject, "%d bytes do not get there, smaller packets do" % item.size,
                    "%d bytes unfragmented" % item.size, mtu_remedy(item), "warning",
                )
            )  # fmt: skip
    return found


def verify_findings(answers: Sequence[Answer]) -> List[Finding]:
    """Portals that answer, but not at the planned size. What does not answer at all is told by the paths."""
    return [
        Finding(
            "connect.path_mtu", "portal %s on rail %s" % (item.address, item.rail),
            "%d bytes do not get there, smaller packets do" % item.size,
            "%d bytes unfragmented" % item.size, mtu_remedy(item),
        )
        for item in answers
        if item.answers and item.full is False
    ]  # fmt: skip


def mtu_remedy(item: Answer) -> str:
    """Where to look, and the command that shows it."""
    return (
        "raise the MTU of every switch port of rail %s (and of the box) to at least %d plus headers; check: ping -M do"
        " -s %d -I %s %s"
        % (
            item.rail,
            item.size,
            item.size - (28 if ip_address(item.address).version == 4 else 48),
            item.source_address,
            item.address,
        )
    )
