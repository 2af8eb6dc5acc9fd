"""A host with NVMe-oF for tests: sysfs in a directory, and commands that change it as the kernel and tools would."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock

from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import ConnectPath, ConnectPlan, Mount, StoragePlan, Unit

import g35ctl  # noqa: F401 - installs the finder of ansible.module_utils.g35

SITE = "lab"
HOST_UUID = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
HOST_NQN = f"nqn.2014-08.org.nvmexpress:uuid:{HOST_UUID}"
RAILS = {"a": ("192.0.2.11", "192.0.2.21", "eth1"), "b": ("198.51.100.11", "198.51.100.21", "eth2")}
MIB = 2**20


def nqn(number: int) -> str:
    return f"nqn.2026-01.io.g35ctl:lab:box1:ssd{number}"


def namespace_uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def connect_plan(subsystems: Sequence[int] = (0, 1), **settings: object) -> ConnectPlan:
    """The plan of a host that owns these subsystems of a box with four, over both rails."""
    values: dict[str, object] = {
        "site": SITE,
        "host_uuid": HOST_UUID,
        "host_nqn": HOST_NQN,
        "paths": tuple(
            ConnectPath(nqn(number), "rdma", portal, 4420, source, netdev, rail)
            for number in subsystems
            for rail, (portal, source, netdev) in RAILS.items()
        ),
        "managed_nqns": tuple(nqn(number) for number in range(4)),
        "io_queues": 8,
        "queue_size": 128,
        "keep_alive": 5,
        "reconnect_delay": 2,
        "controller_loss_timeout": 600,
        "tos": 106,
        "io_policy": "round-robin",
        "units": (Unit("g35-connect.service"), Unit("g35-connect-heal.timer")),
    }
    values.update(settings)
    return ConnectPlan(**values)  # type: ignore[arg-type]


def storage_plan(numbers: Sequence[int] = (0,), destroy: Sequence[str] = ()) -> StoragePlan:
    mounts = tuple(
        Mount(nqn(number), 1, namespace_uuid(number), 400 * MIB, f"/flash/{namespace_uuid(number)}")
        for number in numbers
    )
    return StoragePlan(SITE, "gpu1", mounts, destroy=tuple(destroy), units=tuple(Unit(unit_of(m)) for m in mounts))


def unit_of(mount: Mount) -> str:
    return _unit_of(mount.mount_point)


def _unit_of(mount_point: str) -> str:
    return mount_point.strip("/").replace("-", "\\x2d").replace("/", "-") + ".mount"


class Kernel:
    """The simulated host. ``down`` are portal addresses that do not answer, ``refused`` NQNs that refuse this host."""

    def __init__(self, root: Path, multipath: bool = True) -> None:
        self.root = root
        self.down: set[str] = set()
        self.refused: set[str] = set()
        self.policies = {"numa", "round-robin"}
        self.commands: list[list[str]] = []
        self.log: list[str] = ["[    1.000000] nvme nvme0: old news"]
        self.units: dict[str, tuple[str, str]] = {}
        self.answers: dict[str, Callable[[Sequence[str]], Result]] = {}
        self.time = 0.0
        self._lock = RLock()
        self._numbers = 0
        self.put("/sys/module/nvme_core/parameters/multipath", "Y" if multipath else "N")
        self.put("/sys/devices/system/cpu/online", "0-31")
        self.put("/proc/sys/kernel/osrelease", "6.1.0-57-amd64")
        self.put("/proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw\n")
        self.put("/usr/sbin/nvme", "")
        for module in ("nvme_fabrics", "nvme_rdma"):
            self.path(f"/sys/module/{module}").mkdir(parents=True)
        for netdev in ("eth1", "eth2"):
            self.path(f"/sys/class/net/{netdev}").mkdir(parents=True)
            self.put(f"/sys/class/infiniband/rxe_{netdev}/parent", netdev)
        self.host = Host(str(root), self.run, self.sleep, lambda: self.time)

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    def put(self, absolute: str, text: str) -> None:
        target = self.path(absolute)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n" if text and not text.endswith("\n") else text)

    def sleep(self, seconds: float) -> None:
        self.time += max(seconds, 0.01)

    # sysfs

    def add_controller(
        self,
        subsystem: str,
        address: str,
        source: str = "",
        state: str = "live",
        host_nqn: str = HOST_NQN,
        host_id: str = HOST_UUID,
        transport: str = "rdma",
        size: int = 400 * MIB,
    ) -> str:
        """A controller, its subsystem and (for ours) the namespace behind it; returns the controller's name."""
        with self._lock:
            name = f"nvme{self._numbers}"
            self._numbers += 1
            base = f"/sys/class/nvme/{name}"
            where = f"traddr={address},trsvcid=4420" + (f",host_traddr={source}" if source else "")
            for key, value in {
                "transport": transport, "state": state, "subsysnqn": subsystem, "address": where,
                "hostnqn": host_nqn, "hostid": host_id, "queue_count": "9", "sqsize": "127", "kato": "5",
                "reconnect_delay": "2", "ctrl_loss_tmo": "600",
            }.items():  # fmt: skip
                self.put(f"{base}/{key}", value)
            folder = self._subsystem(subsystem, size)
            (folder / name).symlink_to(f"../../nvme/{name}")
            self.put(f"{base}/nvme{folder.name[11:]}c{name[4:]}n1/nsid", "1")
            self.put(f"{base}/nvme{folder.name[11:]}c{name[4:]}n1/ana_state", "optimized")
            return name

    def _subsystem(self, subsystem: str, size: int) -> Path:
        parent = self.path("/sys/class/nvme-subsystem")
        for folder in parent.glob("nvme-subsys*"):
            if (folder / "subsysnqn").read_text().strip() == subsystem:
                return folder
        number = len(list(parent.glob("nvme-subsys*"))) if parent.exists() else 0
        base = f"/sys/class/nvme-subsystem/nvme-subsys{number}"
        self.put(f"{base}/subsysnqn", subsystem)
        self.put(f"{base}/iopolicy", "numa")
        tail = subsystem.rpartition("ssd")[2]
        uuid = namespace_uuid(int(tail)) if tail.isdigit() else "ffffffff-ffff-4fff-8fff-ffffffffffff"
        for folder in (f"{base}/nvme{number}n1", f"/sys/block/nvme{number}n1"):
            for key, value in {"nsid": "1", "uuid": uuid, "wwid": f"uuid.{uuid}", "size": str(size // 512)}.items():
                self.put(f"{folder}/{key}", value)
            self.put(f"{folder}/dev", f"259:{number}")
        self.path(f"/dev/nvme{number}n1").parent.mkdir(parents=True, exist_ok=True)
        with self.path(f"/dev/nvme{number}n1").open("wb") as handle:
            handle.truncate(size)
        return self.path(base)

    def remove_controller(self, name: str) -> None:
        with self._lock:
            shutil.rmtree(self.path(f"/sys/class/nvme/{name}"), ignore_errors=True)
            for link in self.path("/sys/class/nvme-subsystem").glob(f"*/{name}"):
                link.unlink()

    def live(self) -> list[tuple[str, str, str]]:
        """(NQN, portal, source) of the live controllers."""
        found = []
        for folder in sorted(self.path("/sys/class/nvme").glob("nvme*")):
            if (folder / "state").read_text().strip() == "live":
                words = dict(part.split("=") for part in (folder / "address").read_text().strip().split(","))
                found.append(
                    ((folder / "subsysnqn").read_text().strip(), words["traddr"], words.get("host_traddr", ""))
                )
        return sorted(found)

    def mount(self, device: str, mount_point: str, file_system: str = "xfs") -> None:
        number = self.path(f"/sys/block/{device}/dev").read_text().strip()
        with self.path("/proc/self/mountinfo").open("a") as handle:
            handle.write(f"90 22 {number} / {mount_point} rw,noatime - {file_system} /dev/{device} rw\n")
        self.path(mount_point).mkdir(parents=True, exist_ok=True)

    # commands

    def run(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        words = list(argv)
        with self._lock:  # as the kernel: one controller is made after the other
            self.commands.append(list(argv))
            if words[0] in self.answers:
                return self.answers[words[0]](words)
            answer = getattr(self, "_" + words[0].replace(".", "_"), None)
            return answer(words) if answer else Result(words, 0, "", "")

    def ran(self, *prefix: str) -> list[list[str]]:
        return [words for words in self.commands if words[: len(prefix)] == list(prefix)]

    def _nvme(self, words: list[str]) -> Result:
        if words[1] == "disconnect":
            self.remove_controller(words[words.index("-d") + 1])
            return Result(words, 0, "", "")
        option = dict(zip(words[2::2], words[3::2], strict=True))
        subsystem, portal, source = option["-n"], option["-a"], option["-w"]
        if (subsystem, portal, source) in self.live() or (subsystem, portal, "") in self.live():
            return Result(words, 1, "", "already connected\n")
        if portal in self.down:
            with self._lock:
                self.log.append("[   90.000000] nvme nvme7: rdma connection establishment failed (-110)")
            return Result(words, 1, "", "could not add new controller: failed to write to nvme-fabrics device\n")
        if subsystem in self.refused:
            with self._lock:
                self.log.append(
                    f"[   91.000000] nvme nvme8: Connect for subsystem {subsystem} is not allowed, hostnqn: {HOST_NQN}"
                )
            return Result(words, 1, "", "could not add new controller: failed to write to nvme-fabrics device\n")
        self.add_controller(subsystem, portal, source, host_nqn=option["-q"], host_id=option["-I"])
        return Result(words, 0, "", "")

    def _dmesg(self, words: list[str]) -> Result:
        return Result(words, 0, "\n".join(self.log) + "\n", "")

    def _modinfo(self, words: list[str]) -> Result:
        return Result(words, 0, f"filename:       /lib/modules/6.1/{words[1]}.ko\n", "")

    def _ip(self, words: list[str]) -> Result:
        devices = {portal: netdev for portal, _, netdev in RAILS.values()}
        return Result(words, 0, json.dumps([{"dst": words[4], "dev": devices.get(words[4], "eth0")}]), "")

    def _systemctl(self, words: list[str]) -> Result:
        verb, names = words[1], [word for word in words[2:] if not word.startswith("-")]
        if verb == "show":
            blocks = []
            for name in names[1:]:
                active, enabled = self.units.get(name, ("inactive", "disabled"))
                blocks.append(f"Id={name}\nActiveState={active}\nUnitFileState={enabled}\nNeedDaemonReload=no")
            return Result(words, 0, "\n\n".join(blocks) + "\n", "")
        # A mount point stands for its unit, as for the real systemctl.
        for name in [_unit_of(item) if item.startswith("/") else item for item in names]:
            active, enabled = self.units.get(name, ("inactive", "disabled"))
            if verb == "enable":
                enabled = "enabled"
            elif verb in ("start", "restart"):
                active = "active"
                self._started(name)
            elif verb in ("stop", "disable"):
                active, enabled = "inactive", "disabled" if verb == "disable" else enabled
            self.units[name] = (active, enabled)
        return Result(words, 0, "", "")

    def _started(self, name: str) -> None:
        """What starting a mount unit does."""
        if not name.endswith(".mount"):
            return
        mount_point = "/" + name[: -len(".mount")].replace("-", "/").replace("\\x2d", "-")
        uuid = mount_point.rpartition("/")[2]
        for folder in self.path("/sys/block").glob("nvme*"):
            if (folder / "uuid").read_text().strip() == uuid:
                self.mount(folder.name, mount_point)
