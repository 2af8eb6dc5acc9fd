"""Stage storage's state as file systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from g35ctl.observe.model import FileSystem
from g35ctl.observe.reading import Reader


def file_systems(state: Mapping[str, Any]) -> tuple[FileSystem, ...]:
    """The file systems of the namespaces a host owns. Raises StateError."""
    return tuple(_file_system(item) for item in Reader(state, "storage").get("mounts").each())


def _file_system(item: Reader) -> FileSystem:
    marker = item.optional("marker")
    return FileSystem(
        nqn=item.text("nqn"),
        nsid=item.integer("nsid"),
        uuid=item.text("uuid"),
        mount_point=item.text("mount_point"),
        device=item.text("device"),
        device_uuid=item.text("device_uuid"),
        multipath=item.truth("multipath"),
        mounted=item.truth("mounted"),
        used_by=item.texts("used_by"),
        size=item.integer("capacity"),
        free=item.integer("available"),
        marker_owner="" if marker is None else marker.text("owner"),
        marker_site="" if marker is None else marker.text("site"),
        marker_uuid="" if marker is None else marker.text("namespace"),
        stripe=item.optional_text("stripe") or "",
        marker_members=() if marker is None or marker.optional("namespaces") is None else marker.texts("namespaces"),
    )
