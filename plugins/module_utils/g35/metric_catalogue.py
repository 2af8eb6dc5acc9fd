"""Every metric that g35ctl exports from hosts: the one list from which the collector writes, and from which dashboard,
alert rules and documentation are generated.

Only what no other exporter tells: the state of NVMe-oF paths against the plan, pause and congestion counters by
priority, who has which namespace mounted, and drift. Units are Prometheus' base units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Tuple


@dataclass(frozen=True)
class Metric:
    """A metric: its name, kind (gauge or counter), labels and meaning."""

    name: str
    kind: str
    labels: Tuple[str, ...]
    help: str


_PORT = ("netdev", "rail")

METRICS: Tuple[Metric, ...] = (
    Metric("g35_exporter_info", "gauge", ("site", "host"), "Always 1; names the site and the host in the inventory"),
    Metric(
        "g35_exporter_source_success",
        "gauge",
        ("source",),
        "1 when a source could be read: paths, ports, namespaces, drift",
    ),
    Metric("g35_exporter_duration_seconds", "gauge", (), "Time the last collection took"),
    Metric("g35_exporter_timestamp_seconds", "gauge", (), "When the last collection ended, Unix time"),
    Metric(
        "g35_nvme_path_up",
        "gauge",
        ("subsystem", "portal", "source", "rail"),
        "1 for a planned path whose controller is live and whose ANA state lets it carry I/O",
    ),
    Metric(
        "g35_nvme_path_state",
        "gauge",
        ("subsystem", "portal", "source", "rail", "state"),
        "Always 1; state is what the kernel says of the controller, absent where there is none",
    ),
    Metric(
        "g35_nvme_stale_controllers", "gauge", (), "Controllers of the site's subsystems that no planned path asks for"
    ),
    Metric(
        "g35_port_pause_frames_total",
        "counter",
        (*_PORT, "direction", "priority", "lossless"),
        "PFC pause frames by priority; lossless is yes for the priority of the traffic contract",
    ),
    Metric(
        "g35_port_priority_bytes_total", "counter", (*_PORT, "direction", "priority", "lossless"), "Bytes by priority"
    ),
    Metric(
        "g35_port_discards_total",
        "counter",
        (*_PORT, "counter"),
        "Packets that the port dropped, by the NIC's own name",
    ),
    Metric("g35_port_carrier_changes_total", "counter", _PORT, "How often the link went down or up"),
    Metric("g35_rdma_bytes_total", "counter", (*_PORT, "direction"), "Bytes that RDMA moved"),
    Metric(
        "g35_rdma_cnp_total",
        "counter",
        (*_PORT, "event"),
        "Congestion notification packets: sent (as receiver), handled and ignored (as sender)",
    ),
    Metric("g35_rdma_ecn_marked_total", "counter", _PORT, "RoCE packets that arrived marked for congestion"),
    Metric(
        "g35_rdma_errors_total",
        "counter",
        (*_PORT, "counter"),
        "Losses and retransmissions of RDMA, by the NIC's own name; none of these should grow",
    ),
    Metric("g35_namespaces_planned", "gauge", (), "Namespaces that this host owns in the plan"),
    Metric(
        "g35_namespace_mounted",
        "gauge",
        ("namespace", "mount_point", "owner"),
        "1 for a mounted namespace whose marker names this host as owner, 0 for another owner or no readable marker",
    ),
    Metric("g35_drift", "gauge", ("stage",), "Findings of a stage that does not hold as deployed; 0 when it holds"),
    Metric("g35_drift_timestamp_seconds", "gauge", (), "When drift was last looked for, Unix time"),
)

BY_NAME: Dict[str, Metric] = {metric.name: metric for metric in METRICS}
