"""Stage target's state as exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from g35ctl.observe.model import Export
from g35ctl.observe.reading import Reader, StateError


def exports(state: Mapping[str, Any]) -> tuple[Export, ...]:
    """The namespaces of the subsystems that are ours, as configfs shows them. Raises StateError."""
    root = Reader(state, "target")
    portals: dict[str, list[str]] = {}
    for _, port in root.get("ports").items():
        address = f"{port.text('traddr')}:{port.text('trsvcid')}"
        for _, link in port.get("links").items():
            portals.setdefault(link.as_text(), []).append(address)
    found = []
    for nqn, subsystem in root.get("subsystems").items():
        for nsid, namespace in subsystem.get("namespaces").items():
            found.append(
                Export(
                    nqn=nqn,
                    nsid=_nsid(nsid, namespace),
                    uuid=_uuid(namespace.get("uuid")),
                    enabled=namespace.truth("enabled"),
                    allowed_hosts=subsystem.texts("allowed_hosts"),
                    any_host=subsystem.truth("allow_any_host"),
                    portals=tuple(sorted(portals.get(nqn, ()))),
                )
            )
    return tuple(found)


def _nsid(text: str, namespace: Reader) -> int:
    if not text.isdigit():
        raise StateError(namespace.where, "a namespace is named by its number")
    return int(text)


def _uuid(item: Reader) -> str:
    """With dashes, in lower case; configfs writers differ."""
    text = item.as_text()
    try:
        return str(UUID(text))
    except ValueError:
        raise StateError(item.where, f"{text!r} is not a UUID") from None
