"""What the suite talks to: the front door, the engines behind it, the pool's master, and the units of all of them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field

from g35ctl.engine.ssh import Login, Target, output
from g35ctl.plan.model import HostPlan, Plan
from g35ctl.validate.serving.metrics import EngineCounters, StoreBytes, UnknownMetrics, counters, store_bytes

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class EngineService:
    """One engine."""

    target: Target
    unit: str
    engine: str


@dataclass(frozen=True)
class Services:
    """The services of a site that serves one model. ``units`` are those whose restart voids a measurement, by host."""

    model: str
    front: Target
    engines: tuple[EngineService, ...]
    masters: tuple[Target, ...]
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def targets(self) -> tuple[Target, ...]:
        """Everything that the controller needs a way to, each once."""
        return tuple(dict.fromkeys((self.front, *(item.target for item in self.engines), *self.masters)))


def services(plan: Plan) -> Services:
    """The services that a plan has. Raises ValueError, in words, when the suite has nothing to talk to."""
    engines = [
        (EngineService(Target(host.name, item.address, item.port), item.unit, item.engine), item.served_name)
        for host in plan.hosts
        for item in (host.inference.engines if host.inference is not None else ())
        if item.role != "decode" and item.program.mode != "files"
    ]
    if not engines:
        raise ValueError("the site has no engine that g35ctl runs: g35_inference states none")
    model = engines[0][1]
    routers = [
        Target(host.name, _dialled(item.address), item.port)
        for host in plan.hosts
        for item in (host.inference.routers if host.inference is not None else ())
        if item.served_name == model
    ]
    own = tuple(item for item, name in engines if name == model)
    masters = tuple(
        Target(host.name, host.cache.master.address, host.cache.master.metrics_port)
        for host in plan.hosts
        if host.cache is not None and host.cache.master is not None
    )
    units = {host.name: _units(host) for host in plan.hosts}
    return Services(
        model,
        routers[0] if routers else own[0].target,
        own,
        masters,
        {name: found for name, found in units.items() if found},
    )


def _dialled(address: str) -> str:
    """A service that listens everywhere is dialled on the host itself."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 - compared, not bound


def _units(host: HostPlan) -> tuple[str, ...]:
    found: list[str] = []
    if host.cache is not None:
        found += ["g35-mooncake-master.service"] if host.cache.master is not None else []
        found += [item.unit for item in host.cache.store.instances] if host.cache.store is not None else []
    if host.inference is not None:
        found += [item.unit for item in host.inference.engines]
        found += [item.unit for item in host.inference.routers]
    return tuple(found)


class Reach:
    """The services as the controller reaches them: ``ways`` are local addresses, ``logins`` the hosts' ssh."""

    def __init__(self, found: Services, ways: Mapping[Target, tuple[str, int]], logins: Mapping[str, Login]) -> None:
        self.services = found
        self.ways = ways
        self.logins = logins

    def url(self, target: Target, path: str = "") -> str:
        """Where the controller finds a service."""
        host, port = self.ways[target]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"

    def get(self, target: Target, path: str, *, post: bool = False, timeout: float = 20.0) -> str | None:
        """Body of an answer with status 200, else None."""
        request = urllib.request.Request(self.url(target, path), data=b"" if post else None)  # noqa: S310 - our own URL
        try:
            with _DIRECT.open(request, timeout=timeout) as answer:
                return str(answer.read().decode("utf-8", "replace"))
        except (OSError, ValueError, urllib.error.HTTPError):
            return None

    def counters(self) -> dict[Target, EngineCounters | None]:
        """What each engine has counted so far; None for one that does not tell."""
        found: dict[Target, EngineCounters | None] = {}
        for engine in self.services.engines:
            text = self.get(engine.target, "/metrics")
            try:
                found[engine.target] = counters(text) if text is not None else None
            except UnknownMetrics:
                found[engine.target] = None
        return found

    def incarnations(self) -> dict[str, str]:
        """``unit on host`` to what changes whenever it starts: systemd's invocation, with its state."""
        found: dict[str, str] = {}
        for host, units in self.services.units.items():
            argv = ["systemctl", "show", "--property=Id,ActiveState,InvocationID", *units]
            text = output(self.logins[host], argv) if host in self.logins else None
            for block in (text or "").split("\n\n"):
                values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
                if values.get("Id"):
                    told = f"{values.get('ActiveState', '')} {values.get('InvocationID', '')}"
                    found[f"{values['Id']} on {host}"] = told
        return found

    def log_marks(self) -> dict[Target, str]:
        """Where each vLLM's log ends now."""
        return {
            engine.target: mark
            for engine in self.services.engines
            if engine.engine == "vllm" and engine.target.host in self.logins and (mark := self._mark(engine))
        }

    def _mark(self, engine: EngineService) -> str:
        argv = ["journalctl", "--unit", engine.unit, "--lines", "0", "--show-cursor", "--no-pager", "--quiet"]
        text = output(self.logins[engine.target.host], argv) or ""
        return next((line.split(": ", 1)[1] for line in text.splitlines() if line.startswith("-- cursor: ")), "")

    def loads(self, marks: Mapping[Target, str]) -> StoreBytes | None:
        """What engines loaded from the store since the marks, by tier; None where nobody's log tells."""
        found = []
        for engine in self.services.engines:
            if engine.target not in marks:
                continue
            argv = ["journalctl", "--unit", engine.unit, f"--after-cursor={marks[engine.target]}", "--output", "cat"]
            argv += ["--no-pager", "--quiet"]
            text = output(self.logins[engine.target.host], argv, timeout=120)
            found.append(store_bytes(text) if text is not None else StoreBytes())
        if not found:
            return None
        return StoreBytes(*(sum(getattr(item, name) for item in found) for name in ("memory", "flash", "unknown")))

    def clear(self) -> int | None:
        """Ask the pool and the engines to forget what they hold; how many values the pool still has, where it tells.

        A value under lease stays until the lease is over: ask again. vLLM forgets only when started for development.
        """
        for engine in self.services.engines:
            path = "/flush_cache" if engine.engine == "sglang" else "/reset_prefix_cache"
            self.get(engine.target, path, post=True)
        left: int | None = None
        for master in self.services.masters:
            self.get(master, "/api/v1/remove_all", post=True)
            for line in (self.get(master, "/metrics") or "").splitlines():
                if line.startswith("master_key_count "):
                    left = (left or 0) + int(float(line.split()[1]))
        return left

    def versions(self) -> tuple[str, ...]:
        """Release of each engine as it says itself, each distinct one once."""
        found = []
        for engine in self.services.engines:
            text = self.get(engine.target, "/version")
            try:
                found.append(f"{engine.engine} {json.loads(text or '{}').get('version') or 'of unknown release'}")
            except (ValueError, AttributeError):
                found.append(f"{engine.engine} of unknown release")
        return tuple(dict.fromkeys(found))
