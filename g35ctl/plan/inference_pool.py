"""What every engine needs to know of the KV pool, and how Mooncake's client inside it behaves."""

from __future__ import annotations

from dataclasses import dataclass

from g35ctl.plan.context import Context
from g35ctl.site.engines import Engine


@dataclass(frozen=True)
class Link:
    """The storage network as one engine sees it, and the pool on it where it has one (``pool``).

    ``master``, ``admin`` and ``cluster_id`` are the master's (see context.Master); ``address`` is this host's own.
    """

    pool: bool
    protocol: str
    address: str
    netdevs: tuple[str, ...]
    type_of_service: int
    master: str = ""
    admin: str = ""
    cluster_id: str = ""


def link_of(context: Context, engine: Engine) -> Link:
    """How an engine reaches the pool and other engines."""
    port = context.first_port(engine.host)
    master = context.master if engine.uses_pool and port is not None else None
    return Link(
        pool=master is not None,
        protocol=context.protocol,
        address=str(port.address) if port is not None else "",
        netdevs=context.devices(engine.host),
        type_of_service=context.site.fabric.traffic.type_of_service,
        master=master.rpc if master is not None else "",
        admin=master.admin if master is not None else "",
        cluster_id=master.cluster_id if master is not None else "",
    )


def placeholders(netdevs: tuple[str, ...]) -> str:
    """RDMA devices as a list, each by the network device it belongs to: the host fills in the names."""
    return ",".join(f"@DEVICE:{netdev}@" for netdev in netdevs)


def client_variables(link: Link) -> dict[str, str]:
    """Variables of Mooncake's client, the same as the stores have."""
    found = {
        # Otherwise it advertises the address of the first network device, whichever network that is.
        "MC_TCP_BIND_ADDRESS": link.address,
        # A read from an owner that died waits three times this long; the default would be a minute and a half.
        "MC_RPC_CONNECT_TIMEOUT_MS": "2000",
    }
    if link.cluster_id:
        # With another one, a client looks for the masters where none ever are, and ends.
        found["MC_STORE_CLUSTER_ID"] = link.cluster_id
    if link.protocol == "rdma":
        found["MC_FORCE_HCA"] = "1"
        found["MC_IB_TC"] = str(link.type_of_service)
        if len(link.netdevs) > 1:
            found["MC_ENABLE_DEST_DEVICE_AFFINITY"] = "1"
    return found
