"""What a host's network is used for: its addresses, and who is connected over them with NVMe-oF."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from .host import Host


def addresses_of(host: Host) -> Dict[str, Set[str]]:
    """Addresses with their prefix length, by network device, as ``ip`` tells them."""
    result = host.run(["ip", "-j", "address", "show"])
    try:
        data = json.loads(result.out) if result.ok else []
    except ValueError:
        return {}
    return {
        item.get("ifname", ""): {"%s/%s" % (a.get("local"), a.get("prefixlen")) for a in item.get("addr_info", [])}
        for item in data
    }


def live_controllers(host: Host, source_address: str) -> List[str]:
    """NVMe controllers that are live over the port with this address (or over a port they do not name)."""
    found = []
    for name in host.list("/sys/class/nvme"):
        base = "/sys/class/nvme/%s" % name
        if host.read_value(base + "/transport") not in ("rdma", "tcp") or host.read_value(base + "/state") != "live":
            continue
        options = dict(
            item.partition("=")[::2] for item in re.split(r"[ ,]+", host.read_value(base + "/address") or "")
        )
        source = options.get("host_traddr") or options.get("src_addr")
        if source in (None, source_address):
            found.append(name)
    return found


def target_sessions(host: Host, addresses: Sequence[str], port: Optional[int] = None) -> List[str]:
    """Peers connected to this host's NVMe-oF target at these addresses, as ``peer -> portal``."""
    if not host.exists("/sys/module/nvmet"):
        return []
    found = []
    for item in _cm_ids(host):
        local, local_port = _split(str(item.get("src-addr", "")))
        ours = "nvmet" in str(item.get("comm", "")) and local in addresses and port in (None, local_port)
        if ours and item.get("state") == "CONNECT":
            found.append("%s -> %s" % (_split(str(item.get("dst-addr", "")))[0], local))
    if host.exists("/sys/module/nvmet_tcp"):
        for local, local_port, peer in _tcp_sessions(host):
            if local in addresses and port in (None, local_port):
                found.append("%s -> %s" % (peer, local))
    return sorted(set(found))


def listening(host: Host, transport: str, address: str, port: int) -> Optional[bool]:
    """Whether something listens at a portal; None where the host's tools cannot say."""
    if transport == "tcp":
        result = host.run(["ss", "-Hltn"])
        if not result.ok:
            return None
        local = [_split(line.split()[3]) for line in result.out.splitlines() if len(line.split()) > 3]
        return (address, port) in local
    items = _cm_ids(host)
    if not items:
        return None
    return any(i.get("state") == "LISTEN" and _split(str(i.get("src-addr", ""))) == (address, port) for i in items)


def listening_ports(host: Host) -> Set[int]:
    """TCP ports that somebody listens on."""
    found: Set[int] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (host.read(table) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == "0A":
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def _cm_ids(host: Host) -> List[Dict[str, Any]]:
    result = host.run(["rdma", "-j", "resource", "show", "cm_id"])
    try:
        data = json.loads(result.out) if result.ok and result.out.strip() else []
    except ValueError:
        return []
    return [item for item in data if isinstance(item, dict)]


def _tcp_sessions(host: Host) -> List[Tuple[str, int, str]]:
    result = host.run(["ss", "-Htn", "state", "established"])
    found = []
    for line in result.out.splitlines():
        words = line.split()
        if len(words) >= 4:
            local, local_port = _split(words[2])
            found.append((local, local_port, _split(words[3])[0]))
    return found


def _split(endpoint: str) -> Tuple[str, int]:
    """``192.0.2.1:4420`` or ``[2001:db8::1]:4420`` as (address, port)."""
    address, _, port = endpoint.rpartition(":")
    return address.strip("[]"), int(port) if port.isdigit() else 0
