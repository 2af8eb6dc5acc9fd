"""Runs the functional probe (kvprobe.py) on a host, in Mooncake's environment and without privileges."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any, Dict, List, Optional

from . import kvprobe
from .host import Host
from .plans import ProbePlan
from .rdma import device_of
from .sources import source_of

ACTIONS = ("write", "read", "clean")


class ProbeFailed(Exception):
    """The probe gave no answer; the text says why."""


def run(host: Host, plan: ProbePlan, action: str, token: str, writer: str, seconds: float) -> Dict[str, Any]:
    """Run one action and return its answer.

    ``token`` names the validation run, ``writer`` this host; ``seconds`` bounds how long a write waits for flash.
    Raises ProbeFailed.
    """
    found = devices(host, plan)
    job = {
        "action": action,
        "token": token,
        "writer": writer,
        "seconds": seconds,
        "local_address": plan.local_address,
        "protocol": plan.protocol,
        "devices": ",".join(found),
        "master_rpc": plan.master_rpc,
        "master_admin": plan.master_admin,
        "segments": {owner: list(names) for owner, names in plan.segments.items()},
        "value_size": plan.value_size,
        "segment_size": plan.segment_size,
        "bucket_size": plan.bucket_size,
        "keys": plan.keys,
    }
    result = host.run(command(plan, job), stdin=source(kvprobe), timeout=seconds + 600)
    answer = _answer(result.out)
    if answer is None:
        words = [line for line in result.err.splitlines() if line.strip()][-3:]
        raise ProbeFailed("exit %d: %s" % (result.code, " | ".join(words) or "no output"))
    answer["host"] = writer
    return answer


def command(plan: ProbePlan, job: Dict[str, Any]) -> List[str]:
    """The command line: with RDMA memory may be registered without limit, then everything of root's is given up."""
    environment = ["MC_TCP_BIND_ADDRESS=%s" % plan.local_address, "MC_RPC_CONNECT_TIMEOUT_MS=2000"]
    if plan.cluster_id:
        environment.append("MC_STORE_CLUSTER_ID=%s" % plan.cluster_id)
    if plan.protocol == "rdma":
        environment.append("MC_FORCE_HCA=1")
        if len(plan.devices) > 1:
            environment.append("MC_ENABLE_DEST_DEVICE_AFFINITY=1")
        if plan.tos:
            environment.append("MC_IB_TC=%d" % plan.tos)
    # Only RDMA registers memory, and not every container may raise the limit.
    limits = ["prlimit", "--memlock=unlimited:unlimited"] if plan.protocol == "rdma" else []
    return (
        limits
        + ["setpriv", "--reuid", plan.user, "--regid", plan.user]
        + ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "env", "--chdir=/"]
        + environment
        + [plan.python, "-I", "-", json.dumps(job, sort_keys=True)]
    )


def devices(host: Host, plan: ProbePlan) -> List[str]:
    """RDMA devices that carry the data, in the plan's order; none with tcp. Raises ProbeFailed."""
    if plan.protocol != "rdma":
        return []
    found = {netdev: device_of(host, netdev) for netdev in plan.devices}
    missing = sorted(netdev for netdev, device in found.items() if not device)
    if missing:
        raise ProbeFailed("no RDMA device for %s; run: g35ctl deploy --only fabric" % ", ".join(missing))
    return [str(found[netdev]) for netdev in plan.devices]


def source(module: ModuleType) -> str:
    """The text of a module that came with this one, to be run in Mooncake's environment."""
    return source_of(module.__name__)


def _answer(out: str) -> Optional[Dict[str, Any]]:
    """The last line that is a JSON object: libraries may have written lines of their own before it."""
    for line in reversed(out.splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict) and data.get("action") in ACTIONS:
            return data
    return None
