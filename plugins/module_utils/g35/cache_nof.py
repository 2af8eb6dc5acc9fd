"""Raw namespaces of the experimental profile on a host: who registers them, and who must not have them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from . import mooncake, nofregister, runtime
from .converge import Finding
from .host import Host
from .plans import CachePlan, File, NofPlan
from .sources import source_of

SCRIPT = "/usr/lib/g35ctl/nofregister.py"
#: what a wheel that was built without the feature says when it is asked for it
WITHOUT = b"USE_NOF is disabled"
#: huge pages of 2 MiB that SPDK wants at least
HUGE_PAGES = 512


def files(plan: Optional[NofPlan]) -> List[File]:
    """The script that registers."""
    if plan is None or not plan.registers:
        return []
    return [File(SCRIPT, source_of(nofregister.__name__))]


def lacks_feature(host: Host, plan: CachePlan) -> bool:
    """Whether the installed wheel was built without the raw pool."""
    path = runtime.path_of(plan.runtime)
    for python in host.list(path + "/lib"):
        library = host.path("%s/lib/%s/site-packages/mooncake/store.so" % (path, python))
        if library.exists():
            return WITHOUT in library.read_bytes()
    return False


def read(host: Host, plan: CachePlan, ask: mooncake.Fetch) -> Optional[Dict[str, Any]]:
    """Which of the namespaces this host's kernel has connected, and what the master knows of them."""
    if plan.nof is None:
        return None
    names = {item.nqn for item in plan.nof.namespaces}
    found: Dict[str, Any] = {
        "connected": sorted(names & set(nofregister.connected(str(host.path(nofregister.SUBSYSTEMS))))),
        "capacity": None,
        "without": False,
    }
    if plan.nof.registers:
        found["capacity"] = nofregister.capacity(plan.nof.master_admin, lambda url: ask(url, mooncake.TIMEOUT))
        found["without"] = lacks_feature(host, plan)
    return found


def preflight(host: Host, plan: CachePlan, ask: mooncake.Fetch) -> List[Finding]:
    """What forbids the profile on this host, before anything is changed."""
    if plan.nof is None:
        return []
    state = read(host, plan, ask) or {}
    found = _refusals(plan.nof, state)
    if plan.nof.registers:
        free = int(host.read_value("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") or 0)
        if free < HUGE_PAGES and state["capacity"] is None:
            remedy = "sysctl vm.nr_hugepages=%d, and in /etc/sysctl.d" % HUGE_PAGES
            observed, expected = "%d of 2 MiB free" % free, "at least %d: the master probes namespaces with SPDK"
            found.append(Finding("cache.huge_pages", "raw pool", observed, expected % HUGE_PAGES, remedy, "warning"))
    return found


def findings(plan: CachePlan, state: Optional[Dict[str, Any]]) -> List[Finding]:
    """Judgement of what was read."""
    if plan.nof is None or state is None:
        return []
    found = _refusals(plan.nof, state)
    wanted = sum(item.size for item in plan.nof.namespaces)
    if plan.nof.registers and state["capacity"] is not None and state["capacity"] < wanted:
        observed, expected = "%d bytes registered" % state["capacity"], "%d bytes" % wanted
        remedy = "journalctl -u g35-mooncake-nof.service"
        found.append(Finding("cache.nof", plan.nof.master_admin, observed, expected, remedy))
    return found


def _refusals(plan: NofPlan, state: Dict[str, Any]) -> List[Finding]:
    found = [
        Finding(
            "cache.nof_mounted",
            nqn,
            "connected by this host's kernel",
            "connected by nobody: Mooncake writes to it raw, and whatever is mounted from it is destroyed",
            "unmount it and nvme disconnect -n %s; or profile: owner" % nqn,
        )
        for nqn in state["connected"]
    ]
    if state["without"]:
        remedy = "name a wheelhouse with a wheel built with -DUSE_NOF=ON in g35_mooncake.wheelhouse; or profile: owner"
        found.append(Finding("cache.nof_wheel", "mooncake/store.so", "built without USE_NOF", "with it", remedy))
    return found
