"""What the lab of containers consists of. Pure data, no I/O."""

from __future__ import annotations

from g35ctl.lab.topology import GuestSpec, Rail, Topology

NAME = "serving"
"""Its name when none is given."""

FLASH = "/var/lib/g35/flash"
"""Where a guest has the directory that stands for its flash; the files outlive the container."""
ENVIRONMENT = "/opt/g35/serving"
"""Where every guest sees the one Python environment of engines and routers, read-only."""
MODEL = "/opt/g35/models/tiny"
"""Where every guest sees the model, read-only."""


def serving_topology(name: str = NAME) -> Topology:
    """Master and router on one host, and two hosts with an engine and a store each, on one rail."""
    return Topology(
        name=name,
        guests=(
            GuestSpec("head1", 11, 0, ("mooncake_masters", "routers")),
            GuestSpec("gpu1", 21, 0, ("gpu_hosts",)),
            GuestSpec("gpu2", 22, 0, ("gpu_hosts",)),
        ),
        rails=(Rail("a", "192.0.2.0/24", "eth1"),),
    )
