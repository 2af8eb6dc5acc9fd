"""Engines, routers and tiers of a plan, as tables for people."""

from __future__ import annotations

from g35ctl.plan.identity import endpoint
from g35ctl.plan.model import Plan
from g35ctl.site.sizes import format_size

Rows = tuple[tuple[str, ...], ...]


def engine_rows(plan: Plan) -> Rows:
    """One line for each engine: where it is, what it runs on, and whose keys it shares."""
    return tuple(
        (
            host.name, item.name, f"{item.program.distribution} {item.program.version}", item.role,
            endpoint(item.address, item.port), _devices(item.device, item.devices), item.served_name,
            item.sharing or "no pool", item.program.mode,
        )
        for host in plan.hosts
        if host.inference is not None
        for item in host.inference.engines
    )  # fmt: skip


def router_rows(plan: Plan) -> Rows:
    """One line for each router."""
    return tuple(
        (
            host.name, item.name, f"{item.program.distribution} {item.program.version}",
            endpoint(item.address, item.port), item.served_name, str(len(item.workers)), _threshold(item.arguments),
        )
        for host in plan.hosts
        if host.inference is not None
        for item in host.inference.routers
    )  # fmt: skip


def tier_rows(plan: Plan) -> Rows:
    """One line for each tier of each host with engines."""
    return tuple(
        (
            item.host, item.level, item.user, item.medium, format_size(item.size) if item.size else "",
            f"{item.tokens:,}" if item.tokens else "", "yes" if item.fits else "NO", item.holds, item.note,
        )
        for item in plan.summary.tiers
    )  # fmt: skip


def _devices(device: str, indexes: tuple[int, ...]) -> str:
    return f"{device} {','.join(str(index) for index in indexes)}" if indexes else device


def _threshold(arguments: tuple[str, ...]) -> str:
    name = "--balance-abs-threshold="
    return next((item.removeprefix(name) for item in arguments if item.startswith(name)), "")
