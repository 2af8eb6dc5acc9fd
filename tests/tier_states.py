"""What the hosts of :mod:`tier_sample` report when all is well: plain data as the modules return it.

Every call makes fresh data, so that a test can spoil what it likes.
"""

from __future__ import annotations

from typing import Any

import tier_sample as tier

from g35ctl.plan.model import Plan


def fabric(host: str) -> dict[str, Any]:
    return {"ports": {port.netdev: _port(port.netdev, port.mtu) for port in tier.fabric_plan(host).ports}}


def _port(netdev: str, mtu: int) -> dict[str, Any]:
    bandwidth = [9, 9, 8, 50, 8, 8, 0, 8]
    return {
        "mtu": mtu,
        "carrier": True,
        "live": [],
        "pause": False,
        "rdma_device": f"mlx5_{netdev}",
        "path_mtu": 4096,
        "tos": 106,
        "roce_mode": "RoCE v2",
        "dcb": {
            "dcbx": ["host", "ieee"],
            "pfc": [3],
            "dscp": [[26, 3], [48, 6]],
            "ets": {
                "priorities": list(range(8)),
                "selection": ["ets"] * 6 + ["strict", "ets"],
                "bandwidth": bandwidth,
            },
            "classes": 8,
        },
    }


def target() -> dict[str, Any]:
    plan = tier.target_plan()
    return {
        "subsystems": {
            item.nqn: {
                "serial": item.serial,
                "model": item.model,
                "allow_any_host": False,
                "allowed_hosts": list(item.allowed_hosts),
                "namespaces": {
                    str(item.nsid): {
                        "device": item.device,
                        "uuid": item.uuid.replace("-", ""),
                        "nguid": item.nguid,
                        "enabled": True,
                    }
                },
            }
            for item in plan.namespaces
        },
        "ports": {
            str(portal.port_id): {
                "trtype": "rdma",
                "adrfam": "ipv4",
                "traddr": portal.address,
                "trsvcid": str(portal.port),
                "links": {item.nqn: item.nqn for item in plan.namespaces},
            }
            for portal in plan.portals
        },
    }


def connect(host: str) -> dict[str, Any]:
    return {
        "paths": [
            {
                "nqn": path.nqn,
                "transport": path.transport,
                "address": path.address,
                "port": path.port,
                "source_address": path.source_address,
                "netdev": path.netdev,
                "rail": path.rail,
                "controller": f"nvme{index}",
                "state": "live",
            }
            for index, path in enumerate(tier.connect_plan(host).paths)
        ],
        "stale": [],
    }


def portals(host: str) -> list[dict[str, Any]]:
    """What ping says from each port of a host: everything gets through."""
    return [
        {
            "address": tier.address("ebof1", rail),
            "source_address": tier.address(host, rail),
            "netdev": tier.NETDEVS[rail],
            "rail": rail,
            "mtu": 4200,
            "size": 4200,
            "full": True,
            "answers": True,
            "neighbour": "",
            "words": "",
        }
        for rail in tier.RAILS
    ]


def cache(host: str) -> dict[str, Any]:
    plan = tier.cache_plan(host)
    assert plan.store is not None
    return {
        "runtime": {"path": "/opt/g35/mooncake/x", "complete": True, "version": "0.3.13.post1", "wheels_missing": []},
        "master": {
            "admin": "192.0.2.21:9003",
            "reachable": True,
            "role": "leader",
            "service_ready": True,
            "segments": [
                {"name": name, "protocol": "rdma", "size": 64 * 2**20, "used": 0, "status": "OK"}
                for names in tier.segments().values()
                for name in names
            ],
            "metrics": {"file_capacity": 4 * tier.CAPACITY, "file_allocated": 2**20, "keys": 5, "clients": 4},
        },
        "stores": {
            item.name: {
                "unit": item.unit,
                "healthy": True,
                "capacity": item.capacity,
                "errors": [],
                "directory": {"path": item.directory, "mounted": True, "free": 2**29, "total": 2**30},
            }
            for item in plan.store.instances
        },
    }


def storage(host: str) -> dict[str, Any]:
    return {
        "mounts": [
            {
                "nqn": mount.nqn,
                "nsid": mount.nsid,
                "uuid": mount.uuid,
                "size": mount.size,
                "mount_point": mount.mount_point,
                "device": f"/dev/nvme{index}n1",
                "device_uuid": mount.uuid,
                "device_size": mount.size,
                "multipath": True,
                "content": "ours",
                "mounted": True,
                "live_paths": [],
                "used_by": [],
                "marker": {
                    "site": "sample",
                    "owner": host,
                    "namespace": mount.uuid,
                    "nqn": mount.nqn,
                    "created": "2026-12-01T12:00:00Z",
                },
                "capacity": 2**30,
                "available": 2**29,
            }
            for index, mount in enumerate(tier.storage_plan(host).mounts)
        ]
    }


def states() -> dict[str, dict[str, Any]]:
    """Host to stage to state, as verify brings it."""
    found: dict[str, dict[str, Any]] = {"ebof1": {"fabric": fabric("ebof1"), "target": target()}}
    for host in ("gpu1", "gpu2"):
        found[host] = {
            "fabric": fabric(host),
            "connect": connect(host),
            "storage": storage(host),
            "cache": cache(host),
            "portals": portals(host),
        }
    return found


def findings(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Every host answered and found nothing."""
    return {host.name: [] for host in plan.hosts}


def keys(writer: str, owner: str) -> list[str]:
    return [f"g35-probe/t1/{writer}/{owner}/{number}" for number in range(4)]


def probes() -> dict[str, dict[str, Any]]:
    """Host to probe action to what it brought."""
    hosts = ("gpu1", "gpu2")
    written = {
        writer: [
            {
                "key": key,
                "owner": owner,
                "replicas": [{"kind": "LOCAL_DISK", "segment": f"{tier.address(owner, 'a')}:50052"}],
                "problem": "",
            }
            for owner in hosts
            for key in keys(writer, owner)
        ]
        for writer in hosts
    }
    everything = [value["key"] for values in written.values() for value in values]
    return {
        host: {
            "write": {"action": "write", "values": written[host]},
            "read": {
                "action": "read",
                "values": [{"key": key, "equal": True, "seconds": 0.02, "problem": ""} for key in everything],
                "hits_before": 100,
                "hits_after": 100 + len(everything),
            },
        }
        for host in hosts
    }
