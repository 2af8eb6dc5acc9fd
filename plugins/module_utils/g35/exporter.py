"""Collects the metrics of a host and writes them for the node exporter's textfile collector.

Run by ``g35-metrics.service`` without any capability: it reads sysfs, netlink and the plans in /etc/g35ctl, and writes
two files. Drift, which reads whole stages back, is looked for less often and has a file of its own.
"""

from __future__ import annotations

import importlib
import json
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import port_metrics
from .connecting import judge
from .host import Host
from .marker import MarkerError, read_marker
from .metric_catalogue import BY_NAME, METRICS
from .nvme import read_mounts, read_topology
from .plans import ConnectPlan, FabricPlan
from .schema import SchemaError, load

CONFIG = "/etc/g35ctl"
FILE, DRIFT_FILE = "g35.prom", "g35_drift.prom"
#: stages whose plan rests on a host
_STAGES = ("target", "fabric", "connect")
_USABLE = ("optimized", "non-optimized", "")


@dataclass(frozen=True)
class Settings:
    """What /etc/g35ctl/metrics.json holds. ``drift_interval`` in seconds."""

    site: str
    host: str
    directory: str
    mount_root: str
    drift_interval: int


@dataclass(frozen=True)
class Sample:
    """One value of a metric of the catalogue."""

    name: str
    value: float
    labels: Tuple[str, ...] = ()


def run(host: Optional[Host] = None, now: Callable[[], float] = time.time) -> int:
    """Collect and write; returns the exit code: 0 also when a source cannot be read, which is a metric itself."""
    host = host or Host()
    settings = load(Settings, _json(host, "metrics"))
    began = now()
    samples = collect(host, settings)
    if _due(host, settings, began):
        found = list(_guarded("drift", lambda: drift(host)))
        found.append(Sample("g35_drift_timestamp_seconds", now()))
        _write(host, settings, DRIFT_FILE, found)
    samples += [
        Sample("g35_exporter_duration_seconds", round(now() - began, 3)),
        Sample("g35_exporter_timestamp_seconds", now()),
    ]
    _write(host, settings, FILE, samples)
    return 0


def collect(host: Host, settings: Settings) -> List[Sample]:
    """Everything but drift."""
    found = [Sample("g35_exporter_info", 1, (settings.site, settings.host))]
    found += _guarded("paths", lambda: paths(host))
    found += _guarded("ports", lambda: ports(host))
    found += _guarded("namespaces", lambda: namespaces(host, settings))
    return found


def _guarded(source: str, read: Callable[[], Iterator[Sample]]) -> List[Sample]:
    """One source that cannot be read must not hide the others."""
    try:
        found = list(read())
    except Exception as error:  # whatever it is, it is told by the metric and in the journal
        print("%s: %s: %s" % (source, type(error).__name__, error))
        return [Sample("g35_exporter_source_success", 0, (source,))]
    return [*found, Sample("g35_exporter_source_success", 1, (source,))]


def paths(host: Host) -> Iterator[Sample]:
    """Planned paths as the kernel has them; nothing on a host that connects to none."""
    data = _json(host, "connect", absent_is_fine=True)
    if data is None:
        return
    plan = load(ConnectPlan, data)
    topology = read_topology(host)
    judgement = judge(plan, topology)
    states = {id(path): item for path, item in judgement.live + judgement.in_transit}
    for path in plan.paths:
        item = states.get(id(path))
        labels = (path.nqn, "%s:%d" % (path.address, path.port), path.source_address, path.rail)
        usable = item is not None and item.live and all(entry.ana_state in _USABLE for entry in item.paths)
        yield Sample("g35_nvme_path_up", int(usable), labels)
        yield Sample("g35_nvme_path_state", 1, (*labels, item.state if item is not None else "absent"))
    yield Sample("g35_nvme_stale_controllers", len(judgement.stale))
    yield Sample("g35_namespaces_planned", len({path.nqn for path in plan.paths}))


def ports(host: Host) -> Iterator[Sample]:
    """Counters of the data ports."""
    data = _json(host, "fabric", absent_is_fine=True)
    if data is None:
        return
    plan = load(FabricPlan, data)
    for port in plan.ports:
        for name, labels, value in port_metrics.read(host, port.netdev):
            more: Tuple[str, ...] = ()
            if "lossless" in BY_NAME[name].labels:
                more = ("yes" if labels[-1] == str(plan.priority) else "no",)
            yield Sample(name, value, (port.netdev, port.rail, *labels, *more))


def namespaces(host: Host, settings: Settings) -> Iterator[Sample]:
    """Mounts below the site's root, and whom their markers name."""
    for entry in read_mounts(host):
        if not entry.mount_point.startswith(settings.mount_root.rstrip("/") + "/"):
            continue
        try:
            marker = read_marker(host, entry.mount_point)
        except (MarkerError, OSError):
            marker = None
        owner = marker.owner if marker is not None else ""
        names: Tuple[str, ...] = (entry.mount_point.rpartition("/")[2],)
        if marker is not None:
            names = marker.namespaces or (marker.namespace,)
        held = marker is not None and (marker.site, owner) == (settings.site, settings.host)
        for name in names:
            yield Sample("g35_namespace_mounted", int(held), (name, entry.mount_point, owner))


def drift(host: Host) -> Iterator[Sample]:
    """Read back every stage whose plan rests on this host, with the code that deployed it."""
    package = __name__.rpartition(".")[0]
    for name in _STAGES:
        plan = _json(host, name, absent_is_fine=True)
        if plan is None:
            continue
        stage = importlib.import_module("%s.%s" % (package, name)).boot_stage(host, plan)
        stage.wait = 0.0  # at boot it would give devices time to appear
        errors = [item for item in stage.findings(stage.read()) if item.severity == "error"]
        for item in errors:
            print("drift: %s %s: %s, expected %s" % (item.check, item.subject, item.observed, item.expected))
        yield Sample("g35_drift", len(errors), (name,))


def render(samples: Sequence[Sample]) -> str:
    """The text format, metrics in the catalogue's order. Raises KeyError for a metric that is not in it, ValueError for
    other labels than it says."""
    by_name: Dict[str, List[Sample]] = {}
    for sample in samples:
        if len(sample.labels) != len(BY_NAME[sample.name].labels):
            raise ValueError("%s has the labels %s" % (sample.name, ", ".join(BY_NAME[sample.name].labels)))
        by_name.setdefault(sample.name, []).append(sample)
    lines = []
    for metric in METRICS:
        if metric.name in by_name:
            lines += ["# HELP %s %s" % (metric.name, metric.help), "# TYPE %s %s" % (metric.name, metric.kind)]
            lines += [_line(sample, metric.labels) for sample in by_name[metric.name]]
    return "\n".join(lines) + "\n"


def _line(sample: Sample, names: Sequence[str]) -> str:
    pairs = ",".join('%s="%s"' % (name, _escaped(value)) for name, value in zip(names, sample.labels))
    value = "%d" % sample.value if float(sample.value).is_integer() else repr(float(sample.value))
    return "%s%s %s" % (sample.name, "{%s}" % pairs if pairs else "", value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _write(host: Host, settings: Settings, name: str, samples: Sequence[Sample]) -> None:
    host.write_file("%s/%s" % (settings.directory, name), render(samples), 0o644)


def _due(host: Host, settings: Settings, now: float) -> bool:
    try:
        last = host.path("%s/%s" % (settings.directory, DRIFT_FILE)).stat().st_mtime
    except OSError:
        return True
    return not 0 <= now - last < settings.drift_interval


def _json(host: Host, stage: str, absent_is_fine: bool = False) -> Optional[Mapping[str, Any]]:
    text = host.read("%s/%s.json" % (CONFIG, stage))
    if text is None and absent_is_fine:
        return None
    try:
        data = json.loads(text or "")
    except ValueError as error:
        raise SchemaError(stage, ["%s/%s.json: %s" % (CONFIG, stage, error)]) from error
    return data if isinstance(data, dict) else {}
