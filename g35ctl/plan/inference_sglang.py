"""SGLang: its arguments, its variables, and its file with the settings of the pool. Facts: SGLang 0.5.23."""

from __future__ import annotations

from typing import Any

from g35ctl.plan.inference_pool import Link, client_variables, placeholders
from g35ctl.plan.inference_units import compact, sharing, whole_gigabytes
from g35ctl.site.engines import Engine

MODULE = "sglang.launch_server"
#: tokens that a prefetch may take, for the budget of a long prompt: 160 Ki tokens get 41 s
PREFETCH_BASE_SECONDS = 1.0
PREFETCH_SECONDS_PER_KI = 0.25


def arguments(engine: Engine, address: str, link: Link, config_path: str) -> tuple[str, ...]:
    """The whole argument list, one word each."""
    model, spread = engine.model, engine.parallelism
    assert model is not None
    ranks = spread.tensor * spread.data if spread.data_attention else spread.tensor
    found = [
        f"--model-path={model.path}",
        f"--served-model-name={model.name}",
        f"--host={address}",
        f"--port={engine.port}",
        f"--tp-size={ranks}",
        f"--pp-size={spread.pipeline}",
        f"--kv-cache-dtype={engine.settings.kv_dtype}",
        f"--page-size={engine.page_size}",
        f"--mem-fraction-static={engine.tiers.gpu_fraction:g}",
        f"--schedule-policy={engine.profile.schedule_policy}",
        "--enable-metrics",
        # Answers then say how many prompt tokens came from a cache.
        "--enable-cache-report",
    ]
    if spread.data > 1:
        # The spelling --dp-size with --enable-dp-attention goes away after 2026.
        name = "--attention-data-parallel-size" if spread.data_attention else "--dp-size"
        found.append(f"{name}={spread.data}")
    if spread.expert:
        found.append(f"--ep-size={ranks}")
    if model.revision and not model.path.startswith("/"):
        found.append(f"--revision={model.revision}")
    if model.dtype != "auto":
        found.append(f"--dtype={model.dtype}")
    if model.max_length:
        found.append(f"--context-length={model.max_length}")
    if engine.settings.max_requests:
        found.append(f"--max-running-requests={engine.settings.max_requests}")
    if engine.device == "cpu":
        found.append("--device=cpu")
    found += _separation(engine, link)
    if link.pool:
        found += _pool(engine, link, config_path)
    elif engine.tiers.host_cache:
        found += ["--enable-hierarchical-cache", *_host_pool(engine)]
    return (*found, *engine.arguments)


def _separation(engine: Engine, link: Link) -> list[str]:
    if engine.role == "unified":
        return []
    found = [f"--disaggregation-mode={engine.role}"]
    found.append(f"--disaggregation-transfer-backend={'mooncake' if link.protocol == 'rdma' else 'mooncake_tcp'}")
    found.append(f"--disaggregation-bootstrap-port={engine.bootstrap_port}")
    if link.netdevs:
        found.append(f"--disaggregation-ib-device={placeholders(link.netdevs)}")
    return found


def _pool(engine: Engine, link: Link, config_path: str) -> list[str]:
    if engine.lmcache.enabled:
        return ["--enable-lmcache", f"--lmcache-config-file={config_path}"]
    if engine.pool.linker:
        found = [
            "--enable-unified-cache-external-linker",
            "--unified-cache-external-linker-backend=mooncake",
            # This argument takes JSON and no file.
            f"--unified-cache-external-linker-config={compact(pool_config(engine, link))}",
        ]
        if engine.model is not None and engine.model.attention == "mla" and engine.parallelism.tensor > 1:
            found.append("--enable-linker-mla-dedup")
        return found
    found = [
        "--hicache-storage-backend=mooncake",
        f"--hicache-storage-backend-extra-config=@{config_path}",
        *_host_pool(engine),
    ]
    if engine.role == "decode":
        return ["--disaggregation-decode-enable-offload-kvcache", *found]
    return [
        "--enable-hierarchical-cache",
        f"--hicache-host-memory-mode={engine.pool.host_mode}",
        f"--hicache-storage-prefetch-policy={engine.pool.prefetch_policy or 'timeout'}",
        *found,
    ]


def _host_pool(engine: Engine) -> list[str]:
    layout = engine.settings.layout
    # Each layout has the one way of copying that can read it; stated, so that SGLang has nothing to rewrite.
    backend = "direct" if layout == "page_first_direct" else "kernel"
    return [
        f"--hicache-size={whole_gigabytes(engine.tiers.host_cache // engine.ranks)}",
        "--hicache-write-policy=write_through",
        f"--hicache-mem-layout={layout}",
        f"--hicache-io-backend={backend}",
    ]


def pool_config(engine: Engine, link: Link) -> dict[str, Any]:
    """The settings of the pool: a file, or the linker's argument. With the master's address in it, SGLang takes
    everything from here and nothing from variables, but for the host's own name."""
    threshold = engine.pool.prefetch_threshold or engine.profile.prefetch_threshold
    found: dict[str, Any] = {
        "master_server_address": link.master,
        "metadata_server": "P2PHANDSHAKE",
        "local_hostname": link.address,
        "protocol": link.protocol,
        "device_name": placeholders(link.netdevs),
        # The stores own memory and flash. SGLang counts this for the whole server, vLLM for each rank: none here.
        "global_segment_size": 0,
        "master_metrics_port": int(link.admin.partition(",")[0].rpartition(":")[2]),
        "extra_backend_tag": sharing(engine),
    }
    if not engine.pool.linker:
        found |= {
            "prefetch_threshold": max(threshold, engine.page_size),
            "prefetch_timeout_base": PREFETCH_BASE_SECONDS,
            "prefetch_timeout_per_ki_token": PREFETCH_SECONDS_PER_KI,
        }
    return found


def variables(engine: Engine, address: str, link: Link) -> dict[str, str]:
    """Its variables, without those that every engine has."""
    found = {"PYTHONHASHSEED": "0", "SGLANG_HOST_IP": link.address or address}
    if link.pool or engine.role != "unified":
        found |= client_variables(link)
    if link.pool:
        # By default every node is called localhost, and no other node finds its memory.
        found["MOONCAKE_LOCAL_HOSTNAME"] = link.address
    return found
