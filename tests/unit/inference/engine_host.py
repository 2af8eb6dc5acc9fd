"""A host with engines: files below a root, systemd, podman, and what services answer over HTTP."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.module_utils.g35 import inference_env
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.inference import InferenceStage
from ansible.module_utils.g35.plans import RuntimePlan, Wheel
from ansible.module_utils.g35.plans_inference import InferencePlan
from samples import inference


def wheel(name: str, version: str, members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n")
        for path, text in members.items():
            archive.writestr(path, text)
    return buffer.getvalue()


WHEELS = {
    "vllm-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl": wheel("vllm", "0.32.0", {
        "vllm/__init__.py": "",
        "vllm-0.32.0.dist-info/entry_points.txt": "[console_scripts]\nvllm = vllm.entrypoints.cli.main:main\n",
        "vllm-0.32.0.data/data/lib/libiomp5.so": "binary",
    }),
    "mooncake_transfer_engine-0.3.13.post1-cp311-cp311-manylinux_2_28_x86_64.whl": wheel(
        "mooncake_transfer_engine", "0.3.13.post1", {"mooncake/store.py": ""}
    ),
}  # fmt: skip


class EngineHost(Host):
    """``listed`` are the models an engine serves, ``healthy`` whether it answers well once it was started."""

    def __init__(self, root: Path) -> None:
        self.now = 0.0
        super().__init__(str(root), self.answer, sleep=self.pass_time, clock=lambda: self.now)
        self.writes: list[list[str]] = []
        self.active: set[str] = set()
        self.enabled: set[str] = set()
        self.images: set[str] = set()
        self.starts: dict[str, int] = {}
        self.healthy = True
        #: when the services became active, seconds of uptime; now it is 10,000
        self.started = 100.0
        self.listed = "llama-3.3-70b"
        self.metrics = ""
        self.put("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        self.put("/proc/uptime", "10000.00 20000.00\n")
        self.put("/proc/meminfo", f"MemTotal: {2**30} kB\n")
        self.put("/usr/bin/python3.11", "")
        self.put("/srv/models/llama-3.3-70b/config.json", "{}")
        for index in range(8):
            self.put(f"/dev/nvidia{index}", "")
        for netdev in ("enp65s0f0np0", "enp65s0f1np1"):
            self.put(f"/sys/class/infiniband/mlx5_{netdev[-1]}/parent", f"{netdev}\n")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def put(self, path: str, text: str) -> None:
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)

    def push(self, distribution: str = "vllm") -> None:
        """What the role's copy task does."""
        path = self.path(inference_env.ARCHIVE % distribution)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w") as tar:
            for name, data in WHEELS.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))

    def answer(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        words = list(argv)
        if words[:2] == ["systemctl", "show"]:
            return Result(words, 0, "\n\n".join(self.show(name) for name in words[5:]) + "\n", "")
        if words[:3] == ["podman", "image", "exists"]:
            return Result(words, 0 if words[3] in self.images else 1, "", "")
        self.writes.append(words)
        if words[0] == "useradd":
            self.put("/etc/passwd", "g35:x:990:989::/var/lib/g35:/usr/sbin/nologin\n")
        elif words[1:3] == ["-m", "venv"]:
            self.path(words[-1] + "/bin").mkdir(parents=True)
        elif words[:2] == ["podman", "pull"]:
            self.images.add(words[-1])
        elif words[0] == "systemctl" and len(words) > 2:
            self.systemctl(words[1], words[-1])
        return Result(words, 0, "", "")

    def show(self, name: str) -> str:
        state = "active" if name in self.active else "inactive"
        enabled = "enabled" if name in self.enabled else "disabled"
        restarts = self.starts.get(name, 0)
        since = int(self.started * 1e6) if name in self.active else 0
        return (
            f"Id={name}\nActiveState={state}\nUnitFileState={enabled}\nNeedDaemonReload=no\nNRestarts={restarts}"
            f"\nActiveEnterTimestampMonotonic={since}"
        )

    def systemctl(self, verb: str, name: str) -> None:
        if verb == "enable":
            self.enabled.add(name)
        elif verb == "restart":
            self.active.add(name)
        elif verb in ("disable", "stop"):
            self.active.discard(name)
            if verb == "disable":
                self.enabled.discard(name)

    def ask(self, url: str, timeout: float) -> tuple[int, str]:
        if not any(name.startswith("g35-") for name in self.active):
            return 0, ""
        if url.endswith("/health"):
            return (200, "") if self.healthy else (503, "")
        if url.endswith("/metrics"):
            return 200, self.metrics
        return 200, json.dumps({"data": [{"id": self.listed}]})

    def run_stage(self, action: str = "apply", plan: InferencePlan | None = None, **options: Any) -> Outcome:
        part = options.pop("part", "vllm")
        return act(InferenceStage(self, plan or planned(), self.ask, part), action, **options)


def planned(site: str = "vllm-tp8", host: str = "gpu1") -> InferencePlan:
    """The plan of a sample site's host, with wheels to build its environment from."""
    plan = inference(site, host)
    wheels = tuple(Wheel(name, hashlib.sha256(data).hexdigest()) for name, data in WHEELS.items())
    made = tuple(replace(item, wheels=wheels) if item.distribution == "vllm" else item for item in plan.runtimes)
    assert all(isinstance(item, RuntimePlan) for item in made)
    return replace(plan, runtimes=made)
