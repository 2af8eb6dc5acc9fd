"""What can be wrong with Mooncake on a host, from what was read: each with its reason and what to do about it.

Mooncake's own health stays "healthy" while every write to flash fails, when its flash is no longer mounted and when
RDMA silently became TCP. Here is what it does not say: the logs of store and kernel, the file system, the segment as
the master lists it, and which program it is that runs.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import flash, mooncake, runtime
from .converge import Finding
from .host import Host
from .managed import read_units
from .network import listening_ports
from .plans import CachePlan, RuntimePlan, StoreInstance, Unit

#: log lines of a store that mean lost writes or another transport, although its health says otherwise
BAD_LOG = "FILE_WRITE_FAIL|FILE_READ_FAIL|No space left|Input/output error|Failed to install transport|No RDMA devices"
#: kernel log lines that mean a failing device or a file system that gave up
BAD_KERNEL = "I/O error|critical (medium|target|nexus|space allocation) error|Corruption|[Ss]hut ?down|shutting down"
#: how far back logs are asked, seconds, and how new a line must be to speak of the present
LOG_WINDOW = 600
LOG_PRESENT = 30
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_PROGRAMS = ("mooncake_master", "mooncake_client")


# -- reading ----------------------------------------------------------------------------------------------------


def memory_total(host: Host) -> int:
    """Memory of the host, bytes; 0 where it does not say."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def store_logs(host: Host, units: Sequence[str]) -> Dict[str, List[str]]:
    """Recent log lines of each store that mean lost writes, the latest last: one question for all of them.

    A line that was written within the last LOG_PRESENT seconds begins with ``now: ``.
    """
    found: Dict[str, List[str]] = {unit: [] for unit in units}
    if not units:
        return found
    # Of this boot only: the journal's monotonic clock is what tells the present from the past.
    arguments = ["journalctl", "--boot", "--since", "-%ds" % LOG_WINDOW, "--grep", BAD_LOG, "--lines", "20", "--quiet"]
    arguments += ["--no-pager", "--output", "json"]
    for unit in units:
        arguments += ["--unit", unit]
    for entry in _entries(host, arguments):
        message = entry.get("MESSAGE")
        if isinstance(message, str) and entry.get("_SYSTEMD_UNIT") in found:
            found[entry["_SYSTEMD_UNIT"]].append(_when(host, entry) + message[:300])
    return found


def kernel_errors(host: Host, devices: Mapping[str, Sequence[str]]) -> Dict[str, List[str]]:
    """Recent kernel messages about the devices of each store (``devices``: store to block device names).

    A path of a multipath device (nvme0c1n1) is not its head (nvme0n1): what failed on one path went over another.
    """
    found: Dict[str, List[str]] = {name: [] for name in devices}
    wanted = {
        name: re.compile(r"(?<![A-Za-z0-9])(%s)(?![A-Za-z0-9])" % "|".join(re.escape(item) for item in used))
        for name, used in devices.items()
        if used
    }
    if not wanted:
        return found
    arguments = ["journalctl", "--dmesg", "--since", "-%ds" % LOG_WINDOW, "--grep", BAD_KERNEL, "--lines", "50"]
    for entry in _entries(host, arguments + ["--quiet", "--no-pager", "--output", "json"]):
        message = entry.get("MESSAGE")
        for name, pattern in wanted.items():
            if isinstance(message, str) and pattern.search(message):
                found[name].append(message[:300])
    return found


def _entries(host: Host, arguments: Sequence[str]) -> List[Dict[str, Any]]:
    result = host.run(list(arguments), timeout=20)
    found = []
    for line in result.out.splitlines() if result.ok else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


def _when(host: Host, entry: Mapping[str, Any]) -> str:
    """``now: `` for a line of the present; the monotonic clock of the journal is that of the kernel."""
    try:
        age = float((host.read("/proc/uptime") or "").split()[0]) - int(entry["__MONOTONIC_TIMESTAMP"]) / 1e6
    except (IndexError, KeyError, TypeError, ValueError):
        return ""
    return "now: " if 0 <= age <= LOG_PRESENT else ""


def running(host: Host, plan: RuntimePlan) -> List[Dict[str, str]]:
    """Mooncake processes of our units that run from anything but the planned environment: unit and program."""
    found = []
    for number in host.list("/proc"):
        if not number.isdigit():
            continue
        try:
            program = os.readlink(str(host.path("/proc/%s/exe" % number)))
        except OSError:
            continue
        if os.path.basename(program).split(" ")[0] not in _PROGRAMS:
            continue
        unit = re.search(r"/(g35-mooncake-[^/\n]+\.service)", host.read("/proc/%s/cgroup" % number) or "")
        if unit and (program.endswith(" (deleted)") or not program.startswith(runtime.path_of(plan) + "/")):
            found.append({"unit": unit.group(1), "program": program})
    return sorted(found, key=lambda item: item["unit"])


# -- before anything is changed ---------------------------------------------------------------------------------


def memory_findings(host: Host, instances: Sequence[StoreInstance]) -> List[Finding]:
    """The stores of a host do not register more memory than it has."""
    need = sum(instance.segment_size + instance.local_buffer_size for instance in instances)
    have = memory_total(host)
    if not have or need <= have * 0.95:
        return []
    return [
        Finding(
            "cache.memory",
            "stores of this host",
            "%d MiB of memory" % (have >> 20),
            "more than the %d MiB that %d stores register" % (need >> 20, len(instances)),
            "lower g35_mooncake.store.segment_size or local_buffer_size, or give this host fewer namespaces",
        )
    ]


def huge_page_findings(host: Host, instances: Sequence[StoreInstance], running_now: bool) -> List[Finding]:
    """Enough huge pages are reserved: a store that finds too few aborts. Once stores run, theirs are no longer free."""
    found: List[Finding] = []
    for size in sorted({item.huge_page_size for item in instances if item.huge_page_size}):
        # The landing zone alone: the staging buffer is ordinary memory (seen with 0.3.13.post1).
        needed = sum(-(-item.segment_size // size) for item in instances if item.huge_page_size == size)
        place = "/sys/kernel/mm/hugepages/hugepages-%dkB" % (size >> 10)
        kind = "nr_hugepages" if running_now else "free_hugepages"
        have = int(host.read_value("%s/%s" % (place, kind)) or 0)
        if have < needed:
            observed = "%d of %d MiB" % (have, size >> 20)
            expected = "at least %d for the stores of this host" % needed
            remedy = "sysctl vm.nr_hugepages=%d, and in /etc/sysctl.d; or set g35_mooncake.store.huge_pages to none"
            if size > 2 * 2**20:
                remedy = "boot with hugepagesz=1G hugepages=%d; or set g35_mooncake.store.huge_pages to none"
            found.append(Finding("cache.huge_pages", place, observed, expected, remedy % needed))
    return found


def library_findings(host: Host, plan: RuntimePlan) -> List[Finding]:
    """A CUDA wheel is linked with libraries that a host without a GPU does not have; it would not even load."""
    if plan.distribution.endswith("non-cuda"):
        return []
    missing = [
        name
        for name in ("libcuda.so.1", "libmlx5.so.1")
        if not any(host.exists("%s/%s" % (place, name)) for place in _LIBRARIES)
    ]
    if not missing:
        return []
    remedy = "install the NVIDIA driver and ibverbs-providers, or set g35_mooncake.distribution to the non-cuda wheel"
    return [Finding("cache.library", plan.distribution, "missing: %s" % ", ".join(missing), "installed", remedy)]


def other_firewall_findings(host: Host, plan: CachePlan) -> List[Finding]:
    """Other rules that drop what they do not know: stores listen on ports that nobody can name beforehand."""
    result = host.run(["nft", "--json", "list", "chains"], timeout=20)
    try:
        items = json.loads(result.out)["nftables"] if result.ok else []
    except (ValueError, KeyError):
        items = []
    chains = [item["chain"] for item in items if "chain" in item]
    dropping = sorted(
        "%s %s %s" % (chain["family"], chain["table"], chain["name"])
        for chain in chains
        if chain.get("hook") == "input" and chain.get("policy") == "drop" and chain["table"] != "g35"
    )
    # firewalld accepts by policy and rejects in its last rule.
    dropping += sorted({"firewalld" for chain in chains if chain["table"] == "firewalld"})
    if not dropping:
        return []
    return [
        Finding(
            "cache.other_firewall",
            ", ".join(dropping),
            "drops what it does not know",
            "accepts TCP from the storage network: a store's offload port is any free one",
            "accept the rails' subnets there (firewalld: firewall-cmd --permanent --zone=trusted --add-source=...)",
            "warning",
        )
    ]


def port_findings(host: Host, plan: CachePlan, units: Sequence[Unit]) -> List[Finding]:
    """Ports that somebody else listens on. A port of a unit of ours that runs is ours."""
    wanted: Dict[int, str] = {}
    if plan.master:
        for port in (plan.master.rpc_port, plan.master.metrics_port):
            wanted[port] = "g35-mooncake-master.service"
    for port in (plan.etcd.client_port, plan.etcd.peer_port) if plan.etcd else ():
        wanted[port] = "g35-etcd.service"
    for instance in plan.store.instances if plan.store else ():
        wanted[instance.rpc_port] = wanted[instance.http_port] = instance.unit
    taken = sorted(set(wanted) & listening_ports(host))
    if not taken:
        return []
    states = read_units(host, units)
    idle = ("inactive", "failed", "")
    return [
        Finding(
            "cache.port",
            "%d/tcp" % port,
            "another process listens on it",
            "free for %s" % wanted[port],
            "ss -ltnp 'sport = :%d'; stop it, or choose another port in g35_mooncake" % port,
        )
        for port in taken
        if states.get(wanted[port], {}).get("ActiveState", "") in idle
    ]


# -- judging ----------------------------------------------------------------------------------------------------


def device_findings(devices: Mapping[str, Optional[str]]) -> List[Finding]:
    """Network devices that must have an RDMA device and have none."""
    return [
        Finding("cache.device", netdev, "no RDMA device", "an RDMA device", "g35ctl deploy --only fabric")
        for netdev, device in sorted(devices.items())
        if not device
    ]


def wheel_findings(plan: RuntimePlan, processes: Sequence[Mapping[str, str]]) -> List[Finding]:
    """Services that run another Mooncake than the planned one."""
    return [
        Finding(
            "cache.wheel",
            item["unit"],
            "runs %s" % item["program"],
            "a program of %s" % runtime.path_of(plan),
            "g35ctl deploy --only cache (it restarts the service)",
        )
        for item in processes
    ]


def store_findings(
    instance: StoreInstance, seen: Mapping[str, Any], master: Optional[Mapping[str, Any]]
) -> List[Finding]:
    """Everything about one store: its health, its segment, its file system, its device, its log."""
    remedy = "journalctl -u %s" % instance.unit
    found: List[Finding] = []
    if seen["healthy"] is not True:
        observed = "no answer" if seen["healthy"] is None else "unhealthy: it does not reach the master"
        found.append(Finding("cache.store", instance.unit, observed, "healthy", remedy))
    if master and master["reachable"]:
        found.extend(segment_findings(instance, seen, remedy))
    if flash.on_its_namespace(instance, seen["directory"]):
        for judged in (flash.disk_finding(instance, seen["directory"]), _kernel_finding(instance, seen["kernel"])):
            found.extend([judged] if judged else [])
        crowded = flash.space_finding(instance, seen["directory"])
        found.extend([crowded] if crowded else [])
    if seen["errors"]:
        latest = seen["errors"][-1]
        expected = "no write errors in the last 10 minutes"
        severity = "error" if latest.startswith("now: ") else "warning"
        found.append(Finding("cache.store_log", instance.unit, latest, expected, remedy, severity))
    return found


def _kernel_finding(instance: StoreInstance, lines: Sequence[str]) -> Optional[Finding]:
    if not lines:
        return None
    return Finding(
        "cache.disk",
        instance.directory,
        lines[-1],
        "no errors of its device in the kernel log of the last 10 minutes",
        "g35ctl doctor; then the SSD and its paths: nvme list-subsys, nvme smart-log",
        # What does not answer any more is an error by itself, see flash.disk_finding.
        "warning",
    )


def segment_findings(instance: StoreInstance, seen: Mapping[str, Any], remedy: str) -> List[Finding]:
    """The store's memory segment as the master lists it; ``protocol`` is how a fall back to TCP is noticed."""
    segment = seen["segment"]
    name = seen["segment_name"]
    if segment is None:
        return [Finding("cache.segment", name, "not listed by the master", "listed", remedy)]
    wanted = (("protocol", instance.protocol), ("size", instance.segment_size), ("status", "OK"))
    return [
        Finding("cache.segment", "%s %s" % (name, key), str(segment[key]), str(value), remedy)
        for key, value in wanted
        if segment[key] != value
    ]


def segment_name(instance: StoreInstance) -> str:
    """The name under which the master lists the store's memory segment."""
    return mooncake.endpoint(instance.address, instance.rpc_port)


def block_devices(host: Host, seen: Mapping[str, Tuple[str, str]], instance: StoreInstance) -> Tuple[str, ...]:
    """Kernel names of the block devices that the store's directory lies on, members of an array included."""
    mounted = seen.get(flash.mount_point(instance))
    if not mounted:
        return ()
    base = "/sys/dev/block/%s" % mounted[0]
    return (os.path.basename(host.real(base)), *host.list(base + "/slaves"))
