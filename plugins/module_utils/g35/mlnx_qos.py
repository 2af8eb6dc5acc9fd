"""The same settings as :mod:`.dcb`, through ``mlnx_qos`` of NVIDIA's driver package.

That package keeps the trust state and the DSCP map in its own sysfs files, where ``dcb`` cannot see them. The tool
prints text only. Its rules: ``--trust`` and ``--dscp2prio`` never in one call, lists always of eight values. With
trust in sysfs a DSCP cannot lose its priority, only get another one, so DSCPs that must leave a class move to the rest.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .dcb import CLASSES, Contract, DcbError, DcbState, Ets
from .host import Host

NAME = "mlnx_qos"


def is_installed(host: Host) -> bool:
    return host.run(["mlnx_qos", "--version"]).code != 127


def read(host: Host, netdev: str) -> Optional[DcbState]:
    """The settings of a device; None when it has none. Raises DcbError."""
    result = host.run(["mlnx_qos", "-i", netdev, "-a"])
    if not result.ok:
        if "not supported" in (result.out + result.err).lower():
            return None
        raise DcbError(result.explain())
    return parse(result.out)


def parse(text: str) -> DcbState:
    """What ``mlnx_qos -i DEVICE -a`` printed. Raises DcbError."""
    rows: Dict[str, Tuple[int, ...]] = {}
    for line in text.splitlines():
        match = re.match(r"\s+(enabled|buffer):?\s+([0-9 \t]+)$", line)
        if match:
            rows[match.group(1)] = tuple(int(word) for word in match.group(2).split())
    enabled = rows.get("enabled", ())
    if len(enabled) != CLASSES:
        raise DcbError("mlnx_qos: no PFC table of eight priorities in %.80r" % text)
    trust = re.search(r"^Priority trust state: (\w+)", text, re.MULTILINE)
    mode = re.search(r"^DCBX mode: (\w+)", text, re.MULTILINE)
    buffers = rows.get("buffer", ())
    return DcbState(
        dcbx=None if mode is None else (("host", "ieee") if mode.group(1) == "OS" else ("ieee",)),
        pfc=tuple(index for index, on in enumerate(enabled) if on),
        dscp=_dscp(text),
        ets=_ets(text),
        classes=CLASSES,
        trust=None if trust is None or trust.group(1) == "none" else trust.group(1),
        buffers=buffers if len(buffers) == CLASSES else None,
    )


def _dscp(text: str) -> Tuple[Tuple[int, int], ...]:
    found: List[Tuple[int, int]] = []
    for priority, codes in re.findall(r"prio:\s*(\d) dscp:([0-9,]+)", text):
        found += [(int(code), int(priority)) for code in codes.split(",") if code]
    return tuple(sorted(found))


def _ets(text: str) -> Ets:
    priorities: Dict[int, int] = {}
    selection, bandwidth = ["strict"] * CLASSES, [0] * CLASSES
    current = -1
    for line in text.splitlines():
        match = re.match(r"tc: (\d) ratelimit: .*tsa: (\w+)(?:, bw: (\d+)%)?", line)
        if match:
            current = int(match.group(1))
            selection[current] = match.group(2)
            bandwidth[current] = int(match.group(3) or 0)
            continue
        member = re.match(r"\s+priority:\s+(\d)\s*$", line)
        if member and current >= 0:
            priorities[int(member.group(1))] = current
    if sorted(priorities) != list(range(CLASSES)):
        raise DcbError("mlnx_qos: traffic classes of eight priorities expected in %.80r" % text)
    return Ets(tuple(priorities[index] for index in range(CLASSES)), tuple(selection), tuple(bandwidth))


def take_over(host: Host, netdev: str) -> None:
    """Have the host, not the NIC's firmware, decide. Raises CommandFailed."""
    _set(host, netdev, "-d", "os")


def trust_dscp(host: Host, netdev: str) -> None:
    """Classify by DSCP instead of the VLAN priority. Raises CommandFailed."""
    _set(host, netdev, "--trust", "dscp")


def set_pfc(host: Host, netdev: str, priority: int) -> None:
    """PFC on exactly one priority; the link retrains. Raises CommandFailed."""
    _set(host, netdev, "--pfc", _list(int(index == priority) for index in range(CLASSES)))


def clear_pfc(host: Host, netdev: str) -> None:
    """PFC off. Raises CommandFailed."""
    _set(host, netdev, "--pfc", _list([0] * CLASSES))


def set_ets(host: Host, netdev: str, ets: Ets, classes: int) -> None:
    """Transmission selection in one call, because only together is it consistent. Raises CommandFailed."""
    _set(host, netdev, "--prio_tc", _list(ets.priorities), "--tsa", _list(ets.selection),
         "--tcbw", _list(ets.bandwidth))  # fmt: skip


def set_dscp(host: Host, netdev: str, contract: Contract) -> None:
    """Map the contract's DSCPs and move what contradicts it to the rest. Raises CommandFailed, DcbError."""
    state = read(host, netdev)
    for dscp, priority in contract.missing(state.dscp if state else ()):
        _set(host, netdev, "--dscp2prio", "set,%d,%d" % (dscp, priority))
    state = read(host, netdev)
    for dscp, _ in contract.contradicting(state.dscp if state else ()):
        _set(host, netdev, "--dscp2prio", "set,%d,%d" % (dscp, contract.rest))


def forget_dscp(host: Host, netdev: str, contract: Contract) -> None:
    """Back to the VLAN priority: the map itself cannot be emptied. Raises CommandFailed."""
    _set(host, netdev, "--trust", "pcp")


def _set(host: Host, netdev: str, *options: str) -> None:
    host.must(["mlnx_qos", "-i", netdev] + list(options))


def _list(values: Any) -> str:
    items: Sequence[Any] = list(values)
    return ",".join(str(item) for item in items)
