"""``g35_validate``'s benchmark suites: what they do and what they demand. Every default can be replaced by the site.

Thresholds are shares of what the site's hardware is rated for, so that one set fits every site: of a port's own speed
(read from the NIC), of an SSD's and a box's rating (stated by the site). Where they come from is in docs/validate.md.
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from g35ctl.site.fields import Name, Strict
from g35ctl.site.sizes import Bytes

KIB = 2**10
MIB = 2**20
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[int, Field(ge=1, le=3600)]
Depth = Annotated[int, Field(ge=1, le=1024)]
BlockSize = Annotated[Bytes, Field(ge=4096, le=64 * MIB)]
ValueSize = Annotated[Bytes, Field(ge=4096, le=15 * MIB)]


class FabricThresholds(Strict):
    """What the fabric must carry. Shares are of the slower port's speed."""

    write_share: Share = Field(0.92, description="Bandwidth of a pair, writing")
    write_share_warn: Share = Field(0.85, description="Below write_share but not below this: WARN")
    read_share: Share = Field(0.90, description="Bandwidth of a pair, reading")
    read_share_warn: Share = Field(0.85, description="Below read_share but not below this: WARN")
    incast_share: Share = Field(0.85, description="Sum of all senders into one port, of that port's speed")
    latency_us: float = Field(5.0, gt=0, description="Mean latency of 64 bytes, microseconds")
    latency_us_warn: float = Field(10.0, gt=0, description="Above latency_us but not above this: WARN")
    latency_p99_us: float = Field(10.0, gt=0, description="P99 of the latency, microseconds")
    latency_p99_us_warn: float = Field(20.0, gt=0, description="Above latency_p99_us but not above this: WARN")


class FabricBench(Strict):
    """The fabric suite: perftest between pairs of hosts, and many hosts into one."""

    sizes: Annotated[tuple[BlockSize, ...], Field(min_length=1)] = Field(
        (64 * KIB, MIB), description="Message sizes; the largest is judged"
    )
    rails: tuple[Name, ...] = Field((), description="Rails to measure; empty: all")
    seconds: Seconds = Field(5, description="Duration of one bandwidth measurement")
    latency_iterations: int = Field(2000, ge=200, le=1000000, description="Messages of a latency measurement")
    queue_pairs: int = Field(4, ge=1, le=128, description="Queue pairs of a bandwidth measurement")
    depth: int = Field(128, ge=1, le=8192, description="Outstanding messages per queue pair")
    incast: int = Field(8, ge=0, le=64, description="Most senders into one port; fewer where there are fewer hosts")
    thresholds: FabricThresholds = Field(default_factory=FabricThresholds, description="What must be reached")


class StorageThresholds(Strict):
    """What namespaces must deliver. Shares are of the lowest of the ratings that limit a figure."""

    namespace_share: Share = Field(0.90, description="One namespace alone, 1 MiB at the largest queue depth")
    namespace_share_warn: Share = Field(0.80, description="Below namespace_share but not below this: WARN")
    box_share: Share = Field(0.90, description="All namespaces at once, of min(SSDs, NICs, rating of the boxes)")
    box_share_warn: Share = Field(0.80, description="Below box_share but not below this: WARN")
    fairness: Share = Field(0.85, description="Slowest owner's share of the fastest's, each for its own rating")
    fairness_warn: Share = Field(0.70, description="Below fairness but not below this: WARN")
    remote_latency_us: float = Field(30.0, gt=0, description="What the network adds to a 4 KiB read, microseconds")
    remote_latency_us_warn: float = Field(60.0, gt=0, description="Above it but not above this: WARN")


class StorageBench(Strict):
    """The storage suite: fio on every namespace. It only reads, apart from a file of its own that it lays out."""

    mode: Literal["file", "raw"] = Field(
        "file", description="file: a file of ours on the namespace's file system; raw: the device, read-only"
    )
    file_size: Bytes = Field(
        4 * 2**30, ge=MIB, le=2**40, description="Size of that file; at most half of the reserve is taken"
    )
    block_sizes: Annotated[tuple[BlockSize, ...], Field(min_length=1)] = Field(
        (128 * KIB, 256 * KIB, MIB, 4 * MIB), description="Block sizes"
    )
    queue_depths: Annotated[tuple[Depth, ...], Field(min_length=1)] = Field((1, 8, 32), description="Queue depths")
    seconds: Seconds = Field(5, description="Duration of one measurement")
    jobs: int = Field(1, ge=1, le=64, description="Processes per namespace when all are read at once")
    engine: Literal["libaio", "io_uring"] = Field("libaio", description="I/O engine of fio")
    ssd_gbps: float = Field(0, ge=0, description="Rated sequential read of one SSD, GB/s; 0: not stated")
    write_namespaces: tuple[UUID, ...] = Field(
        (), description="Namespaces (UUID) on whose file system writing is measured too; remove after use"
    )
    thresholds: StorageThresholds = Field(default_factory=StorageThresholds, description="What must be reached")


class StoreThresholds(Strict):
    """What the KV pool must deliver. Shares are of what the fabric (memory) and the storage suite (flash) reached."""

    memory_share: Share = Field(0.70, description="Batched reads from memory, of the reading host's ports")
    memory_share_warn: Share = Field(0.50, description="Below memory_share but not below this: WARN")
    flash_share: Share = Field(0.70, description="Batched reads from flash, of the SSDs read from")
    flash_share_warn: Share = Field(0.50, description="Below flash_share but not below this: WARN")
    miss_is_warning: bool = Field(
        True, description="A pool that is slower than that is a WARN: Mooncake has known limits (docs/validate.md)"
    )


class StoreBench(Strict):
    """The store suite: values through the KV pool, from memory and from flash, each read verified."""

    sizes: Annotated[tuple[ValueSize, ...], Field(min_length=1)] = Field(
        (MIB, 2 * MIB, 4 * MIB, 8 * MIB, 15 * MIB), description="Value sizes from memory; objects stay below 16 MiB"
    )
    flash_sizes: tuple[ValueSize, ...] = Field(
        (MIB, 4 * MIB), description="Value sizes from flash; empty leaves flash out"
    )
    bytes: Bytes = Field(2**30, ge=64 * KIB, le=2**40, description="Written and read per value size, host and test")
    batch: int = Field(8, ge=2, le=256, description="Values per batch")
    transfer_seconds: int = Field(5, ge=0, le=3600, description="transfer_engine_bench between pairs; 0 leaves it out")
    transfer_threads: int = Field(4, ge=1, le=64, description="Its threads; each has a batch under way")
    flash_timeout: int = Field(900, ge=10, le=7200, description="How long values may take to flash, seconds")
    thresholds: StoreThresholds = Field(default_factory=StoreThresholds, description="What must be reached")
