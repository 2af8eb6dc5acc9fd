"""Box plans for the drivers' tests."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.g35.plans import BoxPlan, Portal, TargetNamespace

PORTALS = (Portal("192.0.2.11", "a"), Portal("198.51.100.11", "b"))


def host_nqn(number: int) -> str:
    return f"nqn.2014-08.org.nvmexpress:uuid:{uuid.UUID(int=number)}"


def nqn(number: int) -> str:
    return f"nqn.2026-01.io.g35ctl:test:ebof1:ssd{number}"


def namespace(number: int, owner: int | None = None, **changes: Any) -> TargetNamespace:
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"ssd{number}")
    values: dict[str, Any] = {
        "nqn": nqn(number),
        "nsid": 1,
        "uuid": str(identity),
        "nguid": identity.hex,
        "device": f"Nvme{number}n1",
        "serial": f"SSD{number:04d}",
        "model": "g35ctl EBOF",
        "allowed_hosts": (host_nqn(1 + number % 2 if owner is None else owner),),
    }
    return TargetNamespace(**(values | changes))


def plan(driver: str, namespaces: Sequence[TargetNamespace], **changes: Any) -> BoxPlan:
    owners = {name: f"gpu{name[-1]}" for item in namespaces for name in item.allowed_hosts}
    return BoxPlan("test", "ebof1", driver, **({"portals": PORTALS, "owners": owners} | changes),
                   namespaces=tuple(namespaces))  # fmt: skip
