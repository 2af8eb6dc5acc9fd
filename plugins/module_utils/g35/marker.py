"""The marker file in the root of each file system: which site and host own this namespace, or striped set.

Ownership can be read back from the disks themselves, whatever happened to the controller's own records.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple

from .host import Host

NAME = ".g35-owner.json"


@dataclass(frozen=True)
class Marker:
    """Contents of the marker. ``created`` is UTC, ISO 8601. Of a striped set, ``namespace`` is the set's UUID,
    ``namespaces`` are those of all its members, and ``nqn`` is the first one's."""

    site: str
    owner: str
    namespace: str
    nqn: str
    created: str = ""
    namespaces: Tuple[str, ...] = ()


class MarkerError(ValueError):
    """A marker is there, but it is not one."""


def read_marker(host: Host, directory: str) -> Optional[Marker]:
    """The marker in a directory, or None when there is none. Raises MarkerError, and OSError when the file system does
    not answer."""
    path = "%s/%s" % (directory.rstrip("/"), NAME)
    try:
        text = host.path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise MarkerError("%s: %s" % (path, error)) from error
    try:
        data = json.loads(text)
        texts = {key: str(data[key]) for key in ("site", "owner", "namespace", "nqn", "created")}
        return Marker(**texts, namespaces=tuple(str(item) for item in data.get("namespaces", ())))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise MarkerError("%s is not a marker: %s" % (path, error)) from error


def write_marker(host: Host, directory: str, marker: Marker) -> None:
    """Write the marker, durable before it counts. Raises OSError."""
    data: Dict[str, Any] = asdict(marker)
    if not marker.namespaces:
        del data["namespaces"]
    data["created"] = marker.created or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = json.dumps(data, indent=1, sort_keys=True) + "\n"
    host.write_file("%s/%s" % (directory.rstrip("/"), NAME), text, 0o644)


def same_owner(marker: Marker, site: str, owner: str, namespace: str) -> bool:
    """Whether the marker names this site, host and namespace."""
    return (marker.site, marker.owner, marker.namespace.lower()) == (site, owner, namespace.lower())
