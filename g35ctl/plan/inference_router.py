"""Routers: one in front of each group of engines that serve one model.

Facts: sglang-router 0.3.2, vllm-router 0.1.17.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible.module_utils.g35.plans_inference import EnginePlan, RouterPlan

from g35ctl.plan.identity import endpoint
from g35ctl.plan.inference_program import program
from g35ctl.site.engines import VERSIONS
from g35ctl.site.inference_model import Router

MODULES = {"sglang-router": "sglang_router.launch_router", "vllm-router": "vllm_router.launch_router"}
KINDS = {"sglang": "sglang-router", "vllm": "vllm-router"}


@dataclass(frozen=True)
class Served:
    """Engines that serve one model: what one router stands in front of."""

    engine: str
    name: str
    members: tuple[EnginePlan, ...]


def served(engines: Sequence[EnginePlan]) -> tuple[Served, ...]:
    """The groups of the site, in the order in which engines first name them."""
    groups: dict[tuple[str, str], list[EnginePlan]] = {}
    for item in engines:
        groups.setdefault((item.engine, item.served_name), []).append(item)
    return tuple(Served(engine, name, tuple(members)) for (engine, name), members in groups.items())


def balance_threshold(users: int, workers: int) -> int:
    """Difference in load at which balance beats the cache.

    The routers' own 64 is never reached by a few dozen users: all that share a prefix then wait for one engine while
    the others idle. A quarter of an engine's share lets the cache decide for as long as it costs little; with one
    pool behind them, a request that goes elsewhere finds its prefix there too.
    """
    return max(users // (4 * max(workers, 1)), 2)


def plan_routers(settings: Router, groups: Sequence[Served]) -> tuple[RouterPlan, ...]:
    """The routers of one host of group ``routers``."""
    made = []
    for place, group in enumerate(groups):
        kind = KINDS[group.engine] if settings.kind == "auto" else settings.kind
        install = settings.install
        version = install.version or VERSIONS[kind]
        address = str(settings.listen) if settings.listen is not None else "0.0.0.0"  # noqa: S104 - it is the front door
        name = f"{group.engine}-{place + 1}"
        made.append(
            RouterPlan(
                name=name,
                kind=kind,
                unit=f"g35-router-{name}.service",
                program=program(install, install.distribution or kind, version),
                module=MODULES[kind],
                address=address,
                port=settings.port + place,
                metrics_port=settings.metrics_port + place,
                served_name=group.name,
                workers=tuple(url(item) for item in group.members),
                arguments=arguments(settings, kind, group, address, place),
            )
        )
    return tuple(made)


def url(engine: EnginePlan) -> str:
    """Where a router reaches an engine."""
    return f"http://{endpoint(engine.address, engine.port)}"


def arguments(settings: Router, kind: str, group: Served, address: str, place: int) -> tuple[str, ...]:
    """The whole argument list, one word each."""
    prefill = [item for item in group.members if item.role == "prefill"]
    decode = [item for item in group.members if item.role == "decode"]
    workers = len(prefill) if prefill else len(group.members)
    threshold = settings.balance_threshold or balance_threshold(settings.expected_users, workers)
    found = [
        f"--host={address}",
        f"--port={settings.port + place}",
        # Both routers take the same port for their metrics by default.
        f"--prometheus-host={address}",
        f"--prometheus-port={settings.metrics_port + place}",
        f"--policy={settings.policy}",
        f"--cache-threshold={settings.cache_threshold:g}",
        f"--balance-abs-threshold={threshold}",
        f"--balance-rel-threshold={settings.balance_ratio:g}",
        "--worker-startup-timeout-secs=1800",
        "--health-check-interval-secs=10",
        "--log-level=info",
    ]
    if prefill and decode:
        found.append("--pd-disaggregation" if kind == "sglang-router" else "--vllm-pd-disaggregation")
        if kind == "vllm-router":
            found.append("--kv-connector=mooncake")
        for item in prefill:
            found += ["--prefill", url(item), str(item.bootstrap_port)]
        for item in decode:
            found += ["--decode", url(item)]
        return tuple(found)
    return (*found, "--worker-urls", *(url(item) for item in group.members))
