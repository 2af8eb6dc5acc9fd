"""A site that states its workload: what ``check``, ``plan`` and ``simulate`` make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from g35ctl.cli.main import app
from g35ctl.content import content_root
from g35ctl.engine.planning import make_plan
from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.plan.workload.inherit import effective_workload
from g35ctl.report.plan_text import sections
from g35ctl.site.load import inspect
from g35ctl.site.workload_model import Workload

PUBLISHED = content_root() / "inventories" / "published"
SITE = """\
all:
  vars:
    g35_site: {name: test}
    g35_fabric: {mtu: 4200, rails: [{name: a, subnet: 192.0.2.0/24}]}
    g35_validate: {workload: WORKLOAD}
  children:
    gpu_hosts:
      hosts:
        gpu1: {g35_ports: [{netdev: eth1, rail: a, address: 192.0.2.21}]}
    mooncake_masters: {hosts: {gpu1: }}
    ebof:
      hosts:
        ebof1:
          g35_ebof:
            driver: static
            portals: [{address: 192.0.2.11, rail: a}]
            namespaces:
              - {nqn: "nqn.2026-01.io.g35ctl:t:s1", uuid: 0d1f7e1c-30a5-4a7b-8a51-6d9d4f1b0001, size: 1TiB}
"""


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("G35_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str):
    monkeypatch.setattr("sys.argv", ["g35ctl", *arguments])
    return CliRunner().invoke(app, list(arguments))


def site(folder: Path, workload: str) -> Path:
    (folder / "hosts.yml").write_text(SITE.replace("WORKLOAD", workload), encoding="utf-8")
    return folder / "hosts.yml"


def config(folder: Path, text: str) -> str:
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "config.json").write_text(text, encoding="utf-8")
    return "models"


GQA = '{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 64}'


def test_the_published_set_up_is_planned_with_its_figures() -> None:
    plan = make_plan(str(PUBLISHED))[1]
    assert plan.workload is not None
    assert plan.workload.bytes_per_token == 70_272
    assert 32 < (plan.workload.knee("local") or 0) < 48
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    text = "\n".join(" ".join(row) for section in sections(plan) for row in (section.columns, *section.rows))
    for wanted in ("11.24 GB", "falls off", "assumed prices of 2026-12-01", "32.0 requests/s", "44.5"):
        assert wanted in text


def test_a_workload_asks_nothing_of_any_host(tmp_path: Path) -> None:
    without = make_plan(str(site(tmp_path, "null")))[1]
    config(tmp_path, GQA)
    given = make_plan(str(site(tmp_path, "{config_json: models, tiers: {memory: 1GB}}")))[1]
    assert without.workload is None
    assert given.workload is not None
    assert given.workload.attention == "MHA"
    assert given.digest == without.digest
    assert "Workload (predicted)" not in [section.title for section in sections(without)]


@pytest.mark.parametrize(
    ("text", "workload", "told", "where"),
    [
        (GQA, "{tiers: {memory: 1GB}}", "names no model", "g35_validate.workload"),
        (GQA, "{config_json: absent, tiers: {memory: 1GB}}", "there is no file", "g35_validate.workload.config_json"),
        ("[1", "{config_json: models, tiers: {memory: 1GB}}", "cannot be read", "g35_validate.workload.config_json"),
        (
            "[1]",
            "{config_json: models, tiers: {memory: 1GB}}",
            "not a JSON object",
            "g35_validate.workload.config_json",
        ),
        ("{}", "{config_json: models, tiers: {memory: 1GB}}", "num_hidden_layers", "g35_validate.workload.config_json"),
    ],
)
def test_a_model_that_is_not_known_is_an_error_with_its_place(
    tmp_path: Path, text: str, workload: str, told: str, where: str
) -> None:
    config(tmp_path, text)
    found, problems = inspect(str(site(tmp_path, workload)))
    assert found is None
    (problem,) = [item for item in problems if item.severity == "error"]
    assert told in problem.what
    assert problem.where == where
    assert problem.position.line == 5
    assert problem.hint


INFERENCE = """\
    g35_inference:
      engine: sglang
      kv_dtype: fp8_e4m3
      model: {path: /srv/models/m, name: m, attention: mla, layers: 61, weights: 640GB}
      parallelism: {tensor: 4, data: 2, data_attention: true}
      tiers: {gpu_memory: 141GB, host_cache: 250GB}
"""


def test_what_the_workload_leaves_out_comes_from_the_site(tmp_path: Path) -> None:
    path = site(tmp_path, "{bytes_per_token: 70272}")
    workload = effective(path)
    assert (workload.groups, workload.kv_dtype, workload.tiers.device) == (0, None, 0)
    assert workload.tiers.memory == 4 * 2**30  # the segment of the one store
    path.write_text(
        path.read_text(encoding="utf-8").replace("  children:", f"{INFERENCE}  children:", 1), encoding="utf-8"
    )
    workload = effective(path)
    assert workload.kv_dtype == "fp8"
    assert workload.groups == 2
    assert workload.tiers.memory == 250 * 10**9
    # 90 % of an accelerator less its share of weights and 3 GiB; the four ranks of each data rank hold the same.
    per_rank = int(141e9 * 0.9) - 640 * 10**9 // 8 - 3 * 2**30
    assert workload.tiers.device == pytest.approx(2 * per_rank, rel=0.02)
    stated = site(tmp_path, "{bytes_per_token: 70272, kv_dtype: bf16, groups: 5, tiers: {memory: 1GB, device: 2GB}}")
    stated.write_text(
        stated.read_text(encoding="utf-8").replace("  children:", f"{INFERENCE}  children:", 1), encoding="utf-8"
    )
    workload = effective(stated)
    assert (workload.kv_dtype, workload.groups) == ("bf16", 5)
    assert (workload.tiers.memory, workload.tiers.device) == (10**9, 2 * 10**9)


def test_plans_and_measurements_are_made_with_the_same_numbers(tmp_path: Path) -> None:
    path = site(tmp_path, "{bytes_per_token: 70272, rounds: 3}, serving: {users: [2, 4], context: 9000, rounds: 7}")
    workload = effective(path)
    assert workload.users == (2, 4)
    assert workload.context_tokens == 9000
    assert workload.rounds == 3  # stated for itself
    assert workload.new_tokens == 2500  # stated nowhere


def effective(path: Path) -> Workload:
    found, problems = inspect(str(path))
    assert found is not None, problems
    workload = effective_workload(found, build(found).summary)
    assert workload is not None
    return workload


def test_prices_out_of_order_and_dates_are_checked(tmp_path: Path) -> None:
    path = site(tmp_path, "null")
    text = path.read_text(encoding="utf-8")
    dear = "{prices: {as_of: 2027-01-31, flash_gb: {low: 3, typical: 2, high: 4}}}"
    path.write_text(text.replace("{workload: null}", dear), encoding="utf-8")
    _, problems = inspect(str(path))
    assert any("not in order" in item.what for item in problems)
    path.write_text(text.replace("{workload: null}", dear.replace("low: 3", "low: 1")), encoding="utf-8")
    found, _ = inspect(str(path))
    assert found is not None
    assert found.validation.prices.as_of == "2027-01-31"


def test_simulate_prints_the_table_and_labels_it(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, "simulate", "--published", "--users", "8,48")
    assert done.exit_code == 0, done.output
    assert "Predicted, not measured: site published" in done.stdout
    assert "local: memory holds 44.5 contexts; falls off at 48 users" in done.stdout
    assert "g35: shared flash" in done.stdout
    rows = [line.split() for line in done.stdout.split("(predicted; seconds)")[1].split("\n\n")[0].splitlines()[2:]]
    assert [row[:2] for row in rows] == [[n, path] for n in ("8", "48") for path in ("local", "memory", "g35")]


def test_simulate_json_is_one_object_and_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (run(monkeypatch, "simulate", "--published", "--users", "48", "-o", "json").stdout for _ in "ab")
    document = json.loads(first)
    assert first == again
    assert document["ok"] is True
    assert document["predicted"] is True
    assert document["schema_version"] == 1
    assert document["fallen"] == {"local": 48, "memory": None, "g35": None}
    assert document["figures"]["cost"]["ratio"]["typical"] == pytest.approx(20)


def test_simulate_takes_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config(tmp_path, GQA)
    scenario = tmp_path / "small.yml"
    scenario.write_text(
        "hosts: 1\nflash: 1GB\nworkload: {config_json: models, users: [4], context_tokens: 4096, new_tokens: 64,"
        " tiers: {memory: 80MB}, timing: {cold_seconds: 0.4, overhead_seconds: 0.03, answer_seconds: 0}}\n",
        encoding="utf-8",
    )
    done = run(monkeypatch, "simulate", "--config", str(scenario), "-o", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["figures"]["bytes_per_token"] == 2048
    scenario.write_text("hosts: 0\nworkload: {userz: [4]}\n", encoding="utf-8")
    done = run(monkeypatch, "simulate", "--config", str(scenario))
    assert done.exit_code != 0
    assert "workload.userz" in done.exception.why  # type: ignore[union-attr]
    assert "hosts" in done.exception.why  # type: ignore[union-attr]


def test_simulate_says_what_a_site_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = run(monkeypatch, "-i", str(site(tmp_path, "null")), "simulate")
    assert "states no workload" in str(done.exception)
    assert run(monkeypatch, "simulate", "--published", "--users", "8,x").exit_code == 2
    assert run(monkeypatch, "simulate", "--published", "--config", "x").exit_code == 2
