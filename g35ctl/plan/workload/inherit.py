"""A workload with what it leaves out taken from the site: what it measures, how it computes, what memory it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from g35ctl.plan.model import Summary
from g35ctl.site.engines import Engine, engines_of
from g35ctl.site.model import Site
from g35ctl.site.workload_model import Workload

#: what the serving suite measures with, and what the same is called here
_MEASURED = {
    "users": "users", "context": "context_tokens", "new_tokens": "new_tokens", "rounds": "rounds", "rate": "rate",
    "trials": "trials",
}  # fmt: skip
_TYPES = {"auto": "bf16", "bfloat16": "bf16", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}


def effective_workload(site: Site, summary: Summary) -> Workload | None:
    """The site's workload, None without one. What it states is never replaced.

    Users, contexts and rates come from what the serving suite is told to measure, types and tiers from the engines: the
    host that has least decides.
    """
    workload = site.validation.workload
    if workload is None:
        return None
    hosts = [found for host in site.group("gpu_hosts") if (found := engines_of(host))]
    changes: dict[str, Any] = {}
    serving = site.validation.serving
    for name, ours in _MEASURED.items():
        if name in serving.model_fields_set and ours not in workload.model_fields_set:
            changes[ours] = getattr(serving, name)
    if "rounds" in changes:
        changes["rounds"] = max(2, changes["rounds"])  # one cold round alone finds nothing, and has nothing to find
    if hosts and workload.kv_dtype is None:
        changes["kv_dtype"] = _TYPES[hosts[0][0].settings.kv_dtype]
    if hosts and not workload.groups:
        changes["groups"] = max(1, min(sum(item.parallelism.data for item in found) for found in hosts))
    tiers: dict[str, int] = {}
    if hosts and not workload.tiers.device:
        tiers["device"] = min(sum(_device(item) for item in found) for found in hosts)
    if not workload.tiers.memory:
        tiers["memory"] = _memory(hosts, summary)
    if tiers:
        changes["tiers"] = workload.tiers.model_copy(update=tiers)
    return workload.model_copy(update=changes) if changes else workload


def _device(engine: Engine) -> int:
    """Bytes of different KV cache that an engine's accelerators hold: ranks of tensor parallelism split keys and values
    of heads, but each holds the whole latent of MLA."""
    if engine.device == "cpu":
        return engine.cpu.kv_space * engine.parallelism.data
    spread = engine.parallelism
    copies = spread.tensor if engine.model is not None and engine.model.attention == "mla" else 1
    return max(0, engine.kv_bytes_per_rank) * engine.ranks // copies


def _memory(hosts: Sequence[Sequence[Engine]], summary: Summary) -> int:
    """Host memory for KV cache: the engines' own tier, else the stores' landing zones."""
    own = min((sum(item.tiers.host_cache for item in found) for found in hosts), default=0)
    return own or min((item.segments for item in summary.memory), default=0)
