"""What a switch must do, free of any vendor's words: classes, queues, marking, ports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from g35ctl.site.model import Site, SiteSwitch, SwitchSpeed, SwitchWatchdog
from g35ctl.site.switch_vendors import branches, effective_mtu, marking, vendors

OTHER = 0
"""The class of all other traffic. Three classes are enough: only RoCE data may be in the lossless one, and only
congestion notifications in the strict one, or they would wait behind what they are to slow down."""


@dataclass(frozen=True)
class Profile:
    """Ports of one speed share their queueing: name, and ECN marking in bytes and percent."""

    name: str
    speed: SwitchSpeed
    ecn_min: int
    ecn_max: int
    probability: int


@dataclass(frozen=True)
class Port:
    """A port with its profile."""

    name: str
    speed: SwitchSpeed
    cable_m: int
    profile: Profile


@dataclass(frozen=True)
class Intent:
    """One switch's part in the contract. ``bandwidth`` and ``rest`` are percent; ``branches`` names what its model
    does differently (templates/switch/vendors.yml); sizes are bytes."""

    site: str
    name: str
    vendor: str
    title: str
    model: str
    branches: frozenset[str]
    dscp: int
    priority: int
    cnp_dscp: int
    cnp_priority: int
    bandwidth: int
    mtu: int
    host_mtu: int
    xoff: int
    headroom: int
    cell_size: int
    queue_mode: str
    watchdog: SwitchWatchdog
    ports: tuple[Port, ...]

    @property
    def rest(self) -> int:
        """The ETS share of all other traffic, percent."""
        return 100 - self.bandwidth

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """The traffic class of each DSCP, 0 to 63."""
        return tuple(self._class_of(dscp) for dscp in range(64))

    def _class_of(self, dscp: int) -> int:
        if dscp == self.dscp:
            return self.priority
        return self.cnp_priority if dscp == self.cnp_dscp else OTHER

    @cached_property
    def other_dscps(self) -> tuple[int, ...]:
        """The DSCPs that are neither data nor congestion notifications."""
        return tuple(dscp for dscp, where in enumerate(self.classes) if where == OTHER)

    @property
    def other_priorities(self) -> tuple[int, ...]:
        """The priorities that are neither data's nor congestion notifications'."""
        return tuple(number for number in range(8) if number not in (self.priority, self.cnp_priority))

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles in use, slowest ports first."""
        return tuple(sorted({port.profile for port in self.ports}, key=lambda item: int(item.speed.removesuffix("G"))))

    @property
    def longest_cable(self) -> int:
        """Metres: for vendors that know one cable length per switch."""
        return max(port.cable_m for port in self.ports)

    def cells(self, size: int) -> int:
        """Bytes as buffer cells, rounded down: a threshold must not move up."""
        return max(1, size // self.cell_size)

    @property
    def deadlock(self) -> tuple[int, int, int]:
        """CloudEngine's watchdog times: precision in milliseconds, and detection and recovery in units of it (1-15)."""
        times = (self.watchdog.detection_ms, self.watchdog.restoration_ms)
        precision = next((unit for unit in (10, 100, 500) if max(times) <= 15 * unit), 1000)
        detection, recovery = (min(15, max(1, -(-time // precision))) for time in times)
        return precision, detection, recovery


def intent(site: Site, item: SiteSwitch) -> Intent:
    """The intent for one switch of a checked site: every port's speed has thresholds."""
    switch, traffic = item.switch, site.fabric.traffic
    vendor = vendors()[switch.vendor]
    return Intent(
        site=site.identity.name,
        name=item.name,
        vendor=switch.vendor,
        title=vendor.title,
        model=switch.model,
        branches=branches(switch),
        dscp=traffic.dscp,
        priority=traffic.priority,
        cnp_dscp=traffic.cnp_dscp,
        cnp_priority=traffic.cnp_priority,
        bandwidth=traffic.bandwidth_percent,
        mtu=effective_mtu(switch),
        host_mtu=site.fabric.mtu,
        xoff=switch.xoff,
        headroom=switch.headroom,
        cell_size=switch.cell_size or vendor.cell_size or 1,
        queue_mode=switch.queue_mode,
        watchdog=switch.watchdog,
        ports=tuple(
            Port(port.name, port.speed, port.cable_m, _profile(item, port.speed))
            for port in switch.ports
        ),
    )  # fmt: skip


def _profile(item: SiteSwitch, speed: SwitchSpeed) -> Profile:
    found = marking(item.switch, speed)
    if found is None:
        raise ValueError(f"{item.name}: no ECN threshold for {speed} ports")
    return Profile(f"G35-{speed}", speed, found.ecn_min, found.ecn_max, found.probability)


def ranges(numbers: Iterable[int], dash: str = "-", comma: str = ",") -> str:
    """Numbers as switches write lists: ``0-25,27``."""
    return comma.join(
        str(first) if first == last else f"{first}{dash}{last}" for first, last in _runs(sorted(set(numbers)))
    )


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[start], numbers[place - 1]
            start = place
