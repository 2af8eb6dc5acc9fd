"""What a site says about Mooncake: release, masters, stores, and the etcd that two masters need."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from g35ctl.site.fields import AbsolutePath, Strict, TcpPort
from g35ctl.site.sizes import Bytes


class MooncakeMaster(Strict):
    """The Mooncake master."""

    rpc_port: TcpPort = Field(50051, description="RPC port")
    metrics_port: TcpPort = Field(9003, description="Admin and metrics port (no authentication: firewalled)")
    lease: Annotated[str, Field(pattern=r"^\d+(ms|s|m)?$")] = Field(
        "60s", description="Lease of a read key; longer than the longest prefill load"
    )
    eviction_high_watermark: float = Field(0.8, gt=0, lt=1, description="Memory use at which eviction starts")
    eviction_ratio: float = Field(0.1, gt=0, lt=1, description="Share evicted at a time")
    client_ttl: int = Field(10, ge=2, le=600, description="A store that is silent this long is dropped, seconds")
    allocation_strategy: Literal["random", "free_ratio_first", "ssd_free_ratio_first", "local_first"] = Field(
        "free_ratio_first", description="Where new values are placed"
    )
    cluster_id: Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,62}))?$")] = Field(
        "", description="With two masters: their name in etcd, also given to all clients; empty: the site's name"
    )
    oplog: bool = Field(
        False,
        description="With two masters: keep values in memory over a change of leader; a burst larger than memory then "
        "loses values (docs/high-availability.md)",
    )


class MooncakeEtcd(Strict):
    """The etcd that two masters need; its members are the hosts of group ``etcd`` (docs/high-availability.md)."""

    client_port: TcpPort = Field(2379, description="Port for the masters and stores")
    peer_port: TcpPort = Field(2380, description="Port for the other members")
    program: AbsolutePath = Field("/usr/bin/etcd", description="The etcd server; Debian's package etcd-server")


class MooncakeStore(Strict):
    """The stores on the owners; one per namespace."""

    segment_size: Bytes = Field(
        4 * 2**30, gt=0, description="Memory landing zone per store; at least the largest burst"
    )
    local_buffer_size: Bytes = Field(
        1342177280, gt=0, description="Registered staging buffer per store for flash reads and writes"
    )
    bucket_size: Bytes = Field(
        256 * 2**20, gt=0, description="Size of a flash bucket file; must be well below the segment"
    )
    bucket_keys: int = Field(500, ge=1, description="Keys per bucket")
    heartbeat: int = Field(1, ge=1, le=60, description="Offload heartbeat, seconds")
    eviction_policy: Literal["fifo", "lru"] = Field(
        "lru", description="Which bucket leaves a full flash directory first"
    )
    threads: int = Field(4, ge=1, le=64, description="Service threads per store")
    rpc_port: TcpPort = Field(50052, description="RPC port of a host's first store; the next ones count up")
    http_port: TcpPort = Field(9300, description="Health port of a host's first store; the next ones count up")
    use_uring: bool = Field(True, description="Read flash through io_uring with O_DIRECT")
    offload: bool = Field(
        True, description="Write values to flash; off is a pool of memory alone, for comparison (docs/serving.md)"
    )
    huge_pages: Literal["none", "2MiB", "1GiB"] = Field(
        "none", description="Huge pages for the landing zone; they have to be reserved on the host beforehand"
    )


class Mooncake(Strict):
    """``g35_mooncake``: the KV pool."""

    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+(\.post\d+)?$")] = Field(
        "0.3.13.post1", description="Release, the same everywhere"
    )
    distribution: Literal[
        "mooncake-transfer-engine", "mooncake-transfer-engine-cuda13", "mooncake-transfer-engine-non-cuda"
    ] = Field("mooncake-transfer-engine-non-cuda", description="Wheel variant of this host")
    python: Annotated[str, Field(pattern=r"^(3\.\d{1,2})?$")] = Field(
        "", description="Python of this host that runs Mooncake, 3.N; empty: the one its wheelhouse is for"
    )
    machine: Literal["x86_64", "aarch64"] = Field("x86_64", description="Processor of this host")
    wheelhouse: str = Field(
        "",
        description="Directory of wheels on the controller, relative to the inventory; "
        "empty: the cache that `g35ctl bundle create` fills",
    )
    user: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")] = Field("g35", description="Unprivileged user")
    prefix: AbsolutePath = Field("/opt/g35/mooncake", description="Where the environments are installed")
    master: MooncakeMaster = Field(default_factory=MooncakeMaster, description="The master")
    store: MooncakeStore = Field(default_factory=MooncakeStore, description="The stores")
    etcd: MooncakeEtcd = Field(default_factory=MooncakeEtcd, description="The etcd that two masters need")
