"""Stage fabric's state as ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from g35ctl.observe.model import DcbSettings, Port
from g35ctl.observe.reading import Reader, StateError


def ports(state: Mapping[str, Any]) -> tuple[Port, ...]:
    """The data ports of a host. Raises StateError."""
    return tuple(_port(name, item) for name, item in Reader(state, "fabric").get("ports").items())


def _port(netdev: str, item: Reader) -> Port:
    dcb = item.optional("dcb")
    return Port(
        netdev=netdev,
        mtu=item.optional_integer("mtu"),
        carrier=item.truth("carrier"),
        rdma_device=item.optional_text("rdma_device") or "",
        tos=item.optional_integer("tos"),
        dcb=None if dcb is None else _dcb(dcb),
        dcb_error=item.optional_text("dcb_error") or "",
    )


def _dcb(item: Reader) -> DcbSettings:
    pairs = []
    for entry in item.get("dscp").each():
        pair = tuple(part.as_integer() for part in entry.each())
        if len(pair) != 2:
            raise StateError(entry.where, f"expected DSCP and priority, got {len(pair)} numbers")
        pairs.append((pair[0], pair[1]))
    ets = item.optional("ets")
    return DcbSettings(
        pfc=item.integers("pfc"),
        dscp=tuple(sorted(pairs)),
        classes=item.integer("classes"),
        ets_priorities=() if ets is None else ets.integers("priorities"),
        ets_selection=() if ets is None else ets.texts("selection"),
        ets_bandwidth=() if ets is None else ets.integers("bandwidth"),
    )
