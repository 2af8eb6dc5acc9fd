"""From a workload, a model's shape and a site's hardware to all figures. Pure; every number can be followed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from g35ctl.plan.workload.hardware import Hardware
from g35ctl.plan.workload.model import (
    CostFigures,
    EnduranceFigures,
    LinkFigures,
    PathFigures,
    Range,
    TierFigures,
    WorkloadFigures,
)
from g35ctl.plan.workload.prefill import ceiling, expected_rate, longest
from g35ctl.site.model_shape import ModelShape
from g35ctl.site.workload_model import Prices, Workload

GB = 1e9
DAY = 86_400


@dataclass(frozen=True)
class Context:
    """A user's whole context: its tokens, its bytes, and the bytes that are moved to load it once."""

    tokens: int
    size: int
    moved: float


def kv_dtype(workload: Workload) -> str:
    """The element type of the KV cache."""
    return workload.kv_dtype or "bf16"


def context_of(workload: Workload, shape: ModelShape) -> Context:
    """The longest context of a workload."""
    tokens = longest(workload)
    size = shape.context_bytes(tokens, kv_dtype(workload), workload.indexer_dtype or "")
    return Context(tokens, size, size * workload.read_amplification)


def figures(workload: Workload, prices: Prices, shape: ModelShape, hardware: Hardware) -> WorkloadFigures:
    """All figures of a site. ``hardware.hosts`` must be at least 1."""
    context = context_of(workload, shape)
    expected = expected_rate(workload) * hardware.hosts
    return WorkloadFigures(
        model=shape.name,
        attention=shape.attention,
        kv_dtype=kv_dtype(workload),
        bytes_per_token=context.size / context.tokens,
        context_tokens=context.tokens,
        context_bytes=context.size,
        state_bytes=shape.state_bytes,
        users=workload.users,
        ceiling=ceiling(workload),
        offered_rate=workload.rate * hardware.hosts,
        expected_rate=expected,
        tiers=tuple(_tiers(workload, hardware, context)),
        paths=paths(workload, hardware, context),
        links=tuple(_links(workload, hardware, context, expected)),
        endurance=_endurance(workload, hardware, context, expected),
        cost=cost(prices, context.size),
        notes=tuple(_notes(workload, hardware, shape)),
    )


def paths(workload: Workload, hardware: Hardware, context: Context) -> tuple[PathFigures, ...]:
    """The three paths with their knees.

    Tiers of a host hold the same contexts (what is written goes through to the lower tier), so the largest one decides.
    """
    tiers, hosts = workload.tiers, hardware.hosts
    own = {"device": tiers.device, "memory": tiers.memory, "local flash": tiers.local_flash}
    local = max(own, key=lambda name: own[name])
    shared = {"device": tiers.device * hosts, "memory": tiers.memory * hosts, "shared flash": hardware.pool}
    pool = max(shared, key=lambda name: shared[name])
    whole = max(tiers.memory_path, tiers.device)
    return (
        PathFigures("local", local, own[local] * hosts / context.size),
        PathFigures("memory", "memory", whole * hosts / context.size if tiers.memory_path else None),
        PathFigures("g35", pool, shared[pool] / context.size),
    )


def shared_bandwidth(workload: Workload, hardware: Hardware) -> float:
    """Bytes per second at which one host that is alone reads from the flash pool: through its ports and their slots,
    what it owns itself included, and never more than the boxes give."""
    links = workload.links
    ports = hardware.ports * min(links.port_gbps, links.host_gbps) * GB
    limits = [ports / hardware.inbound] if ports else []
    return min([*limits, hardware.box] if hardware.box else limits, default=0.0)


def _tiers(workload: Workload, hardware: Hardware, context: Context) -> Iterator[TierFigures]:
    tiers, links = workload.tiers, workload.links

    def tier(name: str, per_host: int, bandwidth: float) -> TierFigures:
        total = per_host * hardware.hosts
        load = context.moved / bandwidth if bandwidth else 0.0
        return TierFigures(name, per_host, total, False, total / context.size, load)

    if tiers.device:
        yield tier("device", tiers.device, 0.0)
    if tiers.memory:
        yield tier("memory", tiers.memory, links.memory_gbps * GB)
    if tiers.memory_path:
        yield tier("memory, path memory", tiers.memory_path, links.memory_gbps * GB)
    if tiers.local_flash:
        yield tier("local flash", tiers.local_flash, links.local_flash_gbps * GB)
    if hardware.pool:
        bandwidth = shared_bandwidth(workload, hardware)
        load = context.moved / bandwidth if bandwidth else 0.0
        yield TierFigures(
            "shared flash", hardware.pool // hardware.hosts, hardware.pool, True, hardware.pool / context.size, load
        )


def _links(workload: Workload, hardware: Hardware, context: Context, expected: float) -> Iterator[LinkFigures]:
    links, hosts = workload.links, hardware.hosts
    offered = workload.rate * hosts * context.moved
    likely = expected * context.moved * ceiling(workload)

    def link(name: str, count: int, share: float, available: float) -> LinkFigures:
        """``share`` is what one such link carries of all that hosts read."""
        per_request = share * context.moved
        return LinkFigures(
            name, count, offered * share, likely * share, available, available / per_request if per_request else 0.0
        )

    per_host = hardware.inbound / hosts
    if hardware.ports:
        yield link("data ports of a host", hosts, per_host, hardware.ports * links.port_gbps * GB)
        yield link("PCIe slots of a host's NICs", hosts, per_host, hardware.ports * links.host_gbps * GB)
    slots = workload.accelerators * links.host_gbps * GB
    yield link("PCIe slots of a host's accelerators", hosts, 1 / hosts, slots)
    if hardware.separate_owners and hardware.owners and hardware.ports:
        yield link(
            "data ports of an owner", hardware.owners, 1 / hardware.owners, hardware.ports * links.port_gbps * GB
        )
    if hardware.pool:
        yield link("boxes together", 1, 1.0, hardware.box)


def _endurance(workload: Workload, hardware: Hardware, context: Context, expected: float) -> EnduranceFigures | None:
    if not hardware.raw:
        return None
    per_token = context.size / context.tokens
    fills = workload.new_contexts * max(workload.users) * context.size

    def per_day(rate: float) -> float:
        turns = rate * workload.new_tokens * per_token * DAY
        return (turns + fills) * workload.write_amplification

    offered = per_day(workload.rate * hardware.hosts) / hardware.raw
    written = per_day(expected)
    return EnduranceFigures(written, written / hardware.raw, offered, workload.flash_dwpd)


def cost(prices: Prices, size: int) -> CostFigures:
    """What keeping ``size`` bytes costs in memory and in shared flash."""
    gigabytes = size / GB
    memory, flash, system = prices.memory_gb, prices.flash_gb, prices.flash_system
    shared = Range(flash.low * system.low, flash.typical * system.typical, flash.high * system.high)
    return CostFigures(
        prices.currency,
        prices.as_of,
        Range(memory.low * gigabytes, memory.typical * gigabytes, memory.high * gigabytes),
        Range(shared.low * gigabytes, shared.typical * gigabytes, shared.high * gigabytes),
        Range(memory.low / shared.high, memory.typical / shared.typical, memory.high / shared.low),
    )


def _notes(workload: Workload, hardware: Hardware, shape: ModelShape) -> Iterator[str]:
    yield "predicted from g35_validate.workload, not measured; what is assumed: docs/simulate.md"
    if shape.max_context and longest(workload) > shape.max_context:
        yield (
            f"the longest prompt has {longest(workload):,} tokens, and the model's own limit is {shape.max_context:,}:"
            " it needs a longer rope scaling than its config.json states"
        )
    if shape.state_bytes:
        yield "linear attention layers keep a fixed state per sequence besides; it is not in the bytes per token"
    if workload.read_amplification == 1 and shape.attention.startswith("MLA"):
        yield (
            "each byte is taken to be read once; ranks of tensor parallelism that each load the latent multiply it:"
            " read_amplification"
        )
    if not hardware.box and hardware.pool:
        yield "a box without rated_gbps: what the boxes can deliver together is not known"
    if hardware.inbound > 1:
        yield (
            f"what a host reads passes the owner's ports and its own: {hardware.inbound:.3g} bytes arrive at a host"
            " for each byte read from the pool"
        )
