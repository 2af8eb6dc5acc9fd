"""What the tools accept in silence or refuse after minutes is said at once, with its place in the inventory."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import SITES, broken, problems

BOTH = "    - {name: prefill, role: prefill}\n    - {name: decode, role: decode}"
TAKEN = BOTH.replace("fill}", "fill, devices: [0, 1, 2, 3]}").replace("code}", "code, devices: [3, 4, 5, 6]}")
LLAMA = "  parallelism: {tensor: 8}"

CASES = [
    ("vllm-tp8", LLAMA, "  parallelism: {tensor: 6}", "cannot be split over tensor 6"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  instances: [{name: a, devices: [0, 1]}]", "2 devices for 8 ranks"),
    ("vllm-tp8", "tiers: {gpu_memory: 80GiB", "tiers: {host_cache: 64GB, gpu_memory: 80GiB", "hide a long one"),
    ("vllm-tp8", "gpu_memory: 80GiB", "gpu_memory: 16GiB", "leave no memory for KV"),
    ("vllm-tp8", "max_length: 131072", "max_length: 9000000", "are left for KV"),
    ("vllm-tp8", "host_memory: 1TiB", "host_memory: 64GiB", "of memory"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  page_size: 24", "multiples of 16 tokens"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  page_size: 1024", "ends when it reads objects of 16 MiB"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  pool: {linker: true}", "the linker is SGLang's"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  arguments: [--enforce-eager, --port=1]", "--port is computed"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  arguments: [--api-key=abc]", "would show a secret"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  environment: [HF_TOKEN=abc]", "would put a secret into a unit"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  environment: [MC_FORCE_HCA=0]", "MC_FORCE_HCA is computed"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  install: {mode: container}", "mode container needs an image"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  instances: [{name: a, port: 9003}]", "both need port 9003"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  instances: [{name: a, port: 15500}]", "Mooncake's transfer engine"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  router: {port: 8100}", "both need port 8100"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  router: {balance_threshold: 64}", "never reached by 48 users"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  device: cpu\n  cpu: {kv_space: 1500MiB}", "cuts the rest off"),
    ("vllm-tp8", LLAMA, LLAMA + "\n  instances: [{name: a, role: prefill}]", "prefill without decode"),
    ("vllm-tp8", "    layers: 80\n    kv_heads: 8\n", "    layers: 80\n", "say nothing of the size"),
    ("vllm-pd", "  profile: long-session", "  router: {kind: sglang-router}", "does not connect prefill and decode"),
    ("vllm-pd", "{name: decode, role: decode}", "{name: prefill, role: decode}", "two instances are called prefill"),
    ("vllm-pd", BOTH, TAKEN, "accelerator 3 belongs to prefill"),
    ("sglang-pd", "transport: rdma", "transport: tcp", "segmentation fault"),
    ("sglang-pd", "host_cache: 128GB", "host_cache: 0", "takes a multiple of the accelerators' memory"),
    ("sglang-pd", "host_cache: 128GB", "host_cache: 3GB", "counts whole gigabytes and takes 0"),
    ("mla", "host_memory: 2TiB", "host_memory: 2TiB, host_cache: 64GB", "would be refused at start"),
    ("mla", "pool: {linker: true}", "layout: page_head\n  pool: {linker: true}", "which a latent (mla) does not have"),
    ("mla", "pool: {linker: true}", "device: cpu\n  pool: {linker: true}", "no release for CPUs"),
    ("lmcache", "lmcache: {enabled: true}", "lmcache: {enabled: true, chunk_size: 200}", "no multiple of pages"),
    ("lmcache", "lmcache: {enabled: true}", "lmcache: {enabled: false}", "LMCache's tier"),
    ("gqa", "    revision: 9216db5781bf21249d130ec9da846c4624c16137\n", "", "can change under the same keys"),
    ("gqa", "vllm-openai:v0.32.0", "vllm-openai", "is another one tomorrow"),
    ("sglang-dp-attention", "data: 2, data_attention", "data: 1, data_attention", "needs data above 1"),
    ("vllm-tp8", "  store:\n", "  master: {lease: 20s, client_ttl: 10}\n  store:\n", "may take 33 s to load"),
]  # fmt: skip


@pytest.mark.parametrize("site", SITES)
def test_sample_sites_are_valid_without_a_word(site: str, tmp_path: Path) -> None:
    assert problems(broken(tmp_path, site)) == []


@pytest.mark.parametrize(("site", "old", "new", "told"), CASES)
def test_it_is_told_with_its_place(tmp_path: Path, site: str, old: str, new: str, told: str) -> None:
    root = broken(tmp_path, site, (old, new))
    found = [item for item in problems(root) if told in item.what]
    assert found, [item.what for item in problems(root)]
    position = found[0].position
    assert Path(position.file).is_relative_to(root) and position.line, position


def test_an_unknown_key_of_an_instance_is_told_with_what_it_was_meant_to_be(tmp_path: Path) -> None:
    root = broken(tmp_path, "vllm-pd", ("{name: decode, role: decode}", "{name: decode, rol: decode}"))
    found = [item for item in problems(root) if "unknown key" in item.what]
    assert found and "role" in found[0].hint


def test_a_router_without_engines_and_an_engine_without_a_master_are_told(tmp_path: Path) -> None:
    root = broken(tmp_path, "vllm-tp8", ("engine: vllm", "engine: none"))
    assert any("a router without engines" in item.what for item in problems(root))
    root = broken(tmp_path, "mla", ("mooncake_masters:\n  hosts:\n    gpu1:\n", ""), file="hosts.yml")
    assert any("no host is in group mooncake_masters" in item.what for item in problems(root))
