"""One namespace as stage storage reads it: its device, what is on it, where it is mounted, whose mark it carries."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple

from . import xfs
from .host import Host
from .marker import Marker
from .nvme import Controller, MountEntry, Namespace
from .plans import Mount


@dataclass(frozen=True)
class Reading:
    """One planned mount as it is. ``problem`` is why its contents or its marker could not be read."""

    mount: Mount
    namespace: Optional[Namespace]
    live: Tuple[Controller, ...]
    content: xfs.Content
    mounted: Optional[MountEntry]
    users: Tuple[str, ...]
    marker: Optional[Marker]
    problem: str = ""

    @property
    def mounted_right(self) -> bool:
        return (
            self.mounted is not None
            and self.namespace is not None
            and self.mounted.number == self.namespace.number
            and self.mounted.file_system == "xfs"
        )


def state_of(host: Host, item: Reading) -> Dict[str, Any]:
    """A reading as plain data. ``capacity`` and ``available`` in bytes, 0 while it is not mounted."""
    state: Dict[str, Any] = asdict(item.mount)
    state.update(
        {
            "device": item.namespace.device if item.namespace else "",
            "device_uuid": item.namespace.uuid if item.namespace else "",
            "device_size": item.namespace.size if item.namespace else 0,
            "multipath": bool(item.namespace and item.namespace.multipath),
            "content": item.content.kind,
            "description": item.content.description,
            "mounted": item.mounted_right,
            "live_paths": [
                {
                    "controller": one.name,
                    "transport": one.transport,
                    "address": one.address,
                    "source_address": one.source_address,
                }
                for one in item.live
            ],
            "used_by": list(item.users),
            "marker": asdict(item.marker) if item.marker else None,
            "capacity": 0,
            "available": 0,
        }
    )
    if item.mounted_right and not item.problem:
        numbers = os.statvfs(str(host.path(item.mount.mount_point)))
        state["capacity"] = numbers.f_blocks * numbers.f_frsize
        state["available"] = numbers.f_bavail * numbers.f_frsize
    return state
