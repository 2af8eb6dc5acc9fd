"""A member of the etcd in which two masters agree on who leads."""

from __future__ import annotations

import shutil
from typing import Any, Dict, List, Optional

from . import mooncake
from .converge import Change, Finding
from .host import Host
from .plans import EtcdPlan

UNIT = "g35-etcd.service"
DIRECTORY = "/var/lib/g35/etcd"


def preflight(host: Host, plan: Optional[EtcdPlan]) -> List[Finding]:
    """The server is installed; it is no wheel, and so nothing that g35ctl brings along."""
    if plan is None or host.exists(plan.program):
        return []
    remedy = "apt-get install -y etcd-server, or copy the server there; or name it in g35_mooncake.etcd.program"
    return [Finding("cache.etcd", plan.program, "not installed", "the etcd server", remedy)]


def read(plan: Optional[EtcdPlan], ask: mooncake.Fetch) -> Optional[Dict[str, Any]]:
    """Whether this member says that the cluster serves; None where the host is no member."""
    if plan is None:
        return None
    return {
        "member": plan.name,
        "address": mooncake.endpoint(plan.address, plan.client_port),
        "healthy": mooncake.etcd_healthy(plan.address, plan.client_port, ask),
    }


def findings(plan: Optional[EtcdPlan], state: Optional[Dict[str, Any]]) -> List[Finding]:
    """A member that is silent, or sees no majority of the others."""
    if plan is None or state is None or state["healthy"] is True:
        return []
    observed = "no answer" if state["healthy"] is None else "unhealthy: it sees no majority of the members"
    remedy = (
        "journalctl -u %s here and on the other members; a member that lost its data: docs/high-availability.md" % UNIT
    )
    return [Finding("cache.etcd", "%s %s" % (plan.name, state["address"]), observed, "healthy", remedy)]


def removal(host: Host, plan: Optional[EtcdPlan]) -> List[Change]:
    """The member's data: it says who leads and what the masters last did, nothing that outlives them."""
    if plan is None or not host.exists(DIRECTORY):
        return []
    return [Change(DIRECTORY, "present", "absent", lambda: shutil.rmtree(str(host.path(DIRECTORY))))]
