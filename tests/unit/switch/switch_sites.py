"""Sites with one switch of each vendor, and two contracts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from g35ctl.plan.switch.model import SwitchPlan
from g35ctl.plan.switch.render import plan_switches
from g35ctl.site.model import Fabric, Site, SiteIdentity, SiteSwitch, Switch

CONTRACTS: Mapping[str, Mapping[str, int]] = {
    "default": {},
    "ascend": {"dscp": 33, "priority": 4, "cnp_dscp": 46, "cnp_priority": 5, "bandwidth_percent": 70},
}
PORTS: Mapping[str, tuple[str, str]] = {
    "sonic": ("Ethernet0", "Ethernet4"),
    "nvue": ("swp1", "swp2"),
    "eos": ("Ethernet1/1", "Ethernet2/1"),
    "nxos": ("Ethernet1/1", "Ethernet1/2"),
    "comware": ("HundredGigE1/0/1", "FourHundredGigE1/0/2"),
    "cloudengine": ("100GE1/0/1", "400GE1/0/2"),
}
# One of the vendor's branches each, so that the second contract's golden files hold them too.
MODELS: Mapping[str, Mapping[str, Any]] = {
    "sonic": {"model": "Mellanox-SN4600C-C64"},
    "eos": {"model": "DCS-7280CR3-32P4"},
    "nxos": {"queue_mode": "4q"},
    "comware": {"xoff": "700KB", "headroom": "100KB"},
    "cloudengine": {"model": "CE8851-32CQ4BQ", "headroom": "4MiB"},
}


def switch(vendor: str, **changes: Any) -> SiteSwitch:
    first, second = PORTS[vendor]
    data: dict[str, Any] = {
        "vendor": vendor,
        "ports": [{"name": first, "speed": "100G"}, {"name": second, "speed": "400G", "cable_m": 30}],
    }
    return SiteSwitch(name=f"leaf-{vendor}", groups=("switches",), switch=Switch.model_validate(data | changes))


def site(*switches: SiteSwitch, traffic: Mapping[str, int] | None = None, mtu: int = 9000) -> Site:
    rails = [{"name": "a", "subnet": "192.0.2.0/24"}]
    fabric = Fabric.model_validate({"rails": rails, "mtu": mtu, "traffic": dict(traffic or {})})
    return Site(identity=SiteIdentity(name="test"), fabric=fabric, hosts=(), switches=switches, inventory="test")


def plan(vendor: str, traffic: Mapping[str, int] | None = None, **changes: Any) -> SwitchPlan:
    return plan_switches(site(switch(vendor, **changes), traffic=traffic))[0]


def configuration(vendor: str, traffic: Mapping[str, int] | None = None, **changes: Any) -> str:
    return plan(vendor, traffic, **changes).files[0].content
