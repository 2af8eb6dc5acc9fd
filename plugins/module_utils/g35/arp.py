"""Is an address ours alone? One ARP probe (RFC 5227) for each, asked of everybody on the port's network.

The probe's sender address is zero, so that no neighbour learns anything from it. Our own kernel never hears it; any
answer is somebody else who claims the address.
"""

from __future__ import annotations

import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, Callable, List, Optional, Sequence, Tuple

from .converge import Finding
from .host import Host
from .plans import FabricPort

_ETHERTYPE_ARP = 0x0806
_REPLY = 2
_HEADER = struct.Struct("!HHBBH6s4s6s4s")
#: how long answers are waited for, seconds
PATIENCE = 1.0

Claimant = Callable[[str, str], Optional[str]]


def probe_packet(hardware: bytes, address: str) -> bytes:
    """The Ethernet frame of an ARP probe for ``address`` from the port with that hardware address."""
    head = b"\xff" * 6 + hardware + struct.pack("!H", _ETHERTYPE_ARP)
    return head + _HEADER.pack(1, 0x0800, 6, 4, 1, hardware, bytes(4), bytes(6), socket.inet_aton(address))


def claimed_by(frame: bytes, hardware: bytes, address: str) -> str:
    """Hardware address of the stranger who says in this frame that ``address`` is his; empty when nobody does."""
    if len(frame) < 14 + _HEADER.size or frame[12:14] != struct.pack("!H", _ETHERTYPE_ARP):
        return ""
    fields = _HEADER.unpack(frame[14 : 14 + _HEADER.size])
    operation, sender, sender_address = fields[4], fields[5], fields[6]
    if operation != _REPLY or sender_address != socket.inet_aton(address) or sender == hardware:
        return ""
    return ":".join("%02x" % byte for byte in sender)


def claimant(netdev: str, address: str, make: Callable[..., Any] = socket.socket) -> Optional[str]:
    """Hardware address of whoever else has ``address``, empty when nobody answers, None where it cannot be asked."""
    try:
        stream = make(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE_ARP))
    except (AttributeError, OSError):
        return None
    try:
        stream.bind((netdev, _ETHERTYPE_ARP))
        hardware = stream.getsockname()[4]
        if len(hardware) != 6:
            return None
        stream.send(probe_packet(hardware, address))
        deadline = time.monotonic() + PATIENCE
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return ""
            stream.settimeout(left)
            who = claimed_by(stream.recv(2048), hardware, address)
            if who:
                return who
    except socket.timeout:
        return ""
    except OSError:
        return None
    finally:
        stream.close()


def duplicate_findings(host: Host, ports: Sequence[FabricPort], ask: Claimant = claimant) -> List[Finding]:
    """Own data addresses that somebody else claims too. All ports are asked at once: a second in all."""
    present = [port for port in ports if host.exists("/sys/class/net/%s" % port.netdev)]
    if not present:
        return []
    with ThreadPoolExecutor(min(16, len(present))) as pool:
        answers: List[Tuple[FabricPort, str]] = list(
            zip(present, pool.map(lambda port: _who(host, port, ask), present))
        )
    return [
        Finding(
            "network.duplicate_address", "%s on %s" % (port.address, port.netdev), who, "nobody else",
            "give one of the two another address: g35_ports in the inventory and the host's network configuration",
        )
        for port, who in answers
        if who
    ]  # fmt: skip


def _who(host: Host, port: FabricPort, ask: Claimant) -> str:
    if ip_address(port.address).version == 4:
        who = ask(port.netdev, port.address)
        return "also answered by %s" % who if who else ""
    # The kernel itself has asked when the address was configured.
    told = host.run(["ip", "-6", "-o", "address", "show", "dev", port.netdev, "dadfailed"])
    return "duplicate address detection failed" if told.ok and (" %s/" % port.address) in told.out else ""
