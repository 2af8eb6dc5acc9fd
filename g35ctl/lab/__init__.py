"""The virtual machine lab: an EBOF box and GPU hosts as QEMU guests, with a real kernel data path between them."""

from __future__ import annotations

from g35ctl.lab.status import GuestStatus, LabStatus
from g35ctl.lab.topology import GuestSpec, Rail, Topology, default_topology
from g35ctl.lab.vmlab import VmLab

__all__ = ["GuestSpec", "GuestStatus", "LabStatus", "Rail", "Topology", "VmLab", "default_topology"]
