"""Every argument list and every file that g35ctl renders is read by the published tools themselves.

A renamed argument, a key that nobody reads any more or a size that is read as another one fails here, at no customer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import ask

DEVICE = "@DEVICE:"


def values(arguments: tuple[str, ...]) -> dict[str, str]:
    """Arguments of the form --name=value."""
    return {name: value for name, _, value in (item.partition("=") for item in arguments)}


# -- vLLM ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vllm(vllm_python: Path, engines: Mapping[str, Any]) -> Mapping[str, tuple[Any, Any]]:
    mine = {key: item for key, item in engines.items() if item.engine == "vllm"}
    cases = []
    for item in mine.values():
        transfer = json.loads(values(item.arguments)["--kv-transfer-config"])
        inside = [transfer, *transfer.get("kv_connector_extra_config", {}).get("connectors", [])]
        keys = {key for part in inside for key in part.get("kv_connector_extra_config", {})}
        mine_only = ("VLLM_MOONCAKE", "MOONCAKE_", "LMCACHE_CONFIG", "VLLM_HOST", "VLLM_CPU")
        keys |= {name for name, _, _ in (v.partition("=") for v in item.environment) if name.startswith(mine_only)}
        pool = item.config if item.config_path.endswith("mooncake.json") else ""
        cases.append({"arguments": list(item.arguments), "pool": pool, "keys": sorted(keys), "module": item.module})
    cases.append({"arguments": ["--no-such-argument"], "pool": "", "keys": ["no_such_key"], "module": "vllm"})
    told = ask(vllm_python, "vllm_driver.py", cases)
    assert told["module"], "the module that units run has gone"
    answers = told["answers"]
    refused = answers.pop()
    assert "error" in refused["parsed"] and refused["unread"] == ["no_such_key"]
    return {key: (item, answer) for (key, item), answer in zip(mine.items(), answers, strict=True)}


def test_vllm_takes_every_argument_list(vllm: Mapping[str, tuple[Any, Any]]) -> None:
    assert len(vllm) >= 10
    for key, (item, answer) in vllm.items():
        assert "error" not in answer["parsed"], (key, answer["parsed"])
        parsed, given = answer["parsed"], values(item.arguments)
        assert parsed["port"] == item.port and parsed["host"] == item.address
        assert parsed["tensor_parallel_size"] == int(given["--tensor-parallel-size"])
        assert parsed["block_size"] == int(given["--block-size"])
        assert parsed["enable_prompt_tokens_details"] is True


def test_vllm_knows_every_connector_and_recomputes_what_cannot_be_loaded(vllm: Mapping[str, tuple[Any, Any]]) -> None:
    for key, (item, answer) in vllm.items():
        assert "error" not in answer, (key, answer)
        assert answer["connectors"], key
        assert answer["parsed"]["kv_transfer_config"]["kv_load_failure_policy"] == "recompute"
        if item.role != "unified":
            assert "MooncakeConnector" in answer["connectors"]


def test_every_key_and_variable_is_read_by_vllm(vllm: Mapping[str, tuple[Any, Any]]) -> None:
    for key, (_, answer) in vllm.items():
        assert answer["unread"] in ([], ["LMCACHE_CONFIG_FILE"]), key


def test_vllm_reads_the_pools_file_as_it_is_meant(vllm: Mapping[str, tuple[Any, Any]]) -> None:
    read = [answer["pool"] for _, answer in vllm.values() if answer["pool"]]
    assert read
    for pool in read:
        assert pool["mode"] == "standalone-store" and pool["global_segment_size"] == 0
        assert pool["local_buffer_size"] == 4 * 2**30 and pool["enable_offload"] is True
        assert pool["protocol"] == "rdma" and pool["device_name"].startswith(DEVICE)
        assert pool["master_server_address"].endswith(":50051")


# -- SGLang -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sglang(small_python: Path, sglang_source: Path, engines: Mapping[str, Any]) -> Mapping[str, tuple[Any, Any]]:
    mine = {key: item for key, item in engines.items() if item.engine == "sglang"}
    cases = []
    for item in mine.values():
        linker = values(item.arguments).get("--unified-cache-external-linker-config")
        variables = dict(v.split("=", 1) for v in item.environment if v.startswith("MOONCAKE_"))
        pool = json.loads(linker or item.config) if (linker or item.config) else None
        cases.append({"arguments": list(item.arguments), "pool": pool, "environment": variables})
    cases.append({"arguments": ["--model-path=/x", "--no-such-argument"], "pool": None})
    answers = ask(small_python, "sglang_driver.py", cases, str(sglang_source))
    assert "error" in answers.pop()["parsed"]
    return {key: (item, answer) for (key, item), answer in zip(mine.items(), answers, strict=True)}


def test_sglang_takes_every_argument_list(sglang: Mapping[str, tuple[Any, Any]]) -> None:
    assert len(sglang) >= 8
    for key, (item, answer) in sglang.items():
        parsed, given = answer["parsed"], values(item.arguments)
        assert "error" not in parsed, (key, parsed)
        assert parsed["port"] == item.port and parsed["host"] == item.address
        assert parsed["tp_size"] == int(given["--tp-size"])
        assert parsed["page_size"] == int(given["--page-size"])
        assert parsed["enable_cache_report"] is True
        if "--hicache-size" in given:
            assert parsed["hicache_size"] == int(given["--hicache-size"]) > 0
        if "--attention-data-parallel-size" in given:
            assert (parsed["attn_dp_size"], parsed["dp_size"]) == (2, 1)
            assert parsed["tp_size"] // parsed["attn_dp_size"] == 4


def test_sglang_reads_the_settings_of_the_pool_as_they_are_meant(sglang: Mapping[str, tuple[Any, Any]]) -> None:
    read = [(item, answer["store"]) for item, answer in sglang.values() if answer["store"]]
    assert len(read) == len(sglang)
    for item, store in read:
        assert "error" not in store, store
        assert store["global_segment_size"] == 0 and store["protocol"] == "rdma"
        assert store["local_hostname"] == item.address, "every node must have its own name"
        assert store["master_server_address"].endswith(":50051") and store["master_metrics_port"] == 9003
        assert store["device_name"].startswith(DEVICE) and not store["standalone_storage"]


def test_every_key_of_the_pools_settings_is_read_by_sglang(
    sglang: Mapping[str, tuple[Any, Any]], sglang_source: Path
) -> None:
    places = [sglang_source / "sglang/srt/mem_cache", sglang_source / "sglang/srt/managers"]
    text = "\n".join(path.read_text(encoding="utf-8") for place in places for path in place.rglob("*.py"))
    for item, _ in sglang.values():
        for key in json.loads(item.config) if item.config else {}:
            assert f'"{key}"' in text, key


# -- LMCache ------------------------------------------------------------------------------------------------------


def test_every_key_of_lmcaches_file_is_one_of_its_settings(lmcache_source: Path, engines: Mapping[str, Any]) -> None:
    import yaml

    config = (lmcache_source / "lmcache/v1/config.py").read_text(encoding="utf-8")
    connectors = lmcache_source / "lmcache/v1/storage_backend/connector"
    store = "".join(path.read_text(encoding="utf-8") for path in connectors.glob("*.py"))
    files = [item.config for item in engines.values() if item.config_path.endswith("lmcache.yaml")]
    assert files
    for content in files:
        settings = yaml.safe_load(content)
        assert all(f'"{key}"' in config for key in settings), settings
        extra = settings["extra_config"]
        assert all(f'"{key}"' in store or f'"{key}"' in config for key in extra), extra


# -- routers ------------------------------------------------------------------------------------------------------


def test_routers_take_every_argument_list(small_python: Path, routers: Mapping[str, Any]) -> None:
    cases = [{"module": item.module, "arguments": list(item.arguments)} for item in routers.values()]
    bad = [
        {"module": module, "arguments": ["--no-such"]} for module in sorted({item.module for item in routers.values()})
    ]
    answers = ask(small_python, "router_driver.py", [*cases, *bad])
    assert all("error" in answer for answer in answers[len(cases) :]) and len(bad) == 2
    for (key, item), parsed in zip(routers.items(), answers, strict=False):
        assert "error" not in parsed, (key, parsed)
        assert parsed["port"] == item.port and parsed["prometheus_port"] == item.metrics_port
        assert parsed["policy"] == "cache_aware" and 2 <= parsed["balance_abs_threshold"] < 48
        if "prefill" in " ".join(item.arguments):
            assert len(parsed["prefill_urls"]) == len(parsed["decode_urls"]) == 2
        else:
            assert tuple(parsed["worker_urls"]) == item.workers
