"""What all site models are made of: their base, and the types of names, addresses and sizes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Address = IPv4Address | IPv6Address
Subnet = IPv4Network | IPv6Network
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$")]
NetDevice = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$")]
AbsolutePath = Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/:+-]+$")]
# NVMe base specification: at most 223 bytes, starts with nqn.yyyy-mm.
Nqn = Annotated[str, Field(pattern=r"^nqn\.\d{4}-\d{2}\.[A-Za-z0-9.:_-]+$", max_length=223)]
TcpPort = Annotated[int, Field(ge=1, le=65535)]


class Strict(BaseModel):
    """Base of every site model: frozen, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
