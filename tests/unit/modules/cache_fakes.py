"""A cache owner that is also the master: files below a root, systemd, nft and Mooncake's HTTP answers."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.g35 import flash, runtime
from ansible.module_utils.g35.cache import WHOLE, CacheStage
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import (
    CachePlan,
    File,
    MasterPlan,
    RuntimePlan,
    StoreInstance,
    StorePlan,
    Unit,
    Wheel,
)

UUID = "e61c112b-dd4f-53c7-b6b2-173d71f05d9b"
MOUNT = f"/var/lib/g35/flash/{UUID}"
STORE_UNIT = f"g35-mooncake-store-{UUID}.service"
MASTER_UNIT = "g35-mooncake-master.service"
SEGMENT = "192.0.2.21:50052"


def wheel(name: str, version: str, files: dict[str, str]) -> bytes:
    """A wheel file with these members; those below bin/ are executable."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nVersion: {version}\n")
        for path, text in files.items():
            member = zipfile.ZipInfo(path)
            member.external_attr = (0o755 if path.endswith("mooncake_master") else 0o644) << 16
            archive.writestr(member, text)
    return buffer.getvalue()


ENTRY_POINTS = "[console_scripts]\nmooncake_master = mooncake.cli:main\n"
WHEELS = {
    "mooncake_transfer_engine_non_cuda-0.3.13.post1-cp311-cp311-manylinux_2_28_x86_64.whl": wheel(
        "mooncake_transfer_engine_non_cuda",
        "0.3.13.post1",
        {
            "mooncake/mooncake_master": "binary",
            "mooncake/cli.py": "",
            "mooncake_transfer_engine_non_cuda-0.3.13.post1.dist-info/entry_points.txt": ENTRY_POINTS,
        },
    ),
    "certifi-2026.10.19-py3-none-any.whl": wheel("certifi", "2026.10.19", {"certifi/__init__.py": ""}),
    "requests-2.34.2-py3-none-any.whl": wheel("requests", "2.34.2", {"requests/__init__.py": ""}),
}
RULES = """table inet g35 {
\tset rails4 {
\t\ttype ipv4_addr
\t\telements = { 192.0.2.0/24, 198.51.100.0/24 }
\t}
\tchain mooncake {
\t\tiifname "lo" accept
\t\ttcp dport @ports counter drop
\t}
}
"""


def plan(**changes: Any) -> CachePlan:
    wheels = tuple(Wheel(name, hashlib.sha256(data).hexdigest()) for name, data in WHEELS.items())
    environment = RuntimePlan(
        "0.3.13.post1", "mooncake-transfer-engine-non-cuda", wheels, "/bundle", "/opt/g35/mooncake", "g35"
    )
    instance = StoreInstance(
        name=UUID, address="192.0.2.21", rpc_port=50052, http_port=9300, protocol="rdma", devices=("eth1",),
        segment_size=67108864, directory=f"{MOUNT}/store", namespace_uuid=UUID, capacity=2**29, unit=STORE_UNIT,
        mount_point=MOUNT, local_buffer_size=67108864,
    )  # fmt: skip
    parts: dict[str, Any] = {
        "site": "lab",
        "runtime": environment,
        "master": MasterPlan("lab", "192.0.2.21", 50051, 9003),
        "store": StorePlan("lab", "192.0.2.21:50051", (instance,), master_admin="192.0.2.21:9003"),
        "files": (
            File("/etc/g35ctl/g35.nft", RULES, "0600"),
            File(f"/etc/g35ctl/mooncake/{UUID}.env", "G35_DEVICES=@DEVICE:eth1@\n", "0640"),
            File(f"/etc/systemd/system/{MASTER_UNIT}", "[Service]\n"),
            File(f"/etc/systemd/system/{STORE_UNIT}", "[Service]\n"),
        ),
        "units": (
            Unit("g35-firewall.service", restart_on=("/etc/g35ctl/g35.nft",)),
            Unit(MASTER_UNIT, restart_on=(f"/etc/systemd/system/{MASTER_UNIT}",)),
            Unit(STORE_UNIT, restart_on=(f"/etc/g35ctl/mooncake/{UUID}.env",)),
        ),
    }
    return CachePlan(**{**parts, **changes})


class Owner(Host):
    """The host. ``writes`` lists commands that set something; services answer HTTP only while their unit is active."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), runner=self.answer, sleep=self.pass_time, clock=lambda: self.now)
        self.now = 0.0
        self.writes: list[list[str]] = []
        self.active: set[str] = set()
        self.enabled: set[str] = set()
        self.firewall: str | None = None
        self.protocol = "rdma"
        self.serving = True
        self.broken = False
        self.log = ""
        self.put("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        self.put("/proc/meminfo", "MemTotal: 2000000 kB\n")
        self.put("/usr/bin/python3.11", "")
        self.put("/sys/class/infiniband/rxe_eth1/parent", "eth1\n")
        self.mount(UUID)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def put(self, path: str, text: str) -> None:
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)

    def mount(self, uuid: str) -> None:
        """Mount a namespace where the store's belongs."""
        self.path(MOUNT).mkdir(parents=True, exist_ok=True)
        self.put("/proc/self/mountinfo", f"36 25 259:3 / {MOUNT} rw,noatime shared:1 - xfs /dev/nvme0n1 rw\n")
        self.put("/sys/dev/block/259:3/uuid", uuid + "\n")

    def unmount(self) -> None:
        self.put("/proc/self/mountinfo", "")

    def push(self) -> None:
        """What the role's copy task does."""
        self.path(runtime.ARCHIVE).parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(self.path(runtime.ARCHIVE), "w") as tar:
            for name, data in WHEELS.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))

    def answer(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        words = list(argv)
        if words[:2] == ["systemctl", "show"]:
            return Result(words, 0, "\n\n".join(self.show(name) for name in words[5:]) + "\n", "")
        if words[0] == "journalctl":
            return Result(words, 0 if self.log else 1, self.log, "")
        if words[:2] == ["nft", "--json"]:
            return self.rules(words)
        if words[-1] == "--version" and self.broken:
            return Result(words, 127, "", "libibverbs.so.1: cannot open shared object file")
        if words[-1] == "--version":
            return Result(words, 0, "mooncake_master version 0.3.13.post1", "")
        if words[1:3] == ["-I", "-c"]:
            return Result(words, 0, "0.3.13.post1\n", "")
        self.writes.append(words)
        return self.change(words)

    def show(self, name: str) -> str:
        known = self.exists(f"/etc/systemd/system/{name}") or name in self.active
        state = "active" if name in self.active else "inactive"
        enabled = "enabled" if name in self.enabled else ("disabled" if known else "")
        return f"Id={name}\nActiveState={state}\nUnitFileState={enabled}\nNeedDaemonReload=no"

    def rules(self, words: list[str]) -> Result:
        if self.firewall is None:
            return Result(words, 1, "", "No such file or directory")
        nets = [{"prefix": {"addr": "192.0.2.0", "len": 24}}, {"prefix": {"addr": "198.51.100.0", "len": 24}}]
        items: list[dict[str, Any]] = [{"set": {"name": "rails4", "elem": nets}}, {"rule": {}}, {"rule": {}}]
        return Result(words, 0, json.dumps({"nftables": items}), "")

    def change(self, words: list[str]) -> Result:
        if words[0] == "useradd":
            self.put("/etc/passwd", "root:x:0:0::/:\ng35:x:990:989::/var/lib/g35:/usr/sbin/nologin\n")
        elif words[1:3] == ["-m", "venv"]:
            self.path(words[-1] + "/bin").mkdir(parents=True)
        elif words[0] == "systemctl" and words[1] != "daemon-reload":
            self.systemctl(words[1:])
        return Result(words, 0, "", "")

    def systemctl(self, words: list[str]) -> None:
        name = words[-1]
        if words[0] == "enable":
            self.enabled.add(name)
        elif words[0] == "restart":
            self.active.add(name)
            if name == "g35-firewall.service":
                self.firewall = self.read("/etc/g35ctl/g35.nft")
        elif words[0] in ("disable", "stop"):
            self.active.discard(name)
            if words[0] == "disable":
                self.enabled.discard(name)

    def ask(self, url: str, timeout: float) -> str | None:
        if ":9300/" in url:
            return '{"status": "healthy", "code": 0}' if STORE_UNIT in self.active else None
        if MASTER_UNIT not in self.active:
            return None
        if url.endswith("/health"):
            return json.dumps({"role": "leader" if self.serving else "standby", "service_ready": self.serving})
        if url.endswith("/get_segments_detail"):
            listed = {
                "segment_name": SEGMENT, "protocol": self.protocol, "size_bytes": 67108864, "status": "OK",
            }  # fmt: skip
            return json.dumps({"segments": [listed] if STORE_UNIT in self.active else []})
        return "master_total_file_capacity_bytes 536870912\nfile_cache_hit_nums_ 3\n"

    def stage(self, planned: CachePlan | None = None, part: str = WHOLE) -> CacheStage:
        return CacheStage(self, planned or plan(), self.ask, part)

    def process(self, number: int, unit: str, program: str) -> None:
        """A process of a unit."""
        self.put(f"/proc/{number}/cgroup", f"0::/system.slice/{unit}\n")
        self.path(f"/proc/{number}/exe").unlink(missing_ok=True)
        self.path(f"/proc/{number}/exe").symlink_to(program)

    def owned_by_service(self) -> bool:
        """Whether the flash directory is there with the service's mode (and its owner, where tests run as root)."""
        state = flash.read(self, plan().store.instances[0], flash.mounts(self))  # type: ignore[union-attr]
        return state["mode"] == "0750"
