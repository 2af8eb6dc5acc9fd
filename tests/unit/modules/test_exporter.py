"""What hosts export: paths against the plan, counters of three NIC families under one name, owners, drift."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible.module_utils.g35 import exporter, metrics_unit, port_metrics
from ansible.module_utils.g35.exporter import Sample
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.marker import Marker, write_marker
from ansible.module_utils.g35.metric_catalogue import METRICS
from ansible.module_utils.g35.plans import FabricPlan, FabricPort, Unit
from ansible.module_utils.g35.schema import dump
from nvme_kernel import SITE, Kernel, connect_plan, namespace_uuid, nqn
from test_python39 import later_than_39

PROMTOOL = shutil.which("promtool")
DIRECTORY = "/var/lib/prometheus/node-exporter"
MLX5 = """NIC statistics:
     rx_packets: 9
     rx_prio3_bytes: 4096
     rx_prio3_pause: 0
     tx_prio3_pause: 17
     tx_prio0_pause: 2
     rx_prio3_discards: 5
     ch0_events: 12
"""
BNXT = "     rx_pfc_ena_frames_pri3: 4\n     tx_bytes_pri3: 10\n     rx_roce_discards: 1\n"
ICE = "     tx_priority_3_xoff.nic: 6\n     rx_dropped.nic: 0\n"


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """A host with four planned paths, of which three are up and one is connecting, and two mounted namespaces."""
    kernel = Kernel(tmp_path)
    plan = connect_plan(units=())
    for number, path in enumerate(plan.paths):
        kernel.add_controller(path.nqn, path.address, path.source_address, "connecting" if number == 3 else "live")
    kernel.add_controller(nqn(3), "192.0.2.11", "192.0.2.21")  # a subsystem of the site that is not this host's
    kernel.put("/etc/g35ctl/connect.json", json.dumps(dump(plan)))
    ports = tuple(FabricPort(netdev, rail, "192.0.2.21", 24, 4200) for netdev, rail in (("eth1", "a"), ("eth2", "b")))
    fabric = FabricPlan(SITE, "rdma", ports, 26, 3, 48, 6, 106, 50)
    kernel.put("/etc/g35ctl/fabric.json", json.dumps(dump(fabric)))
    kernel.put("/sys/class/net/eth1/carrier_changes", "3")
    for name, value in {"np_cnp_sent": "7", "rp_cnp_handled": "0", "out_of_sequence": "0", "lifespan": "10"}.items():
        kernel.put(f"/sys/class/infiniband/rxe_eth1/ports/1/hw_counters/{name}", value)
    kernel.put("/sys/class/infiniband/rxe_eth1/ports/1/counters/port_rcv_data", "256")
    kernel.answers["ethtool"] = lambda words: Result(words, 0, MLX5 if words[-1] == "eth1" else "", "")
    settings = {"site": SITE, "host": "gpu1", "directory": DIRECTORY, "mount_root": "/flash", "drift_interval": 300}
    kernel.put("/etc/g35ctl/metrics.json", json.dumps(settings))
    for number, owner in ((0, "gpu1"), (1, "gpu2")):
        kernel.mount(f"nvme{number}n1", f"/flash/{namespace_uuid(number)}")
        write_marker(kernel.host, f"/flash/{namespace_uuid(number)}", Marker(SITE, owner, namespace_uuid(number), "n"))
    return kernel


def run(kernel: Kernel, now: float = 1000.0) -> dict[str, str]:
    """Collect once; series (name and labels) to value over both files."""
    assert exporter.run(kernel.host, lambda: now) == 0
    found = {}
    for name in (exporter.FILE, exporter.DRIFT_FILE):
        for line in kernel.path(f"{DIRECTORY}/{name}").read_text().splitlines():
            if not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                found[series] = value
    return found


def test_each_planned_path_is_up_or_down_whatever_else_is_connected(kernel: Kernel) -> None:
    seen = run(kernel)
    up = {series: value for series, value in seen.items() if series.startswith("g35_nvme_path_up")}
    assert sorted(up.values()) == ["0", "1", "1", "1"]
    down = next(series for series, value in up.items() if value == "0")
    assert f'subsystem="{nqn(1)}"' in down and 'portal="198.51.100.11:4420"' in down and 'rail="b"' in down
    assert any('state="connecting"' in series for series in seen if series.startswith("g35_nvme_path_state"))
    assert seen["g35_nvme_stale_controllers"] == "1" and seen["g35_namespaces_planned"] == "2"


def test_a_path_that_ana_forbids_is_down_though_its_controller_is_live(kernel: Kernel) -> None:
    for state in kernel.path("/sys/class/nvme/nvme0").glob("*/ana_state"):
        state.write_text("inaccessible\n")
    assert sorted(value for key, value in run(kernel).items() if key.startswith("g35_nvme_path_up")) == [
        "0",
        "0",
        "1",
        "1",
    ]


def test_a_path_without_a_controller_is_absent(kernel: Kernel) -> None:
    kernel.remove_controller("nvme0")
    seen = run(kernel)
    assert any('state="absent"' in series for series in seen)
    assert sum(value == "0" for series, value in seen.items() if series.startswith("g35_nvme_path_up")) == 2


def test_ports_are_told_by_priority_and_zero_is_told_too(kernel: Kernel) -> None:
    seen = run(kernel)
    place = 'netdev="eth1",rail="a"'
    assert seen[f'g35_port_pause_frames_total{{{place},direction="tx",priority="3",lossless="yes"}}'] == "17"
    assert seen[f'g35_port_pause_frames_total{{{place},direction="rx",priority="3",lossless="yes"}}'] == "0"
    assert seen[f'g35_port_pause_frames_total{{{place},direction="tx",priority="0",lossless="no"}}'] == "2"
    assert seen[f'g35_port_priority_bytes_total{{{place},direction="rx",priority="3",lossless="yes"}}'] == "4096"
    assert seen[f'g35_port_discards_total{{{place},counter="rx_prio3_discards"}}'] == "5"
    assert seen[f'g35_rdma_cnp_total{{{place},event="sent"}}'] == "7"
    assert seen[f'g35_rdma_cnp_total{{{place},event="handled"}}'] == "0"
    assert seen[f'g35_rdma_bytes_total{{{place},direction="rx"}}'] == "1024"
    assert not any("rx_packets" in series or "lifespan" in series for series in seen)


@pytest.mark.parametrize(
    ("told", "value"),
    [
        (BNXT, ("g35_port_pause_frames_total", ("rx", "3"), 4)),
        (BNXT, ("g35_port_priority_bytes_total", ("tx", "3"), 10)),
        (BNXT, ("g35_port_discards_total", ("rx_roce_discards",), 1)),
        (ICE, ("g35_port_pause_frames_total", ("tx", "3"), 6)),
    ],
)
def test_families_of_nics_are_brought_to_one_name(kernel: Kernel, told: str, value: tuple[object, ...]) -> None:
    kernel.answers["ethtool"] = lambda words: Result(words, 0, told, "")
    assert value in list(port_metrics.read(kernel.host, "eth1"))


def test_a_namespace_of_another_owner_is_not_ours(kernel: Kernel) -> None:
    seen = run(kernel)
    mounted = {
        series.partition('owner="')[2][:4]: value for series, value in seen.items() if "namespace_mounted" in series
    }
    assert mounted == {"gpu1": "1", "gpu2": "0"}
    for path in kernel.path(f"/flash/{namespace_uuid(0)}").iterdir():
        path.write_text("{")
    assert [value for key, value in run(kernel).items() if 'owner=""' in key and "mounted" in key] == ["0"]


def test_a_source_that_cannot_be_read_hides_no_other(kernel: Kernel) -> None:
    kernel.put("/etc/g35ctl/connect.json", "{")
    seen = run(kernel)
    assert seen['g35_exporter_source_success{source="paths"}'] == "0"
    assert seen['g35_exporter_source_success{source="ports"}'] == "1"
    assert any(series.startswith("g35_port_pause") for series in seen)


def test_drift_is_counted_by_stage_and_looked_for_at_its_own_pace(kernel: Kernel) -> None:
    seen = run(kernel)
    assert int(seen['g35_drift{stage="connect"}']) >= 1  # a path is connecting
    assert seen["g35_drift_timestamp_seconds"] == "1000"
    path = kernel.path(f"{DIRECTORY}/{exporter.DRIFT_FILE}")
    modified = int(path.stat().st_mtime)
    text = path.read_text()
    commands = len(kernel.commands)
    run(kernel, modified + 100.0)
    assert path.read_text() == text
    quiet = len(kernel.commands) - commands
    run(kernel, modified + 400.0)
    assert len(kernel.commands) - commands - quiet > quiet  # drift reads whole stages back
    assert f"g35_drift_timestamp_seconds {modified + 400}\n" in path.read_text()


def test_a_host_that_nothing_was_deployed_on_yet_exports_that_alone(tmp_path: Path, kernel: Kernel) -> None:
    for name in ("connect", "fabric"):
        kernel.path(f"/etc/g35ctl/{name}.json").unlink()
    seen = run(kernel)
    assert not any("path_up" in series or "g35_port" in series or "g35_drift{" in series for series in seen)
    assert {value for series, value in seen.items() if "source_success" in series} == {"1"}


def test_labels_are_escaped_and_only_the_catalogue_is_written() -> None:
    text = exporter.render([Sample("g35_exporter_info", 1, ('a"b', "c\\d\ne"))])
    assert text.splitlines()[-1] == 'g35_exporter_info{site="a\\"b",host="c\\\\d\\ne"} 1'
    with pytest.raises(KeyError):
        exporter.render([Sample("g35_made_up", 1)])
    with pytest.raises(ValueError, match="has the labels site, host"):
        exporter.render([Sample("g35_exporter_info", 1, ("x",))])


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian package prometheus) is not installed")
def test_prometheus_accepts_what_is_exported(kernel: Kernel) -> None:
    run(kernel)
    for name in (exporter.FILE, exporter.DRIFT_FILE):
        text = kernel.path(f"{DIRECTORY}/{name}").read_text()
        argv = [str(PROMTOOL), "check", "metrics"]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr


def test_names_and_kinds_are_as_prometheus_wants_them() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith("g35_") and (metric.kind == "counter") == metric.name.endswith("_total")


def test_turning_it_off_removes_it_with_its_last_values(kernel: Kernel) -> None:
    run(kernel)
    for name in ("g35-metrics.service", "g35-metrics.timer"):
        kernel.put(f"/etc/systemd/system/{name}", "[Unit]")
    kernel.units["g35-metrics.timer"] = ("active", "enabled")
    assert metrics_unit.left_over(kernel.host, (Unit("g35-metrics.timer"),)) == []
    for change in metrics_unit.left_over(kernel.host, ()):
        change.do()
    assert not list(kernel.path(DIRECTORY).iterdir()) and not list(kernel.path("/etc/systemd/system").iterdir())
    assert kernel.units["g35-metrics.timer"] == ("inactive", "disabled")
    assert metrics_unit.left_over(kernel.host, ()) == []


def test_a_boot_leaves_the_collector_where_it_is(kernel: Kernel) -> None:
    from ansible.module_utils.g35.fabric import FabricStage

    plan = FabricPlan(SITE, "tcp", (), 26, 3, 48, 6, 0, 50)  # as it rests on a host: without files and units
    booting, deploying = (FabricStage(kernel.host, plan, boots=boots) for boots in (False, True))
    assert not [item for item in booting.changes(booting.read()) if "metrics" in item.what]
    assert [item for item in deploying.changes(deploying.read()) if item.what == metrics_unit.SETTINGS]


def test_everything_the_collector_imports_is_carried_to_the_host() -> None:
    """Run from a directory that holds only what stage fabric's boot files are."""
    from ansible.module_utils.g35.fabric import FabricStage
    from ansible.module_utils.g35.host import Host
    from ansible.module_utils.g35.managed import LIBRARY

    plan = FabricPlan(SITE, "rdma", (), 26, 3, 48, 6, 106, 50)
    files = [item for item in FabricStage(Host("/nonexistent"), plan).files if item.path.startswith(LIBRARY)]
    assert not [item.path for item in files if list(later_than_39(item.content))]
    sources = {item.path.rpartition("/")[2]: item.content for item in files}
    script = (
        "import sys, json, types\n"
        "sources = json.load(sys.stdin)\n"
        "import importlib.abc, importlib.machinery\n"
        "class Carried(importlib.abc.MetaPathFinder, importlib.abc.Loader):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        file = '__init__.py' if name == 'g35' else name.rpartition('.')[2] + '.py'\n"
        "        if name.split('.')[0] != 'g35': return None\n"
        "        if file not in sources: raise ImportError('not carried: ' + file)\n"
        "        return importlib.machinery.ModuleSpec(name, self, is_package=name == 'g35')\n"
        "    def exec_module(self, module):\n"
        "        name = module.__name__\n"
        "        file = '__init__.py' if name == 'g35' else name.rpartition('.')[2] + '.py'\n"
        "        exec(compile(sources[file], file, 'exec'), module.__dict__)\n"
        "sys.meta_path.insert(0, Carried())\n"
        "import g35.textfile, g35.exporter, g35.fabric\n"
    )
    import sys

    argv = [sys.executable, "-I", "-c", script]
    done = subprocess.run(argv, input=json.dumps(sources), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
