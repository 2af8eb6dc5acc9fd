"""Digests of stage plans: equal as long as a stage asks the same of a host."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from g35ctl.plan.model import HostPlan, Plan, StagePlan

# What is known on the controller only, or asks nothing of a host that it did not ask before: a wheelhouse or a key file
# that moved, one more subsystem of the site that the host has never been connected to, and whom a namespace came from.
NOT_ASKED = frozenset({"wheel_directory", "managed_nqns", "key_file", "controller_key_file", "previous_owners"})


def stage_digest(plan: Plan, host: str, stage: str) -> str:
    """SHA-256 of what one stage asks of one host; empty when the host takes no part in it. Raises KeyError."""
    return host_stage_digest(plan.host(host), stage)


def host_digests(host: HostPlan) -> dict[str, str]:
    """Stage to digest, for every stage that is recorded (``preflight`` and ``validate`` are not: they hold nothing)."""
    stages = ("target", "fabric", "connect", "storage", "cache", "inference")
    found = {stage: host_stage_digest(host, stage) for stage in stages}
    return {stage: digest for stage, digest in found.items() if digest}


def plan_digest(hosts: Iterable[HostPlan]) -> str:
    """SHA-256 over all hosts and stages."""
    every = {host.name: {**host_digests(host), "probe": _digest((host.probe,))} for host in hosts}
    return hashlib.sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()


def host_stage_digest(host: HostPlan, stage: str) -> str:
    """SHA-256 of a host's plan for a stage. ``target`` of a box includes its RoCE settings: that stage applies both."""
    if stage == "target" and host.box is not None:
        return _digest((host.box,))
    if stage == "target" and host.target is not None:
        return _digest((host.target, host.fabric))
    if stage == "fabric" and host.target is not None:
        return ""
    part: StagePlan | None = getattr(host, stage, None)
    return _digest((part,)) if part is not None else ""


def _digest(parts: Iterable[StagePlan | None]) -> str:
    text = json.dumps(list(parts), default=_members, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _members(value: Any) -> dict[str, Any]:
    return {name: item for name, item in vars(value).items() if name not in NOT_ASKED}
