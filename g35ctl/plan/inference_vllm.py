"""vLLM: its arguments, its variables, and its file with the settings of the pool. Facts: vLLM 0.32.0."""

from __future__ import annotations

from typing import Any

from g35ctl.plan.inference_pool import Link, client_variables, placeholders
from g35ctl.plan.inference_units import compact, sharing, whole_gibibytes
from g35ctl.site.engines import Engine

MODULE = "vllm.entrypoints.openai.api_server"
#: port by which data-parallel ranks of the first instance of a host find each other; vLLM's own default
DATA_PARALLEL_RPC_PORT = 29550


def arguments(engine: Engine, address: str, link: Link) -> tuple[str, ...]:
    """The whole argument list, one word each."""
    model, spread = engine.model, engine.parallelism
    assert model is not None
    found = [
        f"--model={model.path}",
        f"--served-model-name={model.name}",
        f"--host={address}",
        f"--port={engine.port}",
        f"--tensor-parallel-size={spread.tensor}",
        f"--pipeline-parallel-size={spread.pipeline}",
        f"--kv-cache-dtype={engine.settings.kv_dtype}",
        f"--block-size={engine.page_size}",
        "--enable-prefix-caching",
        # One algorithm in the whole fleet, or equal prefixes have different keys.
        "--prefix-caching-hash-algo=sha256",
        # Answers then say how many prompt tokens came from a cache.
        "--enable-prompt-tokens-details",
    ]
    if model.revision and not model.path.startswith("/"):
        found.append(f"--revision={model.revision}")
    if model.dtype != "auto":
        found.append(f"--dtype={model.dtype}")
    if model.max_length:
        found.append(f"--max-model-len={model.max_length}")
    if engine.settings.max_requests:
        found.append(f"--max-num-seqs={engine.settings.max_requests}")
    if engine.device != "cpu":
        found.append(f"--gpu-memory-utilization={engine.tiers.gpu_fraction:g}")
    if spread.data > 1:
        found.append(f"--data-parallel-size={spread.data}")
        found.append(f"--data-parallel-rpc-port={DATA_PARALLEL_RPC_PORT + engine.place}")
    if spread.expert or spread.data_attention:
        found.append("--enable-expert-parallel")
    transfer = transfer_config(engine, link)
    if transfer:
        found.append(f"--kv-transfer-config={compact(transfer)}")
    return (*found, *engine.arguments)


def transfer_config(engine: Engine, link: Link) -> dict[str, Any]:
    """The value of --kv-transfer-config; empty without pool and without separation.

    A block that could not be loaded is computed again: by default vLLM fails the request instead.
    """
    store: dict[str, Any] | None = None
    if link.pool:
        store = _lmcache(engine) if engine.lmcache.enabled else _store(engine)
    if engine.role == "unified":
        return {**store, "kv_load_failure_policy": "recompute"} if store else {}
    role = "kv_producer" if engine.role == "prefill" else "kv_consumer"
    peer: dict[str, Any] = {
        "kv_connector": "MooncakeConnector",
        "kv_role": role,
        "kv_connector_extra_config": {
            "mooncake_protocol": link.protocol,
            "device_name": placeholders(link.netdevs),
        },
    }
    if store is None:
        return {**peer, "kv_load_failure_policy": "recompute"}
    # The outer policy counts, not those of the connectors inside.
    return {
        "kv_connector": "MultiConnector",
        "kv_role": role,
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"connectors": [peer, store]},
    }


def _store(engine: Engine) -> dict[str, Any]:
    extra: dict[str, Any] = {
        "cache_prefix": sharing(engine),
        # A socket of that number in /tmp: two engines of a host that share it answer each other's questions.
        "lookup_rpc_port": engine.port,
        "load_async": True,
        "lookup_async": engine.lookup_async,
        "save_decode_cache": engine.save_decode,
    }
    if engine.role == "decode":
        # What it needs comes from prefill; it only adds what it decodes.
        extra["enable_lookup"] = False
    role = "kv_consumer" if engine.role == "decode" else "kv_both"
    return {"kv_connector": "MooncakeStoreConnector", "kv_role": role, "kv_connector_extra_config": extra}


def _lmcache(engine: Engine) -> dict[str, Any]:
    role = "kv_consumer" if engine.role == "decode" else "kv_both"
    return {"kv_connector": "LMCacheConnectorV1", "kv_role": role}


def pool_config(engine: Engine, link: Link) -> dict[str, Any]:
    """The file that MOONCAKE_CONFIG_PATH names. An unknown key in it would be ignored, so all of these are checked.

    The stores own memory and flash; a rank asks and gives nothing. Sizes are for each rank.
    """
    return {
        "mode": "standalone-store",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": link.master,
        "protocol": link.protocol,
        "device_name": placeholders(link.netdevs),
        "global_segment_size": 0,
        "local_buffer_size": engine.pool.local_buffer_size,
        "enable_offload": True,
    }


def variables(engine: Engine, address: str, link: Link, config_path: str) -> dict[str, str]:
    """Its variables, without those that every engine has."""
    found = {"PYTHONHASHSEED": "0", "VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": link.address or address}
    if engine.device == "cpu":
        found["VLLM_CPU_KVCACHE_SPACE"] = str(whole_gibibytes(engine.cpu.kv_space))
        found["VLLM_CPU_OMP_THREADS_BIND"] = engine.cpu.cores
    if engine.role != "unified":
        found["VLLM_MOONCAKE_BOOTSTRAP_PORT"] = str(engine.bootstrap_port)
    if link.pool or engine.role != "unified":
        found |= client_variables(link)
    if not link.pool:
        return found
    if engine.lmcache.enabled:
        return found | {"LMCACHE_CONFIG_FILE": config_path}
    found |= {
        "MOONCAKE_CONFIG_PATH": config_path,
        "MOONCAKE_REQUESTER_LOCAL_HOSTNAME": link.address,
        # Which tier served what is told in the log only.
        "VLLM_MOONCAKE_STORE_TIER_LOG": "1",
    }
    return found
