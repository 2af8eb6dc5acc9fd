"""Data center bridging of a network device through ``dcb`` (iproute2): read, what the traffic contract asks, write.

The tool's exit code says little: a NIC without DCB, an unknown device and a NIC without one of the objects all end
with 1, so the message decides.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

from .host import Host

CLASSES = 8
# The second is what a device with DCB says about an object that its driver does not have.
_UNSUPPORTED = ("not supported", "attribute not found")


class DcbError(Exception):
    """``dcb`` failed or said something that is not understood; the message names the command and what it said."""


@dataclass(frozen=True)
class Ets:
    """Enhanced transmission selection: per priority its traffic class; per class its selection and its percent."""

    priorities: Tuple[int, ...]
    selection: Tuple[str, ...]
    bandwidth: Tuple[int, ...]


@dataclass(frozen=True)
class DcbState:
    """The DCB settings of a device. ``dcbx`` and ``ets`` are None where the NIC has no such object.

    ``dscp`` holds (DSCP, priority) pairs; a DSCP may be in several. ``classes`` is the number of traffic classes.
    ``trust`` is "dscp" or "pcp" where it is a setting of its own, else None. ``buffers`` is the receive buffer of each
    priority, None where the NIC does not tell.
    """

    dcbx: Optional[Tuple[str, ...]]
    pfc: Tuple[int, ...]
    dscp: Tuple[Tuple[int, int], ...]
    ets: Optional[Ets]
    classes: int
    trust: Optional[str] = None
    buffers: Optional[Tuple[int, ...]] = None

    def plain(self) -> Dict[str, Any]:
        """JSON form for reports."""
        data: Dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return data


@dataclass(frozen=True)
class Contract:
    """The traffic contract in DCB's terms.

    ``blocks``: the NIC maps every DSCP that has no entry to priority DSCP/8. Without entries of their own the other
    DSCPs of the two blocks would share the lossless class and the strict class.
    """

    dscp: int
    priority: int
    cnp_dscp: int
    cnp_priority: int
    bandwidth_percent: int
    blocks: bool = False

    @property
    def dscp_map(self) -> FrozenSet[Tuple[int, int]]:
        found = {(self.dscp, self.priority), (self.cnp_dscp, self.cnp_priority)}
        if self.blocks:
            ours = (self.dscp, self.cnp_dscp)
            shared = (self.priority, self.cnp_priority)
            found |= {(dscp, self.rest) for dscp in range(64) if dscp >> 3 in shared and dscp not in ours}
        return frozenset(found)

    @property
    def rest(self) -> int:
        """The priority of all other traffic: the lowest that is neither RoCE data's nor the notifications'."""
        return next(p for p in range(CLASSES) if p not in (self.priority, self.cnp_priority))

    def contradicting(self, have: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
        """Entries that must go: our DSCPs on other priorities, and other DSCPs on our priorities."""
        ours = (self.dscp, self.cnp_dscp)
        priorities = (self.priority, self.cnp_priority)
        return sorted(e for e in set(have) - self.dscp_map if e[0] in ours or e[1] in priorities)

    def missing(self, have: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
        return sorted(self.dscp_map - set(have))

    def problem(self) -> str:
        """Why no NIC can do this; empty when it can."""
        others = CLASSES - 2
        if self.bandwidth_percent > 100 - others:
            return "bandwidth_percent %d leaves less than 1 %% for each of the other %d traffic classes" % (
                self.bandwidth_percent,
                others,
            )
        return ""

    def ets(self, classes: int) -> Optional[Ets]:
        """What transmission selection must be on a NIC with that many traffic classes; None below three.

        Eight classes: one for each priority. Fewer: class 0 for the rest, 1 for RoCE data, 2 for CNPs.
        """
        if classes >= CLASSES:
            priorities = tuple(range(CLASSES))
            count, roce, cnp = CLASSES, self.priority, self.cnp_priority
        elif classes >= 3:
            count, roce, cnp = classes, 1, 2
            priorities = tuple(
                roce if p == self.priority else cnp if p == self.cnp_priority else 0 for p in range(CLASSES)
            )
        else:
            return None
        rest = [index for index in range(count) if index not in (roce, cnp)]
        share, extra = divmod(100 - self.bandwidth_percent, len(rest))
        bandwidth = [0] * CLASSES
        bandwidth[roce] = self.bandwidth_percent
        for position, index in enumerate(rest):
            bandwidth[index] = share + (1 if position < extra else 0)
        selection = ["ets" if index < count else "strict" for index in range(CLASSES)]
        selection[cnp] = "strict"
        return Ets(priorities, tuple(selection), tuple(bandwidth))


#: what reports call this way of setting a NIC
NAME = "dcb"


def read(host: Host, netdev: str) -> Optional[DcbState]:
    """The DCB settings of a device; None when it has no DCB. Raises DcbError."""
    pfc = _show(host, "pfc", netdev)
    if pfc is None:
        return None
    app = _show(host, "app", netdev)
    ets = _show(host, "ets", netdev)
    dcbx = _show(host, "dcbx", netdev)
    buffers = _show(host, "buffer", netdev)
    try:
        return DcbState(
            dcbx=None if dcbx is None else tuple(sorted(key for key, value in dcbx.items() if value)),
            pfc=tuple(index for index, value in _indexed(pfc["prio_pfc"]) if value in (True, "on")),
            dscp=tuple(sorted((int(pair[0]), int(pair[1])) for pair in (app or {}).get("dscp_prio", []))),
            ets=None if ets is None else _ets(ets),
            classes=int((ets or {}).get("ets_cap") or CLASSES),
            # Drivers that do not size buffers answer zeros all over.
            buffers=tuple(int(value) for _, value in _indexed(buffers["prio_buffer"]))
            if buffers and buffers.get("total_size")
            else None,
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DcbError("dcb of %s: output not understood: %r" % (netdev, error)) from error


def ets_holds(want: Ets, have: Optional[Ets], classes: int) -> bool:
    """Whether a NIC with that many traffic classes selects as wanted; classes it does not have do not count."""
    count = min(classes, CLASSES)
    return have is not None and (
        (have.priorities, have.selection[:count], have.bandwidth[:count])
        == (want.priorities, want.selection[:count], want.bandwidth[:count])
    )


def take_over(host: Host, netdev: str) -> None:
    """Have the host, not the NIC's firmware, decide about DCB. Raises CommandFailed."""
    host.must(["dcb", "dcbx", "set", "dev", netdev, "host", "ieee"])


def set_pfc(host: Host, netdev: str, priority: int) -> None:
    """PFC on exactly one priority. NICs retrain the link when this changes. Raises CommandFailed."""
    host.must(["dcb", "pfc", "set", "dev", netdev, "prio-pfc", "all:off", "%d:on" % priority])


def clear_pfc(host: Host, netdev: str) -> None:
    """PFC off. Raises CommandFailed."""
    host.must(["dcb", "pfc", "set", "dev", netdev, "prio-pfc", "all:off"])


def set_ets(host: Host, netdev: str, ets: Ets, classes: int) -> None:
    """Transmission selection. One command, because only together is it consistent. Raises CommandFailed."""
    count = min(classes, CLASSES)
    argv = ["dcb", "ets", "set", "dev", netdev, "prio-tc"]
    argv += ["%d:%d" % pair for pair in enumerate(ets.priorities)]
    argv += ["tc-tsa"] + ["%d:%s" % pair for pair in list(enumerate(ets.selection))[:count]]
    argv += ["tc-bw"] + ["%d:%d" % pair for pair in list(enumerate(ets.bandwidth))[:count]]
    host.must(argv)


def set_dscp(host: Host, netdev: str, contract: Contract) -> None:
    """Map the contract's DSCPs and remove what contradicts it. Raises CommandFailed, DcbError."""
    state = read(host, netdev)
    have = state.dscp if state else ()
    # Add first: a NIC that loses its last DSCP entry falls back to trusting the VLAN priority.
    for dscp, priority in contract.missing(have):
        host.must(["dcb", "app", "add", "dev", netdev, "dscp-prio", "%d:%d" % (dscp, priority)])
    # Read again: drivers with one priority per DSCP have dropped the old entry themselves.
    state = read(host, netdev)
    delete_dscp(host, netdev, contract.contradicting(state.dscp if state else ()))


def trust_dscp(host: Host, netdev: str) -> None:
    """Nothing to do: with ``dcb`` a NIC trusts DSCP as soon as it has a DSCP entry."""


def forget_dscp(host: Host, netdev: str, contract: Contract) -> None:
    """Remove the contract's DSCP entries and no others. Raises CommandFailed, DcbError."""
    state = read(host, netdev)
    delete_dscp(host, netdev, sorted(contract.dscp_map & set(state.dscp if state else ())))


def app_priorities(host: Host, netdev: str, selector: str, protocol: int) -> Tuple[int, ...]:
    """Priorities of the APP entries of a protocol; ``selector`` as ``dcb app`` writes it. Raises DcbError."""
    table = _show(host, "app", netdev) or {}
    try:
        pairs = [(int(pair[0]), int(pair[1])) for pair in table.get(selector.replace("-", "_"), [])]
    except (TypeError, ValueError, IndexError) as error:
        raise DcbError("dcb app of %s: output not understood: %r" % (netdev, error)) from error
    return tuple(sorted(priority for number, priority in pairs if number == protocol))


def set_app(host: Host, netdev: str, selector: str, protocol: int, priority: Optional[int]) -> None:
    """Give a protocol exactly one priority, or none. Raises CommandFailed, DcbError."""
    have = app_priorities(host, netdev, selector, protocol)
    base = ["dev", netdev, selector]
    if priority is not None and priority not in have:
        host.must(["dcb", "app", "add"] + base + ["%d:%d" % (protocol, priority)])
    for old in have:
        if old != priority:
            host.must(["dcb", "app", "del"] + base + ["%d:%d" % (protocol, old)])


def delete_dscp(host: Host, netdev: str, entries: Sequence[Tuple[int, int]]) -> None:
    """Remove (DSCP, priority) entries. Raises CommandFailed."""
    for dscp, priority in entries:
        host.must(["dcb", "app", "del", "dev", netdev, "dscp-prio", "%d:%d" % (dscp, priority)])


def read_pause(host: Host, netdev: str) -> Optional[bool]:
    """Whether global pause is on in either direction; None where the NIC has none."""
    result = host.run(["ethtool", "-a", netdev])
    if not result.ok:
        return None
    lines = [line.partition(":") for line in result.out.splitlines()]
    seen = {key.strip().lower(): value.strip() for key, _, value in lines}
    return "on" in (seen.get("rx"), seen.get("tx"))


def pause_off(host: Host, netdev: str) -> None:
    """Global pause off: it and PFC exclude each other. Raises CommandFailed."""
    host.must(["ethtool", "-A", netdev, "rx", "off", "tx", "off"])


def _show(host: Host, kind: str, netdev: str) -> Optional[Dict[str, Any]]:
    result = host.run(["dcb", "-N", "-j", kind, "show", "dev", netdev])
    if not result.ok:
        if any(text in result.err.lower() for text in _UNSUPPORTED):
            return None
        raise DcbError(result.explain())
    try:
        data = json.loads(result.out or "{}")
    except ValueError as error:
        raise DcbError("%s: not JSON: %.80r" % (" ".join(result.argv), result.out)) from error
    if not isinstance(data, dict):
        raise DcbError("%s: expected an object: %.80r" % (" ".join(result.argv), result.out))
    return data


def _indexed(values: Any) -> List[Tuple[int, Any]]:
    """Per-priority values: a list, or a mapping with the index as its key."""
    if isinstance(values, dict):
        return sorted((int(key), value) for key, value in values.items())
    return list(enumerate(values))


def _ets(data: Dict[str, Any]) -> Ets:
    def column(key: str) -> Tuple[Any, ...]:
        values = tuple(value for _, value in _indexed(data[key]))
        if len(values) != CLASSES:
            raise ValueError("%s has %d entries" % (key, len(values)))
        return values

    return Ets(
        tuple(int(v) for v in column("prio_tc")),
        tuple(str(v) for v in column("tc_tsa")),
        tuple(int(v) for v in column("tc_bw")),
    )
