"""A small site on the loopback device, run with the very command lines that the planner renders, at native speed.

Each address of 127.0.0.0/8 is a host of its own. Nothing is installed and systemd is not needed: the ExecStartPre and
ExecStart lines of units are started as plain processes, with the variables of their environment files.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import kvprobe, runtime, storegate
from ansible.module_utils.g35.host import Host
from ansible.module_utils.g35.plans import CachePlan

from g35ctl.bundle import wheelhouse
from g35ctl.plan.build import build
from g35ctl.plan.model import Plan
from g35ctl.site.model import Fabric, HostPort, Mooncake, Site, SiteHost, SiteIdentity, Storage

VERSION, DISTRIBUTION = "0.3.13.post1", "mooncake-transfer-engine-non-cuda"
ETCD = "/usr/bin/etcd"


def free_ports(count: int) -> list[int]:
    """TCP ports nobody listens on, outside of the ranges that Mooncake picks from itself."""
    found: list[int] = []
    for port in range(20000 + os.getpid() % 4000 * 2, 32000):
        with socket.socket() as probe:
            if len(found) < count and probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mooncake's environment, built by the code that builds it on hosts; its prefix."""
    folder = wheelhouse.default_directory(DISTRIBUTION, VERSION)
    if not folder.is_dir():
        pytest.skip(f"no wheelhouse: g35ctl bundle create --distribution {DISTRIBUTION} --release {VERSION}")
    prefix = tmp_path_factory.mktemp("mooncake")
    wheels = wheelhouse.read(folder, DISTRIBUTION, VERSION)
    archive = prefix / "wheelhouse.tar"
    archive.write_bytes((folder / wheelhouse.ARCHIVE).read_bytes())
    plan = runtime.RuntimePlan(VERSION, DISTRIBUTION, wheels, str(folder), str(prefix), "g35")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runtime, "ARCHIVE", str(archive))
        runtime.install(Host(), plan)
    (prefix / "current").symlink_to(runtime.name_of(plan))
    return prefix


def host(number: int, prefix: Path, flash: Path | None, ports: list[int], **settings: Any) -> SiteHost:
    """A host of the site; ``flash`` makes it an owner."""
    groups = ["mooncake_masters"] if number <= int(settings.pop("masters", 1)) else []
    groups += ["etcd"] * bool(settings.pop("etcd", False)) + ["cache_owners"] * (flash is not None)
    mooncake = {
        "prefix": str(prefix),
        "master": {"rpc_port": ports[0], "metrics_port": ports[1], "lease": "1s", "client_ttl": 5},
        "etcd": {"client_port": ports[2], "peer_port": ports[3]},
        "store": {
            "segment_size": "64MiB", "local_buffer_size": "32MiB", "bucket_size": "4MiB", "rpc_port": ports[4],
            "http_port": ports[5], "use_uring": False, **settings,
        },
    }  # fmt: skip
    directories = [{"path": str(flash), "size": "1GiB"}] if flash else []
    return SiteHost(
        name=f"h{number}",
        groups=tuple(groups),
        ports=(HostPort.model_validate({"netdev": "lo", "rail": "a", "address": f"127.0.0.{10 + number}"}),),
        mooncake=Mooncake.model_validate(mooncake),
        storage=Storage.model_validate({"directories": directories}),
    )


def site(*hosts: SiteHost) -> Site:
    fabric = Fabric.model_validate({"transport": "tcp", "rails": [{"name": "a", "subnet": "127.0.0.0/8"}]})
    return Site(identity=SiteIdentity(name="loop"), fabric=fabric, hosts=hosts, inventory="none")


@dataclass
class Loop:
    """The running site. ``processes`` are named ``<host> <unit>``."""

    plan: Plan
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def cache(self, name: str) -> CachePlan:
        plan = self.plan.host(name).cache
        assert plan is not None
        return plan

    def unit(self, name: str, begins: str) -> tuple[str, str]:
        """Name and text of the unit of a host whose name begins so."""
        for item in self.cache(name).files:
            base = item.path.rpartition("/")[2]
            if base.startswith(begins) and base.endswith(".service"):
                return base, item.content
        raise LookupError(begins)

    def start(self, name: str, begins: str) -> None:
        """Do what systemd would: run ExecStartPre, then start ExecStart."""
        base, text = self.unit(name, begins)
        values = dict(os.environ)
        for item in self.cache(name).files:
            if item.path == _setting(text, "EnvironmentFile"):
                values |= dict(line.split("=", 1) for line in item.content.splitlines() if not line.startswith("#"))
        before = _setting(text, "ExecStartPre")
        if before:
            words = _words(before, values)
            gate = self.folder / "storegate.py"
            gate.write_text(Path(storegate.__file__).read_text())
            subprocess.run([str(gate) if "storegate.py" in word else word for word in words], check=True, timeout=120)
        argv = [
            w.replace("/var/lib/g35/etcd", f"{self.folder}/{name}-etcd")
            for w in _words(_setting(text, "ExecStart"), values)
        ]
        log = (self.folder / f"{name}-{base}.log").open("ab")
        self.processes[f"{name} {begins}"] = subprocess.Popen(argv, env=values, stdout=log, stderr=log)

    def kill(self, name: str, begins: str, number: int = signal.SIGKILL) -> None:
        process = self.processes.pop(f"{name} {begins}")
        process.send_signal(number)
        process.wait(30)

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(30)

    def log(self, name: str, begins: str) -> str:
        return (self.folder / f"{name}-{self.unit(name, begins)[0]}.log").read_text(errors="replace")

    # -- asking -----------------------------------------------------------------------------------------------------

    def health(self, name: str) -> Mapping[str, Any]:
        master = self.cache(name).master
        assert master is not None
        return ask(f"http://{master.address}:{master.metrics_port}/health")

    def text(self, name: str, path: str) -> str:
        """What a master's admin interface answers as plain text."""
        master = self.cache(name).master
        assert master is not None
        try:
            with urllib.request.urlopen(f"http://{master.address}:{master.metrics_port}{path}", timeout=2) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def leader(self) -> str:
        """The host whose master serves, or empty."""
        masters = [item.name for item in self.plan.hosts if item.cache is not None and item.cache.master is not None]
        return next((name for name in masters if self.health(name).get("service_ready") is True), "")

    @cached_property
    def prefix(self) -> str:
        return self.cache(self.plan.hosts[0].name).runtime.prefix

    def python(self, script: str, *arguments: str, **how: Any) -> subprocess.Popen[str]:
        """Start a script in Mooncake's environment, as a client of the pool."""
        probe = next(item.probe for item in self.plan.hosts if item.probe is not None)
        values = dict(os.environ) | {"MC_TCP_BIND_ADDRESS": "127.0.0.1", "MC_RPC_CONNECT_TIMEOUT_MS": "2000"}
        if probe.cluster_id:
            values["MC_STORE_CLUSTER_ID"] = probe.cluster_id
        return subprocess.Popen(
            [f"{self.prefix}/current/bin/python", "-I", "-c", script, *arguments],
            env=values, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how,
        )  # fmt: skip

    def probe(self, action: str, token: str = "loop", seconds: float = 60) -> dict[str, Any]:
        """The product's own functional probe: write values to flash, read them all back, or remove them."""
        plan = next(item.probe for item in self.plan.hosts if item.probe is not None)
        job = {
            "action": action, "token": token, "writer": "h1", "seconds": seconds, "local_address": "127.0.0.1",
            "protocol": "tcp", "devices": "", "master_rpc": plan.master_rpc, "master_admin": plan.master_admin,
            "segments": {owner: list(names) for owner, names in plan.segments.items()}, "value_size": 2**20,
            "segment_size": plan.segment_size, "bucket_size": plan.bucket_size, "keys": 8,
        }  # fmt: skip
        done = self.python(Path(kvprobe.__file__).read_text(), json.dumps(job))
        out, err = done.communicate(timeout=seconds + 120)
        assert done.returncode == 0, err[-3000:]
        return dict(json.loads(out.splitlines()[-1]))


def ask(url: str) -> Mapping[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return dict(json.load(answer))
    except (OSError, ValueError):
        return {}


def wait(condition: Callable[[], Any], seconds: float = 60) -> float:
    """Wait until it holds; how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it never came true"
        time.sleep(0.1)
    return time.monotonic() - began


def _setting(text: str, name: str) -> str:
    joined = text.replace("\\\n", " ")
    return next((line.split("=", 1)[1] for line in joined.splitlines() if line.startswith(name + "=")), "")


def _words(line: str, values: Mapping[str, str]) -> list[str]:
    words = shlex.split(line)
    words = [word.replace("${G35_DEVICES}", values.get("G35_DEVICES", "")) for word in words]
    return [sys.executable if word == "/usr/bin/python3" else word for word in words]


@pytest.fixture
def start(environment: Path, tmp_path: Path) -> Iterator[Callable[..., Loop]]:
    """Starts a site: ``start(masters=1, etcd=0, owners=1)``; everything is stopped at the end."""
    made: list[Loop] = []

    def begin(masters: int = 1, etcd: int = 0, owners: int = 1, **settings: Any) -> Loop:
        ports = free_ports(6)
        hosts = []
        for number in range(1, max(masters, etcd, owners) + 1):
            flash = tmp_path / f"flash{number}" if number <= owners else None
            if flash:
                (flash / "store").mkdir(parents=True)
            hosts.append(host(number, environment, flash, ports, masters=masters, etcd=number <= etcd, **settings))
        loop = Loop(build(site(*hosts)), tmp_path)
        made.append(loop)
        for number in range(1, etcd + 1):
            loop.start(f"h{number}", "g35-etcd")
        for number in range(1, masters + 1):
            loop.start(f"h{number}", "g35-mooncake-master")
        wait(loop.leader)
        for number in range(1, owners + 1):
            loop.start(f"h{number}", "g35-mooncake-store")
        for number in range(1, owners + 1):
            store = loop.cache(f"h{number}").store
            assert store is not None
            where = f"http://{store.instances[0].address}:{store.instances[0].http_port}/health"
            wait(lambda where=where: ask(where).get("status") == "healthy")
        return loop

    yield begin
    for loop in made:
        loop.end()
