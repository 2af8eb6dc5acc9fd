"""What a site has to carry its workload with, reduced to the figures that decide."""

from __future__ import annotations

from dataclasses import dataclass

from g35ctl.plan.model import Summary
from g35ctl.site.model import Site


@dataclass(frozen=True)
class Hardware:
    """A site's hosts and flash. ``ports`` are the data ports of the GPU host that has fewest; ``box`` is what all boxes
    together are rated for, bytes per second, 0 when one of them is not rated; ``pool`` is what the stores may fill of
    ``raw`` bytes of flash. ``separate_owners``: namespaces belong to hosts that run no inference."""

    hosts: int
    owners: int
    ports: int
    box: float
    pool: int
    raw: int
    separate_owners: bool = False

    @property
    def inbound(self) -> float:
        """Bytes that arrive at the ports of a GPU host for each byte it reads from the pool, on average.

        An owner reads its namespaces from the box and sends what others asked for: what a host reads from other owners
        arrives once at the owner and once at the host. With separate owners each host gets its own reads only.
        """
        return 1.0 if self.separate_owners or self.owners < 1 else 2.0 - 1.0 / self.owners


def hardware_of(site: Site, summary: Summary) -> Hardware:
    """The hardware of a planned site."""
    hosts = site.group("gpu_hosts") or site.group("cache_owners")
    owners = {host.name for host in site.group("cache_owners")}
    rated = summary.rated_gbps * 1e9 if not summary.unrated_boxes else 0.0
    return Hardware(
        hosts=len(hosts),
        owners=summary.owners,
        ports=min((len(host.ports) for host in hosts), default=0),
        box=rated,
        pool=summary.capacity,
        raw=summary.raw,
        separate_owners=not owners & {host.name for host in hosts},
    )
