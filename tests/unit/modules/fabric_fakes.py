"""A host with data ports whose NICs behave: DCB netlink with state, pause, MTU, rdma_cm, and counters of writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import FabricPlan, FabricPort, File

RDMA_CM = "/sys/kernel/config/rdma_cm"


class Nic:
    """One port. ``one_priority``: the driver keeps one priority for each DSCP, as mlx5 does."""

    def __init__(self, *, dcb: bool = True, pause: bool | None = None, one_priority: bool = False) -> None:
        self.dcb = dcb
        self.pause = pause
        self.one_priority = one_priority
        self.dcbx = {"host": True, "ieee": True}
        self.pfc = [False] * 8
        self.dscp: list[tuple[int, int]] = []
        self.prio_tc = list(range(8))
        self.tsa = ["strict"] * 8
        self.bandwidth = [0] * 8
        self.classes = 8
        self.flaps = 0


class Fabric(Host):
    """The host: answers ip, dcb, ethtool, modprobe; ``writes`` lists every command that sets something."""

    def __init__(self, root: Path, nics: dict[str, Nic]) -> None:
        super().__init__(str(root), runner=self.answer, sleep=lambda _: None, clock=lambda: 0.0)
        self.nics = nics
        self.writes: list[str] = []
        self.addresses = {"eth1": "192.0.2.21", "eth2": "198.51.100.21"}
        self.lldpad = False
        self.broken_dcb = ""
        for name in nics:
            self.put(f"/sys/class/net/{name}/mtu", "1500")
            self.put(f"/sys/class/net/{name}/carrier", "1")
            self.put(f"/sys/class/infiniband/rxe_{name}/parent", name)
        self.put("/proc/sys/vm/max_map_count", "65530")
        self.path(RDMA_CM).mkdir(parents=True)

    def put(self, path: str, text: str) -> None:
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text + "\n")

    def make_directory(self, absolute: str) -> None:
        super().make_directory(absolute)
        if absolute.startswith(RDMA_CM):
            self.put(f"{absolute}/ports/1/default_roce_tos", "0")
            self.put(f"{absolute}/ports/1/default_roce_mode", "RoCE v2")

    def remove_directory(self, absolute: str) -> None:
        if absolute.startswith(RDMA_CM):
            for name in ("default_roce_tos", "default_roce_mode"):
                self.path(f"{absolute}/ports/1/{name}").unlink()
            self.path(f"{absolute}/ports/1").rmdir()
            self.path(f"{absolute}/ports").rmdir()
        super().remove_directory(absolute)

    def add_controller(self, source: str, state: str = "live") -> None:
        base = "/sys/class/nvme/nvme0"
        self.put(f"{base}/transport", "rdma")
        self.put(f"{base}/state", state)
        self.put(f"{base}/address", f"traddr=192.0.2.11,trsvcid=4420,host_traddr={source}")

    def answer(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        words = list(argv)
        if words[:3] == ["ip", "-j", "address"]:
            data = [
                {"ifname": name, "addr_info": [{"local": address, "prefixlen": 24}]}
                for name, address in self.addresses.items()
            ]
            return Result(argv, 0, json.dumps(data), "")
        if words[0] == "systemctl":
            return Result(argv, 0 if self.lldpad and words[1] == "is-active" else 3, "", "")
        if words[0] == "ethtool" and words[1] == "-a":
            nic = self.nics[words[2]]
            if nic.pause is None:
                return Result(argv, 1, "", "netlink error: Operation not supported")
            onoff = "on" if nic.pause else "off"
            return Result(
                argv, 0, f"Pause parameters for {words[2]}:\nAutonegotiate:\toff\nRX:\t\t{onoff}\nTX:\t\t{onoff}\n", ""
            )
        if words[0] == "dcb" and words[1] == "-N":
            return self.show(words)
        if words[0] in ("modinfo", "ibv_devinfo", "rdma"):
            return Result(argv, 0, "", "")
        self.writes.append(" ".join(words))
        return self.write(words)

    def show(self, words: list[str]) -> Result:
        kind, nic = words[3], self.nics[words[-1]]
        if self.broken_dcb:
            return Result(words, 0, self.broken_dcb, "")
        if not nic.dcb:
            return Result(words, 1, "", "Attribute read: Operation not supported")
        data: dict[str, object] = {
            "pfc": {"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": nic.pfc},
            "app": {"dscp_prio": sorted(nic.dscp)},
            "dcbx": nic.dcbx,
            "ets": {"willing": False, "ets_cap": nic.classes, "cbs": False, "tc_bw": nic.bandwidth, "tc_tsa": nic.tsa,
                    "prio_tc": nic.prio_tc},
        }  # fmt: skip
        return Result(words, 0, json.dumps(data[kind]), "")

    def write(self, words: list[str]) -> Result:
        if words[0] == "ip":
            self.put(f"/sys/class/net/{words[4]}/mtu", words[6])
        elif words[0] == "modprobe":
            self.path(f"/sys/module/{words[1]}").mkdir(parents=True)
        elif words[0] == "ethtool":
            self.nics[words[2]].pause = False
        elif words[0] == "dcb":
            return self.set_dcb(words, self.nics[words[4]])
        return Result(words, 0, "", "")

    def set_dcb(self, words: list[str], nic: Nic) -> Result:
        kind, values = words[1], words[5:]
        pairs = [tuple(word.split(":")) for word in values if ":" in word]
        if kind == "dcbx":
            nic.dcbx = dict.fromkeys(values, True)
        elif "host" not in nic.dcbx:
            return Result(words, 1, "", "Attribute write: Operation not permitted")
        elif kind == "pfc":
            nic.flaps += 1
            nic.pfc = [(str(index), "on") in pairs for index in range(8)]
        elif kind == "app":
            for dscp, priority in ((int(a), int(b)) for a, b in pairs):
                if words[2] == "add":
                    nic.dscp = [e for e in nic.dscp if not nic.one_priority or e[0] != dscp] + [(dscp, priority)]
                elif (dscp, priority) in nic.dscp:
                    nic.dscp.remove((dscp, priority))
                else:
                    return Result(words, 1, "", "Attribute write: No such file or directory")
        elif kind == "ets":
            self.set_ets(values, nic)
            weighted = [nic.bandwidth[index] for index in range(nic.classes) if nic.tsa[index] == "ets"]
            if weighted and (sum(weighted) != 100 or 0 in weighted):
                return Result(words, 1, "", "Attribute write: Invalid argument")
        return Result(words, 0, "", "")

    @staticmethod
    def set_ets(values: list[str], nic: Nic) -> None:
        column: list[object] = []
        for word in values:
            if ":" not in word:
                column = {"prio-tc": nic.prio_tc, "tc-tsa": nic.tsa, "tc-bw": nic.bandwidth}[word]  # type: ignore[assignment]
                continue
            index, _, value = word.partition(":")
            column[int(index)] = int(value) if value.isdigit() else value


def plan(**changes: object) -> FabricPlan:
    values: dict[str, object] = {
        "site": "lab", "transport": "rdma",
        "ports": (FabricPort("eth1", "a", "192.0.2.21", 24, 4200), FabricPort("eth2", "b", "198.51.100.21", 24, 4200)),
        "dscp": 26, "priority": 3, "cnp_dscp": 48, "cnp_priority": 6, "tos": 106, "bandwidth_percent": 50,
        "files": (File("/etc/sysctl.d/60-g35.conf", "# why\nvm.max_map_count = 16777216\n"),),
    }  # fmt: skip
    values.update(changes)
    return FabricPlan(**values)  # type: ignore[arg-type]
