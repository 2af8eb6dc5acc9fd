"""Stage cache's state as Mooncake on one host, and the pool as this host sees it through the master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from g35ctl.observe.model import Cache, Pool, Segment, Store
from g35ctl.observe.reading import Reader


def cache(state: Mapping[str, Any]) -> Cache:
    """Version, stores, and the pool where the master answered. Raises StateError."""
    root = Reader(state, "cache")
    master = root.optional("master")
    return Cache(
        version=root.get("runtime").optional_text("version") or "",
        stores=tuple(_store(name, item) for name, item in root.get("stores").items()),
        pool=_pool(master) if master is not None and master.truth("reachable") else None,
    )


def _store(name: str, item: Reader) -> Store:
    healthy = item.optional("healthy")
    directory = item.get("directory")
    return Store(
        name=name,
        healthy=healthy is not None and healthy.as_truth(),
        answers=healthy is not None,
        errors=item.texts("errors"),
        free=directory.optional_integer("free"),
        total=directory.optional_integer("total"),
    )


def _pool(item: Reader) -> Pool:
    metrics = item.get("metrics")
    return Pool(
        role=item.text("role"),
        ready=item.truth("service_ready"),
        segments=tuple(
            Segment(each.text("name"), each.text("protocol"), each.integer("size"), each.text("status"))
            for each in item.get("segments").each()
        ),
        file_capacity=metrics.optional_integer("file_capacity"),
        file_used=metrics.optional_integer("file_allocated"),
        keys=metrics.optional_integer("keys"),
        clients=metrics.optional_integer("clients"),
        gets=metrics.optional_integer("gets"),
        gets_found=metrics.optional_integer("gets_found"),
        file_hit_bytes=metrics.optional_integer("file_hit_bytes"),
        memory_hit_bytes=metrics.optional_integer("memory_hit_bytes"),
    )
