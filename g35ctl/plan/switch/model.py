"""What is rendered for one switch. The role ``switch_config`` takes it as ``g35_switch_plan``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


def _doc(text: str) -> Mapping[str, str]:
    return {"doc": text}


@dataclass(frozen=True)
class SwitchFile:
    """A file for the person who configures the switch."""

    path: str = field(metadata=_doc("Path below the output directory, <vendor>/<switch>.<suffix>"))
    content: str = field(metadata=_doc("The whole content"))


@dataclass(frozen=True)
class SwitchPlanPort:
    """A port and the ECN marking of its lossless queue."""

    name: str = field(metadata=_doc("Name as the switch writes it"))
    speed: str = field(metadata=_doc("Speed, for example 100G"))
    cable_m: int = field(metadata=_doc("Length of the cable, metres"))
    ecn_min: int = field(metadata=_doc("Queue depth at which marking begins, bytes"))
    ecn_max: int = field(metadata=_doc("Queue depth from which everything is marked, bytes"))
    probability: int = field(metadata=_doc("Marking probability just below ecn_max, percent"))


@dataclass(frozen=True)
class SwitchPlan:
    """One switch's configuration."""

    site: str = field(metadata=_doc("Name of the site"))
    name: str = field(metadata=_doc("Name of the switch"))
    vendor: str = field(metadata=_doc("sonic, nvue, eos, nxos, comware or cloudengine"))
    model: str = field(metadata=_doc("Model or HWSKU as the site names it"))
    mtu: int = field(metadata=_doc("MTU of the ports, bytes"))
    ports: tuple[SwitchPlanPort, ...] = field(metadata=_doc("Ports with storage traffic"))
    files: tuple[SwitchFile, ...] = field(default=(), metadata=_doc("Configuration and verification list"))
