"""The container lab's network: a namespace with one bridge for each rail, and a namespace of its own for each guest.

No interface of it is in the controller's namespace, so nothing but the guests is on the rails. A guest's namespace has
a name and outlives its container.
"""

from __future__ import annotations

from dataclasses import dataclass

from g35ctl.lab.commands import run
from g35ctl.lab.network import Network, bridge_name, tap_name
from g35ctl.lab.topology import GuestSpec, Topology


def _ip(*arguments: str) -> str:
    return run(["ip", *arguments], what="setting up the lab's network", timeout=30)


@dataclass(frozen=True)
class ContainerNetwork:
    """The network of one lab. ``switch`` holds the bridges."""

    topology: Topology
    switch: Network

    def namespace(self, guest: GuestSpec) -> str:
        """Name of the network namespace of a guest."""
        return f"{self.switch.namespace}-{guest.name}"

    def exists(self, guest: GuestSpec) -> bool:
        """True when the guest's namespace is there."""
        return Network(self.namespace(guest), ()).exists()

    def ensure(self) -> None:
        """Make every namespace, bridge, cable and address that is missing."""
        self.switch.ensure()
        present = {link.name for link in self.switch.links()}
        for guest in self.topology.guests:
            inside = self.namespace(guest)
            if not self.exists(guest):
                _ip("netns", "add", inside)
            _ip("-n", inside, "link", "set", "lo", "up")
            for rail in self.topology.rails:
                port, netdev = tap_name(guest, rail), rail.netdev
                if port not in present:
                    bridge = bridge_name(rail)
                    names = ("link", "add", port, "type", "veth", "peer", "name", netdev, "netns", inside)
                    _ip("-n", self.switch.namespace, *names)
                    _ip("-n", self.switch.namespace, "link", "set", port, "master", bridge, "up")
                _ip("-n", inside, "address", "replace", self.topology.interface(guest, rail), "dev", netdev)
                _ip("-n", inside, "link", "set", netdev, "up")

    def remove(self) -> None:
        """Delete every namespace of the lab; no error for those that are not there."""
        for guest in self.topology.guests:
            Network(self.namespace(guest), ()).remove()
        self.switch.remove()
