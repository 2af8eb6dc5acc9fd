"""Who uses the namespaces of this site on this host, whatever the plan says about them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from .host import Host
from .nvme import read_mounts, read_topology, users_of


def uses(host: Host, plans: Mapping[str, Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Every namespace of the site's subsystems that this host sees: ``nqn``, ``nsid``, ``uuid``, ``device``,
    ``used_by`` (mount points and stacked devices) and ``owned`` (the storage plan has it)."""
    connect, storage = plans.get("connect") or {}, plans.get("storage") or {}
    managed = set(connect.get("managed_nqns") or ())
    owned = {(item.get("nqn"), item.get("nsid")) for item in storage.get("mounts") or ()}
    topology, mounts = read_topology(host), read_mounts(host)
    return [
        {
            "nqn": subsystem.nqn,
            "nsid": namespace.nsid,
            "uuid": namespace.uuid,
            "device": namespace.device,
            "used_by": list(users_of(host, namespace, mounts)),
            "owned": (subsystem.nqn, namespace.nsid) in owned,
        }
        for subsystem in topology.subsystems
        if subsystem.nqn in managed
        for namespace in subsystem.namespaces
    ]
