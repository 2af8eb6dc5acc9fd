"""Who this host says it is to NVMe targets: one UUID, written as hostnqn and as hostid.

Distributions create the two files from independent random UUIDs, and cloned images share them. Kernels since 6.5
refuse a hostid that was seen with another hostnqn, and targets admit hosts by hostnqn: so both come from the plan,
before the first connect, and are never changed under a live controller.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

from .converge import Finding
from .host import Host
from .nvme import Topology
from .plans import ConnectPlan, File

HOST_NQN = "/etc/nvme/hostnqn"
HOST_ID = "/etc/nvme/hostid"
#: kept when the stage is removed: a host always needs an identity
KEPT = (HOST_NQN, HOST_ID)


def identity_files(plan: ConnectPlan) -> Tuple[File, ...]:
    """The two files of the plan's identity."""
    return (File(HOST_NQN, plan.host_nqn + "\n"), File(HOST_ID, plan.host_uuid + "\n"))


def read_identity(host: Host) -> Dict[str, str]:
    """What the two files say now; empty where absent."""
    return {"host_nqn": host.read_value(HOST_NQN) or "", "host_id": host.read_value(HOST_ID) or ""}


def identity_conflicts(plan: ConnectPlan, topology: Topology) -> List[Finding]:
    """Controllers whose identity cannot stand beside the planned one. They have to be disconnected first.

    A controller of this site must use exactly the planned pair. A foreign one only conflicts when it shares one half
    of the pair, which the kernel would refuse for the next connect.
    """
    found: List[Finding] = []
    for item in topology.controllers:
        if not item.fabrics or not item.host_nqn:
            continue
        same_nqn = item.host_nqn == plan.host_nqn
        # Kernels before 5.8 do not show the hostid; the hostnqn alone then decides.
        same_id = item.host_id.lower() == plan.host_uuid.lower() if item.host_id else same_nqn
        if same_nqn and same_id:
            continue
        if item.nqn in plan.managed_nqns or same_nqn != same_id:
            found.append(
                Finding(
                    "connect.identity",
                    "%s (%s)" % (item.name, item.nqn),
                    "connected as hostnqn %s, hostid %s" % (item.host_nqn, item.host_id or "unknown"),
                    "hostnqn %s, hostid %s" % (plan.host_nqn, plan.host_uuid),
                    "unmount what is on it, then: nvme disconnect -d %s" % item.name,
                )
            )
    return found
