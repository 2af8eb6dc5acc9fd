"""The Grafana dashboard and the Prometheus alert rules, generated from the metric catalogue.

They are package data (templates/monitoring), made by ``make docs`` and compared by ``make lint``. A panel or a rule can
only name a metric that the catalogue has, or one that Mooncake's master itself exports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.g35.metric_catalogue import BY_NAME, METRICS

from g35ctl.content import content_root

DASHBOARD, ALERTS = "g35-dashboard.json", "g35-alerts.yml"
#: what the rules and panels use of Mooncake's master, which exports it itself on its admin port
MASTER_METRICS = frozenset(
    {
        "master_allocated_file_size_bytes", "master_total_file_capacity_bytes", "master_active_clients",
        "master_key_count", "total_get_nums_", "valid_get_nums_", "mem_cache_hit_bytes_total",
        "file_cache_hit_bytes_total",
    }
)  # fmt: skip
_NAME = re.compile(
    r"\b(?:g35_[a-z0-9_]+|master_[a-z_]+|(?:total|valid)_get_nums_|(?:mem|file)_cache_hit_bytes_total)\b"
)


@dataclass(frozen=True)
class Alert:
    """One alert rule; ``pending`` is how long the expression must hold."""

    name: str
    expression: str
    pending: str
    severity: str
    summary: str
    remedy: str


@dataclass(frozen=True)
class Panel:
    """One panel: its queries with their legends, and the unit of its axis (Grafana's name)."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12


_RATE = "[5m]"

ALERT_RULES: tuple[Alert, ...] = (
    Alert(
        "G35PathDown", "g35_nvme_path_up == 0", "1m", "warning",
        "A path of {{ $labels.instance }} to {{ $labels.subsystem }} on rail {{ $labels.rail }} is down",
        "g35ctl doctor",
    ),
    Alert(
        "G35NamespaceUnreachable", "sum by (instance, subsystem) (g35_nvme_path_up) == 0", "15s", "critical",
        "{{ $labels.instance }} has no path left to {{ $labels.subsystem }}", "g35ctl doctor",
    ),
    Alert(
        "G35TwoOwners", "count by (namespace) (g35_namespace_mounted) > 1", "0s", "critical",
        "Namespace {{ $labels.namespace }} is mounted on more than one host: its data is at risk",
        "unmount it on all but its owner (g35ctl plan) at once, then g35ctl doctor",
    ),
    Alert(
        "G35NamespaceNotOurs", "g35_namespace_mounted == 0", "1m", "critical",
        "{{ $labels.instance }} has {{ $labels.mount_point }} mounted, which names {{ $labels.owner }} as its owner",
        "g35ctl doctor",
    ),
    Alert(
        "G35NamespaceMissing",
        "g35_namespaces_planned - on (instance) (count by (instance) (g35_namespace_mounted == 1)"
        " or on (instance) 0 * g35_namespaces_planned) > 0",
        "2m", "critical",
        "{{ $labels.instance }} owns {{ $value }} namespaces that it has not mounted", "g35ctl deploy",
    ),
    Alert(
        "G35LosslessDiscards",
        'sum by (instance, netdev, counter) (increase(g35_port_discards_total{counter=~".*(roce|prio[0-9]).*"}[5m]))'
        " > 0",
        "5m", "critical",
        "{{ $labels.netdev }} of {{ $labels.instance }} drops storage traffic ({{ $labels.counter }}): the fabric"
        " is not lossless",
        "compare PFC and buffers of host and switch port: g35ctl doctor, g35ctl render",
    ),
    Alert(
        "G35PauseOnOtherPriority", 'increase(g35_port_pause_frames_total{lossless="no"}[10m]) > 0', "10m", "warning",
        "{{ $labels.netdev }} of {{ $labels.instance }} pauses priority {{ $labels.priority }}, which is not the"
        " storage priority",
        "PFC is on for another priority than the traffic contract's: g35ctl doctor",
    ),
    Alert(
        "G35PauseStorm", 'rate(g35_port_pause_frames_total{direction="rx"}[5m]) > 100000', "2m", "warning",
        "{{ $labels.netdev }} of {{ $labels.instance }} is paused by the network nearly all the time",
        "look for the slow receiver: the host whose tx pause frames grow",
    ),
    Alert(
        "G35RdmaErrors", "increase(g35_rdma_errors_total[10m]) > 0", "10m", "warning",
        "RDMA on {{ $labels.netdev }} of {{ $labels.instance }} loses or repeats packets ({{ $labels.counter }})",
        "g35ctl doctor",
    ),
    Alert(
        "G35Drift", "g35_drift > 0", "15m", "warning",
        "Stage {{ $labels.stage }} of {{ $labels.instance }} no longer holds as deployed",
        "g35ctl status names the difference, g35ctl deploy repairs it",
    ),
    Alert(
        "G35ExporterStale", "time() - g35_exporter_timestamp_seconds > 600", "0s", "warning",
        "{{ $labels.instance }} has not collected its metrics for ten minutes",
        "journalctl -u g35-metrics.service on the host",
    ),
    Alert(
        "G35ExporterBlind", "g35_exporter_source_success == 0", "5m", "warning",
        "{{ $labels.instance }} cannot read {{ $labels.source }}", "journalctl -u g35-metrics.service on the host",
    ),
    Alert(
        "G35FlashFull", "master_allocated_file_size_bytes / master_total_file_capacity_bytes > 0.95", "30m", "warning",
        "The KV pool's flash is nearly full: keys are evicted", "add SSDs or boxes (docs/deploy.md)",
    ),
)  # fmt: skip

PANELS: tuple[Panel, ...] = (
    Panel("Paths up", (("sum(g35_nvme_path_up)", "up"), ("count(g35_nvme_path_up)", "planned")), kind="stat", width=6),
    Panel(
        "Namespaces mounted",
        (("sum(g35_namespace_mounted)", "mounted"), ("sum(g35_namespaces_planned)", "planned")), kind="stat", width=6,
    ),
    Panel(
        "Hosts with drift", (("count(sum by (instance) (g35_drift) > 0) or vector(0)", "hosts"),), kind="stat", width=6
    ),
    Panel(
        "Flash used", (("master_allocated_file_size_bytes / master_total_file_capacity_bytes", "used"),),
        "percentunit", "stat", 6,
    ),
    Panel(
        "KV hit rate", ((f"rate(valid_get_nums_{_RATE}) / rate(total_get_nums_{_RATE})", "found"),), "percentunit"
    ),
    Panel(
        "Read from the pool",
        (
            (f"rate(file_cache_hit_bytes_total{_RATE})", "from flash"),
            (f"rate(mem_cache_hit_bytes_total{_RATE})", "from memory"),
        ),
        "Bps",
    ),
    Panel("Keys and stores", (("master_key_count", "keys"), ("master_active_clients", "stores"))),
    Panel(
        "RDMA throughput",
        ((f"sum by (instance, direction) (rate(g35_rdma_bytes_total{_RATE}))", "{{instance}} {{direction}}"),), "Bps",
    ),
    Panel(
        "Storage priority", (
            (
                f'sum by (instance, netdev, direction) (rate(g35_port_priority_bytes_total{{lossless="yes"}}{_RATE}))',
                "{{instance}} {{netdev}} {{direction}}",
            ),
        ),
        "Bps",
    ),
    Panel(
        "Pause frames",
        (
            (
                f"sum by (instance, netdev, direction, priority) (rate(g35_port_pause_frames_total{_RATE}))",
                "{{instance}} {{netdev}} {{direction}} {{priority}}",
            ),
        ),
        "pps",
    ),
    Panel(
        "Congestion notifications",
        (
            (f"sum by (instance, event) (rate(g35_rdma_cnp_total{_RATE}))", "{{instance}} CNP {{event}}"),
            (f"sum by (instance) (rate(g35_rdma_ecn_marked_total{_RATE}))", "{{instance}} ECN marked"),
        ),
        "pps",
    ),
    Panel(
        "Losses",
        (
            (f"increase(g35_port_discards_total{_RATE})", "{{instance}} {{netdev}} {{counter}}"),
            (f"increase(g35_rdma_errors_total{_RATE})", "{{instance}} {{netdev}} {{counter}}"),
            (f"increase(g35_port_carrier_changes_total{_RATE})", "{{instance}} {{netdev}} link"),
        ),
    ),
    Panel(
        "Paths that are down",
        (('g35_nvme_path_state{state!="live"}', "{{instance}} {{subsystem}} {{rail}} {{state}}"),),
        kind="table", width=24,
    ),
    Panel("Drift", (("g35_drift > 0", "{{instance}} {{stage}}"),), kind="table", width=12),
    Panel(
        "Collection",
        (
            ("time() - g35_exporter_timestamp_seconds", "{{instance}} age"),
            ("time() - g35_drift_timestamp_seconds", "{{instance}} drift age"),
            ("g35_exporter_duration_seconds", "{{instance}} takes"),
            ("g35_nvme_stale_controllers", "{{instance}} stale controllers"),
        ),
        "s",
    ),
)  # fmt: skip


def named(expression: str) -> set[str]:
    """The metrics that an expression names."""
    return set(_NAME.findall(expression))


def unknown() -> set[str]:
    """Metrics that a rule or panel names and nobody exports."""
    every = [rule.expression for rule in ALERT_RULES]
    every += [expression for panel in PANELS for expression, _ in panel.queries]
    return {name for text in every for name in named(text)} - set(BY_NAME) - MASTER_METRICS


def alerts() -> str:
    """The rules file."""
    rules = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            "for": rule.pending,
            "labels": {"severity": rule.severity},
            "annotations": {"summary": rule.summary, "remedy": rule.remedy},
        }
        for rule in ALERT_RULES
    ]
    head = "---\n# Generated from g35ctl/report/monitoring.py by `make docs`; changes here are overwritten.\n"
    return head + yaml.dump({"groups": [{"name": "g35", "rules": rules}]}, Dumper=_Indented, sort_keys=False, width=110)


class _Indented(yaml.SafeDumper):
    """Lists indented below their keys, as everywhere in this project."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def dashboard() -> dict[str, Any]:
    """The dashboard in Grafana's JSON model (schema version 39: Grafana 11)."""
    return {
        "uid": "g35-tier",
        "title": "G3.5 KV-cache tier",
        "tags": ["g35ctl"],
        "timezone": "browser",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}
            ]
        },
        "annotations": {"list": []},
        "panels": list(_panels()),
    }


def _panels() -> Iterator[Mapping[str, Any]]:
    x = y = last = 0
    for number, panel in enumerate(PANELS, 1):
        height = 4 if panel.kind == "stat" else 8
        if x + panel.width > 24:
            x, y = 0, y + last
        source = {"type": "prometheus", "uid": "${source}"}
        yield {
            "id": number,
            "title": panel.title,
            "type": panel.kind,
            "datasource": source,
            "gridPos": {"x": x, "y": y, "w": panel.width, "h": height},
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "options": {},
            "targets": [
                {
                    "refId": chr(ord("A") + place),
                    "datasource": source,
                    "expr": expression,
                    "legendFormat": legend,
                    "instant": panel.kind != "timeseries",
                    "format": "table" if panel.kind == "table" else "time_series",
                }
                for place, (expression, legend) in enumerate(panel.queries)
            ],
        }
        x, last = x + panel.width, height


def files() -> dict[str, str]:
    """Name to content of everything that is generated."""
    return {DASHBOARD: json.dumps(dashboard(), indent=1) + "\n", ALERTS: alerts()}


def write(directory: Path) -> tuple[Path, ...]:
    """Copy the packaged files to a directory. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name in (DASHBOARD, ALERTS):
        target = directory / name
        target.write_text((content_root() / "templates" / "monitoring" / name).read_text(encoding="utf-8"))
        written.append(target)
    return tuple(written)


def reference() -> str:
    """The table of metrics in docs/metrics.md."""
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{item.name}` | {item.kind} | {', '.join(f'`{label}`' for label in item.labels)} | {item.help} |"
        for item in METRICS
    ]
    return "\n".join(lines) + "\n"
