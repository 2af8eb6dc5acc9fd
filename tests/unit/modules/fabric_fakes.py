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
        #: receive buffer of each priority, None where the driver does not tell
        self.buffers: list[int] | None = None
        self.buffer_bytes = 1027728
        #: APP entries beside DSCP, as ``dcb app`` calls them
        self.apps: dict[str, list[tuple[int, int]]] = {}
        self.rings: dict[str, int] | None = None
        self.most: dict[str, int] = {}
        self.adaptive = ""
        self.flags: dict[str, str] = {}
        self.roce: bool | None = None
        self.trust = "pcp"


class Fabric(Host):
    """The host: answers ip, dcb, ethtool, modprobe; ``writes`` lists every command that sets something."""

    def __init__(self, root: Path, nics: dict[str, Nic]) -> None:
        super().__init__(str(root), runner=self.answer, sleep=self.pass_time, clock=lambda: self.now)
        self.now = 0.0
        self.nics = nics
        self.writes: list[str] = []
        self.addresses = {"eth1": "192.0.2.21", "eth2": "198.51.100.21"}
        self.lldpad = False
        self.lldpad_unit = ""
        self.broken_dcb = ""
        for name in nics:
            self.put(f"/sys/class/net/{name}/mtu", "1500")
            self.put(f"/sys/class/net/{name}/carrier", "1")
            self.put(f"/sys/class/infiniband/rxe_{name}/parent", name)
        self.put("/proc/sys/vm/max_map_count", "65530")
        self.path(RDMA_CM).mkdir(parents=True)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

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
        if words[0] == "systemctl" and words[1] == "is-enabled":
            return Result(argv, 0, f"{self.lldpad_unit}\n" if self.lldpad_unit else "", "")
        if words[0] == "systemctl" and words[1] == "is-active":
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
        if words[0] == "ethtool" and words[1] in ("-g", "-c", "--show-priv-flags"):
            return self.ethtool(words)
        if words[0] == "devlink":
            return self.devlink(words)
        if words[0] in ("mlnx_qos", "mstconfig"):
            return Result(argv, 127, "", f"{words[0]}: not installed")
        if words[0] in ("modinfo", "ibv_devinfo", "rdma") or words == ["dcb", "-V"]:
            return Result(argv, 0, "", "")
        self.writes.append(" ".join(words))
        return self.write(words)

    def show(self, words: list[str]) -> Result:
        kind, nic = words[3], self.nics[words[-1]]
        if self.broken_dcb:
            return Result(words, 0, self.broken_dcb, "")
        if not nic.dcb:
            return Result(words, 1, "", "Attribute read: Operation not supported")
        if kind == "buffer" and nic.buffers is None:
            return Result(words, 1, "", "Attribute not found: Success")
        apps = {name.replace("-", "_"): entries for name, entries in nic.apps.items()}
        data: dict[str, object] = {
            "buffer": {"prio_buffer": nic.buffers, "buffer_size": [0] * 8, "total_size": nic.buffer_bytes},
            "pfc": {"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": nic.pfc},
            "app": {"dscp_prio": sorted(nic.dscp), **apps},
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
            self.set_ethtool(words, self.nics[words[2]])
        elif words[0] == "systemctl" and words[1] == "mask":
            self.lldpad, self.lldpad_unit = False, "masked"
        elif words[0] == "dcb":
            return self.set_dcb(words, self.nics[words[4]])
        return Result(words, 0, "", "")

    def ethtool(self, words: list[str]) -> Result:
        nic, name = self.nics[words[2]], words[2]
        if words[1] == "-g" and nic.rings:
            text = f"Ring parameters for {name}:\nPre-set maximums:\n{ring_text(nic.most)}"
            return Result(words, 0, f"{text}Current hardware settings:\n{ring_text(nic.rings)}RX Buf Len:\tn/a\n", "")
        if words[1] == "-c" and nic.adaptive:
            return Result(words, 0, f"Coalesce parameters for {name}:\nAdaptive RX: {nic.adaptive}  TX: n/a\n", "")
        if words[1] == "--show-priv-flags" and nic.flags:
            lines = "".join(f"{flag:<24}: {value}\n" for flag, value in nic.flags.items())
            return Result(words, 0, f"Private flags for {name}:\n{lines}", "")
        return Result(words, 1, "", "netlink error: Operation not supported")

    def set_ethtool(self, words: list[str], nic: Nic) -> None:
        if words[1] == "-A":
            nic.pause = False
        elif words[1] == "-G" and nic.rings is not None:
            nic.rings = {side: int(words[words.index(side) + 1]) for side in nic.rings}
        elif words[1] == "-C":
            nic.adaptive = words[4]
        elif words[1] == "--set-priv-flags":
            nic.flags[words[3]] = words[4]

    def devlink(self, words: list[str]) -> Result:
        found = [
            nic
            for name, nic in self.nics.items()
            if "pci/" + (self.link_name(f"/sys/class/net/{name}/device") or "") in words
        ]
        if not found or found[0].roce is None:
            return Result(words, 1, "", "kernel answers: Invalid argument")
        value = str(found[0].roce).lower()
        text = f"{words[4]}:\n  name enable_roce type generic\n    values:\n      cmode driverinit value {value}\n"
        return Result(words, 0, text, "")

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
                if words[5] != "dscp-prio":
                    entries = nic.apps.setdefault(words[5], [])
                    (entries.append if words[2] == "add" else entries.remove)((dscp, priority))
                elif words[2] == "add":
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


def ring_text(rings: dict[str, int]) -> str:
    return f"RX:\t\t{rings['rx']}\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t{rings['tx']}\n"


def plan(**changes: object) -> FabricPlan:
    values: dict[str, object] = {
        "site": "lab", "transport": "rdma",
        "ports": (FabricPort("eth1", "a", "192.0.2.21", 24, 4200), FabricPort("eth2", "b", "198.51.100.21", 24, 4200)),
        "dscp": 26, "priority": 3, "cnp_dscp": 48, "cnp_priority": 6, "tos": 106, "bandwidth_percent": 50,
        "files": (File("/etc/sysctl.d/60-g35.conf", "# why\nvm.max_map_count = 16777216\n"),),
    }  # fmt: skip
    values.update(changes)
    return FabricPlan(**values)  # type: ignore[arg-type]
