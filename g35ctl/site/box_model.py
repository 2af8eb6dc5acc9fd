"""``g35_ebof``: boxes as the inventory describes them, for every driver."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, SecretStr

from g35ctl.site.fields import AbsolutePath, Address, Name, Nqn, Strict, TcpPort
from g35ctl.site.sizes import Bytes


class BoxAna(Strict):
    """How one ANA group is reached through a portal."""

    group: int = Field(ge=1, le=128, description="Number of the group")
    state: Literal["optimized", "non-optimized", "inaccessible"] = Field(description="State of the group")


class BoxControllerIds(Strict):
    """A range of controller identifiers."""

    lowest: int = Field(ge=1, le=65519, description="Lowest identifier")
    highest: int = Field(ge=1, le=65519, description="Highest identifier")


class BoxPortal(Strict):
    """A listening address of a box."""

    address: Address = Field(description="Address of the portal")
    rail: Name = Field(description="Rail it is on")
    port: TcpPort = Field(4420, description="Service port")
    ana: tuple[BoxAna, ...] = Field((), description="driver nvmet: ANA groups not optimized through this portal")


class BoxNamespace(Strict):
    """One SSD's namespace."""

    nqn: Nqn = Field(description="NQN of its subsystem")
    nsid: int = Field(1, ge=1, le=0xFFFFFFFE, description="Namespace identifier within the subsystem")
    uuid: UUID = Field(description="UUID of the namespace; stays the same for life")
    size: Bytes = Field(gt=0, description="Capacity, for example 7.68TB")
    device: AbsolutePath | None = Field(None, description="driver nvmet: stable path of the SSD in the box")
    bdev: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$")] | None = Field(
        None, description="driver spdk: name of the block device in the target, for example Nvme0n1"
    )
    serial: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,20}$")] | None = Field(
        None, description="drivers nvmet and spdk: serial number to present; derived from the UUID when absent"
    )
    ana_group: int = Field(1, ge=1, le=128, description="driver nvmet: ANA group of the namespace")
    buffered_io: bool = Field(
        False, description="driver nvmet: through the page cache; only for a regular file that cannot do direct I/O"
    )
    owner: Name | None = Field(None, description="Pin the owner; otherwise the planner chooses and keeps it")


class SpdkTarget(Strict):
    """How a target that runs SPDK is driven (docs/drivers.md)."""

    socket: AbsolutePath = Field(description="JSON-RPC socket on the controller: local, or forwarded from the box")
    max_queue_depth: int = Field(128, ge=16, le=4096, description="Entries per queue of the transport")
    max_io_qpairs: int = Field(127, ge=1, le=65535, description="I/O queue pairs per controller of the transport")
    ana: bool = Field(True, description="Whether subsystems report ANA")
    min_cntlid: int = Field(1, ge=1, le=65519, description="Lowest controller identifier; disjoint between two heads")
    max_cntlid: int = Field(65519, ge=1, le=65519, description="Highest controller identifier")
    dhchap_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9{}._-]{0,64}$")] = Field(
        "", description="Name of the owner's DH-HMAC-CHAP key in the target's keyring; {host} stands for the owner"
    )
    dhchap_controller_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9{}._-]{0,64}$")] = Field(
        "", description="Name of the controller's DH-HMAC-CHAP key in the target's keyring"
    )


class RedfishPort(Strict):
    """A data port of the box that g35ctl gives its address."""

    interface: Annotated[str, Field(pattern=r"^/redfish/v1/[A-Za-z0-9._/-]+$")] = Field(
        description="Its EthernetInterface resource"
    )
    address: IPv4Address = Field(description="Address to give it: one of the portals")


class RedfishService(Strict):
    """The management processors of a box (docs/drivers.md). Certificates are always verified."""

    addresses: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9.:\[\]-]{1,255}$")], ...], Field(min_length=1, max_length=2)
    ] = Field(description="One management address for each head: name or address, with :port where it is not 443")
    username: Annotated[str, Field(pattern=r"^[!-~]{1,64}$")] = Field(description="Account of the service")
    password: SecretStr = Field(SecretStr(""), description="Its password: a vaulted value; never shown, never kept")
    ca_file: str = Field("", description="CA certificates on the controller, relative to the inventory")
    ports: tuple[RedfishPort, ...] = Field((), description="Data ports to give addresses; empty leaves them alone")
    settle_seconds: float = Field(20, ge=0, le=300, description="Time a new address takes to answer, seconds")


class Box(Strict):
    """``g35_ebof``: one EBOF box (variable of a host in group ebof)."""

    driver: Literal["nvmet", "spdk", "redfish", "discovery", "static"] = Field(
        "static", description="How the box is configured (docs/drivers.md)"
    )
    spdk: SpdkTarget | None = Field(None, description="driver spdk: its target")
    redfish: RedfishService | None = Field(None, description="driver redfish: its management")
    portals: Annotated[tuple[BoxPortal, ...], Field(min_length=1)] = Field(description="Portals, one per rail and head")
    namespaces: Annotated[tuple[BoxNamespace, ...], Field(min_length=1)] = Field(description="Namespaces it exports")
    head_of: Name | None = Field(
        None, description="driver nvmet: this host is another head of that box, over the same SSDs (docs/target.md)"
    )
    controller_ids: BoxControllerIds | None = Field(
        None, description="driver nvmet: range of controller identifiers; disjoint between two heads"
    )
    firmware: Annotated[str, Field(pattern=r"^[!-~]{0,8}$")] = Field(
        "", description="driver nvmet: firmware revision to present, where the kernel can"
    )
    max_queue_size: int = Field(
        0, ge=0, le=1024, description="driver nvmet: entries per queue a portal offers, where the kernel can say so"
    )
    rated_gbps: float | None = Field(None, gt=0, description="Rated throughput, GB/s")
