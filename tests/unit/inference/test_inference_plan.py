"""What engines and routers are told: whole argument lists, settings of the pool, units."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import FIXTURES, SITES, arguments, broken, engine, environment, inference, plan_of

from g35ctl.plan.build import build
from g35ctl.plan.inference_router import balance_threshold
from g35ctl.plan.inference_units import gibibytes, whole_gigabytes
from g35ctl.report.plan_text import sections
from g35ctl.report.tree import tree
from g35ctl.site.load import load

GOLDEN = Path(__file__).parent / "golden"


def described(site: str) -> str:
    """Everything that decides how a site's engines and routers run, one word a line."""
    lines = []
    for host in plan_of(site).hosts:
        if host.inference is None:
            continue
        for item in host.inference.engines:
            lines += [f"== {host.name} {item.unit}", item.program.python, f"-m {item.module}", *item.arguments]
            lines += ["-- environment", *item.environment]
            lines += [f"-- {item.config_path}", *item.config.splitlines()] if item.config_path else []
        for router in host.inference.routers:
            lines += [f"== {host.name} {router.unit}", router.program.python, f"-m {router.module}", *router.arguments]
    return "\n".join(lines) + "\n"


def unit(site: str, name: str) -> str:
    files = inference(site).files
    return next(item.content for item in files if item.path == f"/etc/systemd/system/{name}")


def exec_words(text: str) -> list[str]:
    """The words that systemd makes of ExecStart, as its own quoting rules have them."""
    line = re.search(r"^ExecStart=(.*?[^\\])$", text, re.MULTILINE | re.DOTALL)
    assert line is not None
    words = shlex.split(line.group(1).replace("\\\n", " "))
    return [word.replace("%%", "%").replace("$$", "$") for word in words]


@pytest.mark.parametrize("site", SITES)
def test_engines_are_told_what_they_were_told_before(site: str) -> None:
    path = GOLDEN / f"{site}.txt"
    assert described(site) == path.read_text(encoding="utf-8"), f"if it is meant: write described({site!r}) to {path}"


@pytest.mark.parametrize("site", SITES)
def test_rendering_again_gives_the_same_bytes(site: str) -> None:
    again = build(load(str(FIXTURES / site)))
    assert tree(again) == tree(plan_of(site)) and again.digest == plan_of(site).digest


@pytest.mark.parametrize("site", SITES)
def test_units_give_engines_exactly_the_planned_words(site: str) -> None:
    for item in inference(site).engines:
        words = exec_words(unit(site, item.unit))
        assert tuple(words[-len(item.arguments) :]) == item.arguments
        assert f"-m {item.module}" in " ".join(words)


@pytest.mark.parametrize("site", SITES)
def test_engines_start_after_stores_and_master_and_wait_a_bounded_time(site: str) -> None:
    plan = plan_of(site).host("gpu1")
    assert plan.cache is not None and plan.cache.store is not None
    for item in inference(site).engines:
        text = unit(site, item.unit)
        uses_pool = bool(item.sharing)
        assert ("After=g35-mooncake-master.service" in text) == uses_pool
        for store in plan.cache.store.instances:
            assert (f"After={store.unit}" in text) == uses_pool
        gate = re.findall(r"^ExecStartPre=.*enginegate.py --admin (\S+) --seconds (\d+)$", text, re.MULTILINE)
        assert bool(gate) == uses_pool
        start = int(re.findall(r"^TimeoutStartSec=(\d+)$", text, re.MULTILINE)[0])
        assert all(int(seconds) < start for _, seconds in gate)
        assert "StartLimitIntervalSec=0" in text and "LimitMEMLOCK=infinity" in text
        if item.program.mode != "container":
            assert "\nUser=g35\n" in text and "\nNoNewPrivileges=yes\n" in text and "\nPrivateTmp=yes\n" in text


def test_a_failed_load_is_computed_again_and_never_fails_a_request() -> None:
    for site, name in (("vllm-tp8", "main"), ("vllm-pd", "prefill"), ("vllm-pd", "decode"), ("lmcache", "main")):
        transfer = json.loads(arguments(engine(site, name))["--kv-transfer-config"])
        assert transfer["kv_load_failure_policy"] == "recompute"


def test_engines_of_one_host_never_share_a_lookup_socket_or_a_port() -> None:
    for site in SITES:
        engines = inference(site).engines
        assert len({item.port for item in engines}) == len(engines)
        assert len({item.config_path for item in engines if item.config_path}) == sum(
            bool(e.config_path) for e in engines
        )
        used = [
            part["kv_connector_extra_config"]["lookup_rpc_port"]
            for item in engines
            if "--kv-transfer-config" in arguments(item)
            for transfer in [json.loads(arguments(item)["--kv-transfer-config"])]
            for part in [transfer, *transfer.get("kv_connector_extra_config", {}).get("connectors", [])]
            if part["kv_connector"] == "MooncakeStoreConnector"
        ]
        assert len(set(used)) == len(used)


def test_each_node_has_its_own_name_in_the_pool() -> None:
    for host, address in (("gpu1", "192.0.2.101"), ("gpu2", "192.0.2.102")):
        sglang, vllm = engine("sglang-dp-attention", host=host), engine("vllm-tp8", host=host)
        assert environment(sglang)["MOONCAKE_LOCAL_HOSTNAME"] == address
        assert json.loads(sglang.config)["local_hostname"] == address
        assert environment(vllm)["MOONCAKE_REQUESTER_LOCAL_HOSTNAME"] == address
        assert environment(vllm)["MC_TCP_BIND_ADDRESS"] == address


def test_the_published_tests_shape_is_eight_ranks_with_attention_over_four() -> None:
    given = arguments(engine("sglang-dp-attention"))
    assert (given["--tp-size"], given["--attention-data-parallel-size"]) == ("8", "2")
    assert given["--hicache-size"] == "32", "256 GB for eight ranks, in decimal gigabytes for each"
    assert given["--hicache-host-memory-mode"] == "buffer_only"


def test_prefill_and_decode_find_each_other_and_only_prefill_asks_the_pool() -> None:
    for site, key in (("vllm-pd", "VLLM_MOONCAKE_BOOTSTRAP_PORT"), ("sglang-pd", "")):
        prefill, decode = engine(site, "prefill"), engine(site, "decode")
        assert prefill.bootstrap_port != decode.bootstrap_port
        port = environment(prefill)[key] if key else arguments(prefill)["--disaggregation-bootstrap-port"]
        assert int(port) == prefill.bootstrap_port
        router = inference(site).routers[0].arguments
        assert ("--prefill", f"http://192.0.2.101:{prefill.port}", port) in zip(
            router, router[1:], router[2:], strict=False
        )
    transfer = json.loads(arguments(engine("vllm-pd", "decode"))["--kv-transfer-config"])
    store = transfer["kv_connector_extra_config"]["connectors"][1]
    assert store["kv_connector_extra_config"]["enable_lookup"] is False and store["kv_role"] == "kv_consumer"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("parallelism: {tensor: 8}", "parallelism: {tensor: 4, pipeline: 2}"),
        ("parallelism: {tensor: 8}", "parallelism: {tensor: 8}\n  kv_dtype: fp8_e4m3"),
        ("parallelism: {tensor: 8}", "parallelism: {tensor: 8}\n  page_size: 128"),
        ("revision: 6f6073b", "revision: abc1234"),
        ("path: /srv/models/llama-3.3-70b", "path: /srv/other/llama-3.3-70b"),
        ("max_length: 131072", "max_length: 131072\n    dtype: float16"),
    ],
)
def test_whatever_changes_the_bytes_of_a_key_changes_its_name_space(tmp_path: Path, old: str, new: str) -> None:
    changed = build(load(str(broken(tmp_path, "vllm-tp8", (old, new))))).host("gpu1").inference
    assert changed is not None
    assert changed.engines[0].sharing != engine("vllm-tp8").sharing
    assert changed.engines[0].sharing in arguments(changed.engines[0])["--kv-transfer-config"]


def test_hosts_of_one_shape_share_their_keys_and_a_port_does_not_matter(tmp_path: Path) -> None:
    assert engine("vllm-tp8").sharing == engine("vllm-tp8", host="gpu2").sharing
    root = broken(tmp_path, "vllm-tp8", ("engine: vllm", "engine: vllm\n  instances: [{name: main, port: 8200}]"))
    moved = build(load(str(root))).host("gpu1").inference
    assert moved is not None and moved.engines[0].sharing == engine("vllm-tp8").sharing


def test_the_hubs_token_is_in_no_argument_variable_or_file() -> None:
    item = engine("gqa", "a")
    assert item.hub_token_file == "/etc/g35/hub-token"
    text = unit("gqa", item.unit)
    assert "/etc/g35/hub-token:/run/secrets/hub-token:ro" in text
    assert environment(item)["HF_TOKEN_PATH"] == "/run/secrets/hub-token"
    assert "HF_TOKEN=" not in text


def test_a_token_reaches_a_process_as_a_credential_of_its_unit(tmp_path: Path) -> None:
    root = broken(
        tmp_path, "gqa", ('  install: {mode: container, image: "registry.example/vllm-openai:v0.32.0"}\n', "")
    )
    found = build(load(str(root))).host("gpu1").inference
    assert found is not None
    text = next(item.content for item in found.files if item.path.endswith("g35-vllm-a.service"))
    assert 'LoadCredential="hub-token:/etc/g35/hub-token"' in text
    assert "HF_TOKEN_PATH=/run/credentials/g35-vllm-a.service/hub-token" in text


def test_two_engines_at_once_have_accelerators_routers_and_name_spaces_of_their_own() -> None:
    plan = inference("two-engines")
    assert [item.devices for item in plan.engines] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [router.kind for router in plan.routers] == ["vllm-router", "sglang-router"]
    assert len({router.port for router in plan.routers} | {router.metrics_port for router in plan.routers}) == 4
    assert len({item.sharing for item in plan.engines}) == 2


@given(users=st.integers(1, 5000), workers=st.integers(1, 64))
def test_balance_begins_long_before_everybody_waits_for_one_engine(users: int, workers: int) -> None:
    threshold = balance_threshold(users, workers)
    assert threshold >= 2
    assert threshold == 2 or threshold <= users / workers / 2


@given(size=st.integers(0, 2**50))
def test_no_tool_is_given_more_than_the_site_says(size: int) -> None:
    assert whole_gigabytes(size) * 10**9 <= size
    assert gibibytes(size) * 2**30 <= size


def test_tiers_are_told_with_what_they_hold_and_whether_they_fit() -> None:
    lines = [item for item in plan_of("lmcache").summary.tiers if item.host == "gpu1"]
    assert [item.level for item in lines if item.user == "main"] == ["G1", "G2", "G2", "G3", "G3.5"]
    assert all(item.fits for item in lines)
    device = next(item for item in lines if item.level == "G1")
    # 80 GiB x 0.9, less 141 GB of weights over eight ranks and 3 GiB to work with; 40 KiB for a token on each rank.
    left = int(80 * 2**30 * 0.9) - -(-141 * 10**9 // 8) - 3 * 2**30
    assert (device.size, device.tokens) == (left * 8, left // (2 * 80 * 128 * 2))
    pool = next(item for item in lines if item.level == "G3.5")
    assert pool.size == plan_of("lmcache").summary.capacity
    titles = {section.title for section in sections(plan_of("lmcache"))}
    assert {"Engines", "Routers", "Tiers (predicted from what the site states)"} <= titles


def test_a_site_without_inference_takes_no_part_in_the_stage() -> None:
    plan = build(load(str(FIXTURES.parents[2] / "inventories" / "two-hosts")))
    assert plan.stage_hosts["inference"] == () and plan.summary.tiers == ()
    assert all(host.inference is None and "g35_inference_plan" not in host.variables() for host in plan.hosts)
