"""``g35_validate.workload`` and ``g35_validate.prices``: what the site is sized for, and what its media cost.

The workload is the published method as parameters: users that come back with a growing context, three cache paths. What
only a measurement can tell (``timing``) has defaults that are calibrated, not measured here: docs/simulate.md.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from g35ctl.site.fields import Strict
from g35ctl.site.sizes import Bytes

ElementType = Literal["bf16", "fp16", "fp8", "int8", "fp4"]
Users = Annotated[int, Field(ge=1, le=100_000)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
# YAML reads an unquoted date as one.
IsoDate = Annotated[
    str,
    BeforeValidator(lambda value: value.isoformat() if isinstance(value, date) else value),
    Field(pattern=r"^\d{4}-\d{2}-\d{2}$"),
]


class CacheTiers(Strict):
    """Room for KV cache. All but the flash pool is per host; the flash pool is what the site's stores have."""

    device: Bytes = Field(
        0, ge=0, description="Accelerator memory of a host for KV cache; 0: what g35_inference leaves"
    )
    memory: Bytes = Field(
        0,
        ge=0,
        description="Host memory for KV cache on paths local and g35, per host; 0: the engines' host_cache, else the "
        "segments of the stores",
    )
    memory_path: Bytes = Field(
        0, ge=0, description="Host memory for KV cache on path memory, per host; 0: as much as all users need"
    )
    local_flash: Bytes = Field(0, ge=0, description="The host's own SSDs for KV cache, path local")


class Links(Strict):
    """What carries KV cache, GB/s each (10^9 bytes)."""

    port_gbps: Positive = Field(48.0, description="Payload of one data port, GB/s; 400 Gb/s Ethernet carries about 48")
    host_gbps: Positive = Field(
        55.0, description="Of one PCIe slot, GB/s: a NIC's or an accelerator's; Gen5 x16 carries about 55"
    )
    memory_gbps: Positive = Field(100.0, description="From a host's memory to its accelerators, GB/s")
    local_flash_gbps: Positive = Field(12.0, description="From a host's own SSDs, GB/s")


class Timing(Strict):
    """What a request takes on an idle host, seconds."""

    cold_seconds: Positive = Field(42.0, description="Prefill of the longest prompt from nothing, on one group alone")
    attention_share: Share = Field(
        0.85, description="Share of cold_seconds that grows with the square of the context (attention)"
    )
    overhead_seconds: float = Field(
        3.5, ge=0, description="Of every request besides prefill and loading: tokenizing, look-up, the first token"
    )
    answer_seconds: float = Field(1.0, ge=0, description="From the first token to the end of the answer")


class Workload(Strict):
    """What the tier is planned for; the verbs plan and simulate compute with it."""

    config_json: str = Field(
        "", description="The model's config.json on the controller, relative to the inventory (or its directory)"
    )
    bytes_per_token: int = Field(
        0, ge=0, description="KV cache of one token, bytes, for a model whose config.json does not tell"
    )
    kv_dtype: ElementType | None = Field(
        None, description="Type of the KV cache; by default what g35_inference says, else bf16"
    )
    indexer_dtype: ElementType | None = Field(
        None, description="Type of an indexer's cache; by default the model's own"
    )
    read_amplification: float = Field(
        1.0, ge=1, le=64, description="Copies read of each byte: ranks that each load the whole latent (MLA under TP)"
    )
    users: Annotated[tuple[Users, ...], Field(min_length=1)] = Field((8, 16, 32, 48), description="Active users")
    context_tokens: int = Field(150_000, ge=1, description="Tokens of a user's first prompt")
    new_tokens: int = Field(2_500, ge=1, description="Tokens by which each further prompt is longer")
    rounds: int = Field(5, ge=2, le=1000, description="Prompts of a user; the first one is cold and not counted")
    trials: int = Field(3, ge=1, le=100, description="How often each point is simulated, with other seeds")
    rate: Positive = Field(8.0, description="Offered requests per second and GPU host")
    parallel: int = Field(6, ge=1, description="Most requests under way per GPU host; other users wait their turn")
    affinity: Share = Field(
        1.0, description="Share of prompts that reach the host that had the user before; the others go to any other"
    )
    order: Literal["random", "cyclic"] = Field("random", description="Which waiting user is next")
    block_tokens: int = Field(64, ge=1, description="Tokens of a page; only whole ones are found")
    groups: int = Field(
        0,
        ge=0,
        description="Prefills that a GPU host computes at a time (instances x data); 0: as g35_inference, else 1",
    )
    accelerators: int = Field(8, ge=1, description="Accelerators of a GPU host")
    tiers: CacheTiers = Field(default_factory=CacheTiers, description="Room for KV cache")
    links: Links = Field(default_factory=Links, description="What carries it")
    timing: Timing = Field(default_factory=Timing, description="What a request takes")
    flash_dwpd: Positive = Field(1.0, description="Drive writes per day that the flash is rated for")
    write_amplification: float = Field(1.1, ge=1, description="Bytes that the drives write for each byte of KV cache")
    new_contexts: float = Field(0, ge=0, description="Contexts per user and day that begin from nothing")


class PriceRange(Strict):
    """A price with its uncertainty; low <= typical <= high."""

    low: Positive = Field(description="Lowest")
    typical: Positive = Field(description="What figures are given for")
    high: Positive = Field(description="Highest")

    @model_validator(mode="after")
    def _ordered(self) -> PriceRange:
        if not self.low <= self.typical <= self.high:
            raise ValueError(f"{self.low:g}, {self.typical:g}, {self.high:g} is not in order: low, typical, high")
        return self


class Prices(Strict):
    """Assumed prices of media. They move: put in your own, with their date."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = Field("USD", description="Currency")
    as_of: IsoDate = Field("2026-12-01", description="Date of the prices, YYYY-MM-DD")
    memory_gb: PriceRange = Field(
        PriceRange(low=8, typical=15, high=20), description="Server memory (RDIMM), per GB (10^9 bytes): 8, 15, 20"
    )
    flash_gb: PriceRange = Field(
        PriceRange(low=0.15, typical=0.30, high=0.40), description="Enterprise TLC flash, per GB: 0.15, 0.30, 0.40"
    )
    flash_system: PriceRange = Field(
        PriceRange(low=2, typical=2.5, high=3),
        description="Shared flash with its share of enclosure, NICs and switch ports, times the flash alone: 2, 2.5, 3",
    )


class Scenario(Strict):
    """A set-up that is no site of its own: the file of ``g35ctl simulate --config``."""

    hosts: int = Field(2, ge=1, description="GPU hosts; each is an owner")
    ports: int = Field(2, ge=1, description="Data ports of a host")
    flash: Bytes = Field(0, ge=0, description="Flash that the stores may fill, all of it")
    box_gbps: float = Field(0, ge=0, description="What all boxes together are rated for, GB/s; 0: not known")
    workload: Workload = Field(default_factory=Workload, description="As g35_validate.workload")
    prices: Prices = Field(default_factory=Prices, description="As g35_validate.prices")
