"""A tier whose readings tests spoil before the doctor sees them, and everything the doctor reads when all is well."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import tier_sample as tier
import tier_states

from g35ctl.engine.run import Failure
from g35ctl.engine.stages import APPLIED, stage_plans
from g35ctl.observe import details, readings
from g35ctl.validate.doctor.diagnose import diagnose
from g35ctl.validate.doctor.examine import notes_of
from g35ctl.validate.doctor.model import Case, Diagnosis, Sample

HOSTS = ("ebof1", "gpu1", "gpu2")


def states() -> dict[str, dict[str, Any]]:
    found = tier_states.states()
    for host, state in found.items():
        state["counters"] = {name: _counters(f"mlx5_{name}") for name in ("eth1", "eth2")}
        state["uses"] = _uses(host) if host != "ebof1" else []
        if host != "ebof1":
            plan = tier.connect_plan(host)
            state["connect"]["identity"] = {"host_nqn": plan.host_nqn, "host_id": plan.host_uuid}
            for path in state["connect"]["paths"]:
                path["sqsize"] = plan.queue_size - 1
    return found


def _counters(device: str) -> dict[str, Any]:
    return {
        "ethtool": {"rx_prio3_bytes": 10**9, "tx_prio3_bytes": 10**9, "rx_prio3_pause": 7},
        "link": {"carrier_changes": 2},
        "rdma": {"np_cnp_sent": 5},
        "device": device,
        "roce_bytes": 2 * 10**9,
    }


def _uses(host: str) -> list[dict[str, Any]]:
    return [
        {
            "nqn": tier.nqn(number), "nsid": 1, "uuid": tier.uuid(number), "device": f"/dev/nvme{number}n1",
            "used_by": [f"/var/lib/g35/flash/{tier.uuid(number)}"], "owned": True,
        }
        for number in tier.owned(host)
    ]  # fmt: skip


def finding(check: str, subject: str, severity: str = "error", observed: str = "x") -> dict[str, Any]:
    return {"stage": check.partition(".")[0], "check": check, "subject": subject, "observed": observed,
            "expected": "y", "remedy": "z", "severity": severity}  # fmt: skip


@dataclass
class Sick:
    """Two samples of the tier, and what else the doctor is told. Spoil, then ``diagnose``."""

    before: dict[str, dict[str, Any]] = field(default_factory=states)
    after: dict[str, dict[str, Any]] = field(default_factory=states)
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {host: [] for host in HOSTS})
    recorded: dict[str, dict[str, bool]] = field(default_factory=dict)
    unread: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        self.recorded = {
            host.name: {stage: True for stage in APPLIED if stage_plans(host, stage)} for host in tier.plan().hosts
        }

    def lose(self, host: str) -> None:
        """The host does not answer."""
        for sample in (self.before, self.after):
            sample.pop(host)
        self.findings.pop(host)
        self.unread = (
            Failure(host, "first", "ssh.connect", "no ssh greeting", "a connection", "power", "unreachable"),
        )

    def paths(self, host: str, rail: str, **values: Any) -> None:
        """Change the paths of a host on one rail."""
        for path in self.after[host]["connect"]["paths"]:
            if path["rail"] == rail:
                path.update(values)
                if values.get("state", "live") != "live":
                    self.findings[host].append(finding("connect.path", f"{path['nqn']} on rail {rail}"))

    def way(self, host: str, rail: str, **values: Any) -> None:
        next(item for item in self.after[host]["portals"] if item["rail"] == rail).update(values)

    def cut(self, host: str, rail: str) -> None:
        """Packets of one port vanish."""
        words = "2 packets transmitted, 0 received, 100% packet loss"
        self.way(host, rail, full=False, answers=False, neighbour="", words=words)
        self.paths(host, rail, state="connecting")

    def raise_counter(self, host: str, netdev: str, group: str, name: str, by: int) -> None:
        counters = self.after[host]["counters"][netdev][group]
        counters[name] = counters.get(name, 0) + by

    def case(self) -> Case:
        plan = tier.plan()
        first, second = copy.deepcopy(self.before), copy.deepcopy(self.after)
        notes = tuple(note for host, found in self.findings.items() for note in notes_of(host, found))
        return Case(
            plan, Sample(readings.read(plan, first), details.read(first)),
            Sample(readings.read(plan, second), details.read(second), notes), 5.0, self.recorded, self.unread,
        )  # fmt: skip

    def diagnose(self) -> tuple[Diagnosis, ...]:
        return diagnose(self.case())
