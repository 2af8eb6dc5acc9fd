"""A configfs that refuses what the kernel's nvmet refuses, on a temporary directory."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import Portal, TargetNamespace, TargetPlan

ROOT = "/sys/kernel/config/nvmet"


def fail(number: int, what: str) -> OSError:
    return OSError(number, os.strerror(number), what)


class Target(Host):
    """A box: nvmet's rules, its addresses, and a log of what dropped or kept links."""

    def __init__(self, root: Path, addresses: Sequence[str] = ("192.0.2.11", "198.51.100.11")) -> None:
        super().__init__(str(root), runner=self.answer, sleep=lambda _: None, clock=lambda: 0.0)
        self.addresses = list(addresses)
        self.sessions: list[tuple[str, str]] = []
        self.unlinked: list[tuple[str, str]] = []
        #: (port, subsystem) whose namespace became unreachable while it was in use
        self.lost: list[tuple[str, str]] = []
        #: a kernel that presents a firmware revision and lets a port say its queue size
        self.newer = True
        self.seen: set[str] = set()
        self.commands: list[list[str]] = []
        for directory in ("subsystems", "ports", "hosts"):
            self.path(f"{ROOT}/{directory}").mkdir(parents=True)
        for module in ("nvmet", "nvmet_rdma", "nvmet_tcp"):
            self.path(f"/sys/module/{module}").mkdir(parents=True)

    def add_device(self, path: str) -> None:
        """A regular file stands for an SSD: what nvmet takes too."""
        real = self.path(path)
        real.parent.mkdir(parents=True, exist_ok=True)
        real.write_bytes(b"x" * 4096)

    def answer(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        self.commands.append(list(argv))
        if argv[0] == "ip":
            info = [{"local": address, "prefixlen": 24} for address in self.addresses]
            return Result(argv, 0, json.dumps([{"ifname": "eth1", "addr_info": info}]), "")
        if argv[0] == "rdma":
            items = [
                {"state": "CONNECT", "comm": "[nvmet_rdma]", "src-addr": f"{local}:4420", "dst-addr": f"{peer}:40000"}
                for peer, local in self.sessions
            ]
            return Result(argv, 0, json.dumps(items + self.listeners()), "")
        return Result(argv, 0, "", "")

    def listeners(self) -> list[dict[str, str]]:
        found = []
        for port in self.list(f"{ROOT}/ports"):
            if self.list(f"{ROOT}/ports/{port}/subsystems"):
                address = self.read_value(f"{ROOT}/ports/{port}/addr_traddr")
                found.append({"state": "LISTEN", "src-addr": f"{address}:4420"})
        return found

    # the kernel's rules

    def make_directory(self, absolute: str) -> None:
        if self.path(absolute).exists():
            return
        self.path(absolute).mkdir()
        kind = absolute.removeprefix(ROOT + "/").split("/")
        defaults: dict[str, str] = {}
        groups: list[str] = []
        if kind[0] == "subsystems" and len(kind) == 2:
            defaults = {"attr_serial": "0123456789abcdef", "attr_model": "Linux", "attr_allow_any_host": "0"}
            defaults |= {"attr_cntlid_min": "1", "attr_cntlid_max": "65519"}
            defaults |= {"attr_firmware": "6.12"} if self.newer else {}
            groups = ["namespaces", "allowed_hosts"]
        elif "namespaces" in kind:
            defaults = {"device_path": "(null)", "device_uuid": os.urandom(16).hex(), "enable": "0"}
            defaults |= {"buffered_io": "0", "ana_grpid": "1"}
            defaults["device_nguid"] = "00000000-0000-0000-0000-000000000000"
        elif kind[0] == "ports" and len(kind) == 2:
            defaults = {"addr_trtype": "", "addr_adrfam": "ipv4", "addr_traddr": "", "addr_trsvcid": ""}
            defaults |= {"param_max_queue_size": "128"} if self.newer else {}
            groups = ["subsystems", "referrals", "ana_groups", "ana_groups/1"]
        elif "ana_groups" in kind:
            defaults = {"ana_state": "inaccessible"}
        for name, value in defaults.items():
            self.path(f"{absolute}/{name}").write_text(value + "\n")
        for name in groups:
            self.path(f"{absolute}/{name}").mkdir()
        if "ana_groups/1" in groups:
            self.path(f"{absolute}/ana_groups/1/ana_state").write_text("optimized\n")

    def remove_directory(self, absolute: str) -> None:
        path = self.path(absolute)
        if not path.exists():
            return
        if not absolute.startswith(ROOT):
            path.rmdir()
            return
        name = path.name
        for directory in (f"{ROOT}/subsystems", f"{ROOT}/ports"):
            for item in self.list(directory):
                for group in ("allowed_hosts", "subsystems"):
                    if self.path(f"{directory}/{item}/{group}/{name}").is_symlink():
                        raise fail(errno.EBUSY, absolute)
        if self.list(f"{absolute}/ana_groups") not in ([], ["1"]):
            raise fail(errno.ENOTEMPTY, absolute)
        for group in ("namespaces", "allowed_hosts", "subsystems"):
            if self.list(f"{absolute}/{group}"):
                raise fail(errno.ENOTEMPTY, absolute)
        shutil.rmtree(path)
        self.seen.discard(name)

    def write_attribute(self, absolute: str, value: str) -> None:
        path = self.path(absolute)
        if not path.exists():
            raise fail(errno.ENOENT, absolute)
        name = path.name
        if name in ("attr_cntlid_min", "attr_cntlid_max"):
            ends = {end: int((path.parent / f"attr_cntlid_{end}").read_text()) for end in ("min", "max")}
            ends[name[-3:]] = int(value)
            if ends["min"] >= ends["max"]:
                raise fail(errno.EINVAL, absolute)
        if name == "ana_grpid" and (path.parent / "enable").read_text().strip() == "1":
            self.joined(path.parent.parent.parent.name, value)
        if name in ("attr_serial", "attr_model", "attr_firmware") and path.parent.name in self.seen:
            raise fail(errno.EINVAL, absolute)
        if name == "attr_allow_any_host" and value == "1" and any((path.parent / "allowed_hosts").iterdir()):
            raise fail(errno.EINVAL, absolute)
        if name.startswith(("addr_", "param_")) and any((path.parent / "subsystems").iterdir()):
            raise fail(errno.EACCES, absolute)
        if name.startswith(("device_", "buffered_")) and (path.parent / "enable").read_text().strip() == "1":
            raise fail(errno.EBUSY, absolute)
        if (
            name == "enable"
            and value == "1"
            and not self.path((path.parent / "device_path").read_text().strip()).exists()
        ):
            raise fail(errno.ENOENT, absolute)
        if name == "device_nguid":
            digits = value.replace("-", "")
            value = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        path.write_text(value + "\n")

    def make_link(self, target: str, absolute: str) -> None:
        directory, _, name = absolute.rpartition("/")
        parent = directory.rpartition("/")[0]
        if self.path(absolute).is_symlink():
            return
        if directory.endswith("allowed_hosts"):
            if self.read_value(parent + "/attr_allow_any_host") == "1":
                raise fail(errno.EINVAL, absolute)
        else:
            address = self.read_value(parent + "/addr_traddr")
            if address not in self.addresses:
                raise fail(errno.EADDRNOTAVAIL, absolute)
            # Whatever is reachable is discovered at once: the hardest case for everything that comes later.
            self.seen.add(name)
        # configfs answers a relative path, whatever it was given.
        self.path(absolute).symlink_to("../" * 4 + target.removeprefix(ROOT + "/"))

    def joined(self, nqn: str, group: str) -> None:
        """A namespace in use joins an ANA group: hosts lose it where the group is not accessible."""
        for port in self.list(f"{ROOT}/ports"):
            state = self.read_value(f"{ROOT}/ports/{port}/ana_groups/{group}/ana_state")
            if self.path(f"{ROOT}/ports/{port}/subsystems/{nqn}").is_symlink() and state in (None, "inaccessible"):
                self.lost.append((port, nqn))

    def remove_file(self, absolute: str) -> None:
        parts = absolute.split("/")
        if absolute.startswith(f"{ROOT}/ports/") and self.path(absolute).is_symlink():
            self.unlinked.append((parts[-3], parts[-1]))
        if absolute.startswith(ROOT) and not self.path(absolute).is_symlink():
            raise fail(errno.EPERM, absolute)
        super().remove_file(absolute)

    def configured(self) -> dict[str, object]:
        """Everything in this configfs, for comparison."""
        base = self.path(ROOT)
        found: dict[str, object] = {}
        for path in sorted(base.rglob("*")):
            key = str(path.relative_to(base))
            found[key] = (
                path.readlink().name if path.is_symlink() else (path.read_text() if path.is_file() else "directory")
            )
        return found


def host_nqn(number: int) -> str:
    return f"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-{number:012d}"


def namespace(number: int, **changes: object) -> TargetNamespace:
    uuid = f"10000000-0000-4000-8000-{number:012d}"
    values: dict[str, object] = {
        "nqn": f"nqn.2026-01.example.lab:ebof1.ssd{number}", "nsid": 1, "uuid": uuid, "nguid": uuid.replace("-", ""),
        "device": f"/dev/disk/by-id/nvme-SSD{number:04d}", "serial": f"SSD{number:04d}", "model": "G35",
        "allowed_hosts": (host_nqn(1 + number % 2),),
    }  # fmt: skip
    values.update(changes)
    return TargetNamespace(**values)  # type: ignore[arg-type]


def portal(number: int, **changes: object) -> Portal:
    address = ("192.0.2.11", "198.51.100.11", "192.0.2.12")[number - 1]
    values: dict[str, object] = {"address": address, "rail": "ab"[(number - 1) % 2], "port_id": number}
    values.update(changes)
    return Portal(**values)  # type: ignore[arg-type]


def plan(namespaces: Sequence[TargetNamespace], portals: Sequence[Portal] | None = None) -> TargetPlan:
    return TargetPlan("lab", tuple(portals if portals is not None else (portal(1), portal(2))), tuple(namespaces))
