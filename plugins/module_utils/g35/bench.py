"""One benchmark suite on one host: the gate opened, the suite run, everything ended and put away whatever happens."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

from . import bench_fabric, bench_storage, children
from .bench_fabric import FabricSuite
from .bench_jobs import BenchJob, GatePlan
from .bench_storage import StorageSuite
from .bench_store import StoreSuite
from .children import Stop, Stopped
from .gate import Gate, GateLost
from .host import Host, facts
from .probe import ProbeFailed
from .support import BENCH_TOOLS, INSTALLERS, SYSTEMS


class BenchFailed(Exception):
    """The suite gave no answer; the text says why, ``remedy`` what to do about it."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.remedy = remedy or "see docs/validate.md, 'What the hosts need', then run: g35ctl validate again"


def run(host: Host, job: BenchJob, stop: Stop) -> Dict[str, Any]:
    """Run the suite of the job and return what it measured. Raises BenchFailed."""
    plan, member = _gate(job)
    # What an interrupted run left would be measured too.
    children.end(host)
    gate = Gate(plan, member, stop.requested)
    children.record(host)
    try:
        gate.start()
        versions = _versions(host, job)
        missing = [name for name, version in versions.items() if not version]
        # Everybody hears at once that the suite cannot begin, instead of waiting for whoever gave up.
        _all_have_their_tools(host, member, gate.meet("begin", {"missing": missing}))
        state = _suite(host, job, gate, stop).run()
    except (GateLost, Stopped, ProbeFailed, OSError) as error:
        raise BenchFailed(str(error)) from error
    finally:
        gate.stop()
        children.forget(host)
    return {**state, "versions": versions}


def _all_have_their_tools(host: Host, member: str, came: Mapping[str, Any]) -> None:
    """Raises BenchFailed where a host lacks a tool of the suite."""
    lacking = {name: list(told.get("missing") or []) for name, told in came.items() if told.get("missing")}
    if member in lacking:
        tool = lacking[member][0]
        raise BenchFailed("%s is not installed" % tool, _install(host, tool))
    for name, tools in lacking.items():
        raise BenchFailed("not begun: %s is not installed on %s" % (tools[0], name), "see what is told about %s" % name)


def _install(host: Host, tool: str) -> str:
    system = facts(host)["id"]
    family = SYSTEMS[system][1] if system in SYSTEMS else "debian"
    return "install it: %s %s" % (INSTALLERS[family], BENCH_TOOLS[tool].package(family))


def _gate(job: BenchJob) -> Tuple[GatePlan, str]:
    part = job.fabric or job.storage or job.store
    if part is None:
        raise BenchFailed("the job names no suite")
    return part.gate, part.host


def _suite(host: Host, job: BenchJob, gate: Gate, stop: Stop) -> Any:
    if job.fabric is not None:
        return FabricSuite(host, job.fabric, gate, stopped=stop.requested)
    if job.storage is not None:
        return StorageSuite(host, job.storage, gate, stopped=stop.requested)
    assert job.store is not None
    return StoreSuite(host, job.store, gate, stopped=stop.requested)


def _versions(host: Host, job: BenchJob) -> Dict[str, str]:
    if job.fabric is not None:
        return bench_fabric.versions(host)
    if job.storage is not None:
        return bench_storage.versions(host)
    return {}
