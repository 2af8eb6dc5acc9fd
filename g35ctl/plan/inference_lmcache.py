"""LMCache between an engine and the pool: its file. Facts: LMCache 0.5.6, its in-process form."""

from __future__ import annotations

import json
from typing import Any

from g35ctl.plan.inference_pool import Link, placeholders
from g35ctl.plan.inference_units import gibibytes
from g35ctl.site.engines import Engine


def config(engine: Engine, link: Link) -> str:
    """The file as YAML. Sizes of its own tiers are for each rank, in binary gigabytes; those of the pool in bytes."""
    tiers = engine.tiers
    settings: dict[str, Any] = {
        "chunk_size": engine.lmcache.chunk_size,
        # LMCache looks at the kind only, and takes from extra_config where the pool is: members of etcd fit no URL.
        "remote_url": f"mooncakestore://{link.admin.partition(',')[0] if link.cluster_id else link.master}/",
        "remote_serde": "naive",
        "local_cpu": bool(tiers.host_cache),
        # Needed without a tier in host memory too: transfers are staged in it.
        "max_local_cpu_size": max(gibibytes(tiers.host_cache // engine.ranks), 2.0),
        # Equal prefixes need equal hashes on every host.
        "pre_caching_hash_algorithm": "sha256_cbor",
        "save_decode_cache": engine.save_decode,
    }
    if tiers.local_flash and tiers.local_flash_path:
        settings["local_disk"] = f"file://{tiers.local_flash_path}/"
        settings["max_local_disk_size"] = gibibytes(tiers.local_flash // engine.ranks)
    settings["extra_config"] = {
        "local_hostname": link.address,
        "metadata_server": "P2PHANDSHAKE",
        "protocol": link.protocol,
        "device_name": placeholders(link.netdevs),
        "master_server_address": link.master,
        "global_segment_size": 0,
        "local_buffer_size": engine.pool.local_buffer_size,
        "transfer_timeout": 1,
        "save_chunk_meta": False,
    }
    # JSON is YAML; one key on a line keeps differences readable.
    lines = [f"{name}: {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"
