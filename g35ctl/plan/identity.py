"""Names that both ends of a connection must agree on, all derived from what the site already says."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address
from uuid import NAMESPACE_URL, UUID, uuid5

from g35ctl.site.model import BoxPortal, Site, SiteHost

MODEL = "g35ctl EBOF"
"""Model that nvmet subsystems present."""


def host_uuid(site: Site, host: SiteHost) -> UUID:
    """The host's NVMe identity: stated, or the same for ever for this host name in this site."""
    return host.nvme.host_uuid or uuid5(NAMESPACE_URL, f"g35ctl:{site.identity.name}:{host.name}")


def host_nqn(site: Site, host: SiteHost) -> str:
    """Host NQN in the UUID form, so that hostnqn and hostid can never disagree."""
    return f"nqn.2014-08.org.nvmexpress:uuid:{host_uuid(site, host)}"


def nguid(namespace: UUID) -> str:
    """The NGUID of a namespace: its UUID's sixteen bytes."""
    return namespace.hex


def serial(namespace: UUID) -> str:
    """A serial number for a namespace whose site gives none: 20 characters, different for different UUIDs."""
    return "G35" + hashlib.sha256(namespace.bytes).hexdigest()[:17].upper()


def port_id(portal: BoxPortal, taken: Collection[int]) -> int:
    """The number of the nvmet port for a portal: 1000 to 64999, away from ports made by hand.

    It is drawn from the portal's own address, so removing or adding another portal never renumbers this one.
    ``taken`` are numbers of portals before it, for the rare case that two draw the same.
    """
    drawn = int.from_bytes(hashlib.sha256(f"{portal.address}/{portal.port}".encode()).digest()[:8])
    number = 1000 + drawn % 64000
    while number in taken:
        number = 1000 + (number - 999) % 64000
    return number


def endpoint(address: IPv4Address | IPv6Address | str, port: int) -> str:
    """``address:port``, with brackets around an IPv6 address."""
    text = str(address)
    return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"
