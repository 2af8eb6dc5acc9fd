"""What each switch vendor can express and where its ECN thresholds start: templates/switch/vendors.yml, typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated

import yaml
from pydantic import Field

from g35ctl.content import content_root
from g35ctl.site.model import Priority, Strict, Switch, SwitchSpeed, SwitchThreshold, SwitchVendor


class Marking(Strict):
    """ECN marking on one queue: bytes, bytes, percent."""

    ecn_min: int = Field(gt=0)
    ecn_max: int = Field(gt=0)
    probability: int = Field(ge=1, le=100)


class Vendor(Strict):
    """One vendor's facts. ``branches`` maps the name of a difference to the pattern of the models that have it."""

    title: str
    lossless: tuple[Priority, ...]
    largest_mtu: int
    header_bytes: int = 0
    strict_above: bool = False
    fixed_cnp_queue: bool = False
    cell_size: int = 0
    watchdog_actions: tuple[str, ...] = ("drop", "forward")
    branches: Mapping[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    thresholds: Mapping[SwitchSpeed, Marking]


@cache
def vendors() -> Mapping[SwitchVendor, Vendor]:
    """Every vendor."""
    data = yaml.safe_load((content_root() / "templates" / "switch" / "vendors.yml").read_text(encoding="utf-8"))
    return {name: Vendor.model_validate(facts) for name, facts in data.items()}


def marking(switch: Switch, speed: SwitchSpeed) -> Marking | None:
    """The ECN marking for ports of a speed: the switch's own, else the vendor's, else None."""
    own: Mapping[str, SwitchThreshold] = {item.speed: item for item in switch.thresholds}
    if speed in own:
        item = own[speed]
        return Marking.model_construct(ecn_min=item.ecn_min, ecn_max=item.ecn_max, probability=item.probability)
    return vendors()[switch.vendor].thresholds.get(speed)


def lossless_priorities(switch: Switch) -> tuple[int, ...]:
    """The priorities that this switch can make lossless."""
    return switch.lossless_priorities or vendors()[switch.vendor].lossless


def effective_mtu(switch: Switch) -> int:
    """The MTU that is rendered: what is asked for, as far as the vendor goes."""
    return min(switch.mtu, vendors()[switch.vendor].largest_mtu)


def branches(switch: Switch) -> frozenset[str]:
    """The differences that the switch's model has from the vendor's usual."""
    patterns = vendors()[switch.vendor].branches
    return frozenset(name for name, pattern in patterns.items() if re.search(pattern, switch.model, re.IGNORECASE))
