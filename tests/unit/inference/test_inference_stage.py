"""Stage inference on one host: what it installs, starts, refuses and takes away again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ansible.module_utils.g35 import aggregate, inference_env, managed, runtime
from ansible.module_utils.g35.enginegate import obstacle, wait
from ansible.module_utils.g35.inference import InferenceStage
from ansible.module_utils.g35.plans_inference import InferencePlan
from ansible.module_utils.g35.schema import dump
from engine_host import EngineHost, planned

UNIT = "g35-vllm-main.service"
CONFIG = "/etc/g35ctl/inference/main.mooncake.json"


@pytest.fixture
def host(tmp_path: Path) -> EngineHost:
    found = EngineHost(tmp_path)
    found.push()
    return found


def checks(outcome: object) -> set[str]:
    return {item["check"] for item in outcome.findings if item["severity"] == "error"}  # type: ignore[attr-defined]


def in_files_mode(plan: InferencePlan) -> InferencePlan:
    engines = tuple(replace(item, program=replace(item.program, mode="files")) for item in plan.engines)
    return replace(plan, runtimes=(), engines=engines, units=())


def test_nothing_changes_until_the_wheels_are_here(tmp_path: Path) -> None:
    host = EngineHost(tmp_path)
    outcome = host.run_stage()
    assert list(outcome.awaiting) == ["vllm"] and not outcome.failed and not host.writes


def test_an_engine_is_built_started_and_asked_what_it_serves(host: EngineHost) -> None:
    outcome = host.run_stage()
    assert not outcome.failed, outcome.message
    assert UNIT in host.active and UNIT in host.enabled
    unit = host.read(f"/etc/systemd/system/{UNIT}") or ""
    config = host.read(CONFIG) or ""
    assert '"device_name":"mlx5_0,mlx5_1"' in config, "RDMA devices are named by what the host calls them"
    assert "@DEVICE:" not in unit + config
    environment = f"/opt/g35/inference/vllm/{runtime.name_of(planned().runtimes[0])}"
    assert host.read(f"{environment}/lib/libiomp5.so") == "binary"
    assert "main()" in (host.read(f"{environment}/bin/vllm") or "")
    assert not host.exists("/var/cache/g35-inference-vllm.tar")
    assert host.run_stage().changed is False


def test_an_engine_that_serves_another_model_is_told(host: EngineHost) -> None:
    host.run_stage()
    host.listed = "something-else"
    assert checks(host.run_stage("verify")) == {"inference.model"}


def test_an_engine_that_answers_503_is_not_healthy(host: EngineHost) -> None:
    host.run_stage()
    host.healthy = False
    outcome = host.run_stage("verify")
    assert checks(outcome) == {"inference.health"} and "status 503" in outcome.message


def test_an_engine_that_dies_again_and_again_is_not_waited_for(host: EngineHost) -> None:
    host.healthy = False
    host.starts[UNIT] = 3
    outcome = host.run_stage()
    assert outcome.failed and host.now < 10
    assert "started again 3 times" in outcome.message and "journalctl" in str(outcome.findings)


def test_an_engine_that_loads_is_waited_for_as_long_as_the_site_allows(host: EngineHost) -> None:
    host.healthy = False
    assert host.run_stage().failed
    assert 1790 <= host.now <= 1810


def test_an_engine_that_a_boot_has_just_started_is_waited_for(host: EngineHost) -> None:
    host.run_stage()
    before, host.healthy, host.started = host.now, False, 9990.0
    outcome = host.run_stage()
    assert checks(outcome) == {"inference.health"} and not outcome.changed
    assert host.now - before > 60


def test_an_engine_that_has_long_been_silent_is_told_at_once(host: EngineHost) -> None:
    host.run_stage()
    before, host.healthy = host.now, False
    assert checks(host.run_stage()) == {"inference.health"}
    assert host.now == before


def test_restarting_an_engine_needs_consent(host: EngineHost) -> None:
    host.run_stage()
    before = list(host.writes)
    host.put(CONFIG, "{}")
    refused = host.run_stage()
    assert checks(refused) == {"inference.consent"} and "requests in flight" in refused.message
    assert host.writes == before and host.read(CONFIG) == "{}"
    assert not host.run_stage(allow_disruptive=True).failed
    assert ["systemctl", "restart", UNIT] in host.writes[len(before) :]


def test_files_only_touches_nothing_that_runs(tmp_path: Path) -> None:
    host = EngineHost(tmp_path)
    outcome = host.run_stage(plan=in_files_mode(planned()))
    assert not outcome.failed and outcome.changed
    assert host.read(f"/etc/systemd/system/{UNIT}") and host.read(CONFIG)
    assert not host.writes, "no program was run: not even systemd was told"


def test_a_container_waits_for_its_image_and_gets_it(tmp_path: Path) -> None:
    host = EngineHost(tmp_path)
    host.put("/usr/bin/podman", "")
    host.listed = "qwen3-32b"
    plan = planned("gqa")
    plan = replace(plan, engines=tuple(replace(item, hub_token_file="") for item in plan.engines))
    outcome = host.run_stage(plan=plan)
    assert not outcome.failed, outcome.message
    assert ["podman", "pull", "--quiet", "registry.example/vllm-openai:v0.32.0"] in host.writes


def test_an_environment_that_is_there_is_used_and_never_changed(tmp_path: Path) -> None:
    host = EngineHost(tmp_path)
    packages = "/opt/own/lib/python3.11/site-packages"
    plan = planned()
    program = replace(plan.engines[0].program, environment="/opt/own", python="/opt/own/bin/python")
    plan = replace(plan, runtimes=(), engines=(replace(plan.engines[0], program=program),))
    assert checks(host.run_stage(plan=plan)) == {"inference.environment"}
    host.put("/opt/own/bin/python", "")
    for name in ("vllm-0.32.0+cu130.dist-info", "mooncake_transfer_engine_cuda13-0.3.12.dist-info"):
        host.put(f"{packages}/{name}/METADATA", "")
    outcome = host.run_stage(plan=plan)
    assert checks(outcome) == {"inference.package"}
    assert "0.3.12, expected 0.3.13.post1" in outcome.message, "one release of Mooncake in the whole site"


@pytest.mark.parametrize(
    ("prepare", "check"),
    [
        (lambda host: host.path("/srv/models/llama-3.3-70b/config.json").unlink(), "inference.model"),
        (lambda host: host.path("/dev/nvidia7").unlink(), "inference.devices"),
        (lambda host: host.put("/proc/meminfo", "MemTotal: 16777216 kB\n"), "inference.memory"),
        (lambda host: host.path("/usr/bin/python3.11").unlink(), "inference.python"),
        (lambda host: host.put("/proc/net/tcp", "sl\n 0: 00000000:1FA4 00000000:0000 0A 0\n"), "inference.port"),
    ],
)
def test_what_would_stop_an_engine_stops_the_apply_before_anything_changes(
    host: EngineHost, prepare: object, check: str
) -> None:
    prepare(host)  # type: ignore[operator]
    outcome = host.run_stage()
    assert checks(outcome) == {check} and not host.writes


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    host = EngineHost(tmp_path)
    host.put("/usr/bin/podman", "")
    host.put("/etc/g35/hub-token", "secret")
    host.path("/etc/g35/hub-token").chmod(0o644)
    outcome = host.run_stage(plan=planned("gqa"))
    assert checks(outcome) == {"inference.token"} and "secret" not in str(outcome)


def test_without_rdma_devices_nothing_is_started(host: EngineHost) -> None:
    host.path("/sys/class/infiniband/mlx5_0/parent").write_text("other\n")
    outcome = host.run_stage()
    assert "inference.device" in checks(outcome) and UNIT not in host.active


def test_an_engine_that_the_plan_no_longer_has_goes_with_its_files(host: EngineHost) -> None:
    host.run_stage()
    host.put("/etc/systemd/system/g35-sglang-old.service", "")
    host.put("/etc/g35ctl/inference/old.hicache.json", "{}")
    host.put("/etc/systemd/system/g35-router-mine.service", "")
    host.active.add("g35-sglang-old.service")
    assert checks(host.run_stage()) == {"inference.consent"}
    assert not host.run_stage(allow_disruptive=True).failed
    assert "g35-sglang-old.service" not in host.active
    assert not host.exists("/etc/g35ctl/inference/old.hicache.json")
    assert host.exists("/etc/systemd/system/g35-router-mine.service"), "routers are another role's"


def test_removal_leaves_models_and_takes_everything_else(host: EngineHost) -> None:
    host.run_stage()
    assert not host.run_stage("remove", allow_disruptive=True).failed
    assert not host.active and not host.exists(CONFIG) and not host.list("/opt/g35/inference/vllm")
    assert host.exists("/srv/models/llama-3.3-70b/config.json")
    assert host.run_stage("remove").changed is False


def test_draining_stops_and_keeps(host: EngineHost) -> None:
    host.run_stage()
    assert not host.run_stage("drain").failed
    assert UNIT not in host.active and UNIT in host.enabled and host.exists(CONFIG)


def test_a_role_is_about_its_own_services(tmp_path: Path) -> None:
    stage = InferenceStage(EngineHost(tmp_path), planned("two-engines"), part="sglang")
    assert [item.name for item in stage.engines] == ["long"] and not stage.routers
    assert [unit.name for unit in stage.units] == ["g35-sglang-long.service"]
    routers = InferenceStage(EngineHost(tmp_path), planned("two-engines"), part="router")
    assert not routers.engines and len(routers.routers) == 2


# -- the gate -----------------------------------------------------------------------------------------------------

LEADER = '{"role": "leader", "service_ready": true}'


@pytest.mark.parametrize(
    ("health", "segments", "told"),
    [
        (None, "", "no master serves"),
        ('{"role": "standby", "service_ready": false}', "a:1", "no master serves"),
        (LEADER, "", "lists no store"),
        (LEADER, "192.0.2.1:50052\n", ""),
    ],
)
def test_engines_wait_for_a_master_that_leads_and_for_one_store(health: str | None, segments: str, told: str) -> None:
    found = obstacle(["m:9003"], lambda url: health if url.endswith("/health") else segments)
    assert told in found and bool(found) == bool(told)


def test_one_leading_master_of_two_is_enough_and_the_wait_ends() -> None:
    asked = {"a:9003": None, "b:9003": LEADER}
    assert obstacle(["a:9003", "b:9003"], lambda url: asked[url[7:13]] if "health" in url else "s:1") == ""
    now = [0.0]
    left = wait(["a:9003"], 5, lambda url: None, lambda s: now.__setitem__(0, now[0] + s), lambda: now[0])
    assert "no master" in left and now[0] == 5


# -- preflight of a whole host ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("site", "asked"), [("vllm-tp8", True), ("gqa", False)])
def test_mooncakes_libraries_are_asked_for_where_an_environment_loads_them(
    tmp_path: Path, site: str, asked: bool
) -> None:
    found = aggregate._missing_tools(EngineHost(tmp_path), "debian", {"inference": dump(planned(site))})
    assert bool(found) == asked and all("libibverbs" in item.observed for item in found)


def test_a_switch_that_was_cut_off_before_the_restart_is_known_afterwards(host: EngineHost) -> None:
    host.run_stage()
    unit = InferenceStage(host, planned(), host.ask, "vllm").units[0]
    assert not managed._written_since_start(host, unit)
    inference_env._point(host, "/opt/g35/inference/vllm/current", "0.33.0-newer")
    assert managed._written_since_start(host, unit)


def test_an_absent_environment_is_told_once(tmp_path: Path) -> None:
    host = EngineHost(tmp_path)
    found = [item["check"] for item in host.run_stage("verify").findings]
    assert found.count("inference.environment") == 1 and "inference.package" not in found


VLLM_METRICS = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 1.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 8.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 1.5e+03
vllm:generation_tokens_total{engine="0",model_name="m"} 20.0
"""
SGLANG_METRICS = """sglang:num_running_reqs{model_name="m",tp_rank="0"} 3.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 8.0
sglang:prompt_tokens_total{model_name="m"} 1500.0
sglang:generation_tokens_total{model_name="m"} 20.0
"""


@pytest.mark.parametrize("text", [VLLM_METRICS, SGLANG_METRICS])
def test_an_engine_says_what_it_has_to_do(host: EngineHost, text: str) -> None:
    host.metrics = text
    (engine,) = host.run_stage().state["engines"].values()
    assert engine["work"] == {"running": 3, "waiting": 8, "tokens": 1520}


@pytest.mark.parametrize("text", ["", "<html>", VLLM_METRICS.replace("8.0", "eight"), "vllm:num_requests_running 1.0"])
def test_an_engine_that_does_not_say_has_no_figures(host: EngineHost, text: str) -> None:
    host.metrics = text
    (engine,) = host.run_stage().state["engines"].values()
    assert engine["work"] is None and engine["healthy"]
