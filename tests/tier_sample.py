"""A small tier for tests: one box with four SSDs, two hosts that own two namespaces each, two rails.

What a healthy tier's hosts would report is in :mod:`tier_states`.
"""

from __future__ import annotations

from ansible.module_utils.g35.plans import (
    CachePlan,
    ConnectPath,
    ConnectPlan,
    FabricPlan,
    FabricPort,
    MasterPlan,
    Mount,
    Portal,
    ProbePlan,
    RuntimePlan,
    StoragePlan,
    StoreInstance,
    StorePlan,
    TargetNamespace,
    TargetPlan,
)

from g35ctl.engine.run import Failure, Run, StageResult
from g35ctl.exits import Exit
from g35ctl.plan.model import STAGES, HostPlan, Ownership, Plan
from g35ctl.site.model import Site

GIB = 2**30
RAILS = {"a": "192.0.2", "b": "198.51.100"}
NETDEVS = {"a": "eth1", "b": "eth2"}
NUMBERS = {"ebof1": 11, "gpu1": 21, "gpu2": 22}
OWNERS = {1: "gpu1", 2: "gpu1", 3: "gpu2", 4: "gpu2"}
CAPACITY = 900 * 2**20


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-00000000000{number}"


def nqn(number: int) -> str:
    return f"nqn.2014-08.org.example:ebof1.ssd{number}"


def host_nqn(host: str) -> str:
    return f"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-9000-0000000000{NUMBERS[host]}"


def address(host: str, rail: str) -> str:
    return f"{RAILS[rail]}.{NUMBERS[host]}"


def site() -> Site:
    ports = {
        host: [{"netdev": NETDEVS[rail], "rail": rail, "address": address(host, rail)} for rail in RAILS]
        for host in NUMBERS
    }
    box = {
        "driver": "nvmet",
        "portals": [{"address": address("ebof1", rail), "rail": rail} for rail in RAILS],
        "namespaces": [
            {"nqn": nqn(n), "uuid": uuid(n), "size": GIB, "device": f"/dev/disk/by-id/nvme-ssd{n}"} for n in OWNERS
        ],
        "rated_gbps": 360,
    }
    return Site.model_validate(
        {
            "identity": {"name": "sample"},
            "fabric": {"rails": [{"name": r, "subnet": f"{RAILS[r]}.0/24"} for r in RAILS], "mtu": 4200},
            "hosts": [
                {"name": "ebof1", "groups": ["ebof"], "ports": ports["ebof1"], "box": box},
                {"name": "gpu1", "groups": ["gpu_hosts", "mooncake_masters"], "ports": ports["gpu1"]},
                {"name": "gpu2", "groups": ["gpu_hosts"], "ports": ports["gpu2"]},
            ],
            "inventory": "inventories/sample",
        }
    )


def fabric_plan(host: str) -> FabricPlan:
    ports = tuple(FabricPort(NETDEVS[rail], rail, address(host, rail), 24, 4200) for rail in RAILS)
    return FabricPlan("sample", "rdma", ports, 26, 3, 48, 6, 106, 50)


def target_plan() -> TargetPlan:
    portals = tuple(Portal(address("ebof1", rail), rail, port_id=n) for n, rail in enumerate(RAILS, 1))
    namespaces = tuple(
        TargetNamespace(
            nqn(n),
            1,
            uuid(n),
            uuid(n).replace("-", ""),
            f"/dev/disk/by-id/nvme-ssd{n}",
            f"SSD{n}",
            "G35",
            (host_nqn(o),),
        )
        for n, o in OWNERS.items()
    )
    return TargetPlan("sample", portals, namespaces)


def owned(host: str) -> tuple[int, ...]:
    return tuple(n for n, owner in OWNERS.items() if owner == host)


def connect_plan(host: str) -> ConnectPlan:
    paths = tuple(
        ConnectPath(nqn(n), "rdma", address("ebof1", rail), 4420, address(host, rail), NETDEVS[rail], rail)
        for n in owned(host)
        for rail in RAILS
    )
    identity = host_nqn(host)
    return ConnectPlan(
        "sample", identity.rpartition(":")[2], identity, paths, tuple(map(nqn, OWNERS)), 1, 128, 5, 2, 600, 106, "numa"
    )


def storage_plan(host: str) -> StoragePlan:
    mounts = tuple(Mount(nqn(n), 1, uuid(n), GIB, f"/var/lib/g35/flash/{uuid(n)}") for n in owned(host))
    return StoragePlan("sample", host, mounts)


def cache_plan(host: str) -> CachePlan:
    instances = tuple(
        StoreInstance(
            f"store-{n}", address(host, "a"), 50052 + index, 9300 + index, "rdma", ("eth1", "eth2"), 64 * 2**20,
            f"/var/lib/g35/flash/{uuid(n)}/store", uuid(n), CAPACITY, f"g35-mooncake-store-{n}.service",
        )
        for index, n in enumerate(owned(host))
    )  # fmt: skip
    runtime = RuntimePlan("0.3.13.post1", "mooncake-transfer-engine-non-cuda", (), "", "/opt/g35/mooncake", "g35")
    master = MasterPlan("sample", address("gpu1", "a"), 50051, 9003) if host == "gpu1" else None
    store = StorePlan("sample", f"{address('gpu1', 'a')}:50051", instances)
    return CachePlan("sample", runtime, master, store)


def segments() -> dict[str, tuple[str, ...]]:
    return {
        host: tuple(f"{address(host, 'a')}:{50052 + index}" for index in range(len(owned(host))))
        for host in ("gpu1", "gpu2")
    }


def probe_plan(host: str) -> ProbePlan:
    return ProbePlan(
        "sample", "/opt/g35/mooncake/current/bin/python", address(host, "a"), "rdma", ("eth1", "eth2"),
        f"{address('gpu1', 'a')}:50051", f"{address('gpu1', 'a')}:9003", segments(), 4 * CAPACITY, 256 * 1024,
        64 * 2**20, 4,
    )  # fmt: skip


def plan() -> Plan:
    hosts = [HostPlan("ebof1", target=target_plan(), fabric=fabric_plan("ebof1"))]
    hosts += [
        HostPlan(
            host,
            fabric=fabric_plan(host),
            connect=connect_plan(host),
            storage=storage_plan(host),
            cache=cache_plan(host),
            probe=probe_plan(host),
        )
        for host in ("gpu1", "gpu2")
    ]
    ownership = tuple(Ownership(nqn(n), 1, uuid(n), "ebof1", GIB, owner, "planned") for n, owner in OWNERS.items())
    stage_hosts = {
        stage: ("ebof1",) if stage == "target" else ("gpu1", "gpu2") for stage in STAGES if stage != "preflight"
    } | {"preflight": ("ebof1", "gpu1", "gpu2")}
    return Plan("sample", tuple(hosts), ownership, stage_hosts, digest="d1")


def run(exit_code: Exit = Exit.OK, failures: tuple[Failure, ...] = ()) -> Run:
    stages = (
        StageResult("preflight", {"ebof1": "ok", "gpu1": "ok", "gpu2": "ok"}, 4.2, {"ebof1": 1, "gpu1": 1, "gpu2": 1}),
        StageResult("target", {"ebof1": "changed"}, 9.5, {"ebof1": 2}, 1),
        StageResult(
            "connect", {"gpu1": "changed", "gpu2": "failed" if failures else "ok"}, 12, {"gpu1": 1, "gpu2": 1}, 2
        ),
    )
    return Run(
        "20261201T120000Z-deploy", "deploy", "sample", "2026-12-01T12:00:00Z", 75.26, "/tmp/run", stages, failures,
        exit_code, plan_digest="d1", versions={"g35ctl": "0.1.0", "ansible-core": "2.19.4"},
    )  # fmt: skip
