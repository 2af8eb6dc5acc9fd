"""Dashboard and alert rules name only metrics that exist, are what is packaged, and fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.g35.metric_catalogue import METRICS

from g35ctl.content import content_root
from g35ctl.report import monitoring

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian package prometheus) is not installed")
PACKAGED = content_root() / "templates" / "monitoring"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"

PATH = 'g35_nvme_path_up{instance="gpu1",subsystem="nqn.a",portal="192.0.2.11:4420",source="192.0.2.21",rail="%s"}'
MOUNTED = 'g35_namespace_mounted{instance="%s",namespace="u1",mount_point="/f/u1",owner="%s"}'
PAUSE = 'g35_port_pause_frames_total{instance="gpu1",netdev="eth1",rail="a",direction="rx",priority="%d",lossless="%s"}'
DISCARDS = 'g35_port_discards_total{instance="gpu1",netdev="eth1",rail="a",counter="%s"}'
# What is told over time (one sample a minute), and which alerts are active after how long.
CASES: dict[str, tuple[dict[str, str], str, set[str]]] = {
    "healthy": (
        {PATH % "a": "1x20", PATH % "b": "1x20", MOUNTED % ("gpu1", "gpu1"): "1x20",
         'g35_namespaces_planned{instance="gpu1"}': "1x20", 'g35_drift{instance="gpu1",stage="fabric"}': "0x20",
         PAUSE % (3, "yes"): "0+600x20", PAUSE % (0, "no"): "5x20", DISCARDS % "rx_prio3_discards": "2x20",
         'g35_exporter_timestamp_seconds{instance="gpu1"}': "0+60x20"},
        "15m", set(),
    ),
    "one path down": ({PATH % "a": "1x20", PATH % "b": "0x20"}, "5m", {"G35PathDown"}),
    "no path": ({PATH % "a": "0x20", PATH % "b": "0x20"}, "5m", {"G35PathDown", "G35NamespaceUnreachable"}),
    "two owners": (
        {MOUNTED % ("gpu1", "gpu1"): "1x20", MOUNTED % ("gpu2", "gpu1"): "0x20"}, "5m",
        {"G35TwoOwners", "G35NamespaceNotOurs"},
    ),
    "not mounted at all": ({'g35_namespaces_planned{instance="gpu1"}': "2x20"}, "5m", {"G35NamespaceMissing"}),
    "one of two mounted": (
        {'g35_namespaces_planned{instance="gpu1"}': "2x20", MOUNTED % ("gpu1", "gpu1"): "1x20"}, "5m",
        {"G35NamespaceMissing"},
    ),
    "drops on the storage priority": ({DISCARDS % "rx_prio3_discards": "0+9x20"}, "12m", {"G35LosslessDiscards"}),
    "drops elsewhere": ({DISCARDS % "rx_discards_phy": "0+9x20"}, "12m", set()),
    "pause on another priority": ({PAUSE % (0, "no"): "0+9x30"}, "25m", {"G35PauseOnOtherPriority"}),
    "a pause storm": ({PAUSE % (3, "yes"): "0+60000000x20"}, "10m", {"G35PauseStorm"}),
    "drift": ({'g35_drift{instance="gpu1",stage="fabric"}': "2x30"}, "20m", {"G35Drift"}),
    "a collector that stopped": (
        {'g35_exporter_timestamp_seconds{instance="gpu1"}': "0x20"}, "15m", {"G35ExporterStale"},
    ),
    "a collector that cannot see": (
        {'g35_exporter_source_success{instance="gpu1",source="paths"}': "0x20"}, "10m", {"G35ExporterBlind"},
    ),
    "lossy rdma": (
        {'g35_rdma_errors_total{instance="gpu1",netdev="eth1",rail="a",counter="out_of_sequence"}': "0+1x30"}, "25m",
        {"G35RdmaErrors"},
    ),
    "full flash": (
        {"master_allocated_file_size_bytes": "97x60", "master_total_file_capacity_bytes": "100x60"}, "45m",
        {"G35FlashFull"},
    ),
}  # fmt: skip


def test_rules_and_panels_name_only_metrics_that_are_exported() -> None:
    assert monitoring.unknown() == set()
    used = {
        name
        for text in [rule.expression for rule in monitoring.ALERT_RULES]
        + [expression for panel in monitoring.PANELS for expression, _ in panel.queries]
        for name in monitoring.named(text)
    }
    silent = {metric.name for metric in METRICS} - used - {"g35_exporter_info"}
    assert silent == set(), "exported, and shown nowhere"


def test_what_is_packaged_is_what_is_generated() -> None:
    for name, content in monitoring.files().items():
        assert (PACKAGED / name).read_text() == content, "make docs"
    assert monitoring.reference() in DOCS.read_text()


def test_every_alert_is_documented_and_says_what_to_do() -> None:
    rules = yaml.safe_load(monitoring.alerts())["groups"][0]["rules"]
    documented = DOCS.read_text()
    for rule in rules:
        assert f"`{rule['alert']}`" in documented
        assert rule["labels"]["severity"] in ("warning", "critical") and rule["annotations"]["remedy"]
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        known = {label for metric in METRICS for label in metric.labels} | {"instance"}
        assert labels <= known


def test_the_dashboard_is_one_that_grafana_loads() -> None:
    model = json.loads((PACKAGED / monitoring.DASHBOARD).read_text())
    assert model["schemaVersion"] >= 36 and model["uid"] and model["title"]
    panels = model["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] in ("timeseries", "stat", "table") and panel["targets"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${source}"} and target["expr"]
    assert [item["name"] for item in model["templating"]["list"]] == ["source"]


@needs_promtool
def test_prometheus_accepts_the_rules_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = [expression for panel in monitoring.PANELS for expression, _ in panel.queries]
    group = {"name": "panels", "rules": [{"record": f"q:{n}", "expr": text} for n, text in enumerate(queries)]}
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [group]}))
    for path in (PACKAGED / monitoring.ALERTS, tmp_path / "queries.yml"):
        done = subprocess.run([str(PROMTOOL), "check", "rules", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    names = [rule.name for rule in monitoring.ALERT_RULES]
    assert set(names) == {name for _, _, active in CASES.values() for name in active}, "an alert without a case"
    tests = []
    for title, (series, moment, active) in CASES.items():
        fed = [{"series": name, "values": values} for name, values in series.items()]
        # Asked of Prometheus' own ALERTS series, so that the annotations need no copy here.
        expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(active)]
        query = 'group by (alertname) (ALERTS{alertstate="firing"})'
        tests.append(
            {"name": title, "interval": "1m", "input_series": fed,
             "promql_expr_test": [{"expr": query, "eval_time": moment, "exp_samples": expected}]}
        )  # fmt: skip
    shutil.copy(PACKAGED / monitoring.ALERTS, tmp_path / "rules.yml")
    (tmp_path / "tests.yml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": tests})
    )
    argv = [str(PROMTOOL), "test", "rules", "tests.yml"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
