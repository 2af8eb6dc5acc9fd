"""Reading Mooncake over HTTP: the master's admin interface and a store's health.

Everything here is a question with a short timeout; nothing is ever changed through these interfaces. They have no
authentication, which is why the firewall of stage cache closes them to all but the site's own hosts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from .http import NO_ANSWER, answer

Fetch = Callable[[str, float], Optional[str]]
"""Answers a URL within so many seconds with the body, or None when there is no answer."""

#: seconds; a service that takes longer than this to say how it is, is not well
TIMEOUT = 5.0

#: master metrics that state and verdicts use, by the name they have in the state
METRICS = {
    "file_capacity": "master_total_file_capacity_bytes",
    "file_allocated": "master_allocated_file_size_bytes",
    "memory_capacity": "master_total_capacity_bytes",
    "memory_allocated": "master_allocated_bytes",
    "keys": "master_key_count",
    "clients": "master_active_clients",
    "evictions_attempted": "master_attempted_evictions_total",
    "file_hits": "file_cache_hit_nums_",
    "memory_hits": "mem_cache_hit_nums_",
    "gets": "total_get_nums_",
    "gets_found": "valid_get_nums_",
    "file_hit_bytes": "file_cache_hit_bytes_total",
    "memory_hit_bytes": "mem_cache_hit_bytes_total",
}


def fetch(url: str, timeout: float) -> Optional[str]:
    """The body of ``url``, also of an error answer (a key that is not found is one); None without an answer."""
    status, body = answer(url, timeout)
    return body if status != NO_ANSWER else None


@dataclass(frozen=True)
class Segment:
    """A memory segment as the master lists it; ``size`` and ``used`` in bytes."""

    name: str
    protocol: str
    size: int
    used: int
    status: str


@dataclass(frozen=True)
class MasterState:
    """What a master says of itself. ``metrics`` has the keys of METRICS that the master reported."""

    reachable: bool
    role: str
    service_ready: bool
    segments: Tuple[Segment, ...]
    metrics: Mapping[str, int]
    admin: str = ""

    @property
    def serving(self) -> bool:
        """True when it leads and accepts requests; a standby or a master without its backend does not."""
        return self.role == "leader" and self.service_ready


def read_master(admin: str, ask: Fetch = fetch) -> MasterState:
    """State of the master whose admin interface is at ``admin`` (address:port); of several, with commas between them,
    that of the one that serves, or else of the first that answers."""
    seen = [_read_one(item, ask) for item in admin.split(",")]
    return ([item for item in seen if item.serving] + [item for item in seen if item.reachable] + seen)[0]


def _read_one(admin: str, ask: Fetch) -> MasterState:
    health = _json(ask("http://%s/health" % admin, TIMEOUT))
    if health is None:
        return MasterState(False, "", False, (), {}, admin)
    detail = _json(ask("http://%s/get_segments_detail" % admin, TIMEOUT)) or {}
    metrics = parse_metrics(ask("http://%s/metrics" % admin, TIMEOUT) or "")
    return MasterState(
        True,
        str(health.get("role", "")),
        health.get("service_ready") is True,
        parse_segments(detail),
        metrics,
        admin,
    )


def etcd_healthy(address: str, port: int, ask: Fetch = fetch) -> Optional[bool]:
    """True when the member of etcd says that the cluster serves, False when it says otherwise, None when silent."""
    answer = _json(ask("http://%s/health" % endpoint(address, port), TIMEOUT))
    return None if answer is None else str(answer.get("health")) == "true"


def parse_segments(detail: Mapping[str, Any]) -> Tuple[Segment, ...]:
    """Segments of a ``/get_segments_detail`` answer, by name."""
    found: List[Segment] = []
    for item in detail.get("segments") or []:
        found.append(
            Segment(
                str(item.get("segment_name", "")),
                str(item.get("protocol", "")),
                int(item.get("size_bytes") or 0),
                int(item.get("allocator_used_bytes") or 0),
                str(item.get("status", "")),
            )
        )
    return tuple(sorted(found, key=lambda segment: segment.name))


def parse_metrics(text: str) -> Dict[str, int]:
    """The METRICS of a Prometheus text that are there, as integers."""
    wanted = {metric: name for name, metric in METRICS.items()}
    found: Dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name in wanted:
            try:
                found[wanted[name]] = int(float(value.split()[0]))
            except (ValueError, IndexError):
                continue
    return found


def store_healthy(address: str, port: int, ask: Fetch = fetch) -> Optional[bool]:
    """True when the store says it is healthy and sees its master, False when it says otherwise, None when silent."""
    answer = _json(ask("http://%s/health" % endpoint(address, port), TIMEOUT))
    return None if answer is None else answer.get("status") == "healthy"


def endpoint(address: str, port: int) -> str:
    """address:port, with brackets around an IPv6 address."""
    return "[%s]:%d" % (address, port) if ":" in address else "%s:%d" % (address, port)


def _json(text: Optional[str]) -> Optional[Dict[str, Any]]:
    try:
        data = json.loads(text or "")
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
