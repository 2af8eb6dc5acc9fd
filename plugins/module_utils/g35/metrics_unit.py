"""The metrics collector as a part of stage fabric, which every host with data ports has: what it needs, and how it
leaves again.
"""

from __future__ import annotations

import json
from typing import Any, List, Sequence

# Imported so that they are packed into the module: their source is sent on to the host.
from . import exporter, textfile  # noqa: F401
from .converge import Change
from .host import Host
from .managed import CONFIG, removal_changes
from .plans import File, Unit

TIMER = "g35-metrics.timer"
SETTINGS = CONFIG + "/metrics.json"
_UNITS = "/etc/systemd/system"
#: modules of this package that the stage, and so its boot unit, needs for this
MODULES = (
    "connecting", "dhchap", "exporter", "marker", "metric_catalogue", "metrics_unit", "nvme", "port_metrics", "rdma",
    "textfile",
)  # fmt: skip


def planned(units: Sequence[Unit]) -> bool:
    """Whether the plan has the collector."""
    return any(unit.name == TIMER for unit in units)


def left_over(host: Host, units: Sequence[Unit]) -> List[Change]:
    """What removes a collector that the plan no longer has."""
    if planned(units) or not host.exists(SETTINGS):
        return []
    files = (File("%s/g35-metrics.service" % _UNITS, ""), File("%s/%s" % (_UNITS, TIMER), ""), File(SETTINGS, ""))
    return output_removal(host) + removal_changes(host, files, (Unit(TIMER),))


def output_removal(host: Host) -> List[Change]:
    """What removes the last values, which would otherwise be exported for ever."""
    try:
        directory = str(json.loads(host.read(SETTINGS) or "{}")["directory"])
    except (ValueError, LookupError, TypeError):
        return []
    paths = ["%s/%s" % (directory, name) for name in (exporter.FILE, exporter.DRIFT_FILE)]
    return [Change(path, "present", "absent", _remover(host, path)) for path in paths if host.exists(path)]


def _remover(host: Host, path: str) -> Any:
    return lambda: host.remove_file(path)
