"""What the value probe brought: where the values it wrote are, and whether they read back equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from g35ctl.observe.model import Back, ProbeReads, ProbeWrites, Replica, Written
from g35ctl.observe.reading import Reader


def writes(host: str, state: Mapping[str, Any]) -> ProbeWrites:
    """The values that ``host`` wrote. Raises StateError."""
    values = Reader(state, "probe.write").get("values")
    return ProbeWrites(host, tuple(_written(item) for item in values.each()))


def reads(host: str, state: Mapping[str, Any]) -> ProbeReads:
    """The values that ``host`` read. Raises StateError."""
    root = Reader(state, "probe.read")
    return ProbeReads(
        host=host,
        values=tuple(_back(item) for item in root.get("values").each()),
        hits_before=root.integer("hits_before"),
        hits_after=root.integer("hits_after"),
    )


def _written(item: Reader) -> Written:
    return Written(
        key=item.text("key"),
        owner=item.text("owner"),
        replicas=tuple(
            Replica(replica.text("kind"), replica.optional_text("segment") or "")
            for replica in item.get("replicas").each()
        ),
        problem=item.optional_text("problem") or "",
    )


def _back(item: Reader) -> Back:
    return Back(
        key=item.text("key"),
        equal=item.truth("equal"),
        seconds=item.get("seconds").as_number(),
        problem=item.optional_text("problem") or "",
    )
