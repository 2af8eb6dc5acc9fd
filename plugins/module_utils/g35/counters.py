"""Counters of a host's data ports: what two samples a few seconds apart must not have raised.

Only counters that say something about loss, pause or priorities are kept, and only when they are not zero: a NIC has
thousands.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Sequence

from .host import Host
from .plans import FabricPort
from .rdma import device_of

#: ethtool -S: per priority, pause, discards and losses; queue by queue figures are left out
_ETHTOOL = re.compile(
    r"^\s*((?:rx|tx)_prio\d+_(?:bytes|packets|pause|pause_duration|discards|buf_discard|cong_discard|marked)"
    r"|(?:rx|tx)_(?:pfc_ena_frames_pri|priority)\d+\w*|(?:rx|tx)_bytes_pri\d+"
    r"|(?:rx|tx)_(?:out_of_buffer|discards_phy|pause_ctrl_phy|global_pause|crc_errors_phy|symbol_err_phy)"
    r"|tx_pause_storm_\w+|rx_roce_discards|roce_\w+|rx_crc_errors|(?:rx|tx)_errors(?:_phy)?):\s*(\d+)\s*$",
    re.MULTILINE,
)


def speeds(host: Host, ports: Sequence[FabricPort]) -> Dict[str, int]:
    """Per network device its speed, Mb/s; 0 where the driver does not tell (virtual devices say -1)."""
    return {port.netdev: _number(host, "/sys/class/net/%s/speed" % port.netdev) for port in ports}


def read_counters(host: Host, ports: Sequence[FabricPort]) -> Dict[str, Dict[str, Any]]:
    """Per network device: ``ethtool``, ``rdma`` (hw_counters of port 1), ``roce_bytes`` moved where the NIC counts
    them, and ``link`` (carrier changes and errors). Raises nothing: what cannot be read is left out."""
    return {port.netdev: _port(host, port.netdev) for port in ports if host.exists("/sys/class/net/%s" % port.netdev)}


def _port(host: Host, netdev: str) -> Dict[str, Any]:
    base = "/sys/class/net/%s" % netdev
    told = host.run(["ethtool", "-S", netdev], timeout=15.0)
    found: Dict[str, Any] = {
        "ethtool": {key: int(value) for key, value in _ETHTOOL.findall(told.out)} if told.ok else {},
        "link": {
            "carrier_changes": _number(host, base + "/carrier_changes"),
            "rx_crc_errors": _number(host, base + "/statistics/rx_crc_errors"),
            "rx_missed_errors": _number(host, base + "/statistics/rx_missed_errors"),
        },
        "rdma": {},
    }
    device = device_of(host, netdev)
    if device:
        port = "/sys/class/infiniband/%s/ports/1" % device
        found["device"] = device
        found["rdma"] = {
            name: _number(host, "%s/hw_counters/%s" % (port, name))
            for name in host.list(port + "/hw_counters")
            if name != "lifespan"
        }
        words = [_number(host, "%s/counters/port_%s_data" % (port, way)) for way in ("xmit", "rcv")]
        found["roce_bytes"] = 4 * sum(words)  # the counters are in words of four bytes
    for group in ("ethtool", "rdma", "link"):
        found[group] = _kept(found[group])
    return found


def _kept(values: Mapping[str, int]) -> Dict[str, int]:
    return {key: value for key, value in values.items() if value}


def _number(host: Host, path: str) -> int:
    text = host.read_value(path)
    return int(text) if text is not None and text.isdigit() else 0
