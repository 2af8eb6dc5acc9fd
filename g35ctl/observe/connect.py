"""Stage connect's state as controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from g35ctl.observe.model import Controller
from g35ctl.observe.reading import Reader


def controllers(state: Mapping[str, Any]) -> tuple[Controller, ...]:
    """The host's controllers to this site's subsystems: those of its paths, and stale ones. Raises StateError."""
    root = Reader(state, "connect")
    found = []
    for path in root.get("paths").each():
        name = path.text("controller")
        if name:
            ana = path.optional("ana_states")
            states = () if ana is None else tuple(item.as_text() for item in ana.each())
            found.append(_controller(path, name, str(path.integer("port")), states))
    for stale in root.get("stale").each():
        found.append(_controller(stale, stale.text("name"), stale.text("port")))
    return tuple(found)


def _controller(item: Reader, name: str, port: str, ana_states: tuple[str, ...] = ()) -> Controller:
    return Controller(
        name=name,
        nqn=item.text("nqn"),
        transport=item.text("transport"),
        state=item.text("state"),
        address=item.text("address"),
        port=port,
        source_address=item.text("source_address"),
        ana_states=ana_states,
    )
