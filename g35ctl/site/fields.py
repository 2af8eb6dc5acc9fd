"""What all site models are made of: their base, and the types of names, addresses and sizes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_Placed = TypeVar("_Placed", IPv4Address | IPv6Address, IPv4Network | IPv6Network)


def _routable(value: _Placed) -> _Placed:
    """Refuse IPv6 link-local: nvme-cli 2.10 and 2.11 cannot connect to it over RDMA (nvme-cli issue 2648), and it
    means nothing without an interface."""
    if value.version == 6 and value.is_link_local:
        raise ValueError("is IPv6 link-local: NVMe-oF over RDMA needs an IPv4 or a global (or ULA, fd00::/8) address")
    return value


Address = Annotated[IPv4Address | IPv6Address, AfterValidator(_routable)]
Subnet = Annotated[IPv4Network | IPv6Network, AfterValidator(_routable)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$")]
NetDevice = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$")]
AbsolutePath = Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/:+-]+$")]
# NVMe base specification: at most 223 bytes, starts with nqn.yyyy-mm.
Nqn = Annotated[str, Field(pattern=r"^nqn\.\d{4}-\d{2}\.[A-Za-z0-9.:_-]+$", max_length=223)]
TcpPort = Annotated[int, Field(ge=1, le=65535)]


class Strict(BaseModel):
    """Base of every site model: frozen, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
